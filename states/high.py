"""High data: what state files declare, in one form, whichever of the many spellings they used.

A `Unit` is one file. Units are kept as long as their file is the same, so nothing changes them: what later steps change is
copied first (`Declaration.copy`), and what they make of the rest is kept too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from holdfast.states.data import REQUISITES
from holdfast.states.errors import Problem
from holdfast.states.marks import Document, Mark, Spot, plain

FUNCTION = ""
"""Key of an item that is the name of the function."""
IN_FORMS = {f"{kind}_in": kind for kind in ("require", "watch", "prereq", "onchanges", "onfail", "listen", "use")}
"""Requisites that are written at the other end -> what they mean there."""
NOTED = "prerequired"
"""What the target of a prereq has in low data: whose prereq it is. It says so and does nothing."""
TARGETING = frozenset(REQUISITES) | IN_FORMS.keys() | {"use", NOTED}
"""Arguments whose value is a list of other states."""
BACKWARD = IN_FORMS.keys() | {"use"}
"""Those of them by which a state changes others, or is changed."""


class Target(NamedTuple):
    """One item of a requisite list."""

    type: str
    """State type, or `id` (any type) or `sls`."""
    value: str | None
    """ID, name or SLS that is meant, or a glob; None is skipped."""
    raw: Any
    """As it was written; None: low data do not show it."""
    spot: Spot


class Mapped(tuple[Target, ...]):
    """Targets that were written as a mapping, not as a list."""

    __slots__ = ()


class Name(NamedTuple):
    """One entry of `names`."""

    name: str
    items: list[Item]
    """Arguments of its own."""
    raw: Any
    """As it was written."""
    mark: Mark | None


@dataclass(slots=True)
class Item:
    """One argument of a state: key and value; or its function; or (keys of TARGETING) a tuple of `Target`, or a list of `Name`."""

    key: str
    value: Any
    document: Document
    mark: Mark | None

    @property
    def spot(self) -> Spot:
        """Where it stands."""
        return Spot(self.document, self.mark)

    def written(self) -> Any:
        """As Salt's high data have it."""
        if self.key == FUNCTION:
            return self.value
        if self.key in TARGETING:
            return {self.key: written(self.value)}
        return {self.key: [plain(name.raw) for name in self.value] if self.key == "names" else plain(self.value)}


def written(targets: tuple[Target, ...]) -> Any:
    """Targets as Salt's data have them: a list or, where they were written so, a mapping."""
    shown = [plain(target.raw) for target in targets if target.raw is not None]
    return {key: value for one in shown for key, value in one.items()} if isinstance(targets, Mapped) else shown


@dataclass(slots=True)
class State:
    """One state type of an ID, with its items in the order of Salt's high data."""

    type: str
    items: list[Item]
    spot: Spot
    offset: int | None = None
    """Its place among the states of its file that have no `order` of their own, from 0; None: it has one, or is part of `extend`."""

    slipped: bool = False
    """A list in it is empty whose items may stand beside it, as arguments: what else seems wrong with it may follow from that."""

    def find(self, key: str) -> Item | None:
        """The item with that key."""
        return next((item for item in self.items if item.key == key), None)


@dataclass(slots=True)
class Declaration:
    """One ID of one file."""

    id: str
    sls: str
    env: str
    spot: Spot
    states: dict[str, State] = field(default_factory=dict)
    linked: bool = False
    """A state of it has a `name` of its own, by which others may mean it, or says something of others."""

    def copy(self) -> Declaration:
        """A copy that may be extended."""
        states = {name: replace(state, items=[*state.items]) for name, state in self.states.items()}
        return Declaration(self.id, self.sls, self.env, self.spot, states, linked=True)


class Reference(NamedTuple):
    """An SLS (or, to exclude, an ID) that a file names."""

    name: str
    spot: Spot
    kind: str = "sls"
    env: str = ""
    optional: bool = False
    """It need not exist."""


@dataclass(slots=True)
class Unit:
    """One file, normalised."""

    sls: str
    document: Document
    declarations: list[Declaration] = field(default_factory=list)
    count: int = 0
    """How many of its states are numbered in definition order."""
    includes: list[Reference] = field(default_factory=list)
    extends: list[Declaration] = field(default_factory=list)
    excludes: list[Reference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def shown(value: Any) -> str:
    """What a wrong value is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, (dict, list)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)} item{'s' * (len(value) != 1)}"
    return f"a {type(value).__name__}"
