"""One-shot runs have the order, requisites and results that the language defines."""

from __future__ import annotations

from engine_bench import Bench, compilation, state
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.events import PassRecord


async def once(bench: Bench, *states: tuple, **options: object) -> PassRecord:
    """Run the states once and return the record."""
    engine = bench.engine(watch=False, **options)
    await engine.swap(compilation(*states), "start")
    return await engine.settle()


def names(record: PassRecord) -> list[str]:
    """Return the names of the states in the order in which they ended."""
    return [outcome.identity.partition("[")[2][:-1] for outcome in record.outcomes]


def results(record: PassRecord) -> dict[str, tuple[bool | None, str]]:
    """Return result and reason of each name."""
    return {
        name: (outcome.result, outcome.reason) for name, outcome in zip(names(record), record.outcomes, strict=True)
    }


async def test_states_without_requisites_run_one_by_one_in_definition_order(bench: Bench) -> None:
    """Each waits for the one before it, whatever the number of workers."""
    record = await once(bench, *(state(name) for name in "cab"), workers=4)

    assert names(record) == ["c", "a", "b"]
    assert bench.machine.most == 1
    assert bench.machine.settings == dict.fromkeys("cab", "right")


async def test_a_second_run_reports_no_changes(bench: Bench) -> None:
    """Runs are idempotent."""
    await once(bench, state("a"))
    record = await once(bench, state("a"))

    assert [(o.result, o.changes, o.comment) for o in record.outcomes] == [(True, {}, "a is as declared")]
    assert record.converged


async def test_later_states_do_not_wait_for_a_parallel_one(bench: Bench) -> None:
    """A state with `parallel: true` starts in its order."""
    bench.machine.broken["slow"] = Permanent("no")
    record = await once(
        bench,
        state("slow", meta={"parallel": True, "retry": {"interval": 5, "attempts": 2}}),
        state("b"),
        workers=2,
    )

    assert names(record) == ["b", "slow"]


async def test_dependents_of_a_failed_state_do_not_run_and_name_it(bench: Bench) -> None:
    """Along a chain, each state names the state directly before it."""
    bench.machine.broken["a"] = Permanent("no")
    record = await once(bench, state("a"), state("b", require=["a"]), state("c", require=["b"]), state("d"))

    assert results(record) == {
        "a": (False, ""), "b": (False, "requisite_failed"), "c": (False, "requisite_failed"), "d": (True, ""),
    }  # fmt: skip
    assert record.outcomes[1].because == ("zsetting.present[a]",)
    assert record.outcomes[2].because == ("zsetting.present[b]",)
    assert not record.converged
    assert "check b" not in bench.machine.log


async def test_watch_refreshes_only_when_the_run_itself_changed_nothing(bench: Bench) -> None:
    """Salt has the same rule for mod_watch."""
    bench.machine.settings["old"] = "right"
    await once(bench, state("conf"), state("old", watch=["conf"]), state("new", watch=["conf"]))

    assert [line for line in bench.machine.log if line.startswith("refresh")] == ["refresh old"]


async def test_a_refresh_may_repair_what_the_run_could_not(bench: Bench) -> None:
    """A service that does not start may do so with the changed configuration.

    The state fails only if the refresh fails.
    """
    bench.machine.broken |= {"svc": Permanent("no"), "bad": Permanent("no"), "refresh bad": Permanent("nor this")}
    record = await once(
        bench,
        state("conf"),
        state("svc", watch=["conf"]),
        state("bad", watch=["conf"]),
        state("z", require=["svc"]),
    )

    assert results(record) == {"conf": (True, ""), "svc": (True, ""), "bad": (False, ""), "z": (True, "")}
    assert record.outcomes[1].refreshed
    assert record.outcomes[2].comment == "nor this"


async def test_a_failure_stays_if_no_watched_state_has_changed(bench: Bench) -> None:
    """There is no refresh that could repair it."""
    bench.machine.settings["conf"] = "right"
    bench.machine.broken["svc"] = Permanent("no")
    record = await once(bench, state("conf"), state("svc", watch=["conf"]))

    assert results(record) == {"conf": (True, ""), "svc": (False, "")}


