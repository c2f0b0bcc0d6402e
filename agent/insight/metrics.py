"""Metrics in Prometheus' text format, which is simple enough to write without a library.

Only kinds, states, causes, and functions of interfaces are labels. Their number is bounded, and names of resources,
which might be secret, do not leave the agent.
"""

from __future__ import annotations

import math
import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast import __version__
from holdfast.agent.engine.inspect.status import View
from holdfast.agent.engine.model.events import PassRecord
from holdfast.agent.engine.model.outcome import Outcome

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: upper bounds of the histograms."""
Sample = tuple[str, tuple[tuple[str, str], ...], float]
"""(suffix of the name, labels, value)."""


class Histogram:
    """Durations by one label."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, value: str, seconds: float) -> None:
        """Count one duration under this value of the label."""
        counts = self._counts.setdefault(value, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[value] = self._sums.get(value, 0.0) + seconds

    def samples(self) -> Iterator[Sample]:
        """Yield all samples."""
        for value, counts in sorted(self._counts.items()):
            own, total = ((self.label, value),), 0
            for bound, number in zip((*map(_number, BUCKETS), "+Inf"), counts, strict=True):
                total += number
                yield "_bucket", (*own, ("le", bound)), total
            yield "_sum", own, self._sums[value]
            yield "_count", own, total


class RunCounters:
    """Counters since the start of the agent.

    `deprecated_calls` returns the number of deprecated calls by module and function.
    """

    def __init__(self, deprecated_calls: Callable[[], Mapping[tuple[str, str], int]] = dict) -> None:
        self._deprecated_calls = deprecated_calls
        self.runs: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.flaps: Counter[str] = Counter()
        self.repairs = Histogram("kind")
        self.passes = Histogram("cause")
        self.last: PassRecord | None = None
        """The last complete pass."""

    def ended(self, record: PassRecord) -> None:
        """Record the end of a pass."""
        self.passes.observe(record.cause, record.duration)
        self.last = record

    def tell(self, outcome: Outcome, seconds: float) -> None:
        """Record an outcome. `seconds` is the time since the event that caused the run."""
        if not outcome.ran:
            return
        kind = kind_of(outcome.identity)
        changed = bool(outcome.changed and outcome.result)
        self.runs[kind] += 1
        self.failures[kind] += outcome.result is False  # also a zero: rates need a first sample
        self.changes[kind] += changed
        if changed and outcome.cause == "drift":
            self.repairs.observe(kind, seconds)

    def text(self, view: View, state: Mapping[str, Any]) -> str:
        """Return all metrics in text form. `state` is the agent's own state (`Daemon.status`)."""
        return "".join(f"{line}\n" for family in self._families(view, state) for line in family)

    def _families(self, view: View, state: Mapping[str, Any]) -> Iterator[Iterator[str]]:
        build = (("version", __version__), ("python", platform.python_version()))
        yield family("holdfast_build_info", "gauge", "Version that runs; always 1.", [("", build, 1)])
        yield family("holdfast_up", "gauge", "The agent runs; always 1.", [("", (), 1)])
        yield family(
            "holdfast_start_time_seconds",
            "gauge",
            "Unix time at which the agent was started.",
            [("", (), state["started"])],
        )
        for name, text in (
            (
                "converged",
                "1: everything is watched and as declared, nothing runs or is to be checked, and the states compile.",
            ),
            ("paused", "1: an operator has paused everything."),
            ("noop", "1: resources are only checked, not changed."),
        ):
            yield family(f"holdfast_{name}", "gauge", text, [("", (), int(state[name]))])
        yield from _marks(state, self.last)
        health = Counter(each["severity"] for each in state["health"])
        rows = [("", (("severity", severity),), health[severity]) for severity in ("info", "warning", "error")]
        yield family("holdfast_health_conditions", "gauge", "Problems of the agent itself.", rows)
        yield from (family(f"holdfast_{name}", "gauge", text, rows) for name, text, rows in _gauges(view))
        for name, text, counter in (
            ("runs", "Runs of resources: checks, and changes where needed.", self.runs),
            ("changes", "Runs that changed something.", self.changes),
            ("failures", "Runs that failed.", self.failures),
            ("flaps", "Times a resource began to flap: its repairs are undone repeatedly.", self.flaps),
        ):
            yield family(f"holdfast_{name}_total", "counter", text, _by_kind(counter))
        calls: list[Sample] = [
            ("", (("module", module), ("function", function)), number)
            for (module, function), number in sorted(self._deprecated_calls().items())
        ]
        text = "Calls of functions of interfaces by former names, or that an interface does not have."
        yield family("holdfast_deprecated_calls_total", "counter", text, calls)
        text = "From the event that reported drift to the end of the repair."
        yield family("holdfast_drift_repair_seconds", "histogram", text, self.repairs.samples())
        text = "From the first dirty resource until nothing was dirty or running."
        yield family("holdfast_pass_duration_seconds", "histogram", text, self.passes.samples())


def _marks(state: Mapping[str, Any], last: PassRecord | None) -> Iterator[Iterator[str]]:
    """Yield the times of the last reload and pass, and the ends of pauses."""
    ends: dict[tuple[tuple[str, str], ...], float] = {}
    for pause in state["pauses"]:
        labels = (("reason", pause["reason"]), ("scope", "some" if pause["pattern"] else "everything"))
        ends[labels] = max(ends.get(labels, 0.0), math.inf if pause["until"] is None else pause["until"])
    text = "Unix time at which a pause ends; +Inf if it lasts until an operator resumes."
    yield family(
        "holdfast_pause_end_timestamp_seconds", "gauge", text, [("", labels, end) for labels, end in ends.items()]
    )
    reload = state["reload"]
    text = "1: settings and states could be used when they were last read."
    yield family("holdfast_config_last_reload_successful", "gauge", text, [("", (), int(reload["successful"]))])
    text = "Unix time at which settings and states were last applied."
    yield family(
        "holdfast_config_last_reload_success_timestamp_seconds",
        "gauge",
        text,
        [("", (), reload["at"])] if reload["at"] else [],
    )
    text = "Unix time at which the last pass ended."
    yield family(
        "holdfast_last_pass_timestamp_seconds", "gauge", text, [("", (), last.started + last.duration)] if last else []
    )
    text = "How long the last pass took."
    yield family("holdfast_last_pass_duration_seconds", "gauge", text, [("", (), last.duration)] if last else [])


def _gauges(view: View) -> Iterator[tuple[str, str, list[Sample]]]:
    """Yield present numbers by kind.

    The engine keeps counts, so a scrape costs the same for any number of resources.
    """
    states: Counter[tuple[str, str]] = Counter()
    dirty, watches, unwatched, flapping, pending = (Counter[str]() for _ in range(5))
    for group, number in view.census.counts.items():
        kind = group.kind
        states[kind, group.state] += number
        dirty[kind] += number * group.dirty
        watches[kind] += number * group.watched
        unwatched[kind] += number * group.unwatched
        flapping[kind] += number * group.flapping
        pending[kind] += 0
    for vertex, number in view.deliveries.undelivered():
        pending[vertex.call.kind] += number
    by_state: list[Sample] = [
        ("", (("kind", kind), ("state", state)), number) for (kind, state), number in sorted(states.items())
    ]
    yield "resources", "Resources, by kind and state.", by_state
    yield "dirty", "Resources that are to be checked.", _by_kind(dirty)
    yield "watches", "Watches that are armed.", _by_kind(watches)
    yield "unwatched", "Resources whose watch has failed: their drift is not noticed.", _by_kind(unwatched)
    yield "flapping", "Resources whose repairs are undone repeatedly.", _by_kind(flapping)
    yield "pending_refreshes", "Edges with a change that the downstream has not acted on yet.", _by_kind(pending)


def kind_of(identity: str) -> str:
    """Return `file.managed` of `file.managed[x]`."""
    return identity.partition("[")[0]


def _by_kind(counter: Counter[str]) -> list[Sample]:
    return [("", (("kind", kind),), number) for kind, number in sorted(counter.items())]


def family(name: str, type: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the lines of one metric: its help text and type, then its samples."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {type}"
    for suffix, labels, value in samples:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{suffix}{{{inner}}} {_number(value)}" if inner else f"{name}{suffix} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
