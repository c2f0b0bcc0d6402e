"""Converts the arguments of a state: every spelling of Salt's language becomes the one form of `high`."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Any

from holdfast.states.declare.high import (
    BACKWARD,
    FUNCTION,
    IN_FORMS,
    TARGETING,
    Item,
    Mapped,
    Name,
    Target,
    Unit,
    shown,
)
from holdfast.states.declare.typo_hints import deeper
from holdfast.states.parse.marks import Map, Mark, Seq, Spot, plain

WORD = 16
"""Maximum length of a value that is interned, because many states may have the same word."""
OWN = frozenset({"state", "fun", "__id__", "__sls__", "__sls_included_from__"})
"""Keys of low data that identify a state; an argument cannot replace them."""


def _interned(value: Any) -> Any:
    """Return the value; one object for all equal short texts."""
    return intern(value) if value.__class__ is str and len(value) <= WORD else value


def _pairs(targets: Map, mark: Mark | None) -> Seq:
    """Return targets that are written as a mapping, as the list of its pairs."""
    return Seq(
        [Map({type_: name}) for type_, name in targets.items()], [targets.marks.get(key, mark) for key in targets]
    )


class Arguments:
    """Converts lists of arguments of one file, and records their problems in its unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def items(self, arguments: Seq, mark: Mark | None) -> list[Item]:
        """Convert a list of arguments."""
        items: list[Item] = []
        seen: dict[str, Item] = {}
        marks = arguments.marks or [mark] * len(arguments)
        document = self.unit.document
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
                self.unit.accepted(here, "argument-shape", message, "it is ignored")
        return items

    def _item(self, key: Any, value: Any, mark: Mark | None) -> Item | None:
        """Convert one argument; None if it is invalid or is to be ignored."""
        if not isinstance(key, str):
            self.unit.problem(
                mark, "argument-shape", f"the name of an argument must be text, but this is {shown(key)}", "quote it"
            )
            return None
        if not key:
            self.unit.problem(mark, "argument-shape", "the name of an argument is empty", "write '- name: value'")
            return None
        if key in TARGETING:
            value = (Mapped if isinstance(value, Map) else tuple)(self._targets(key, value, mark))
        elif key == "names":
            value = self._names(value, mark)
        elif key == "name" and not isinstance(value, str):
            self._name_type(value, mark)
        elif value.__class__ is str and value.startswith("__slot__:"):
            hint = "let the template compute the value: {{ salt['module.function'](...) }}"
            message = f"the argument {key!r} is a slot, which Holdfast does not support"
            self.unit.problem(mark, "argument-slot", message, hint)
            return None
        elif key in ("state", "fun") or key.startswith("__"):
            message = f"{key!r} is not an argument, and has no effect"
            self.unit.warnings.append(self.unit.document.problem(mark, "argument-reserved", message, "remove it"))
            return None if key in OWN else Item(key, value, self.unit.document, mark)
        return Item(key, _interned(value), self.unit.document, mark)

    def _name_type(self, value: Any, mark: Mark | None) -> None:
        """Record the problem of a `name` that is not text."""
        written = getattr(value, "written", "")
        made = f", which YAML made from {written}" if written else ""
        message = f"a name must be text, but this is {shown(value)}{made}"
        hint = "quote it" if isinstance(value, (bool, int, float)) else "write text, or leave it out"
        self.unit.accepted(mark, "name-type", message, "the ID is used instead", hint)

    def _repeated(self, item: Item, first: Item) -> None:
        self.unit.accepted(
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
            self.unit.problem(mark, "names-shape", f"names must be a list, but this is {shown(value)}", hint)
            return []
        found: dict[str, Name] = {}
        for index, entry in enumerate(value):
            here = value.marks[index] if value.marks else mark
            name = self._name(entry, here)
            if name is None:
                continue
            first = found.setdefault(name.name, name)
            if first is not name and plain(first.raw) != plain(entry):
                message = f"the name {name.name!r} is listed twice, with different arguments"
                self.unit.problem(here, "names-repeated", message, "remove one of them")
        return list(found.values())

    def _name(self, entry: Any, mark: Mark | None) -> Name | None:
        """Convert one entry of `names`; None if it is invalid."""
        name, own = next(iter(entry.items())) if isinstance(entry, Map) and len(entry) == 1 else (entry, Seq())
        if isinstance(name, str) and isinstance(own, Seq):
            return Name(name, self._own(own, mark), entry, mark)
        message = f"an entry of names must be text, but this is {shown(entry)}"
        self.unit.problem(mark, "names-shape", message, "quote it, or write 'name:' with a list of its own arguments")
        return None

    def _own(self, arguments: Seq, mark: Mark | None) -> list[Item]:
        """Convert the arguments of one of the `names`, which exclude arguments of the whole state."""
        items = self.items(arguments, mark)
        for item in items:
            if item.key == FUNCTION:
                message = f"an argument must be '- name: value', but this is {shown(item.value)}"
                self.unit.problem(item.mark, "argument-shape", message, "put a colon after its name")
            elif item.key in BACKWARD or item.key == "names":
                message = f"{item.key!r} cannot be given for one of the names"
                self.unit.accepted(
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
            value = _pairs(value, mark)
        if isinstance(value, Seq):
            for index, item in enumerate(value):
                target = self._target(key, item, value.marks[index] if value.marks else mark)
                if target is not None:
                    yield target
            return
        hint = deeper(key, "type: name") if value is None else f"write '{key}:' and below it '- type: name'"
        message = f"{key} must be a list, but this is {shown(value)}"
        if key in BACKWARD:
            self.unit.accepted(mark, "requisite-shape", message, "it has no effect", hint)
        else:
            self.unit.problem(mark, "requisite-shape", message, hint)

    def _target(self, key: str, item: Any, mark: Mark | None) -> Target | None:
        """Convert one target of a requisite; None if it is invalid."""
        pair = isinstance(item, Map) and len(item) == 1
        type_, name = next(iter(item.items())) if pair else ("id", item)
        if pair and isinstance(type_, str) and isinstance(name, (bool, int, float)):
            message, hint = f"the name in an item of {key} must be text, but this is {shown(name)}", "quote it"
        elif not isinstance(type_, str) or not (isinstance(name, str) or (name is None and pair)):
            message = f"an item of {key} must be '- type: name' or '- ID', but this is {shown(item)}"
            hint = "one state to an item; quote what YAML reads as a number"
        elif "." in type_:
            message = f"an item of {key} names a type without function, but this says {type_!r}"
            hint = f"write '- {type_.partition('.')[0]}: {name}'"
        else:
            return Target(type_, name, item, Spot(self.unit.document, mark))
        self.unit.problem(mark, "requisite-shape", message, hint)
        return None