async def test_an_unchanged_target_refreshes_nothing(bench: Bench) -> None:
    """Only changes refresh."""
    bench.machine.settings.update(conf="right", svc="right")
    await once(bench, state("conf"), state("svc", watch=["conf"]))

    assert bench.machine.log == ["check conf", "check svc"]


async def test_onchanges_runs_only_after_a_change(bench: Bench) -> None:
    """A state that does not run succeeds."""
    states = state("conf"), state("hook", "zaction.run", onchanges=["conf"])
    first, second = await once(bench, *states), await once(bench, *states)

    assert results(first)["hook"] == (True, "")
    assert results(second)["hook"] == (True, "onchanges")
    assert second.outcomes[1].because == ("zsetting.present[conf]",)


async def test_onchanges_counts_a_failure_as_no_change_and_names_it(bench: Bench) -> None:
    """The comment names the failed target."""
    bench.machine.broken["conf"] = Permanent("no")
    record = await once(bench, state("conf"), state("hook", "zaction.run", onchanges=["conf"]))

    assert results(record)["hook"] == (True, "onchanges")
    assert record.outcomes[1].because == ("zsetting.present[conf]",)
    assert record.outcomes[1].comment == "not run: zsetting.present[conf] failed or did not change"


async def test_onfail_runs_only_after_a_failure(bench: Bench) -> None:
    """It handles the failure."""
    bench.machine.broken["a"] = Permanent("no")
    good = await once(bench, state("ok"), state("handler", "zaction.run", onfail=["ok"]))
    bad = await once(bench, state("a"), state("handler", "zaction.run", onfail=["a"]))

    assert results(good)["handler"] == (True, "onfail")
    assert results(bad)["handler"] == (True, "")


async def test_prereq_runs_before_a_change_and_only_then(bench: Bench) -> None:
    """The target is checked first, and changed after its prereq has run."""
    states = state("before", "zaction.run", prereq=["a"]), state("a")
    first = await once(bench, *states)

    assert bench.machine.log == ["check a", "run before", "check a", "apply a", "check a"]
    assert results(first) == {"before": (True, ""), "a": (True, "")}

    again = await once(bench, *states)
    assert results(again)["before"] == (True, "prereq")
    assert again.outcomes[0].because == ("zsetting.present[a]",)


async def test_a_failed_prereq_leaves_its_target_unchanged(bench: Bench) -> None:
    """The outcome of the target says what it would have changed."""
    bench.machine.broken["before"] = Permanent("no")
    record = await once(bench, state("before", "zaction.run", prereq=["a"]), state("a"))

    assert results(record) == {"before": (False, ""), "a": (None, "prereq")}
    assert record.outcomes[1].changes == {}
    assert bench.machine.settings == {}


async def test_a_prereq_and_its_target_name_the_real_cause(bench: Bench) -> None:
    """They do not name each other, but the error of the check, or the requirement of the target."""
    bench.machine.broken |= {"look a": Permanent("unreadable"), "q": Permanent("no")}
    record = await once(bench, state("before", "zaction.run", prereq=["a"]), state("a"))

    assert results(record) == {"before": (False, "requisite_failed"), "a": (False, "prereq")}
    assert [outcome.comment for outcome in record.outcomes] == [
        "skipped because of zsetting.present[a]",
        "unreadable",
    ]

    record = await once(bench, state("q"), state("before", "zaction.run", prereq=["b"]), state("b", require=["q"]))

    assert results(record) == {
        "q": (False, ""),
        "before": (False, "requisite_failed"),
        "b": (False, "requisite_failed"),
    }
    assert record.outcomes[1].because == ("zsetting.present[b]",)
    assert record.outcomes[2].because == ("zsetting.present[q]",)


async def test_listeners_are_refreshed_once_at_the_end(bench: Bench) -> None:
    """Any number of targets may have changed, and they may be defined anywhere."""
    record = await once(bench, state("svc", listen=["a", "b"]), state("a"), state("b"))

    assert [line for line in bench.machine.log if "refresh" in line] == ["refresh svc"]
    assert bench.machine.log[-1] == "refresh svc"
    assert record.outcomes[-1].listener


