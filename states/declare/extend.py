"""Applies the changes that states make to each other: `extend`, the `_in` requisites, `use`, and `exclude`.

Each changed declaration is a copy that belongs to this run (`Loaded.own`). A change of a state that does not exist is a
problem.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.resources.spelling import nearest
from holdfast.states.declare.high import (
    BACKWARD,
    FUNCTION,
    IN_FORMS,
    TARGETING,
    USE,
    USE_IN,
    IdDeclaration,
    Item,
    Mapped,
    State,
    Target,
)
from holdfast.states.declare.load import Loaded
from holdfast.states.declare.salt_hints import no_such_type
from holdfast.states.errors import Problem
from holdfast.states.parse.marks import Spot
from holdfast.states.requisite_kinds import KINDS, NOTED, REVERSED, TABLE

NOT_USED = IN_FORMS.union(("name", "names", "onfail_stop", USE), (kind.name for kind in TABLE if not kind.copied))
"""Arguments that `use` does not copy."""

LOST = "it has no effect"
"""Effect of a requisite that names nothing, where Salt accepts it."""
REPEATED = 100
"""Maximum number of repeated targets of one list; Salt's time and memory grow with the square of its length."""


class FoundState(NamedTuple):
    """A state, and the declaration that contains it."""

    declaration: IdDeclaration
    state: State

    def own(self, loaded: Loaded) -> State:
        """Return the state, in a copy that may be changed."""
        return loaded.own(self.declaration.id).states[self.state.type]


class Finder:
    """Finds the state that an extension or an `_in` requisite names: by type and ID, else by type and `name`."""

    def __init__(self, loaded: Loaded) -> None:
        self.declarations = loaded.declarations
        self._names: dict[tuple[str, str], list[FoundState]] = {}
        for declaration in loaded.linked():
            for state in declaration.states.values():
                name = state.find("name")
                if name is not None and isinstance(name.value, str):
                    self._names.setdefault((state.type, name.value), []).append(FoundState(declaration, state))

    def find(self, type_: str, value: str) -> list[FoundState]:
        """Return the states that a target names.

        For the type `id` the first state of that ID, or all states of that name.
        """
        declaration = self.declarations.get(value)
        if declaration is not None:
            states = declaration.states
            if type_ == "id" and states:
                return [FoundState(declaration, next(iter(states.values())))]
            if type_ in states:
                return [FoundState(declaration, states[type_])]
        if type_ == "id":
            return [found for (_, name), several in self._names.items() if name == value for found in several]
        return self._names.get((type_, value), [])

    def missing(self, type_: str, value: str) -> str:
        """Return a hint for a state that does not exist."""
        if hint := no_such_type(type_):
            return hint
        known = self.declarations.get(value)
        if known is not None and known.states:
            return f"the ID {value!r} is of the type {', '.join(known.states)}"
        words = [id_ for id_, declaration in self.declarations.items() if type_ in ("id", *declaration.states)]
        words += [name for (known_type, name) in self._names if type_ in ("id", known_type)]
        near = nearest(value, words)
        return f"did you mean {near!r}?" if near else "it may be in a file that is not included: add it to 'include'"


def apply_extends(loaded: Loaded) -> list[Problem]:
    """Apply every `extend`, those of a file before those of the files that it includes; returns the problems."""
    problems: list[Problem] = []
    if not loaded.extends:
        return problems
    excluded = {reference.name for reference in loaded.excludes if reference.kind == "sls"}
    finder = Finder(loaded)
    for extension in loaded.extends:
        if extension.sls in excluded:
            continue
        for state in extension.states.values():
            problem = _extend(loaded, finder, extension, state)
            if problem is not None:
                problems.append(problem)
    return problems


