"""Reduces a failing plan to a smaller one that still fails, and writes it as a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from engine_bench import LATER
from holdfast.states.requisite_kinds import REQUISITES
from simulated.life import faults
from simulated.plan import Plan, State

TRIES = 1500
"""Greatest number of lives that are simulated for one plan: some seconds."""


def as_a_test(plan: Plan, fails: Callable[[Plan], list[str]] = faults) -> str:
    """Return the code to add to the kept plans: the smallest plan that still fails."""
    least = smallest(plan, fails)
    what = "; ".join(fails(least)[:2]) or "it fails no more: it is not the same each time"
    return f'    # {what}\n    "say here what goes wrong": {str(least).replace(chr(10), chr(10) + "    ")},'


def smallest(plan: Plan, fails: Callable[[Plan], object] = faults) -> Plan:
    """Return a plan from which nothing can be removed, or the smallest one found within the tries."""
    tries = TRIES
    while True:
        for smaller in _smaller(plan):
            tries -= 1
            if tries < 0:
                return plan
            if fails(smaller):
                plan = smaller
                break
        else:
            return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield the plan without some troubles, many first, then without a state, a requisite, a parameter or a wait."""
    size = many = len(plan.troubles)
    while size:
        yield from (
            replace(plan, troubles=plan.troubles[:first] + plan.troubles[first + size :])
            for first in range(0, many, size)
        )
        size //= 2
    yield from (_nowhere(plan, name) for name in sorted({one[0] for states in _lists(plan) for one in states}))
    for number, states in enumerate(_lists(plan)):
        yield from (_with_list(plan, number, less) for less in _less(states))
    for index, (wait, *rest) in enumerate(plan.troubles):
        if wait:
            yield replace(plan, troubles=(*plan.troubles[:index], (0, *rest), *plan.troubles[index + 1 :]))
    for usual in ({"recheck": False}, {"ordering": "definition"}, {"workers": 2}, {"seed": 0}, {"stop": None}):
        if replace(plan, **usual) != plan:
            yield replace(plan, **usual)


def _less(states: list[State]) -> Iterator[list[State]]:
    """Yield the items without one of them, or with a simpler one."""
    for index, one in enumerate(states):
        yield [_without(other, one[0]) for other in states if other is not one]
        yield from ([*states[:index], plainer, *states[index + 1 :]] for plainer in _plainer(one))


def _plainer(one: State) -> Iterator[State]:
    """Yield simpler versions of a state."""
    name, kind, meta, spec = one
    for key in meta:
        yield name, kind, {each: value for each, value in meta.items() if each != key}, spec
    for key, targets in spec.items():
        if key in REQUISITES:
            yield name, kind, meta, {each: value for each, value in spec.items() if each != key}
            if len(targets) > 1:
                yield from (
                    (name, kind, meta, {**spec, key: [left for left in targets if left != target]})
                    for target in targets
                )
    if kind == "zbundled.present":
        yield name, "zsetting.present", meta, spec


def _without(one: State, name: str) -> State:
    """Return the state without references to that name."""
    own, kind, meta, spec = one
    if spec.get(LATER) == [name]:
        spec = {key: value for key, value in spec.items() if key != LATER}
    left = {
        key: [each for each in value if each != name] if key in REQUISITES else value for key, value in spec.items()
    }
    if any(wanted["id"] == name for wanted in meta.get("recv", {}).values()):
        meta = {key: value for key, value in meta.items() if key != "recv"}
    return own, kind, meta, {key: value for key, value in left.items() if value or key not in REQUISITES}


def _lists(plan: Plan) -> list[list[State]]:
    """Return the states at the start and those of each swap."""
    return [list(plan.states), *(trouble[2] for trouble in plan.troubles if trouble[1] == "swap")]


def _with_list(plan: Plan, number: int, states: list[State]) -> Plan:
    if number == 0:
        return replace(plan, states=tuple(states))
    swaps = [index for index, trouble in enumerate(plan.troubles) if trouble[1] == "swap"]
    index = swaps[number - 1]
    wait = plan.troubles[index][0]
    return replace(plan, troubles=(*plan.troubles[:index], (wait, "swap", states), *plan.troubles[index + 1 :]))


def _nowhere(plan: Plan, name: str) -> Plan:
    for number, states in enumerate(_lists(plan)):
        plan = _with_list(plan, number, [_without(one, name) for one in states if one[0] != name])
    return plan