async def test_noop_changes_nothing_and_reports_none_as_result(bench: Bench) -> None:
    """Watch, onchanges and prereq treat expected changes as changes."""
    bench.machine.settings.update(svc="right", ok="right")
    record = await once(
        bench,
        state("conf"),
        state("svc", watch=["conf"]),
        state("hook", "zaction.run", onchanges=["conf"]),
        state("ok"),
        noop=True,
    )

    assert results(record) == {"conf": (None, ""), "svc": (None, ""), "hook": (None, ""), "ok": (True, "")}
    assert record.outcomes[1].refreshed
    assert "would refresh svc" in bench.machine.log
    assert bench.machine.settings == {"svc": "right", "ok": "right"}
    assert (record.converged, record.differing) == (False, 3)


async def test_retry_repeats_a_state_in_the_same_run_until_it_succeeds(bench: Bench) -> None:
    """The outcome has the number of attempts, and no other state starts meanwhile."""
    bench.machine.broken["a"] = Temporary("not yet")
    engine = bench.engine(watch=False)
    await engine.swap(
        compilation(state("a", meta={"retry": {"attempts": 5, "interval": 7}}), state("b", require=["a"])), "start"
    )
    await bench.until(lambda _: bool(bench.notices("attempt-failed")))
    del bench.machine.broken["a"]
    record = await engine.settle()

    assert results(record) == {"a": (True, ""), "b": (True, "")}
    assert record.outcomes[0].attempts == 2
    assert record.outcomes[0].duration == 7


async def test_failhard_stops_after_the_first_failure(bench: Bench) -> None:
    """Later states do not run; earlier changes stay."""
    bench.machine.broken["b"] = Permanent("no")
    record = await once(bench, state("a"), state("b", meta={"failhard": True}), state("c"))

    assert names(record) == ["a", "b"]
    assert not record.converged


async def test_an_exception_in_a_kind_fails_only_that_resource(bench: Bench) -> None:
    """The comment is one line; the debug log has the traceback."""
    bench.machine.broken["a"] = ZeroDivisionError("oops")
    record = await once(bench, state("a"), state("b"))

    assert results(record) == {"a": (False, ""), "b": (True, "")}
    assert record.outcomes[0].comment == "internal error in zsetting.present: ZeroDivisionError: oops"
    assert bench.notices("traceback")


async def test_an_operating_system_error_is_one_line(bench: Bench) -> None:
    """It has the action, the path and the reason."""
    bench.machine.broken["a"] = OSError(28, "No space left on device", "/etc/x")
    record = await once(bench, state("a"))

    assert record.outcomes[0].comment == "/etc/x: No space left on device"


async def test_a_run_beyond_its_timeout_is_an_error(bench: Bench) -> None:
    """Later states continue."""
    import asyncio

    bench.machine.gates["a"] = asyncio.Event()
    record = await once(bench, state("a", meta={"timeout": 3}), state("b"))

    assert results(record) == {"a": (False, ""), "b": (True, "")}
    assert record.outcomes[0].comment == "did not finish within 3 s"


async def test_an_empty_graph_is_converged(bench: Bench) -> None:
    """No work is a success."""
    record = await once(bench)

    assert (record.outcomes, record.converged) == ((), True)


async def test_a_prereq_does_not_run_again_when_its_target_learns_of_a_failure(bench: Bench) -> None:
    """With `parallel`, the target is notified while it still waits to start."""
    bench.machine.broken["s0"] = Permanent("no")
    parallel = {"parallel": True}
    record = await once(
        bench,
        state("s0", "zaction.run", meta=parallel),
        state("s1", "zaction.run", meta=parallel, require=["s0"]),
        state("s2", "zaction.run", meta=parallel, require=["s0", "s1"]),
        state("s3", "zaction.run", meta=parallel, require=["s0", "s1"], prereq=["s4"]),
        state("s4", "zaction.run", meta=parallel, require=["s0", "s1"], onfail=["s2"]),
        workers=3,
    )

    assert sorted(names(record)) == ["s0", "s1", "s2", "s3", "s4"]
