"""Settings of operators and states, and behaviour that does not depend on the number of resources."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from engine_bench import Bench, compilation, state, use
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.model.events import PassEnded


async def test_drift_at_the_end_of_a_chain_of_ten_thousand_checks_one(bench: Bench, machine: Machine) -> None:
    """The resources above it are settled and are not checked."""
    size = 10_000
    async with bench.running(
        *(state(f"n{i}", **({"require": [f"n{i - 1}"]} if i else {})) for i in range(size))
    ) as engine:
        bench.forget()

        machine.drift(f"n{size - 1}")
        await bench.elapse(1)
        await engine.settle()

        assert machine.log[:3] == [f"{what} n{size - 1}" for what in ("check", "apply", "check")]
        assert {line.partition(" ")[2] for line in machine.log} == {f"n{size - 1}"}


async def test_poll_below_zero_checks_once(bench: Bench, machine: Machine) -> None:
    """Only rechecks check the resource later."""
    async with bench.running(state("a", meta={"poll": -1})) as engine:
        bench.forget()
        machine.settings["a"] = "drifted"
        await bench.elapse(1000)
        assert machine.log == []

        engine.recheck()
        await engine.settle()

        assert machine.settings["a"] == "right"


async def test_rewatch_false_keeps_a_resource_failed_in_an_equal_graph(bench: Bench, machine: Machine) -> None:
    """It stays failed until an operator triggers it, or until a recheck."""
    states = (state("a", meta={"rewatch": False}), state("b"))
    machine.broken["a"] = machine.broken["b"] = Permanent("no")
    async with bench.running(*states) as engine:
        machine.broken.clear()

        await engine.swap(compilation(*states))
        await engine.settle()
        assert machine.settings == {"b": "right"}
        engine.recheck()
        await engine.settle()

        assert machine.settings == {"a": "right", "b": "right"}


async def test_a_host_has_converged_after_a_time_without_activity(bench: Bench, machine: Machine) -> None:
    """The host converges `converged_timeout` seconds after the last pass."""
    async with bench.running(state("a"), converged_timeout=10) as engine:
        assert not engine.converged
        await bench.elapse(9)
        machine.drift("a")
        await bench.elapse(2)
        assert not engine.converged

        await bench.elapse(9)

        assert engine.converged


@pytest.mark.parametrize("noop", [False, True])
async def test_polls_and_rechecks_without_drift_are_no_activity(bench: Bench, machine: Machine, *, noop: bool) -> None:
    """A resource that polls more often than `converged_timeout` does not keep the host from converging."""
    machine.settings |= dict.fromkeys("ab", "right") if noop else {}
    engine = bench.engine(converged_timeout=10, noop=noop, recheck=7, recheck_splay=0)
    await engine.swap(compilation(state("a", meta={"poll": 3}), state("b")))
    await bench.elapse(11)
    assert engine.converged
    machine.gates["a"] = asyncio.Event()
    await bench.elapse(3)
    assert (engine.status()[0]["running"], engine.converged) == (True, True)
    machine.gates.pop("a").set()

    if noop:
        return await engine.stop()
    machine.settings["a"] = "drifted"
    await bench.elapse(4)
    assert (machine.settings["a"], engine.converged) == ("right", False)
    await bench.elapse(10)
    assert engine.converged
    machine.broken["a"] = Permanent("no")
    machine.settings["a"] = "drifted"
    await bench.elapse(20)
    assert not engine.converged
    machine.settings["a"] = "right"
    await bench.elapse(4)
    assert (engine.status()[0]["state"], engine.converged) == ("ok", False)
    await bench.elapse(10)
    assert engine.converged
    return await engine.stop()


@pytest.mark.parametrize("end", ["waits", "triggers", "leaves"])
async def test_a_host_has_not_converged_while_a_limit_delays_a_check(bench: Bench, machine: Machine, end: str) -> None:
    """The result of the check is unknown until then."""
    async with bench.running(state("a", meta={"limit": 0.1, "burst": 1}), state("b")) as engine:
        for _ in range(2):
            assert engine.converged
            machine.drift("a")
            await bench.elapse(1)
        assert (machine.settings["a"], engine.converged) == ("drifted", False)

        if end == "waits":
            await bench.elapse(10)
        elif end == "triggers":
            engine.trigger("zsetting.present[a]")
        else:
            await engine.swap(compilation(state("b")))
        await engine.settle()

        assert engine.converged


async def test_in_noop_the_pass_ends_and_a_host_with_differences_has_not_converged(
    bench: Bench, machine: Machine
) -> None:
    """The audit reports the difference until another program removes it."""
    async with bench.starting(state("a"), state("b", watch=["a"]), noop=True) as engine:
        record = await engine.settle()

        assert not record.converged
        assert not engine.converged
        assert [outcome.result for outcome in record.outcomes] == [None, None]
        assert machine.settings == {}
        machine.drift("a", "right")
        await bench.elapse(1)
        assert not engine.converged
        machine.drift("b", "right")
        await bench.elapse(1)
        assert engine.converged


@pytest.mark.parametrize("end", ["repaired by hand", "noop taken away", "left", "fails"])
async def test_a_different_state_in_noop_keeps_the_host_from_converging(
    bench: Bench, machine: Machine, end: str
) -> None:
    """The host converges when the state is as declared, leaves noop, or is removed.

    The agent repairs everything else.
    """
    async with bench.starting(state("a", meta={"noop": True}), state("b")) as engine:
        record = await engine.settle()
        assert (record.converged, record.differing, engine.converged) == (False, 1, False)
        machine.drift("b")
        await bench.elapse(1)
        assert (machine.settings, engine.converged) == ({"b": "right"}, False)

        if end == "repaired by hand":
            machine.drift("a", "right")
        elif end == "noop taken away":
            await engine.swap(compilation(state("a"), state("b")))
        elif end == "left":
            await engine.swap(compilation(state("b")))
        else:
            machine.broken["look a"] = Permanent("no")
            machine.touch("a")
        await bench.elapse(1)

        assert (engine.converged, len(engine.view.differing)) == (end != "fails", 0)


async def test_rechecks_come_at_random_intervals(bench: Bench, machine: Machine) -> None:
    """An interval has `recheck` to `recheck + recheck_splay` seconds, so that hosts check at different times."""
    async with bench.running(state("a"), recheck=100, recheck_splay=50):
        times = [asyncio.get_running_loop().time()]
        for _ in range(6):
            bench.forget()
            await bench.until(lambda event: isinstance(event, PassEnded) and event.record.cause == "recheck")
            times.append(asyncio.get_running_loop().time())
        gaps = [after - before for before, after in itertools.pairwise(times)]

        assert all(100 <= gap <= 150.01 for gap in gaps)
        assert len({round(gap) for gap in gaps}) > 1


async def test_delay_is_the_first_wait_before_a_retry(bench: Bench, machine: Machine) -> None:
    """It doubles each time, plus or minus a fifth."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", meta={"retry": 4, "delay": 5})):
        waits = [
            float(notice.text.rpartition("again in ")[2].removesuffix(" s"))
            for notice in bench.notices("attempt-failed")
        ]
        assert len(waits) == 4
        assert all(0.8 * 5 * 2**number <= wait <= 1.2 * 5 * 2**number for number, wait in enumerate(waits))
        assert waits != [5, 10, 20, 40], "spread by chance"


