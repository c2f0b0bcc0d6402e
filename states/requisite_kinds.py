"""The table of the kinds of requisites: the properties of each that the compiler and the engine use.

A new kind is one row. All other modules look up the row, or one of the sets below it; none of them knows a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

Gate = Literal["success", "change", "failure", "need", "nothing"]
"""What the targets of a requisite must have done for the state to run; `GATES` has the meaning of each.

A change or a failure counts if it has happened since the last delivery.
"""
Quantifier = Literal["all", "any"]
"""Whether all targets must meet the gate, or one of them."""
GATES: Mapping[Gate, str] = {
    "success": "Runs after {all} of these states, and only if {they} succeeded.",
    "change": "Runs only if {one} of these states has changed something.",
    "failure": "Runs only if {one} of these states has failed.",
    "need": "Runs before these states, and only if {one} of them would change something.",
    "nothing": "Is refreshed at the end of the pass if one of these states has changed something.",
}
"""Gate -> the documentation of a requisite, in which `QUANTIFIERS` has the words in braces."""
QUANTIFIERS: Mapping[Quantifier, Mapping[str, str]] = {
    "all": {"all": "all", "they": "all of them", "one": "each"},
    "any": {"all": "all", "they": "at least one of them", "one": "at least one"},
}


class RequisiteKind(NamedTuple):
    """One kind of requisite."""

    name: str
    gates: Gate
    quantifier: Quantifier = "all"
    targets: Literal["earlier", "later", "either"] = "earlier"
    """Whether the targets come earlier or later than the state in the order of execution."""
    carries: str = ""
    """Name under which the journal counts what was delivered to the state; empty: nothing is delivered.

    Changes are delivered or, if the requisite gates on failure, failures.
    """
    refreshes: bool = False
    """Whether a change of a target refreshes the state."""
    without_refresh: str = ""
    """Kind that replaces a kind that refreshes, for a state without a refresh action; empty: it has no effect."""
    reversed_form: str = ""
    """Name by which a target declares the requisite; empty: there is none."""
    noted: str = ""
    """Key of the low data of its targets that lists the states which declare it; empty: none. It has no effect."""
    shown: bool = True
    """Whether low data shows a requisite that the reversed form declares, as in Salt."""
    copied: bool = True
    """Whether `use` copies the requisite, as in Salt."""
    verb: str = ""
    """Verb of messages: "a requires b"; empty: "a has <name> b"."""
    written: bool = True
    """Whether a state declares it by its name."""

    @property
    def conditional(self) -> bool:
        """Whether the state may be skipped without a failure."""
        return self.gates not in ("success", "nothing")

    @property
    def documentation(self) -> str:
        """What the requisite does, for users."""
        text = GATES[self.gates].format(**QUANTIFIERS[self.quantifier])
        refreshed = " If one of them has changed something, the state is refreshed."
        return f"{text}{refreshed}" if self.refreshes and self.gates != "nothing" else text

    def effective(self, *, refreshable: bool) -> str:
        """Return the name of the kind that applies to a state that has a refresh action or has none; empty: no kind."""
        return self.name if refreshable or not self.refreshes else self.without_refresh


WATCH, LISTEN, ONCHANGES, ONFAIL = "watch", "listen", "onchanges", "onfail"
"""Names under which the journal counts deliveries. Journals on disk contain them."""
RECV = "recv"
"""The argument that names senders, and therefore requires them."""

TABLE = (
    RequisiteKind("require", "success", reversed_form="require_in", copied=False, verb="requires"),
    RequisiteKind("require_any", "success", "any"),
    RequisiteKind(
        WATCH,
        "success",
        carries=WATCH,
        refreshes=True,
        without_refresh="require",
        reversed_form="watch_in",
        copied=False,
        verb="watches",
    ),
    RequisiteKind("watch_any", "success", "any", carries=WATCH, refreshes=True, without_refresh="require_any"),
    RequisiteKind(
        "prereq",
        "need",
        "any",
        targets="later",
        reversed_form="prereq_in",
        noted="prerequired",
        copied=False,
    ),
    RequisiteKind(ONFAIL, "failure", "any", carries=ONFAIL, reversed_form="onfail_in", copied=False),
    RequisiteKind("onfail_any", "failure", "any", carries=ONFAIL),
    RequisiteKind("onfail_all", "failure", "all", carries=ONFAIL),
    RequisiteKind(ONCHANGES, "change", "any", carries=ONCHANGES, reversed_form="onchanges_in", copied=False),
    RequisiteKind("onchanges_any", "change", "any", carries=ONCHANGES),
    RequisiteKind(
        LISTEN, "nothing", targets="either", carries=LISTEN, refreshes=True, reversed_form="listen_in", shown=False
    ),
    RequisiteKind(RECV, "success", written=False),
)
"""In the order in which the compiler visits the requisites of a state."""

KINDS: Mapping[str, RequisiteKind] = {kind.name: kind for kind in TABLE}
"""Name -> row. The names of deliveries are names of rows, too."""
REQUISITES = tuple(kind.name for kind in TABLE if kind.written)
"""The requisites of a compiled call; `_in` forms, `use` and `extend` were converted to these."""
RELATIONS = tuple(KINDS)
"""All relations of a call to others, including those that are not written as requisites."""
REVERSED: Mapping[str, str] = {kind.reversed_form: kind.name for kind in TABLE if kind.reversed_form}
"""Requisite as a target declares it -> the requisite that the state then has."""
NOTED: Mapping[str, str] = {kind.name: kind.noted for kind in TABLE if kind.noted}
"""Requisite that its targets note -> key of their low data."""
CARRIES: Mapping[str, str] = {kind.name: kind.carries for kind in TABLE if kind.carries}
"""Requisite that carries changes (on failure: failures) to the state -> name under which its deliveries are counted."""
EARLIER = frozenset(kind.name for kind in TABLE if kind.targets == "earlier")
"""Requisites for whose targets the state waits."""
PROBED = tuple(kind.name for kind in TABLE if kind.targets == "later")
"""Requisites whose targets are probed before the state runs, and run after it."""
LISTENING = frozenset(kind.name for kind in TABLE if kind.gates == "nothing")
"""Requisites, and deliveries, that refresh at the end of a pass, in a run of their own."""
ON_FAILURE = frozenset(kind.name for kind in TABLE if kind.gates == "failure")
"""Requisites, and deliveries, that carry failures, not changes."""
REFRESHING = frozenset(kind.name for kind in TABLE if kind.refreshes)
"""Requisites, and deliveries, that ask for a refresh."""
WAITING = frozenset(kind.name for kind in TABLE if kind.gates == "success" and kind.written and not kind.carries)
"""Requisites that do no more than wait for the success of their targets; the engine records nothing about them."""

Other = TypeVar("Other")


def targets_of(requisites: Mapping[str, Sequence[Other]], kinds: Collection[str]) -> Iterator[Other]:
    """Yield the targets of the requisites of some kinds."""
    for kind in kinds:
        yield from requisites.get(kind, ())
