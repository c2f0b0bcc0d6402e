"""Indexes: by a path into the record, or by several.

A path is names with dots: fields of embedded models, keys of dictionaries, `*` for each value of a dictionary. Lists,
sets and tuples add no name: each of their elements has a value. A path that ends at a dictionary stands for each of its
values, one that ends at a reference for the ID of its target.

An object has one key for each combination of its values. Paths that lead through the same list or dictionary are
combined element by element: a port's MAC address belongs to the network of the same port.

Values in keys and in queries have their stored form: an enum its value, a reference its ID, an address its text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.ref import Ref, is_mapping
from holdfast.agent.northbound.values import ANY, MISSING, UNSET

Key = tuple[Any, ...]
"""One value for each path of an index."""
Query = Sequence[Any]
"""For each path the values that match, as a tuple, or `ANY`."""

SEQUENCES = (list, set, tuple, frozenset)
EACH = "*"
RESERVED = frozenset({"self", "model", "index", "resolve"})
"""Names that a part of an index cannot have: query methods have arguments of these names."""


class _Node:
    """The paths that continue from one node."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        """Numbers of the paths that end here."""
        self.children: dict[str, _Node] = {}

    @property
    def leaves(self) -> list[int]:
        """The numbers of all paths that end here or below, in the order in which `_rows` returns their values."""
        return [*self.ends, *(leaf for child in self.children.values() for leaf in child.leaves)]


class Index:
    """One index of a model."""

    def __init__(self, model: type[BaseModel], name: str, paths: str | tuple[str, ...]) -> None:
        self.name = name
        self.paths = (paths,) if isinstance(paths, str) else tuple(paths)
        self._root = _Node()
        for number, path in enumerate(self.paths):
            node = self._root
            for part in _parts(model, name, path):
                node = node.children.setdefault(part, _Node())
            node.ends.append(number)
        self.parts = _names(self.paths)
        """Names of the parts in queries: the last name of each path, or the whole path if two end alike."""
        if not self.parts or len({*self.parts}) < len(self.parts) or RESERVED.intersection(self.parts):
            found = ", ".join(self.parts) or "none"
            raise Invalid(f"cannot define {model.__name__}, index {name!r}: the names of its parts are {found}")
        self._places = {part: place for place, part in enumerate(self.parts)}
        if len(self.parts) == 1:
            self._places.setdefault(name, 0)
        order = self._root.leaves
        self._order = [order.index(number) for number in range(len(self.paths))]
        self._values = None if any("." in path for path in self.paths) else attrgetter(*self.paths)
        """Returns the value of the path, or a tuple of those of several; None if not all paths are names of fields."""

    def keys(self, record: Any) -> Collection[Key]:
        """Return the keys of a record, each once; at least one."""
        if self._values is not None:
            found = self._values(record)
            key: Key = found if len(self.paths) > 1 else (found,)
            for value in key:
                if type(value) is not str:
                    break
            else:  # by far the most frequent case
                return (key,)
            if not any(isinstance(value, (*SEQUENCES, dict)) for value in key):
                return (tuple([scalar(value) for value in key]),)
        rows = _rows(self._root, record)
        return frozenset([tuple([row[place] for place in self._order]) for row in rows])

    def query(self, values: Mapping[str, Any]) -> Query:
        """Return the parts of a query. A set of values matches each of them; a part that is not given matches all.

        Raises `Invalid`.
        """
        found: list[Any] = [ANY] * len(self.parts)
        for part, value in values.items():
            place = self._places.get(part)
            if place is None:
                raise Invalid(f"the index {self.name!r} has no part {part!r}; available: {', '.join(self.parts)}")
            if type(value) is str:
                found[place] = (value,)
            elif value is not ANY:
                found[place] = values_of(value)
        return found

    def matches(self, record: Any, query: Sequence[Any]) -> bool:
        """Return whether a record matches the parts of a query (see `query`)."""
        return any(
            all(part is ANY or value in part for value, part in zip(row, query, strict=True))
            for row in self.keys(record)
        )


def values_of(wanted: Any) -> tuple[Any, ...]:
    """Return the values that a part of a query matches, each once. Raises `Invalid`."""
    if isinstance(wanted, (set, frozenset)):
        return tuple({scalar(each) for each in wanted})
    return (scalar(wanted),)


def scalar(value: Any) -> Any:
    """Return a value as it stands in a key: hashable, and only equal to equal values. Raises `Invalid`."""
    kind = type(value)
    if kind is str or kind is int or kind is float or value is None or value is MISSING:
        return value
    if kind is bool:
        return ("bool", value)  # in Python, True equals 1
    if value is UNSET:
        return MISSING
    if isinstance(value, Ref):
        return value.id
    try:
        stored = to_jsonable_python(value, bytes_mode="base64")
    except PydanticSerializationError:
        raise Invalid(f"a record cannot have the value of a {kind.__name__}, so no index has it") from None
    return json.dumps(stored, sort_keys=True) if isinstance(stored, (dict, list)) else scalar(stored)


def _rows(node: _Node, value: Any) -> list[Key]:
    """Return the combinations of values of all paths below a node."""
    if isinstance(value, SEQUENCES):
        return _rows_of_each(node, value)
    parts: list[Sequence[Key]] = []
    if node.ends:
        parts.append([(each,) * len(node.ends) for each in _ends(value)])
    for name, child in node.children.items():
        if name == EACH and isinstance(value, dict):
            parts.append(_rows_of_each(child, value.values()))
        else:
            parts.append(_rows(child, _step(value, name)))
    if len(parts) == 1:
        return list(parts[0])
    return [tuple(each for row in rows for each in row) for rows in product(*parts)]


def _rows_of_each(node: _Node, values: Iterable[Any]) -> list[Key]:
    """Return the combinations of each value and, in lists, of each element; an empty list within a list has none."""
    rows = [row for element in _elements(values) for row in _rows(node, element)]
    return rows or [(MISSING,) * len(node.leaves)]


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, SEQUENCES):
            yield from _elements(each)
        else:
            yield each


def _ends(value: Any) -> Iterable[Any]:
    """Return the values of a path that ends at a value."""
    if isinstance(value, dict):
        return [inner for each in value.values() for inner in _flat(each)] or [MISSING]
    return [scalar(value)]


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [inner for each in value.values() for inner in _flat(each)]
    if isinstance(value, SEQUENCES):
        return [inner for each in value for inner in _flat(each)]
    return [scalar(value)]


def _step(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, BaseModel) and name in type(value).model_fields:
        return getattr(value, name)
    return MISSING


def _names(paths: Sequence[str]) -> tuple[str, ...]:
    last = [[part for part in path.split(".") if part != EACH][-1] for path in paths]
    return tuple(
        name if last.count(name) == 1 else path.replace(f".{EACH}", "").replace(".", "_")
        for name, path in zip(last, paths, strict=True)
    )


def _parts(model: type[BaseModel], index: str, path: str) -> list[str]:
    """Return the parts of a path. Raises `Invalid` if it does not lead to values, or leads through a reference."""
    parts = path.split(".")
    place = _Place(f"cannot define {model.__name__}, index {index!r}, path {path!r}", model.__name__, [model])
    for number, part in enumerate(parts):
        if place.holds(Ref):
            if parts[number:] == ["id"]:
                return parts[:number]
            raise Invalid(f"{place.what}: {place.name} is a reference, which has no value besides `id`")
        place = place.below(part)
    if place.ends_at(BaseModel):
        raise Invalid(f"{place.what}: {place.name} is embedded; name one of its fields")
    return parts


class _Place:
    """The end of a path: a name, and the types of its values."""

    def __init__(self, what: str, name: str, types: Sequence[Any]) -> None:
        self.what, self.name, self.types = what, name, types

    def holds(self, base: type) -> bool:
        """Return whether a value here may be an instance of a class."""
        return any(isinstance(each, type) and issubclass(each, base) for each in self.types)

    def ends_at(self, base: type) -> bool:
        """Return the same for a path that ends here, so that it stands for each value of a dictionary."""
        inner = [inner for each in self.types if is_mapping(each) for inner in _below(each, EACH)]
        return self.holds(base) or (bool(inner) and _Place(self.what, self.name, inner).ends_at(base))

    def below(self, part: str) -> _Place:
        """Return the next place. Raises `Invalid` if there is no such name."""
        types = [inner for each in self.types for inner in _below(each, part)]
        if not types:
            raise Invalid(f"{self.what}: {self.name} has no {part!r}")
        return _Place(self.what, f"{self.name}.{part}", types)


def _below(place: Any, part: str) -> Iterator[Any]:
    """Yield the types at a name below a type. Types within lists, sets and optional types count as the type itself."""
    if place is Any or place is object:
        yield place  # the type is known only when there is a value
    elif isinstance(place, type) and issubclass(place, BaseModel):
        field = place.model_fields.get(part)
        if field is not None:
            yield from opened(field.annotation)
    elif is_mapping(place):
        names, values = get_args(place) or (Any, Any)
        if part == EACH or names is object or not isinstance(names, type) or issubclass(names, str):
            yield from opened(values)


def opened(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value can have, without unions, lists, sets and tuples around them."""
    origin = get_origin(annotation)
    if origin is None and annotation in SEQUENCES:
        yield Any
    elif origin is Annotated:
        yield from opened(get_args(annotation)[0])
    elif is_mapping(annotation) or not _encloses(origin):
        yield annotation
    else:
        for argument in get_args(annotation):
            if argument is not type(None) and argument is not Ellipsis:
                yield from opened(argument)


def _encloses(origin: Any) -> bool:
    """Return whether a type with this origin is a union, a list, a set or a tuple."""
    return origin in (Union, UnionType) or (isinstance(origin, type) and issubclass(origin, Collection))
