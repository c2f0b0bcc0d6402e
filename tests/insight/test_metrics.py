"""Prometheus' own parser reads the metrics."""

from __future__ import annotations

import asyncio
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from deadline import DEADLINE
from engine_bench import state
from holdfast import Permanent
from holdfast.agent.engine.engine import Engine
from holdfast.agent.insight import process
from holdfast.agent.insight.metrics import BUCKETS, Histogram
from holdfast.agent.insight.metrics import family as lines_of
from virtual_time import simulate
from watched_bench import AGENT, Watched

Figures = dict[tuple[str, ...], float]


def read(text: str) -> Figures:
    """Return (name, values of labels) -> figure, as a scraper reads it. Fail if one is repeated."""
    figures: Figures = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            key = (sample.name, *sample.labels.values())
            assert key not in figures
            figures[key] = sample.value
    return figures


def figures(bench: Watched, engine: Engine) -> Figures:
    """Return the figures of a running engine."""
    return read(bench.insight.text(engine.view))


async def test_runs_changes_and_failures_are_counted_by_kind(bench: Watched) -> None:
    """A failure is not a change, and a check is a run."""
    bench.machine.broken["b"] = Permanent("no")
    async with bench.running(
        state("a"), state("b"), state("c", require=["b"]), state("d", kind="zaction.run")
    ) as engine:
        bench.machine.touch("a")
        await bench.elapse(1)
        found = figures(bench, engine)

        assert found["holdfast_runs_total", "zsetting.present"] == 3
        assert found["holdfast_changes_total", "zsetting.present"] == 1
        assert found["holdfast_failures_total", "zsetting.present"] == 1
        assert found["holdfast_failures_total", "zaction.run"] == 0
        assert found["holdfast_resources", "zsetting.present", "blocked"] == 1
        assert found["holdfast_watches", "zsetting.present"] == 3


async def test_repair_latency_starts_at_the_event(bench: Watched) -> None:
    """The latency includes waits for other resources; a change without drift is not a repair."""
    async with bench.running(state("a"), state("b", require=["a"])) as engine:
        assert ("holdfast_drift_repair_seconds_count", "zsetting.present") not in figures(bench, engine)
        bench.machine.hold("a")
        for name in "ab":
            bench.machine.drift(name)
        await bench.elapse(2)
        bench.machine.free()
        await engine.settle()
        found = figures(bench, engine)

        assert found["holdfast_drift_repair_seconds_count", "zsetting.present"] == 2
        assert found["holdfast_drift_repair_seconds_sum", "zsetting.present"] == 4
        assert found["holdfast_drift_repair_seconds_bucket", "zsetting.present", "1"] == 0
        assert found["holdfast_drift_repair_seconds_bucket", "zsetting.present", "2.5"] == 2
        assert found["holdfast_pass_duration_seconds_count", "drift"] == 1


async def test_gauges_show_the_present(bench: Watched) -> None:
    """Dirty resources, pending refreshes and flapping resources return to zero."""
    async with bench.running(state("conf"), state("svc", watch=["conf"]), flap_limit=1) as engine:
        bench.machine.broken["refresh svc"] = Permanent("no")
        for _ in range(2):
            bench.machine.drift("conf")
            await bench.elapse(0.1)
        engine.pause()
        bench.machine.touch("svc")
        await asyncio.sleep(0)
        found = figures(bench, engine)

        assert found["holdfast_pending_refreshes", "zsetting.present"] == 1
        assert found["holdfast_flapping", "zsetting.present"] == 1
        assert found["holdfast_flaps_total", "zsetting.present"] == 1
        del bench.machine.broken["refresh svc"]
        engine.resume()
        await bench.elapse(1000)
        after = figures(bench, engine)
        assert [
            after[f"holdfast_{name}", "zsetting.present"] for name in ("pending_refreshes", "flapping", "dirty")
        ] == [
            0,
            0,
            0,
        ]


def test_metrics_of_the_agent_itself(bench: Watched) -> None:
    """The exporter has metrics of up, build, start time and health."""

    async def text() -> str:
        return bench.insight.text(bench.engine().view)

    found = read(asyncio.run(text()))
    assert found["holdfast_up",] == 1
    assert found["holdfast_start_time_seconds",] == AGENT["started"]
    assert found["holdfast_converged",] == 1
    assert found["holdfast_health_conditions", "error"] == 0
    assert any(key[0] == "holdfast_build_info" for key in found)


