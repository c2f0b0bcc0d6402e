"""The requisite table: whether a resource runs, given the outcomes of its upstreams. It is a pure function.

The table is that of Salt 3007 (docs/language.md, Requisites). Each upstream contributes words for each kind of
requisite. The words are united, and the first matching rule decides. The journal counts changes for each edge, so the
same table applies in a one-shot run, in a pass of the daemon, and after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from holdfast.agent.engine.model.events import Outcome, Reason

NOT_RUN: frozenset[Reason] = frozenset({"onfail", "onchanges"})
"""An upstream that did not run for one of these reasons neither meets nor fails a requisite."""


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
    """Whether an upstream is a reason to run: then even an action that the journal has as done must run."""
    reason: Reason = ""
    """Why the resource does not run."""
    because: tuple[str, ...] = ()
    """Identities of the targets that keep the resource from running."""


def words(kind: str, up: Upstream) -> Iterable[str]:
    """Yield the words of one upstream for one kind of requisite."""
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
    """Unite the words of all targets of one kind. For `_any` and plain onfail, one target that meets it is enough."""
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
    """Decide whether one resource runs. `upstreams`: kind of requisite, except listen -> its targets."""
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
    """Return the identities of the targets that keep a resource from running, each once, in the given order."""
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
