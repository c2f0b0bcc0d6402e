"""What the engine tells, put into sentences: one event in, one line (or none) out. Pure, but for a memory of what failed.

`repaired file.managed[motd] in 3 ms (drift)`: a verb, the identity, how long, why. The same values travel as fields,
for journald and for programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from holdfast.agent.engine.report import (
    Event,
    Notice,
    Outcome,
    PassEnded,
    PassRecord,
    PassStarted,
    Ran,
    Started,
    Tally,
    result_of,
)
from holdfast.agent.words import as_declared
from holdfast.resources.context import CUT
from holdfast.resources.visible import escaped

Level = Literal["debug", "info", "warning", "error"]

NOTHING: tuple[Any, ...] = ("", None, (), [])
DETAIL_LINES = 400
"""Lines of details (diff, output of a command) that one line of the log carries at most."""
_SEEN = ("start", "states changed", "grains changed")
"""Causes of a run that is the first of its declaration: what is right is then worth a line."""
WOULD = "would have "
"""How a comment of noop begins that can be made one sentence with the identity."""
_DONE = re.compile(r"(?:.* was )?(created|removed|installed|started|stopped|enabled|linked)\b", re.IGNORECASE)
"""A comment that says what was done: `created /etc/motd`, `user web was created`."""


class Line(NamedTuple):
    """One line of the log."""

    level: Level
    text: str
    fields: Mapping[str, Any] = {}
    """resource, pass, result, cause, duration (seconds), changes, diff, details; only those that apply."""


class Narrator:
    """Turns events into lines; remembers which resources fail, so that a lasting failure is reported once."""

    def __init__(self, unsaid: str = "") -> None:
        self._failing: dict[str, str] = {}
        self._unsaid = unsaid
        """A cause that goes without saying."""

    def tell(self, event: Event, *, debug: bool = True) -> Line | None:
        """The line for one event; None when it is not worth any. Without `debug`, looks that found nothing new and beginnings of passes are not."""
        match event:
            case Ran(number, outcome):
                return self._ran(number, outcome, debug=debug)
            case PassEnded(record):
                return _ended(record)
            case PassStarted(number, cause):
                return (
                    Line("debug", f"pass {number} begins ({cause})", {"pass": number, "cause": cause})
                    if debug
                    else None
                )
            case Notice():
                return _notice(event)
            case Started():
                return None

    def _ran(self, number: int, outcome: Outcome, *, debug: bool) -> Line | None:
        level, what = self._judged(outcome)
        if level == "debug" and not debug:
            return None
        fields: dict[str, Any] = {
            "pass": number,
            "resource": outcome.identity,
            "result": result_of(outcome),
            "cause": outcome.cause,
        }
        if outcome.ran:
            fields["duration"] = round(outcome.duration, 6)
        if outcome.changes:
            fields["changes"] = outcome.changes
            fields["details"] = "\n".join(details(outcome))
        if outcome.diff:
            fields["diff"] = outcome.diff
        if outcome.because:
            fields["because"] = list(outcome.because)
        if outcome.undone:
            fields["undone"] = outcome.undone
        return Line(level, self._sentence(what, outcome), fields)

    def _judged(self, outcome: Outcome) -> tuple[Level, str]:
        """How important an outcome is, and what it is in a word or two."""
        identity, first = outcome.identity, outcome.cause in _SEEN
        if outcome.result is False and outcome.ran:
            again = self._failing.get(identity) == outcome.comment
            self._failing[identity] = outcome.comment
            return ("info", "still failing") if again else ("error", "failed")
        recovered = self._failing.pop(identity, None) is not None and outcome.result is True
        if not outcome.ran:
            return ("info" if first or outcome.blocked else "debug"), "skipped"
        if outcome.changed or outcome.refreshed:
            return "info", verb(outcome)
        if outcome.unknown:
            return "info", "unknown"
        if recovered:
            return "info", "recovered"
        return ("info" if first else "debug"), "ok"

    def _sentence(self, what: str, outcome: Outcome) -> str:
        """Verb, identity, time, cause; and the comment where the details do not say it already."""
        if what == "skipped":
            return skipped(outcome)
        if what == "unknown":
            return f"unknown {outcome.identity}: {outcome.comment}"
        words: list[str] = [outcome.cause] if outcome.cause != self._unsaid else []
        words += [outcome.undone] if outcome.undone else []
        words += [f"{outcome.attempts} attempts"] if outcome.attempts > 1 else []
        why = f" ({', '.join(words)})" if words else ""
        if what == "ok":
            return f"ok {outcome.identity}" + ("" if _is_plain(outcome) else f": {outcome.comment}")
        if outcome.result is None and outcome.comment:
            return _noop(outcome) + why
        text = f"{what} {outcome.identity}{_rest(what, outcome)} in {duration(outcome.duration)}{why}"
        told = outcome.changes and outcome.result is not False
        return text if told or not outcome.comment else f"{text}: {outcome.comment}"


def verb(outcome: Outcome) -> str:
    """What was done, in one word; `would ...` for what would be."""
    done, do = _verb(outcome)
    return f"would {do}" if outcome.result is None else done


def _verb(outcome: Outcome) -> tuple[str, str]:
    """What was done, and what there is to do, in a word each."""
    if outcome.refreshed:
        return "refreshed", "refresh"
    if outcome.identity.startswith("cmd."):
        return "ran", "run"
    if outcome.cause in ("drift", "poll", "recheck"):
        return "repaired", "repair"
    said = _DONE.match(outcome.comment)
    return said[1].lower() if said else "changed", "change"


def _id(outcome: Outcome) -> str:
    return outcome.identity.partition("[")[2].removesuffix("]")


def _is_plain(outcome: Outcome) -> bool:
    """Whether its comment says nothing that its identity and "ok" do not."""
    return outcome.comment in ("", as_declared(_id(outcome)))


def _rest(what: str, outcome: Outcome) -> str:
    """What the comment says after "verb identity": where a link leads to, say."""
    said, path, rest = outcome.comment.partition(f" {_id(outcome)}")
    return rest if path and said == what and rest[:1] == " " else ""


def _noop(outcome: Outcome) -> str:
    """What would have been done: verb and identity, then what else the comment says; its path is made the identity where it can be."""
    before, path, after = outcome.comment.partition(f" {_id(outcome)}")
    if path and before.startswith(WOULD) and after[:1] in ("", " "):
        return f"{before} {outcome.identity}{after}"
    do, _, rest = outcome.comment.removeprefix(WOULD).partition(" ")
    if outcome.comment.startswith(WOULD) and rest:
        return f"{WOULD}{do} {outcome.identity}: {rest}"
    done = _verb(outcome)[0]
    return f"{WOULD}{'run' if done == 'ran' else done} {outcome.identity}: {outcome.comment}"


def skipped(outcome: Outcome) -> str:
    """Why a resource did not run; whose fault that is was reported where it happened."""
    if outcome.because and outcome.blocked:
        return f"skipped {outcome.identity} because of {', '.join(outcome.because)}"
    return f"skipped {outcome.identity}: {outcome.comment or outcome.reason}"


def details(outcome: Outcome) -> Iterator[str]:
    """The diff, then every other change that tells a person something new, one a line; at most `DETAIL_LINES`."""
    lines = outcome.diff.rstrip("\n").split("\n") if outcome.diff else []
    for name, change in outcome.changes.items():
        if not _is_said(name, change, outcome):
            lines.extend(_change(name, change))
    yield from lines[:DETAIL_LINES]
    if len(lines) > DETAIL_LINES:
        cut = any(line.endswith(CUT) for line in lines[DETAIL_LINES:])
        yield f"[{len(lines) - DETAIL_LINES} more lines{', and output that was cut' if cut else ''}]"


def _is_said(name: str, change: Any, outcome: Outcome) -> bool:
    """Whether a change says nothing that stands there already, or only what programs want to know."""
    match name:
        case "diff":
            return bool(outcome.diff)
        case "new" | "newfile" | "cmd":
            return str(change) in outcome.comment
        case "pid":
            return True
        case "retcode" if change == 0:
            return True
        case "retcode" | "stdout" | "stderr" if outcome.result is False:
            return str(change) in outcome.comment
    return (change is True or change == {"directory": "new"}) and (name == _id(outcome) or name in outcome.comment)


def _change(name: str, change: Any) -> Iterator[str]:
    name = escaped(name)  # it may be of a file whose user chose it
    if isinstance(change, Mapping) and set(change) == {"old", "new"}:
        yield f"{name}: {_value(change['old'])} -> {_value(change['new'])}"
    elif isinstance(change, Mapping):
        if parts := [f"{key} {_value(value)}" for key, value in change.items() if not _is_diff(key, value)]:
            yield f"{name}: {', '.join(parts)}"
    elif isinstance(change, str) and "\n" in change.rstrip("\n"):
        yield f"{name}:"
        yield from (f"  {line}" for line in change.rstrip("\n").split("\n"))
    elif change not in NOTHING:
        yield f"{name}: {_value(change)}"


def _is_diff(name: str, change: Any) -> bool:
    """Whether this is the diff of one file of several, which stands in the diff of the whole."""
    return name == "diff" and "\n" in str(change).rstrip("\n")


def _value(value: Any) -> str:
    if value in NOTHING:
        return "none"
    if isinstance(value, (list, tuple)):
        value = ", ".join(escaped(str(each)) for each in value)
    text = str(value).rstrip("\n")
    return text if len(text) <= 200 else f"{text[:200]}..."


def _ended(record: PassRecord) -> Line:
    """The end of a pass: whether all is right now, and what it took."""
    text = f"{summary(record.tally, record.duration, record)} (pass {record.number}, {record.cause})"
    fields = {
        "pass": record.number,
        "cause": record.cause,
        "duration": round(record.duration, 6),
        "converged": record.converged,
    }
    if record.tally.any_failed:
        return Line("warning", text, fields)
    worth = record.asked or record.cause in (*_SEEN, "command") or record.tally.any_changed
    return Line("info" if worth else "debug", text, fields)


def summary(tally: Tally, seconds: float, record: PassRecord | None = None) -> str:
    """How a whole run went: converged or not (or only looked), how long it took, what there was. A resource counts once, however often it ran.

    `record`: of a pass of a daemon, after which others may be failing still, and which may have been broken off.
    """
    waiting, failed, would, unknown = (
        tally.blocked,
        tally.count("failed"),
        tally.count("would-change"),
        tally.count("unknown"),
    )
    counts = {
        "checked": tally.ran,
        "changed": len(tally.changed),
        "would change": would,
        "cannot be told": unknown,
        "failed": failed,
        "skipped because of that": waiting,
        "skipped": tally.count("skipped") - waiting,
        "failing still": max(0, record.failing - failed - waiting) if record else 0,
        "would change still": max(0, record.differing - would - unknown) if record else 0,
    }
    told = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    if record and record.broken_off:
        return f"broken off after {duration(seconds)}: {told or 'nothing was finished'}"
    wrong = failed or waiting or counts["failing still"]
    differ = would or unknown or counts["would change still"]
    state = "not converged" if wrong or (differ and counts["changed"]) else "looked" if differ else "converged"
    return f"{state} in {duration(seconds)}: {told or 'nothing to do'}"


def _notice(notice: Notice) -> Line:
    said = not notice.identity or notice.text.startswith(notice.identity)
    text = notice.text if said else f"{notice.identity}: {notice.text}"
    fields: dict[str, Any] = {"code": notice.code}
    if notice.identity:
        fields["resource"] = notice.identity
    if notice.error is not None:
        fields["exc_info"] = notice.error
    return Line(notice.level, text, fields)


def duration(seconds: float) -> str:
    """A span of time as a person says it: `<0.1 ms`, `0.4 ms`, `35 ms`, `1.2 s`, `3 min 5 s`."""
    if seconds < 0.00005:
        return "<0.1 ms"
    if seconds < 0.001:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
