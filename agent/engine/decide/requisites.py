"""The requisite table: whether a resource runs, given the outcomes of its upstreams. It is a pure function.

The table is that of Salt 3007 (docs/language.md, Requisites). Each upstream contributes one word for each kind of
requisite. The words are united, and the first matching rule decides. The journal counts changes for each edge, so the
same table applies in a one-shot run, in a pass of the daemon, and after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from holdfast.agent.engine.model.outcome import Outcome, Reason
from holdfast.states.requisite_kinds import KINDS, ON_FAILURE, RequisiteKind

NOT_RUN: frozenset[Reason] = frozenset({"onfail", "onchanges"})
"""An upstream that did not run for one of these reasons neither meets nor fails a requisite."""
COMMENTS: Mapping[Reason, str] = {
    "requisite_failed": "skipped because of {}",
    "onfail": "not run: {} did not fail",
    "onchanges": "not run: {} failed or did not change",
    "prereq": "not run: {} would not change",
}
"""Word that keeps a resource from running -> the comment, for the identities of the targets."""


class Upstream(NamedTuple):
    """The state of one target of a requisite."""

    identity: str
    outcome: Outcome | None
    """None: the target has never run."""
    changed: bool
    """Whether the target has changed since this edge last delivered."""
    failed: bool
    """For onfail: whether the target has failed since this edge last delivered, or, in noop, may fail."""


class Decision(NamedTuple):
    """Whether a resource runs, and if not, why."""

    run: bool
    refresh: bool = False
    """Whether the refresh action must follow if the run itself changes nothing."""
    delivered: bool = False
    """Whether an upstream is a reason to run: then an action must run even if the journal records it as done."""
    reason: Reason = ""
    """Why the resource does not run."""
    because: tuple[str, ...] = ()
    """Identities of the targets that keep the resource from running."""


Word = Literal["requisite_failed", "onfail", "onchanges", "prereq", "met", "refresh", "changed", "needed"]
"""The contribution of one target: a reason not to run, `met`, or a change that is a reason to run."""


def word(kind: RequisiteKind, up: Upstream) -> Word | None:
    """Return the word of one target for one kind of requisite; None if it contributes nothing."""
    failed = up.outcome is not None and up.outcome.blocks
    match kind.gates:
        case "failure":
            return _met(up) if up.failed else "onfail"
        case "change":
            return "changed" if up.changed and not failed else "onchanges"
        case _ if failed:
            return "requisite_failed"
        case "need":
            return "prereq" if up.outcome is None or up.outcome.result else "needed"
    return "refresh" if kind.refreshes and up.changed else _met(up)


def _met(up: Upstream) -> Literal["met"] | None:
    """Return the word of a target that meets a requisite; None if the target had no reason to run."""
    return "met" if up.outcome is None or up.outcome.reason not in NOT_RUN else None


def unite(kind: RequisiteKind, targets: Iterable[Upstream]) -> set[Word | None]:
    """Return the words of all targets of one kind; words that the quantifier of the kind overrules are left out."""
    said = {word(kind, up) for up in targets}
    if kind.quantifier == "all":
        return said - {"met"} if "onfail" in said else said - {"changed"} if "onchanges" in said else said
    if said & {"met", "refresh"}:
        said -= {"requisite_failed", "onfail"}
    return said


def decide(upstreams: Mapping[str, Iterable[Upstream]]) -> Decision:
    """Decide whether one resource runs. `upstreams`: kind of requisite, except listen -> its targets."""
    said: set[Word | None] = set()
    for name, targets in upstreams.items():
        said |= unite(KINDS[name], targets)
    if reason := _reason(said):
        return Decision(run=False, reason=reason, because=culprits(upstreams, reason))
    refresh = "refresh" in said and "prereq" not in said
    failure_met = "met" in said and not ON_FAILURE.isdisjoint(upstreams)
    return Decision(run=True, refresh=refresh, delivered=failure_met or bool(said & {"refresh", "changed", "needed"}))


def _reason(said: set[Word | None]) -> Reason:
    """Return the reason not to run; empty: the resource runs."""
    if "requisite_failed" in said:
        return "requisite_failed"
    if "prereq" in said:
        return "" if "needed" in said else "prereq"
    if "onfail" in said and not said >= {"changed", "refresh"}:
        return "onfail"
    return "onchanges" if "onchanges" in said and "changed" not in said else ""


def culprits(upstreams: Mapping[str, Iterable[Upstream]], reason: Reason) -> tuple[str, ...]:
    """Return the identities of the targets that keep a resource from running, each once, in the given order."""
    kinds = ((KINDS[name], targets) for name, targets in upstreams.items())
    return tuple(dict.fromkeys(up.identity for kind, targets in kinds for up in targets if word(kind, up) == reason))