def _extend(loaded: Loaded, finder: Finder, extension: IdDeclaration, state: State) -> Problem | None:
    """Apply an extension to one state."""
    found = finder.find(state.type, extension.id)
    if len(found) == 1:
        own = found[0].own(loaded)
        own.slipped = own.slipped or state.slipped
        for item in state.items:
            _overlay(own, item)
        return None
    if len(found) > 1:
        places = ", ".join(str(other.state.spot.location) for other in found)
        return state.spot.problem(
            "extend-ambiguous",
            f"cannot extend {state.type}[{extension.id}]: several states have that name: {places}",
            "extend one by its ID",
        )
    if extension.id in finder.declarations and state.find(FUNCTION) is not None:
        loaded.own(extension.id).states[state.type] = replace(state, items=[*state.items])
        return None
    message = f"cannot extend {state.type}[{extension.id}]: there is no such state"
    return extension.spot.problem("extend-missing", message, finder.missing(state.type, extension.id))


def _overlay(state: State, item: Item) -> None:
    """Add one item to a state.

    The targets of a requisite are appended; any other item replaces the item with its key.
    """
    for index, old in enumerate(state.items):
        if old.key == item.key:
            state.items[index] = replace(item, value=(*old.value, *item.value)) if item.key in TARGETING else item
            return
        if item.key == "name" and old.key == "names":
            state.items[index] = item
            return
    state.items.append(item)


def apply_backward(loaded: Loaded, disabled: frozenset[str] = frozenset()) -> list[Problem]:
    """Apply every `_in` requisite, `use` and `use_in`; returns the problems. `disabled` requisites have no effect."""
    work = _Backward(loaded, disabled)
    for declaration in loaded.linked():
        for state in declaration.states.values():
            for item in state.items:
                if item.key in disabled:
                    continue
                if item.key in BACKWARD:
                    work.item(FoundState(declaration, state), item)
                elif item.key in NOTED:
                    work.note(FoundState(declaration, state), item)
    work.apply()
    return work.problems


