"""Converts the data of one file to declarations: every spelling of Salt's language becomes the one form of `high`."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Any

from holdfast.states.declare.arguments import Arguments
from holdfast.states.declare.high import (
    BACKWARD,
    FUNCTION,
    TARGETING,
    IdDeclaration,
    Item,
    Reference,
    State,
    Unit,
    shown,
)
from holdfast.states.declare.typo_hints import no_list
from holdfast.states.parse.marks import Beside, Document, Map, Mark, Seq, Spot
from holdfast.states.parse.syntax import KIND
from holdfast.states.requisite_kinds import NOTED

LISTS = TARGETING | {"names"}
"""Arguments for which an empty value is not valid."""
_LINKS = BACKWARD | {"name"} | NOTED.keys()


def _left_out(body: Any) -> int:
    """Return how many numbers of definition order the states of an invalid ID take: as many as those of a valid one."""
    if not isinstance(body, Map):
        return isinstance(body, str) and "." in body
    lists = [
        value
        for key, value in body.items()
        if isinstance(key, str) and not key.startswith("_") and isinstance(value, Seq)
    ]
    return sum(not any(isinstance(item, Map) and "order" in item for item in value) for value in lists)


def text_pair(item: Any) -> tuple[str, str] | None:
    """Return the key and the value of a mapping of one text to another; None for anything else."""
    if not isinstance(item, Map) or len(item) != 1:
        return None
    ((key, value),) = item.items()
    return (key, value) if isinstance(key, str) and isinstance(value, str) else None


def normalise(document: Document, data: Any, sls: str, env: str) -> Unit:
    """Return the declarations of one file. The problems of the file are in the unit's `problems`."""
    unit = Unit(sls, document)
    if data is None or data == "":
        return unit
    if not isinstance(data, Map):
        unit.problems.append(
            document.problem(
                document.beginning(data),
                "sls-shape",
                f"a state file must be a mapping of IDs, but this is {shown(data)}",
                "write 'ID:' and below it 'type.function:'",
            )
        )
        return unit
    _Normaliser(unit, env).run(data)
    return unit


