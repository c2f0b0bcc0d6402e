"""Rules on requisites: those that can never be met, and those that have less effect than expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from holdfast.resources.traits import Refreshable
from holdfast.states.compile.automatic import automatic, describe, remedy
from holdfast.states.compile.check import Checked, spot_of
from holdfast.states.compile.requisites import ResolvedTarget
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.requisite_kinds import KINDS, REFRESHING, TABLE, Gate, Quantifier

QUIET = frozenset(
    {
        "test.nop",
        "test.succeed_without_changes",
        "test.fail_without_changes",
        "test.show_notification",
        "test.check_pillar",
    }
)
QUIET |= {"file.exists", "file.missing", "cmd.wait", "module.wait"}
"""Kinds that never report a change, unless they are refreshed."""
STURDY = frozenset(
    {
        "test.nop",
        "test.succeed_without_changes",
        "test.succeed_with_changes",
        "test.show_notification",
        "cmd.wait",
        "module.wait",
    }
)
"""Kinds that never fail by themselves."""
AS_TOLD = "test.configurable_test_state"
"""A kind whose arguments determine its outcome."""
BLOCKING = frozenset(
    {"check_cmd", "onlyif", "unless"}.union(kind.name for kind in TABLE if kind.gates in ("success", "need"))
)
"""Arguments that may cause any state to fail."""


def is_quiet(call: Checked) -> bool:
    """Return whether it is certain that a state never reports a change."""
    resource: Any = call.resource
    kind = resource.kind in QUIET or (resource.kind == AS_TOLD and resource.pretended is False)
    return kind and not (isinstance(resource, Refreshable) and not REFRESHING.isdisjoint(call.chunk.requisites))


def is_sturdy(call: Checked) -> bool:
    """Return whether it is certain that a state never fails."""
    resource: Any = call.resource
    kind = resource.kind in STURDY or (resource.kind == AS_TOLD and resource.result is True)
    return kind and BLOCKING.isdisjoint(call.chunk.low) and BLOCKING.isdisjoint(call.chunk.requisites)


Kinds = frozenset[str]
"""Names of kinds of requisites."""


@cache
def _kinds(gates: Gate, *quantifiers: Quantifier) -> Kinds:
    """Return the written requisites with this gate and one of these quantifiers (none given: any quantifier)."""
    return frozenset(
        kind.name
        for kind in TABLE
        if kind.written and kind.gates == gates and (not quantifiers or kind.quantifier in quantifiers)
    )


def _unmet_if(gates: Gate) -> Iterator[tuple[Kinds, Callable[[Iterable[bool]], bool]]]:
    """Yield requisites with this gate, and how many targets (all, or any) must be unable to meet them."""
    yield _kinds(gates, "any"), all
    yield _kinds(gates, "all"), any


class Lists:
    """The requisites of one state by kind."""

    def __init__(self, subject: Subject, edges: Sequence[ResolvedTarget]) -> None:
        self._calls, self._edges = subject.calls, edges

    def of(self, kinds: Kinds) -> list[ResolvedTarget]:
        """Return the items of these kinds."""
        return [edge for edge in self._edges if edge.kind in kinds]

    def targets(self, kinds: Kinds) -> list[Checked]:
        """Return the targets of these kinds of requisites, each once."""
        return [
            self._calls[position]
            for position in dict.fromkeys(position for edge in self.of(kinds) for position in edge.group)
        ]


@rule
def never_met(subject: Subject) -> Iterator[Problem]:
    """Yield states that can never run."""
    for call, edges in subject.with_edges():
        lists = Lists(subject, edges)
        for kinds, why in (*_silent(lists), *_impossible(lists), *_at_odds(lists)):
            spot = lists.of(kinds)[0].target.spot
            yield spot.problem(
                "requisite-never",
                f"{call.chunk.identity} never runs: {why}",
                "name another state, or another requisite",
            )
            break


Finding = tuple[Kinds, str]
"""The kinds of requisites that have a problem, and the reason."""


def _silent(lists: Lists) -> Iterator[Finding]:
    """Yield a finding if the state waits for changes that never happen."""
    for gate in ("change", "need"):
        for kinds, never in _unmet_if(gate):
            targets = lists.targets(kinds)
            if targets and never(map(is_quiet, targets)):
                quiet = [target for target in targets if is_quiet(target)]
                yield kinds, f"{_names(quiet)} never {'report' if len(quiet) > 1 else 'reports'} a change"


def _impossible(lists: Lists) -> Iterator[Finding]:
    """Yield a finding if the state waits for failures that never happen."""
    if lists.of(_kinds("change")):
        return
    for kinds, never in _unmet_if("failure"):
        targets = lists.targets(kinds)
        if targets and never(map(is_sturdy, targets)):
            safe = [target for target in targets if is_sturdy(target)]
            yield kinds, f"{_names(safe)} cannot fail"


def _at_odds(lists: Lists) -> Iterator[Finding]:
    """Yield a finding if two requisites exclude each other."""
    good = {target.chunk.identity for target in lists.targets(_kinds("success", "all"))}
    for kinds, never in _unmet_if("failure"):
        targets = lists.targets(kinds)
        both = [target for target in targets if target.chunk.identity in good]
        if targets and never(target.chunk.identity in good for target in targets):
            yield kinds, f"it requires {_names(both)}, and also waits for its failure"
    one_fails = _kinds("failure", "any")
    failing, changing = lists.targets(one_fails), lists.targets(_kinds("change"))
    if len(failing) == 1 and failing == changing:
        yield (
            one_fails,
            f"{_names(failing)} would have to fail and to change, but a failed state counts as unchanged",
        )


def _names(calls: Sequence[Checked]) -> str:
    shown = [call.chunk.identity for call in calls[:2]]
    return " and ".join(shown) if len(calls) <= 2 else f"{', '.join(shown)} and {len(calls) - 2} more"


def _without_refresh(kind: str) -> tuple[str, str]:
    """Return the effect of a requisite that never refreshes, and a hint."""
    effective = KINDS[kind].effective(refreshable=False)
    return (
        (f"{kind} means {effective}", f"write {effective!r}") if effective else (f"{kind} has no effect", "remove it")
    )


@rule
def never_changes(subject: Subject) -> Iterator[Problem]:
    """Yield watched states that never change."""
    for call, edges in subject.with_edges():
        if not isinstance(call.resource, Refreshable):
            continue
        for edge in edges:
            targets = [subject.calls[position] for position in edge.group]
            if edge.kind in REFRESHING and all(map(is_quiet, targets)):
                means, hint = _without_refresh(edge.kind)
                yield edge.target.spot.problem(
                    "watch-never", f"{_names(targets)} never reports a change: {means}", hint
                )


@rule
def no_refresh(subject: Subject) -> Iterator[Problem]:
    """Yield states that watch or listen, but whose kind has no refresh."""
    for call, edges in subject.with_edges():
        if isinstance(call.resource, Refreshable):
            continue
        for edge in edges:
            if edge.kind in REFRESHING:
                means, hint = _without_refresh(edge.kind)
                yield edge.target.spot.problem("refresh-missing", f"{call.resource.kind} has no refresh: {means}", hint)
                break


@rule
def noop_targets(subject: Subject) -> Iterator[Problem]:
    """Yield states that other states require, but that are never applied (noop)."""
    for call, edges in subject.with_edges():
        if call.meta.noop:
            continue
        for edge in edges:
            idle = [subject.calls[position] for position in edge.group if subject.calls[position].meta.noop]
            if idle and edge.kind in _kinds("success", "all"):
                text = f"{call.chunk.identity} requires {_names(idle)}, which is never applied (noop)"
                yield edge.target.spot.problem("requisite-noop", text, "remove its noop, or the requisite")


@rule
def too_early(subject: Subject) -> Iterator[Problem]:
    """Yield states that come before a state that they need, and therefore fail on a new host."""
    spots = {call.chunk.identity: call.chunk.spot for call in subject.calls}
    for drop in automatic(subject.ordered).dropped:
        spot = spots.get(subject.ordered[drop.who].identity)
        if spot is None:  # the author of a composite determines the order of its parts
            continue
        yield spot.problem("needed-earlier", describe(subject.ordered, drop), remedy(subject.ordered, drop))


@rule
def turned_off(subject: Subject) -> Iterator[Problem]:
    """Yield requisites that the settings disable."""
    for call in subject.calls if subject.disabled else ():
        for key in sorted(subject.disabled & call.chunk.items.keys()):
            spot = spot_of(call.chunk, (key,))
            yield spot.problem(
                "requisite-disabled",
                f"{key} has no effect: the settings disable it (disabled_requisites)",
                "remove it",
            )