async def test_splay_adds_a_random_time_to_the_interval(bench: Bench, machine: Machine) -> None:
    """The addition is at most `splay` seconds."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", meta={"retry": {"attempts": 6, "interval": 10, "splay": 5}})):
        waits = [
            float(notice.text.rpartition("again in ")[2].removesuffix(" s"))
            for notice in bench.notices("attempt-failed")
        ]
        assert all(10 <= wait <= 15 for wait in waits)
        assert len(waits) == 5
        assert len(set(waits)) > 1


async def test_an_action_for_every_start_runs_once_for_each_start(bench: Bench, machine: Machine) -> None:
    """Other events do not run it."""
    for starts in (1, 2):
        async with bench.running(state("a", "zaction.run", meta={"rerun": "start"}), state("b")) as engine:
            engine.recheck("recheck")
            await engine.settle()

            assert machine.done.count("run a") == starts


async def test_a_disabled_resource_is_left_alone_until_it_is_enabled(bench: Bench, machine: Machine) -> None:
    """The engine ignores its drift, refreshes and listening.

    Its dependents continue, and its prereq finds that it would not change.
    """
    states = (
        state("before", prereq=["a1"]),
        state("conf"),
        state("a1", watch=["conf"]),
        state("a2", listen=["conf"]),
        state("b", require=["a1"]),
    )
    async with bench.running(*states, disabled=("zsetting.present[a?]", "elsewhere.*")) as engine:
        (disabled,) = bench.outcomes("a1")
        assert (disabled.result, disabled.ran, disabled.reason) == (True, False, "disabled")
        assert disabled.comment == "disabled by 'zsetting.present[a?]' in the settings"
        assert bench.outcomes("before")[0].reason == "prereq"
        assert machine.settings == {"conf": "right", "b": "right"}

        machine.drift("conf")
        await bench.elapse(1)
        assert not any(line.split()[1] in ("a1", "a2") for line in machine.log)
        assert [row["state"] for row in engine.status()] == ["skipped", "ok", "skipped", "skipped", "ok"]

        machine.settings |= {"a1": "right", "a2": "right"}
        await use(engine, disabled=())
        await engine.settle()
        assert machine.settings == dict.fromkeys(("before", "conf", "a1", "a2", "b"), "right"), (
            "the refresh that a1 is owed needs its prereq"
        )
        assert {"refresh a1", "refresh a2"} <= set(machine.log)


async def test_a_refresh_that_a_guard_forbids_is_no_change_for_a_prereq(bench: Bench, machine: Machine) -> None:
    """The check of the target includes its guards: a target that would not run would not refresh."""
    states = (state("before", prereq=["a"]), state("conf"), state("a", watch=["conf"], meta={"creates": ["/"]}))
    async with bench.running(*states) as engine:
        machine.drift("conf")
        await bench.elapse(1)
        await engine.settle()

        assert machine.settings == {"conf": "right"}


async def test_an_sls_is_disabled_by_its_name(bench: Bench, machine: Machine) -> None:
    """Patterns match names; brackets are literal."""
    for pattern, left_alone in (
        ("test", True),
        ("te*", True),
        ("*[a]", True),
        ("zsetting.present[[]a]", False),
        ("es", False),
    ):
        machine.settings.clear()
        async with bench.running(state("a"), watch=False, disabled=(pattern,)):
            assert (machine.settings == {}) is left_alone, pattern


async def test_a_recheck_during_a_pass_reports_the_end_of_that_pass(bench: Bench, machine: Machine) -> None:
    """A request of an operator becomes part of the current pass."""
    async with bench.running(state("a"), state("b")) as engine:
        machine.gates["a"] = asyncio.Event()
        machine.drift("a")
        await bench.elapse(1)
        engine.recheck()
        machine.gates.pop("a").set()
        asked = await engine.settle()
        machine.drift("a")
        await bench.elapse(1)
        after = await engine.settle()

        assert (asked.cause, asked.asked, after.cause, after.asked) == ("drift", True, "drift", False)
