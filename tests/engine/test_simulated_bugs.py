"""Simulated lives that once showed a bug, minimised."""

from __future__ import annotations

import pytest

from engine_bench import state
from simulated.crash import deaths
from simulated.life import faults
from simulated.plan import Plan

KEPT = {
    "a prereq probed a removed target while its replacement was probed, too": Plan(
        states=(),
        troubles=(
            (
                0,
                "swap",
                [state("s0", prereq=["s3", "s5"]), state("s3"), state("s5", meta={"poll": 20.0}, value="other")],
            ),
            (0, "hold", "s3"),
            (0, "swap", [state("s3", meta={"sema": ["disk:2"]})]),
        ),
    ),
    "a state that left in its first run recorded a reversal too late for the swap": Plan(
        states=(state("s5", "zborrowed.present", meta={"reverse": True}, value="other"),),
        troubles=((0, "drift", "s5", "worse"), (0, "swap", [state("s5", value="other")])),
    ),
    "in noop two prereqs woke each other without end for a difference that was never repaired": Plan(
        states=(),
        troubles=(
            (0, "noop", True),
            (
                0,
                "swap",
                [
                    state("s0", prereq=["s6"]),
                    state("s3", "zaction.run"),
                    state("s4", "zborrowed.present", prereq=["s5", "s6"]),
                    state("s5", "zborrowed.present", value="other"),
                    state("s6", "zplaced.present", within="s1", strict=False, prereq=["s7"]),
                    state("s7", onfail=["s3"], watch=["s5"]),
                ],
            ),
            (3.0, "hold", "refresh s3"),
        ),
    ),
    "an action ran again and again as prereq of a target that could not start for that reason": Plan(
        states=(),
        troubles=(
            (
                0,
                "swap",
                [
                    state("s0", value="other", prereq=["s3", "s6"]),
                    state("s1", value="other"),
                    state("s3", "zaction.run", prereq=["s4"]),
                    state("s4", "zaction.run"),
                    state("s6", "zaction.run", prereq=["s7"]),
                    state("s7", value="other", onfail=["s1"], watch=["s3"]),
                ],
            ),
        ),
    ),
    "a listener whose refresh was cancelled counted as refreshed": Plan(
        states=(state("s2", meta={"retry": 2}, listen=["s7"]), state("s7", "zborrowed.present", value="other")),
        troubles=((0, "break_", "refresh s2", "busy"), (3.0, "drift", "s4", "drifted"), (0, "cancel", "s2")),
    ),
    "an action that was not to run after its period was checked without end": Plan(
        states=(state("s3", "zcaller.run", meta={"rerun": 60.0}, prereq=["s5"]), state("s5", "zaction.run")),
    ),
    "a period started at a check of the action, not at its run": Plan(
        states=(),
        troubles=((0, "noop", True), (0, "swap", [state("s0", "zaction.run", meta={"rerun": 60.0})]), (3.1, "resume")),
    ),
    "a second attempt recorded the previous content again, after the first might have changed it": Plan(
        states=(),
        troubles=(
            (0, "break_", "look s0", "busy"),
            (
                0,
                "swap",
                [
                    state(
                        "s0",
                        "zlent.present",
                        meta={"retry": {"attempts": 3, "interval": 2}, "reverse": True},
                        value="right",
                    )
                ],
            ),
        ),
    ),
    "a prereq failed without a value that is sent only after its run": Plan(
        states=(
            state("s0", "zaction.run", prereq=["s3", "s4"]),
            state("s3", "zspeaker.present", value="right"),
            state("s4", "zbundle.present", value="right", bundle="two", prereq=["s5"]),
            state("s5", "zhearer.present", meta={"recv": {"value": {"id": "s3", "key": "said"}}}),
        ),
    ),
    "an action that left while it was checked counted as new, and ran": Plan(
        states=(state("s0", "zlent.present", value="other"), state("s4", value="right"), state("s5", "zaction.run")),
        troubles=((3.0, "recheck"), (0, "swap", [])),
    ),
    "in noop an expected change was delivered in a circle without end": Plan(
        states=(),
        troubles=(
            (0, "noop", True),
            (
                0,
                "swap",
                [
                    state("s0", value="other", prereq=["s1", "s5"]),
                    state("s1", "zspeaker.present", value="right"),
                    state("s2", "zbundle.present", value="other", bundle="one", watch=["s0"]),
                    state("s5", value="right", prereq=["s7"]),
                    state("s7", "zcaller.run", onfail_all=["s1"], onchanges=["s2"]),
                ],
            ),
            (0.1, "swap", []),
        ),
    ),
    "each attempt of a failing state woke a waiting one, whose prereqs then probed the failing state": Plan(
        states=(),
        troubles=(
            (0, "break_", "s3", "busy"),
            (
                0,
                "swap",
                [
                    state("s0", value="other"),
                    state("s1", "zplaced.present", within="s0", strict=False, value="right", prereq=["s3", "s5"]),
                    state("s3", "zspeaker.present", value="other"),
                    state("s5", "zaction.run", prereq=["s7"]),
                    state("s7", "zhearer.present", onfail=["s0"], onfail_all=["s3"]),
                ],
            ),
            (3.1, "free"),
        ),
    ),
    "the cancellation of a run that waited for the journal was caught nowhere": Plan(
        states=(),
        troubles=(
            (0, "break_", "s2", "busy for 3 s"),
            (
                0,
                "swap",
                [
                    state("s2", "zspeaker.present", meta={"retry": {"attempts": 3, "interval": 2}}, value="right"),
                    state("s6", "zhearer.present", onchanges_any=["s2"]),
                ],
            ),
            (3.0, "full"),
        ),
        stop=(0.0,),
    ),
    "a reversal that ended while the journal could not be written stayed recorded": Plan(
        states=(state("s4", "zlent.present", meta={"reverse": True}, value="other"),),
        troubles=((0.1, "swap", []), (0, "full")),
    ),
    "a failed swap dropped reversals": Plan(
        states=(state("s4", "zlent.present", meta={"reverse": True}, value="other"),),
        troubles=((0.1, "swap", []), (0, "swap", [state("s4", "zhearer.present")]), (0, "full")),
    ),
    "a listener ran before its received value existed, and not again in that pass": Plan(
        states=(state("s4", "zplaced.present", within="s2", strict=False, value="right"),),
        troubles=(
            (0, "unwatch", "s5"),
            (0, "break_", "s4", "busy"),
            (0, "swap", [state("s5", value="other")]),
            (0, "swap", [state("s4", "zhearer.present")]),
            (
                0.1,
                "swap",
                [
                    state("s0", "zspeaker.present", value="right"),
                    state("s2", "zhearer.present"),
                    state("s4", "zhearer.present", meta={"recv": {"value": {"id": "s0", "key": "said"}}}),
                    state(
                        "s5", "zhearer.present", meta={"recv": {"value": {"id": "s4", "key": "said"}}}, listen=["s0"]
                    ),
                    state("s7", "zplaced.present", within="s2", strict=False, value="right", listen=["s4"]),
                ],
            ),
            (0.1, "unwatch", "s2"),
            (0.1, "break_", "s0", "busy"),
            (0, "unwatch", "s7"),
        ),
        seed=32889,
    ),
    "a prereq and its target blocked each other after the cause of their failure was gone": Plan(
        states=(state("s1", "zcaller.run"),),
        troubles=(
            (0, "break_", "s1", "busy"),
            (
                0,
                "swap",
                [
                    state("s1", "zcaller.run", meta={"rerun": "start"}),
                    state("s2", "zaction.run", prereq=["s3"]),
                    state(
                        "s3",
                        "zplaced.present",
                        within="s1",
                        strict=False,
                        value="right",
                        watch_any=["s1"],
                        prereq=["s5"],
                    ),
                    state("s5", "zplaced.present", within="s2", strict=False, value="right", onfail_all=["s2"]),
                ],
            ),
        ),
    ),
    "the value of a triggered action was lost because the journal could not be written": Plan(
        states=(
            state("s5", "zcaller.run"),
            state("s7", "zhearer.present", meta={"recv": {"value": {"id": "s5", "key": "said"}}}),
        ),
        troubles=((0, "full"), (0, "say", "s5", "this"), (0, "swap", []), (0, "trigger", "s5")),
    ),
    "a failure that could not be written stayed pending for ever": Plan(
        states=(
            state("s0", value="other"),
            state("s1", "zbundle.present", value="other", bundle="two", onfail_all=["s0"]),
        ),
        troubles=(
            (0, "break_", "look s0", "busy"),
            (0.2, "mend"),
            (3.1, "cancel", "s6"),
            (0, "full"),
            (0, "drift", "s0", "worse"),
            (0, "swap", []),
        ),
    ),
    "a sender whose value could not be written succeeded, and its receiver ran with the old value": Plan(
        states=(
            state("s0", value="right"),
            state("s2", "zlined.present", value="right", watch_any=["s0"]),
            state("s3", "zspeaker.present", value="other", watch_any=["s2"]),
            state("s4", "zhearer.present", meta={"noop": False, "recv": {"value": {"id": "s3", "key": "said"}}}),
        ),
        troubles=(
            (0.1, "full"),
            (0, "say", "s3", "this"),
            (0, "drift", "s0", "worse"),
            (0, "noop", True),
            (6.2, "mend"),
        ),
    ),
    "a state that could not start counted as changed, woke its dependents, and was checked for that": Plan(
        states=(),
        troubles=(
            (0, "fight", "s0", 12),
            (0, "break_", "look s7", "busy"),
            (
                0,
                "swap",
                [
                    state("s1", "zlent.present", value="other", prereq=["s5", "s6"]),
                    state("s5", "zplaced.present", within="s2", strict=False, value="right"),
                    state("s6", "zplaced.present", within="s5", strict=False, value="right", prereq=["s7"]),
                    state("s7", value="other"),
                ],
            ),
        ),
    ),
    "a call did not wait for the end of an attempt that is tried again": Plan(
        states=(),
        troubles=(
            (0, "break_", "look s5", "busy"),
            (
                0,
                "swap",
                [
                    state("s5 before", meta={"retry": 2}, name="s5", value="early", superseded_by=["s5"]),
                    state("s5", value="right"),
                ],
            ),
            (0, "call", "s5"),
        ),
    ),
}


KEPT_DEATHS = {
    "a change directly before a kill was not delivered": Plan(
        states=(state("s3", value="other"), state("s7", value="other", listen=["s3"])),
    ),
}


@pytest.mark.parametrize("plan", KEPT.values(), ids=KEPT)
def test_the_bug_is_fixed(plan: Plan) -> None:
    """The ID of each case names the bug."""
    assert faults(plan) == []


@pytest.mark.parametrize("plan", KEPT_DEATHS.values(), ids=KEPT_DEATHS)
def test_nothing_is_lost_any_more(plan: Plan) -> None:
    """The agent may die at any moment."""
    assert deaths(plan, None) == []
