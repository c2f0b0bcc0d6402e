"""What operators and states may set, and what an operator may count on at any size."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.model.events import PassEnded


async def test_a_drift_at_the_end_of_a_chain_of_ten_thousand_looks_at_one(bench: Bench, machine: Machine) -> None:
    """What stands above it is settled, and is not asked again."""
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


async def test_poll_below_zero_looks_once(bench: Bench, machine: Machine) -> None:
    """And then only when a full check does."""
    async with bench.running(state("a", meta={"poll": -1})) as engine:
        bench.forget()
        machine.settings["a"] = "drifted"
        await bench.elapse(1000)
        assert machine.log == []

        engine.recheck()
        await engine.settle()

        assert machine.settings["a"] == "right"


async def test_one_that_does_not_want_to_rewatch_stays_failed_in_an_equal_graph(bench: Bench, machine: Machine) -> None:
    """Until it is asked for, or a full check comes."""
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


async def test_converged_means_that_nothing_has_happened_for_a_while(bench: Bench, machine: Machine) -> None:
    """`converged_timeout` seconds after the last pass."""
    async with bench.running(state("a"), converged_timeout=10) as engine:
        assert not engine.converged
        await bench.elapse(9)
        machine.drift("a")
        await bench.elapse(2)
        assert not engine.converged

        await bench.elapse(9)

        assert engine.converged


@pytest.mark.parametrize("noop", [False, True])
async def test_polls_and_rechecks_that_find_nothing_new_do_not_disturb(
    bench: Bench, machine: Machine, *, noop: bool
) -> None:
    """One that polls more often than `converged_timeout` would else never let the host converge; nor is it in doubt while it looks."""
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
async def test_what_is_only_looked_at_later_is_not_converged(bench: Bench, machine: Machine, end: str) -> None:
    """A limit holds the look off: until then nobody knows, and nobody says that all is right."""
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


async def test_under_noop_the_run_ends_and_a_host_that_differs_has_not_converged(
    bench: Bench, machine: Machine
) -> None:
    """Nothing is left to be looked at; an audit sees the difference until somebody else removes it."""
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
async def test_one_state_in_noop_that_differs_keeps_the_host_from_converging(
    bench: Bench, machine: Machine, end: str
) -> None:
    """Though the agent repairs everything else, until that state is as declared, may be changed, or is no longer declared."""
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


async def test_everything_is_looked_at_again_and_again_each_time_somewhat_later(bench: Bench, machine: Machine) -> None:
    """`recheck` seconds, and up to `recheck_splay` more, by chance: a fleet does not look in step."""
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
    """It doubles from there, give or take a fifth."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", meta={"retry": 4, "delay": 5})):
        waits = [
            float(notice.text.rpartition("again in ")[2].removesuffix(" s"))
            for notice in bench.notices("attempt-failed")
        ]
        assert len(waits) == 4
        assert all(0.8 * 5 * 2**number <= wait <= 1.2 * 5 * 2**number for number, wait in enumerate(waits))
        assert waits != [5, 10, 20, 40], "spread by chance"


async def test_splay_adds_to_the_interval_by_chance(bench: Bench, machine: Machine) -> None:
    """Up to so many seconds."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(state("a", meta={"retry": {"attempts": 6, "interval": 10, "splay": 5}})):
        waits = [
            float(notice.text.rpartition("again in ")[2].removesuffix(" s"))
            for notice in bench.notices("attempt-failed")
        ]
        assert all(10 <= wait <= 15 for wait in waits)
        assert len(waits) == 5
        assert len(set(waits)) > 1


async def test_an_action_that_is_to_run_at_every_start_does_so_once_each(bench: Bench, machine: Machine) -> None:
    """And not when something else happens."""
    for starts in (1, 2):
        async with bench.running(state("a", "zaction.run", meta={"rerun": "start"}), state("b")) as engine:
            engine.recheck("recheck")
            await engine.settle()

            assert machine.done.count("run a") == starts


async def test_what_is_disabled_is_left_alone_and_catches_up_when_it_is_no_more(bench: Bench, machine: Machine) -> None:
    """Drift, refreshes and listening included; those that require it go on; a prereq finds that it would not change."""
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
        engine.set_options(engine.options.model_copy(update={"disabled": ()}))
        await engine.settle()
        assert machine.settings == dict.fromkeys(("before", "conf", "a1", "a2", "b"), "right"), (
            "the refresh that a1 is owed needs its prereq"
        )
        assert {"refresh a1", "refresh a2"} <= set(machine.log)


async def test_a_refresh_that_a_guard_forbids_is_no_change_for_a_prereq(bench: Bench, machine: Machine) -> None:
    """Its target is looked at, guards and all: what would not run would not refresh."""
    states = (state("before", prereq=["a"]), state("conf"), state("a", watch=["conf"], meta={"creates": ["/"]}))
    async with bench.running(*states) as engine:
        machine.drift("conf")
        await bench.elapse(1)
        await engine.settle()

        assert machine.settings == {"conf": "right"}


async def test_a_whole_sls_is_disabled_by_its_name(bench: Bench, machine: Machine) -> None:
    """Patterns are those of names, and brackets stand for themselves."""
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


async def test_an_operator_hears_how_the_pass_ends_that_was_under_way_already(bench: Bench, machine: Machine) -> None:
    """What is asked for while something is looked at anyway is part of that."""
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