class _Normaliser:
    """State of one call of `normalise`."""

    def __init__(self, unit: Unit, env: str) -> None:
        self.unit, self.env = unit, env
        self.document = unit.document
        self.arguments = Arguments(unit)

    def run(self, data: Map) -> None:
        """Convert the keys of a file: `include`, `extend`, `exclude`, and declarations."""
        above: Any = None
        for key, value in data.items():
            mark = data.marks.get(key)
            if key == "include":
                self.unit.includes += self._references(value, mark, "include")
            elif key == "exclude":
                self.unit.excludes += self._references(value, mark, "exclude")
            elif key == "extend":
                self._extend(value, mark)
            elif isinstance(key, str) and key.startswith("__"):
                self.unit.count += _left_out(value)
            elif (declaration := self._declaration(key, value, mark)) is not None:
                self.unit.declarations.append(declaration)
                self._number(declaration)
            elif mark is not None and isinstance(key, str) and KIND.fullmatch(key) and isinstance(value, Seq):
                self._not_indented(key, mark, above, data)
            above = key

    def _not_indented(self, function: str, mark: Mark, above: Any, data: Map) -> None:
        """Report a function in the position of an ID, instead of other problems of that key.

        If the ID directly above has no body, its problem is removed as well.
        """
        problems = self.unit.problems
        problems.pop()
        hint = "write its ID above it, and indent it and its arguments below that"
        if above in data and data[above] is None:
            hint = f"indent it and its arguments by two spaces, so that it belongs to {above!r}"
            if problems and problems[-1].location == self.document.location(data.marks.get(above)):
                problems.pop()
        self.unit.problem(
            mark, "id-shape", f"{function!r} is a function of a state, but is in the position of an ID", hint
        )

    def _number(self, declaration: IdDeclaration) -> None:
        """Assign numbers to the states of a declaration that have no `order`."""
        for state in declaration.states.values():
            keys = {item.key for item in state.items}
            declaration.linked = declaration.linked or not _LINKS.isdisjoint(keys)
            if "order" not in keys:
                state.offset = self.unit.count
                self.unit.count += 1

    def _references(self, value: Any, mark: Mark | None, word: str) -> Iterator[Reference]:
        """Yield the items of `include` or `exclude`."""
        if not isinstance(value, Seq):
            self.unit.problem(mark, f"{word}-shape", f"{word} must be a list", f"write '{word}:' and below it '- name'")
            return
        for index, item in enumerate(value):
            reference = self._reference(item, value.marks[index] if value.marks else mark, word)
            if reference is not None:
                yield reference

    def _reference(self, item: Any, mark: Mark | None, word: str) -> Reference | None:
        """Return one item of `include` or `exclude`; None if it is invalid."""
        spot = Spot(self.document, mark)
        if isinstance(item, str) and item:
            return Reference(item, spot, env=self.env)
        pair = text_pair(item)
        if pair is None:
            message = f"an item of {word} must be a name, but this is {shown(item)}"
            self.unit.problem(mark, f"{word}-shape", message, "write '- name'")
            return None
        key, name = pair
        if word == "include":
            return Reference(name, spot, "sls", key)
        if key in ("sls", "id"):
            return Reference(name, spot, key, self.env)
        self.unit.problem(mark, "exclude-shape", f"{key!r} cannot be excluded", "write '- sls: name' or '- id: name'")
        return None

    def _extend(self, value: Any, mark: Mark | None) -> None:
        if not isinstance(value, Map):
            self.unit.problem(
                mark,
                "extend-shape",
                "extend must be a mapping of IDs",
                "write 'extend:', below it 'ID:', and below that 'type:' with a list",
            )
            return
        for id_, body in value.items():
            here = value.marks.get(id_)
            if not isinstance(body, Map):
                self.unit.problem(
                    here,
                    "extend-shape",
                    f"the extension of {id_!r} must be a mapping of state types, but this is {shown(body)}",
                    "write 'type:' below it, with a list of arguments",
                )
                continue
            declaration = self._declaration(id_, body, here)
            if declaration is not None:
                self.unit.extends.append(declaration)

    def _declaration(self, id_: Any, body: Any, mark: Mark | None) -> IdDeclaration | None:
        """Return the declaration of one ID; None if it is invalid or is to be ignored."""
        if not isinstance(id_, str):
            self.unit.problem(
                mark, "id-type", f"an ID must be text, but YAML reads this one as {shown(id_)}", "quote it"
            )
            return None
        if id_.startswith("__"):
            return None
        declaration = IdDeclaration(id_, self.unit.sls, self.env, Spot(self.document, mark))
        if isinstance(body, str) and "." in body and " " not in body:
            body = Map({body: Seq()}, {body: Beside(self.document, mark, body)} if mark is not None else {})
        if not isinstance(body, Map):
            self.unit.problem(
                mark,
                "id-shape",
                f"the ID {id_!r} must say what it declares, but this is {shown(body)}",
                "write 'type.function:' below it, like 'file.managed:'",
            )
            return None
        self._states(declaration, body, mark)
        return declaration

    def _states(self, declaration: IdDeclaration, body: Map, mark: Mark | None) -> None:
        """Add the states of an ID to its declaration."""
        # Salt moves keys with a dot after those without one, which affects their numbers
        for key in sorted((key for key in body if isinstance(key, str)), key=lambda key: "." in key):
            if not key.startswith("__"):
                self._state(declaration, key, body[key], body.marks.get(key, mark))
        for key in body:
            if not isinstance(key, str):
                self.unit.problem(
                    body.marks.get(key),
                    "state-type",
                    f"a state type must be text, but this is {shown(key)}",
                    "write 'type.function:', like 'file.managed:'",
                )

    def _state(self, declaration: IdDeclaration, key: str, arguments: Any, mark: Mark | None) -> None:
        """Add one state of an ID to its declaration."""
        type_, dot, function = map(intern, key.partition("."))
        second, _, rest = function.partition(".")
        if second and rest:
            function = second
            message = f"{key!r} has a second dot: {'.' + rest!r} has no effect"
            self.unit.warnings.append(
                self.document.problem(mark, "function-rest", message, f"write '{type_}.{function}:'")
            )
        if not isinstance(arguments, Seq):
            message = f"the arguments of {key} must be a list, but this is {shown(arguments)}"
            self.unit.problem(mark, "arguments-shape", message, no_list(key, arguments))
            return
        if type_ in declaration.states:
            first = declaration.states[type_].spot.location
            self.unit.problem(
                mark,
                "state-repeated",
                f"the ID {declaration.id!r} declares the type {type_} twice: first in line {first.line}",
                "give one of them an ID of its own",
            )
            return
        items = self.arguments.items(arguments, mark)
        if dot:
            items.append(Item(FUNCTION, function, self.document, mark))
        slipped = any(
            value is None
            for entry in arguments
            if isinstance(entry, Map)
            for key, value in entry.items()
            if key in LISTS
        )
        declaration.states[type_] = State(type_, items, Spot(self.document, mark), slipped=slipped)