class _Backward:
    """The requisites that targets declare (`_in` forms), and `use`.

    All are collected before one is applied, so that none affects another.
    """

    def __init__(self, loaded: Loaded, disabled: frozenset[str]) -> None:
        self.loaded, self.disabled = loaded, disabled
        self.finder = Finder(loaded)
        self.problems: list[Problem] = []
        self.targets: dict[tuple[str, str], tuple[FoundState, dict[str, list[Target]]]] = {}
        """(ID, type) of a state -> that state, and the requisites that it receives."""
        self.copies: list[tuple[FoundState, Item]] = []

    def item(self, here: FoundState, item: Item) -> None:
        """Collect one requisite list."""
        found = [(target, self._others(item.key, target)) for target in item.value]
        if item.key in (USE, USE_IN):
            for _, others in found:
                for other in others:
                    self._use(*((other, here) if item.key == USE else (here, other)))
            return
        kind = KINDS[REVERSED[item.key]]
        for target, other in _again(found, item):
            self._add(other, kind.name, here, target, shown=kind.shown)
            if kind.noted and not isinstance(item.value, Mapped):
                self._add(here, kind.noted, other, target)

    def note(self, here: FoundState, item: Item) -> None:
        """Collect a requisite that low data also notes at its targets."""
        for target, other in _again([(target, self._noting(target)) for target in item.value], item):
            self._add(other, NOTED[item.key], here, target)

    def _noting(self, target: Target) -> Sequence[FoundState]:
        """Return the targets that note a requisite: in Salt, those that are not named by a glob or by `id`."""
        if target.value is None or (target.type == "id" and not isinstance(target.raw, str)):
            return ()
        return list(self._of_sls(target.value)) if target.type == "sls" else self.finder.find(target.type, target.value)

    def _add(self, to: FoundState, key: str, other: FoundState, target: Target, *, shown: bool = True) -> None:
        """Record that one state gets a requisite on another; `shown`: low data shows it."""
        id_, type_ = other.declaration.id, other.state.type
        lists = self.targets.setdefault((to.declaration.id, to.state.type), (to, {}))[1]
        lists.setdefault(key, []).append(Target(type_, id_, {type_: id_} if shown else None, target.spot))

    def _others(self, key: str, target: Target) -> Sequence[FoundState]:
        """Return the states that a target at the other end names."""
        if target.value is None:
            return ()
        if target.type == "sls":
            found = list(self._of_sls(target.value))
            if not found and target.value not in self.loaded.included:
                near = nearest(target.value, self.loaded.included)
                hint = (
                    f"did you mean {near!r}?" if near else "only files that this run applies or includes can be named"
                )
                self.problems.append(
                    target.spot.accepted(
                        "requisite-missing",
                        f"{key} names the state file {target.value!r}, which is not part of this run",
                        LOST,
                        hint,
                    )
                )
            return found
        found = self.finder.find(target.type, target.value)
        if not found:
            message = f"{key} names {shown_target(target)}, which does not exist"
            hint = self.finder.missing(target.type, target.value)
            if isinstance(target.raw, str) or key in (USE, USE_IN):
                self.problems.append(target.spot.accepted("requisite-missing", message, LOST, hint))
            else:  # Salt converts it to an extend, which requires an existing state
                self.problems.append(target.spot.problem("requisite-missing", message, hint))
        if len(found) > 1 and target.type != "id":
            places = ", ".join(str(other.state.spot.location) for other in found)
            self.problems.append(
                target.spot.problem(
                    "requisite-ambiguous",
                    f"{key} names {shown_target(target)}, but several states have that name: {places}",
                    "name one by its ID",
                )
            )
        return found

    def _of_sls(self, pattern: str) -> Iterator[FoundState]:
        for declaration in self.loaded.declarations.values():
            if fnmatch.fnmatchcase(declaration.sls, pattern):
                yield from (FoundState(declaration, state) for state in declaration.states.values())

    def _use(self, source: FoundState, user: FoundState) -> None:
        """Record the arguments that one state copies from another."""
        own = {item.key for item in user.state.items}
        if self.loaded.number(*user) is not None:
            own.add("order")
        self.copies += [
            (user, item) for item in source.state.items if item.key and item.key not in NOT_USED and item.key not in own
        ]

    def apply(self) -> None:
        """Apply everything that was recorded."""
        for user, item in self.copies:
            _overlay(user.own(self.loaded), item)
        for found, lists in self.targets.values():
            state = found.own(self.loaded)
            for key, targets in lists.items():
                spot: Spot = targets[0].spot
                _overlay(state, Item(key, tuple(targets), spot.document, spot.mark))


def _again(found: Iterable[tuple[Target, Sequence[FoundState]]], item: Item) -> Iterator[tuple[Target, FoundState]]:
    """Yield each state that the targets of a list name, with the repetitions of Salt.

    Before the states of each target, the states of all earlier targets are repeated. This affects only low data, which
    shows the repeated entries. A mapping repeats nothing, and targets before an `sls` are not repeated after it.
    """
    before: list[FoundState] = []
    for target, others in found:
        if target.type == "sls" or isinstance(item.value, Mapped) or len(before) > REPEATED:
            before = []
        before = [*before, *others]
        yield from ((target, other) for other in before)


def shown_target(target: Target) -> str:
    """Return a target in the form that messages show."""
    return f"{target.value!r}" if target.type == "id" else f"{target.type}[{target.value}]"


def apply_excludes(loaded: Loaded) -> None:
    """Remove excluded states: by ID, or every ID of the files that a glob matches. Files that these include stay."""
    if not loaded.excludes:
        return
    ids = {reference.name for reference in loaded.excludes if reference.kind == "id"}
    patterns = [reference.name for reference in loaded.excludes if reference.kind == "sls"]
    for id_, declaration in list(loaded.declarations.items()):
        if id_ in ids or any(fnmatch.fnmatchcase(declaration.sls, pattern) for pattern in patterns):
            del loaded.declarations[id_]
