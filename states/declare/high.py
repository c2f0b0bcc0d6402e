"""High data: the declarations of state files in one form, for all spellings of the language.

A `Unit` is one file. Units are cached while their file is unchanged, so nothing changes them. Later stages copy what
they change (`IdDeclaration.copy`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from holdfast.states.errors import Problem
from holdfast.states.parse.marks import Document, Mark, Spot, plain
from holdfast.states.requisite_kinds import NOTED, REQUISITES, REVERSED

FUNCTION = ""
"""Key of an item that is the name of the function."""
USE, USE_IN = "use", "use_in"
"""Arguments that copy the arguments of another state, or copy those of this state to another one."""
IN_FORMS = REVERSED.keys() | {USE_IN}
"""Arguments that are written at the other end."""
BACKWARD = IN_FORMS | {USE}
"""Arguments by which a state changes others, or is changed."""
TARGETING = BACKWARD.union(REQUISITES, NOTED.values())
"""Arguments whose value is a list of other states."""


class Target(NamedTuple):
    """One item of a requisite list."""

    type: str
    """State type, or `id` (any type) or `sls`."""
    value: str | None
    """ID, name or SLS, or a glob; None is skipped."""
    raw: Any
    """As it was written; None: not shown in low data."""
    spot: Spot


class Mapped(tuple[Target, ...]):
    """Targets that were written as a mapping, not as a list."""

    __slots__ = ()


class Name(NamedTuple):
    """One entry of `names`."""

    name: str
    items: list[Item]
    """Its own arguments."""
    raw: Any
    """As it was written."""
    mark: Mark | None


@dataclass(slots=True, eq=False, repr=False)
class Item:
    """One item of a state: an argument, the function, or (keys of TARGETING) `Target`s, or (`names`) `Name`s."""

    key: str
    value: Any
    document: Document
    mark: Mark | None

    @property
    def spot(self) -> Spot:
        """The position of the item."""
        return Spot(self.document, self.mark)

    def written(self) -> Any:
        """Return the item in the form of Salt's high data."""
        if self.key == FUNCTION:
            return self.value
        if self.key in TARGETING:
            return {self.key: written(self.value)}
        return {self.key: [plain(name.raw) for name in self.value] if self.key == "names" else plain(self.value)}


def written(targets: tuple[Target, ...]) -> Any:
    """Return targets in the form of Salt's data: a list or, if they were written as one, a mapping."""
    shown = [plain(target.raw) for target in targets if target.raw is not None]
    return {key: value for one in shown for key, value in one.items()} if isinstance(targets, Mapped) else shown


@dataclass(slots=True, eq=False, repr=False)
class State:
    """One state type of an ID, with its items in the order of Salt's high data."""

    type: str
    items: list[Item]
    spot: Spot
    offset: int | None = None
    """Its position, from 0, among the states of its file without an `order`.

    None: it has an `order`, or is part of `extend`.
    """

    slipped: bool = False
    """It has an empty list, whose items may be indented wrongly. Other problems of it may be consequences."""

    def find(self, key: str) -> Item | None:
        """Return the item with that key."""
        return next((item for item in self.items if item.key == key), None)


@dataclass(slots=True, eq=False, repr=False)
class IdDeclaration:
    """One ID of one file."""

    id: str
    sls: str
    env: str
    spot: Spot
    states: dict[str, State] = field(default_factory=dict)
    linked: bool = False
    """One of its states has a `name` of its own, or refers to other states."""

    def copy(self) -> IdDeclaration:
        """Return a copy, which may be changed."""
        states = {name: replace(state, items=[*state.items]) for name, state in self.states.items()}
        return IdDeclaration(self.id, self.sls, self.env, self.spot, states, linked=True)


class Reference(NamedTuple):
    """An SLS (or, in an exclude, an ID) that a file names."""

    name: str
    spot: Spot
    kind: str = "sls"
    env: str = ""
    optional: bool = False
    """It need not exist."""


@dataclass(slots=True, eq=False, repr=False)
class Unit:
    """One file, normalised."""

    sls: str
    document: Document
    declarations: list[IdDeclaration] = field(default_factory=list)
    count: int = 0
    """Number of its states in definition order."""
    includes: list[Reference] = field(default_factory=list)
    extends: list[IdDeclaration] = field(default_factory=list)
    excludes: list[Reference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def problem(self, mark: Mark | None, code: str, message: str, hint: str = "") -> None:
        """Record a problem at a mark."""
        self.problems.append(self.document.problem(mark, code, message, hint))

    def accepted(self, mark: Mark | None, code: str, message: str, effect: str, hint: str = "") -> None:
        """Record a problem that Salt accepts, with its effect."""
        self.problems.append(self.document.accepted(mark, code, message, effect, hint))


def shown(value: Any) -> str:
    """Return a description of an invalid value, for messages."""
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