def test_histograms_are_cumulative_and_include_their_bounds() -> None:
    """A value on a bound counts in its bucket; a value above all bounds counts only in +Inf."""
    histogram = Histogram("kind")
    for seconds in (0.001, 0.0011, 1e6):
        histogram.observe("x", seconds)
    counts = [value for suffix, _, value in histogram.samples() if suffix == "_bucket"]

    assert counts == [1, *[2] * (len(BUCKETS) - 1), 3]


def test_labels_are_escaped() -> None:
    """A scraper can read any name of a kind."""
    odd = 'a"b\\c\nd'
    text = "\n".join(lines_of("x", "gauge", "t", [("", (("kind", odd),), 1)])) + "\n"

    assert read(text) == {("x", odd): 1.0}


PAUSES = [{"pattern": "", "reason": "upgrade", "until": None}, {"pattern": "file.*", "reason": 'a "b"', "until": 12.5}]
UNITS = ("_ms", "_milliseconds", "_minutes", "_hours", "_kb", "_kilobytes", "_percent")
"""Suffixes of names that are no base units."""


def complaints(text: str) -> list[str]:
    """Return violations of the rules of `promtool check metrics` that concern names and types."""
    wrong = []
    for family in text_string_to_metric_families(text):
        names = {sample.name for sample in family.samples}
        wrong += [f"{family.name}: no help"] * (not family.documentation)
        wrong += [f"{family.name}: the name is not in snake_case"] * (
            re.fullmatch(r"[a-z][a-z0-9_]*", family.name) is None
        )
        wrong += [f"{family.name}: the name has its type in it"] * any(
            part in ("gauge", "counter", "histogram") for part in family.name.split("_")
        )
        wrong += [f"{family.name}: no base unit"] * family.name.endswith(UNITS)
        if family.type == "counter":
            wrong += [f"{name}: a counter ends with _total" for name in names if not name.endswith("_total")]
        else:
            wrong += [f"{name}: no counter ends with _total" for name in names if name.endswith("_total")]
        if family.type == "gauge":
            wrong += [
                f"{name}: only a histogram ends so" for name in names if name.endswith(("_count", "_sum", "_bucket"))
            ]
            wrong += [f"{family.name}: a label of histograms" for sample in family.samples if "le" in sample.labels]
        times = [
            sample.name
            for sample in family.samples
            if "timestamp" in sample.name and not sample.name.endswith("_timestamp_seconds")
        ]
        wrong += [f"{name}: a time is in seconds" for name in times]
    return wrong


def test_the_text_passes_the_rules_of_promtool(bench: Watched) -> None:
    """Every family passes a list of the rules, and promtool itself if it is installed."""
    texts: list[str] = []

    async def scenario() -> None:
        async with bench.running(state("a"), state("b")) as engine:
            bench.machine.drift("a")
            await bench.elapse(1)
            texts.append(bench.insight.metrics.text(engine.view, {**AGENT, "pauses": PAUSES}) + process.text())

    simulate(scenario)
    assert complaints(texts[0]) == []
    assert complaints("# HELP x_ms t\n# TYPE x_ms counter\nx_ms 1\n")
    if promtool := shutil.which("promtool"):
        done = subprocess.run(
            [promtool, "check", "metrics"],
            input=texts[0],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_pauses_reloads_and_passes_have_timestamps(bench: Watched) -> None:
    """A pause has its reason and end, but no names of resources; a reload and a pass have their time."""
    async with bench.running(state("a")) as engine:
        found = read(bench.insight.metrics.text(engine.view, {**AGENT, "pauses": PAUSES}))
        last = bench.passes()[-1]

    assert found["holdfast_pause_end_timestamp_seconds", "upgrade", "everything"] == float("inf")
    assert found["holdfast_pause_end_timestamp_seconds", 'a "b"', "some"] == 12.5
    assert found["holdfast_config_last_reload_successful",] == 1
    assert found["holdfast_config_last_reload_success_timestamp_seconds",] == 2.5
    assert found["holdfast_last_pass_duration_seconds",] == last.duration
    assert found["holdfast_last_pass_timestamp_seconds",] == last.started + last.duration


def test_process_metrics_have_conventional_names() -> None:
    """The figures equal those of the kernel."""
    found = read(process.text())

    assert found["process_max_fds",] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 0 < found["process_open_fds",] <= len([*Path("/proc/self/fd").iterdir()])
    assert 0 < found["process_cpu_seconds_total",] <= time.process_time() + 0.1
    assert 0 < found["process_resident_memory_bytes",] < found["process_virtual_memory_bytes",]
    assert time.time() - 86400 < found["process_start_time_seconds",] <= time.time() + 2
    assert any(key[0] == "python_info" for key in found)
