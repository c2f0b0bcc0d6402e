"""Whether a resource runs, given how its upstreams came out: the decision table of the language, as one pure function.

The table is Salt 3007's (docs/language.md, Requisites); each upstream contributes a word for each kind of requisite, the words
are united, and the first rule that fits decides. "Changed" is counted for each edge by the journal, so the same table
holds in a one-shot run, in a pass of the daemon, and after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from holdfast.agent.engine.model.events import Outcome, Reason

NOT_RUN: frozenset[Reason] = frozenset({"onfail", "onchanges"})
"""Upstreams that were not run for these reasons neither meet nor fail a requisite."""


class Upstream(NamedTuple):
    """What one target of a requisite says about itself."""

    identity: str
    outcome: Outcome | None
    """None: it has never run."""
    changed: bool
    """It has changed since this edge last delivered."""
    failed: bool
    """For onfail: it has failed (or, in noop, is not known to be good) since this edge last delivered."""


class Decision(NamedTuple):
    """Run, or do not and say why."""

    run: bool
    refresh: bool = False
    """The run must be followed by the refresh action if it changed nothing itself."""
    delivered: bool = False
    """Some upstream gave it a reason to run: an action that is remembered as done must run all the same."""
    reason: Reason = ""
    because: tuple[str, ...] = ()


def words(kind: str, up: Upstream) -> Iterable[str]:
    """What one upstream says under one kind of requisite."""
    outcome = up.outcome
    result = outcome.result if outcome is not None else True
    ran = outcome is None or outcome.reason not in NOT_RUN
    base = kind.partition("_")[0]
    if base == "onfail":
        if not up.failed:
            yield "onfail"
        elif ran:
            yield "met"
    elif base == "onchanges":
        yield "onchanges" if result is False or not up.changed else "onchangesmet"
    elif result is False:
        yield "fail"
    elif base == "watch" and up.changed:
        yield "change"
    elif base == "prereq" and result is True:
        yield "pre"
    else:
        if base == "prereq":
            yield "premet"
        if ran:
            yield "met"


def unite(kind: str, said: set[str]) -> set[str]:
    """What all targets of one kind say together: one good target is enough for `_any` and plain onfail."""
    if kind.endswith("_any") or kind == "onfail":
        if said & {"met", "change", "onchangesmet"}:
            said.discard("fail")
        if "onchangesmet" in said:
            said.discard("onchanges")
        if "met" in said:
            said.discard("onfail")
    elif kind == "onfail_all" and "onfail" in said:
        said.discard("met")
    return said


def decide(upstreams: Mapping[str, Iterable[Upstream]]) -> Decision:  # noqa: PLR0911 - one return for each row of the table
    """The decision for one resource: kind of requisite -> its targets. Listen has no part in it."""
    said: set[str] = set()
    for kind, targets in upstreams.items():
        said |= unite(kind, {word for up in targets for word in words(kind, up)})
    delivered = bool(said & {"change", "onchangesmet", "premet"}) or (
        "met" in said and any(k.startswith("onfail") for k in upstreams)
    )
    if "fail" in said:
        return Decision(run=False, reason="requisite_failed", because=culprits(upstreams, _failed))
    if "pre" in said:
        if "premet" in said:
            return Decision(run=True, delivered=delivered)
        return Decision(run=False, reason="prereq", because=culprits(upstreams, _prereq))
    if "onfail" in said and "onchangesmet" not in said:
        return Decision(run=False, reason="onfail", because=culprits(upstreams, _onfail))
    if "onchanges" in said and "onchangesmet" not in said:
        return Decision(run=False, reason="onchanges", because=culprits(upstreams, _onchanges))
    if "change" in said:
        return Decision(run=True, refresh=True, delivered=True)
    if "onfail" in said:
        return Decision(run=False, reason="onfail", because=culprits(upstreams, _onfail))
    return Decision(run=True, delivered=delivered)


def culprits(upstreams: Mapping[str, Iterable[Upstream]], guilty: Callable[[str, Upstream], bool]) -> tuple[str, ...]:
    """Identities of the targets that kept a resource from running, each once, as listed."""
    return tuple(
        dict.fromkeys(up.identity for kind, targets in upstreams.items() for up in targets if guilty(kind, up))
    )


def _failed(kind: str, up: Upstream) -> bool:
    return not kind.startswith(("onfail", "onchanges")) and up.outcome is not None and up.outcome.result is False


def _prereq(kind: str, up: Upstream) -> bool:
    return kind == "prereq" and "pre" in words(kind, up)


def _onfail(kind: str, up: Upstream) -> bool:
    return kind.startswith("onfail") and not up.failed


def _onchanges(kind: str, up: Upstream) -> bool:
    return kind.startswith("onchanges") and "onchanges" in words(kind, up)
