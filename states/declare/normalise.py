"""Converts the data of one file to declarations: every spelling of Salt's language becomes the one form of `high`."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Any

from holdfast.states.declare.high import (
    BACKWARD,
    FUNCTION,
    IN_FORMS,
    TARGETING,
    IdDeclaration,
    Item,
    Mapped,
    Name,
    Reference,
    State,
    Target,
    Unit,
    shown,
)
from holdfast.states.declare.typo_hints import deeper, no_list
from holdfast.states.parse.marks import Beside, Document, Map, Mark, Seq, Spot, plain
from holdfast.states.parse.syntax import KIND
from holdfast.states.requisite_kinds import NOTED

LISTS = TARGETING | {"names"}
"""Arguments for which an empty value is not valid."""
WORD = 16
"""Maximum length of a value that is interned, because many states may have the same word."""
_LINKS = BACKWARD | {"name"} | NOTED.keys()
OWN = frozenset({"state", "fun", "__id__", "__sls__", "__sls_included_from__"})
"""Keys of low data that identify a state; an argument cannot replace them."""


def _left_out(body: Any) -> int:
    """How many numbers of definition order the states of an invalid ID take: as many as those of a valid one."""
    if not isinstance(body, Map):
        return isinstance(body, str) and "." in body
    lists = [
        value
        for key, value in body.items()
        if isinstance(key, str) and not key.startswith("_") and isinstance(value, Seq)
    ]
    return sum(not any(isinstance(item, Map) and "order" in item for item in value) for value in lists)


def normalise(document: Document, data: Any, sls: str, env: str) -> Unit:
    """The declarations of one file. The problems of the file are in the unit's `problems`."""
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
            else:
                declaration = self._declaration(key, value, mark)
                if declaration is not None:
                    self.unit.declarations.append(declaration)
                    self._number(declaration)
                elif mark is not None and isinstance(key, str) and KIND.fullmatch(key) and isinstance(value, Seq):
                    self._not_indented(key, mark, above, data)
            above = key

    def _not_indented(self, function: str, mark: Mark, above: Any, data: Map) -> None:
        """Report a function in the position of an ID, in place of other problems of that key.

        If the ID directly above has no body, its problem is removed as well.
        """
        problems = self.unit.problems
        problems.pop()
        hint = "write its ID above it, and indent it and its arguments below that"
        if above in data and data[above] is None:
            hint = f"indent it and its arguments by two spaces, so that it belongs to {above!r}"
            if problems and problems[-1].location == self.document.location(data.marks.get(above)):
                problems.pop()
        self._problem(mark, "id-shape", f"{function!r} is a function of a state, but is in the position of an ID", hint)

    def _number(self, declaration: IdDeclaration) -> None:
        """Number the states of a declaration that have no `order`."""
        for state in declaration.states.values():
            keys = {item.key for item in state.items}
            declaration.linked = declaration.linked or not _LINKS.isdisjoint(keys)
            if "order" not in keys:
                state.offset = self.unit.count
                self.unit.count += 1

    def _accepted(self, mark: Mark | None, code: str, message: str, effect: str, hint: str = "") -> None:
        """Record a problem that Salt accepts, with its effect."""
        self.unit.problems.append(self.document.accepted(mark, code, message, effect, hint))

    def _problem(self, mark: Mark | None, code: str, message: str, hint: str = "") -> None:
        self.unit.problems.append(self.document.problem(mark, code, message, hint))

    def _references(self, value: Any, mark: Mark | None, word: str) -> Iterator[Reference]:
        """The items of `include` or `exclude`."""
        if not isinstance(value, Seq):
            self._problem(mark, f"{word}-shape", f"{word} must be a list", f"write '{word}:' and below it '- name'")
            return
        for index, item in enumerate(value):
            here = value.marks[index] if value.marks else mark
            if isinstance(item, str) and item:
                yield Reference(item, Spot(self.document, here), env=self.env)
            elif (
                isinstance(item, Map)
                and len(item) == 1
                and all(isinstance(part, str) for part in (*item, *item.values()))
            ):
                ((key, name),) = item.items()
                if word == "exclude" and key not in ("sls", "id"):
                    self._problem(
                        here, "exclude-shape", f"{key!r} cannot be excluded", "write '- sls: name' or '- id: name'"
                    )
                    continue
                yield Reference(
                    name,
                    Spot(self.document, here),
                    key if word == "exclude" else "sls",
                    self.env if word == "exclude" else key,
                )
            else:
                self._problem(
                    here,
                    f"{word}-shape",
                    f"an item of {word} must be a name, but this is {shown(item)}",
                    "write '- name'",
                )

    def _extend(self, value: Any, mark: Mark | None) -> None:
        if not isinstance(value, Map):
            self._problem(
                mark,
                "extend-shape",
                "extend must be a mapping of IDs",
                "write 'extend:', below it 'ID:', and below that 'type:' with a list",
            )
            return
        for id_, body in value.items():
            here = value.marks.get(id_)
            if not isinstance(body, Map):
                self._problem(
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
        """The declaration of one ID; None if it is invalid or is to be ignored."""
        if not isinstance(id_, str):
            self._problem(mark, "id-type", f"an ID must be text, but YAML reads this one as {shown(id_)}", "quote it")
            return None
        if id_.startswith("__"):
            return None
        declaration = IdDeclaration(id_, self.unit.sls, self.env, Spot(self.document, mark))
        if isinstance(body, str) and "." in body and " " not in body:
            body = Map({body: Seq()}, {body: Beside(self.document, mark, body)} if mark is not None else {})
        if not isinstance(body, Map):
            self._problem(
                mark,
                "id-shape",
                f"the ID {id_!r} must say what it declares, but this is {shown(body)}",
                "write 'type.function:' below it, like 'file.managed:'",
            )
            return None
        # Salt moves keys with a dot after those without one, which affects their numbers
        for key in sorted((key for key in body if isinstance(key, str)), key=lambda key: "." in key):
            if not key.startswith("__"):
                self._state(declaration, key, body[key], body.marks.get(key, mark))
        for key in body:
            if not isinstance(key, str):
                self._problem(
                    body.marks.get(key),
                    "state-type",
                    f"a state type must be text, but this is {shown(key)}",
                    "write 'type.function:', like 'file.managed:'",
                )
        return declaration

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
            self._problem(mark, "arguments-shape", message, no_list(key, arguments))
            return
        if type_ in declaration.states:
            first = declaration.states[type_].spot.location
            self._problem(
                mark,
                "state-repeated",
                f"the ID {declaration.id!r} declares the type {type_} twice: first in line {first.line}",
                "give one of them an ID of its own",
            )
            return
        items = self._items(arguments, mark)
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

    def _items(self, arguments: Seq, mark: Mark | None) -> list[Item]:
        """Convert a list of arguments."""
        items: list[Item] = []
        seen: dict[str, Item] = {}
        marks = arguments.marks or [mark] * len(arguments)
        document = self.document
        for entry, here in zip(arguments, marks, strict=True):
            if entry.__class__ is Map:
                for key, value in entry.items():
                    item = self._item(key, value, entry.marks.get(key, here))
                    if item is None:
                        continue
                    if key in seen:
                        self._repeated(item, seen[key])
                    seen[key] = item
                    items.append(item)
            elif isinstance(entry, str):
                items.append(Item(FUNCTION, entry, document, here))
            else:
                message = f"an argument must be '- name: value', but this is {shown(entry)}"
                self._accepted(here, "argument-shape", message, "it is ignored")
        return items

    def _item(self, key: Any, value: Any, mark: Mark | None) -> Item | None:
        """Convert one argument; None if it is invalid or is to be ignored."""
        if not isinstance(key, str):
            self._problem(
                mark, "argument-shape", f"the name of an argument must be text, but this is {shown(key)}", "quote it"
            )
            return None
        if key in TARGETING:
            value = (Mapped if isinstance(value, Map) else tuple)(self._targets(key, value, mark))
        elif key == "names":
            value = self._names(value, mark)
        elif key == "name" and not isinstance(value, str):
            written = getattr(value, "written", "")
            made = f", which YAML made of {written}" if written else ""
            message = f"a name must be text, but this is {shown(value)}{made}"
            hint = "quote it" if isinstance(value, (bool, int, float)) else "write text, or leave it out"
            self.unit.problems.append(
                self.document.accepted(mark, "name-type", message, "the ID is used instead", hint)
            )
        elif value.__class__ is str and value.startswith("__slot__:"):
            hint = "let the template work it out: {{ salt['module.function'](...) }}"
            self._problem(
                mark, "argument-slot", f"the argument {key!r} is a slot, which Holdfast does not support", hint
            )
            return None
        elif key in ("state", "fun") or key.startswith("__"):
            self.unit.warnings.append(
                self.document.problem(
                    mark, "argument-reserved", f"{key!r} is not an argument, and has no effect", "remove it"
                )
            )
            if key in OWN:
                return None
        elif value.__class__ is str and len(value) <= WORD:
            value = intern(value)
        return Item(key, value, self.document, mark)

    def _repeated(self, item: Item, first: Item) -> None:
        self._accepted(
            item.mark,
            "argument-repeated",
            f"the argument {item.key!r} is duplicated: first in line {first.spot.location.line}",
            "this one counts",
            "merge the two, or remove one",
        )

    def _names(self, value: Any, mark: Mark | None) -> list[Name]:
        """Convert the entries of `names`; repeated entries are dropped."""
        if not isinstance(value, Seq):
            hint = deeper("names", "name") if value is None else "write each name as an item: '- name'"
            self._problem(mark, "names-shape", f"names must be a list, but this is {shown(value)}", hint)
            return []
        found: dict[str, Name] = {}
        for index, entry in enumerate(value):
            here = value.marks[index] if value.marks else mark
            name, own = next(iter(entry.items())) if isinstance(entry, Map) and len(entry) == 1 else (entry, Seq())
            if not isinstance(name, str) or not isinstance(own, Seq):
                self._problem(
                    here,
                    "names-shape",
                    f"an entry of names must be text, but this is {shown(entry)}",
                    "quote it, or write 'name:' with a list of its own arguments",
                )
                continue
            made = Name(name, self._own(own, here), entry, here)
            if name in found and plain(found[name].raw) != plain(entry):
                self._problem(
                    here,
                    "names-repeated",
                    f"the name {name!r} is listed twice, with different arguments",
                    "remove one of them",
                )
            found.setdefault(name, made)
        return list(found.values())

    def _own(self, arguments: Seq, mark: Mark | None) -> list[Item]:
        """Convert the arguments of one of the `names`, which exclude arguments of the whole state."""
        items = self._items(arguments, mark)
        for item in items:
            if item.key == FUNCTION:
                message = f"an argument must be '- name: value', but this is {shown(item.value)}"
                self._problem(item.mark, "argument-shape", message, "put a colon after its name")
            elif item.key in BACKWARD or item.key == "names":
                message = f"{item.key!r} cannot be given for one of the names"
                self._accepted(
                    item.mark,
                    "names-shape",
                    message,
                    "it has no effect",
                    "give it to the whole state, or that name an ID of its own",
                )
        return items

    def _targets(self, key: str, value: Any, mark: Mark | None) -> Iterator[Target]:
        """Convert the targets of a requisite."""
        if isinstance(value, Map) and key in IN_FORMS:
            value = Seq(
                [Map({type_: name}) for type_, name in value.items()], [value.marks.get(type_, mark) for type_ in value]
            )
        if isinstance(value, Seq):
            for index, item in enumerate(value):
                target = self._target(key, item, value.marks[index] if value.marks else mark)
                if target is not None:
                    yield target
            return
        hint = deeper(key, "type: name") if value is None else f"write '{key}:' and below it '- type: name'"
        message = f"{key} must be a list, but this is {shown(value)}"
        if key in BACKWARD:
            self._accepted(mark, "requisite-shape", message, "it has no effect", hint)
        else:
            self._problem(mark, "requisite-shape", message, hint)

    def _target(self, key: str, item: Any, mark: Mark | None) -> Target | None:
        """Convert one target of a requisite; None if it is invalid."""
        type_, name = next(iter(item.items())) if isinstance(item, Map) and len(item) == 1 else ("id", item)
        if isinstance(item, Map) and isinstance(type_, str) and isinstance(name, (bool, int, float)):
            message = f"the name in an item of {key} must be text, but this is {shown(name)}"
            self._problem(mark, "requisite-shape", message, "quote it")
            return None
        if not isinstance(type_, str) or not (isinstance(name, str) or (name is None and isinstance(item, Map))):
            message = f"an item of {key} must be '- type: name' or '- ID', but this is {shown(item)}"
            self._problem(mark, "requisite-shape", message, "one state to an item; quote what YAML reads as a number")
            return None
        if "." in type_:
            message = f"an item of {key} names a type without function, but this says {type_!r}"
            self._problem(mark, "requisite-shape", message, f"write '- {type_.partition('.')[0]}: {name}'")
            return None
        return Target(type_, name, item, Spot(self.document, mark))
