"""Indexes: by a path into the record, or by several.

A path is names with dots: fields of embedded models, keys of dictionaries, `*` for each value of a dictionary. Lists,
sets and tuples are not named: each of their elements has a value. A path that ends at a dictionary stands for each of
its values, one that ends at a reference for the ID of its target.

An object has one key for each combination of its values. Paths that lead through the same list or dictionary are
combined element by element: a port's MAC address belongs to the network of the same port.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Union, get_args, get_origin

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.values import ANY, MISSING, UNSET

Key = tuple[Any, ...]
"""One value for each path of an index."""
Rows = Callable[[Any], list[Key]]
"""Returns the combinations of values of an object, each in the order of `_Node.leaves`."""

SEQUENCES = (list, set, tuple, frozenset)
EACH = "*"


class _Node:
    """The paths that continue from one place."""

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

    def __init__(self, model: type[Any], name: str, paths: str | tuple[str, ...]) -> None:
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
        order = self._root.leaves
        self._order = [order.index(number) for number in range(len(self.paths))]
        single = self.paths[0].split(".")
        self._plain = single[0] if len(self.paths) == 1 and len(single) == 1 else ""

    def keys(self, record: Any) -> frozenset[Key]:
        """Return the keys of a record; at least one."""
        if self._plain:
            value = getattr(record, self._plain)
            if type(value) is str:  # by far the most frequent case
                return frozenset(((value,),))
        rows = _rows(self._root, record)
        return frozenset(tuple(row[place] for place in self._order) for row in rows)

    def query(self, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the parts of a query: for each path the frozenset of values that match, or `ANY`.

        A set of values matches each of them; a part that is not given matches all. Raises `Invalid`.
        """
        known = dict(zip(self.parts, range(len(self.parts)), strict=True))
        if len(self.parts) == 1:
            known.setdefault(self.name, 0)
        found: list[Any] = [ANY] * len(self.parts)
        for part, value in values.items():
            if part not in known:
                raise Invalid(f"the index {self.name!r} has no part {part!r}; its parts: {', '.join(self.parts)}")
            if value is not ANY:
                wanted = value if isinstance(value, (set, frozenset)) else (value,)
                found[known[part]] = frozenset(scalar(each) for each in wanted)
        return found


def scalar(value: Any) -> Any:
    """Return a value as it stands in a key: hashable, and no two different values equal."""
    if value is True or value is False:
        return ("bool", value)  # in Python, True equals 1
    if isinstance(value, Ref):
        return value.id
    if value is UNSET:
        return MISSING
    try:
        hash(value)
    except TypeError:
        return json.dumps(value, sort_keys=True, default=str)
    return value


def _rows(node: _Node, value: Any) -> list[Key]:
    """Return the combinations of values of all paths below a node."""
    if isinstance(value, SEQUENCES):
        rows = [row for element in value for row in _rows(node, element)]
        return rows or [(MISSING,) * len(node.leaves)]
    parts: list[Sequence[Key]] = []
    if node.ends:
        parts.append([(each,) * len(node.ends) for each in _ends(value)])
    for name, child in node.children.items():
        if name == EACH and isinstance(value, dict):
            rows = [row for each in value.values() for row in _rows(child, each)]
            parts.append(rows or [(MISSING,) * len(child.leaves)])
        else:
            parts.append(_rows(child, _step(value, name)))
    if len(parts) == 1:
        return list(parts[0])
    return [tuple(each for row in rows for each in row) for rows in product(*parts)]


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
    if value is None or value is UNSET or value is MISSING:
        return MISSING
    if isinstance(value, dict):
        return value.get(name, MISSING)
    return getattr(value, name, MISSING)


def _names(paths: Sequence[str]) -> tuple[str, ...]:
    last = [[part for part in path.split(".") if part != EACH][-1] for path in paths]
    return tuple(
        name if last.count(name) == 1 else path.replace(f".{EACH}", "").replace(".", "_")
        for name, path in zip(last, paths, strict=True)
    )


def _parts(model: type[Any], index: str, path: str) -> list[str]:
    """Return the parts of a path. Raises `Invalid` if it cannot lead to a value, or leads through a reference."""
    parts = path.split(".")
    places: list[Any] = [model]
    for number, part in enumerate(parts):
        following = [inner for place in places for inner in _below(place, part)]
        if not following:
            where = f"{model.__name__}.{'.'.join(parts[:number])}".rstrip(".")
            raise Invalid(f"cannot define {model.__name__}, index {index!r}, path {path!r}: {where} has no {part!r}")
        places = following
    if len(parts) > 1 and parts[-1] == "id" and _leads_to_ref(model, parts[:-1]):
        return [*parts[:-1]]
    return parts


def _leads_to_ref(model: type[Any], parts: Sequence[str]) -> bool:
    places: list[Any] = [model]
    for part in parts:
        places = [inner for place in places for inner in _below(place, part)]
    return any(isinstance(place, type) and issubclass(place, Ref) for place in places)


def _below(place: Any, part: str) -> Iterator[Any]:
    """Yield the types at a name below a type; what is in lists, sets and optional types counts as the type itself."""
    if place is Any or place is object:
        yield place  # known only when there is a value
    elif isinstance(place, type) and issubclass(place, Ref):
        if part == "id":
            yield str
    elif isinstance(place, type) and hasattr(place, "model_fields"):
        field = place.model_fields.get(part)
        if field is not None:
            yield from _open(field.annotation)
    elif get_origin(place) is dict:
        yield from _open(get_args(place)[1])


def _open(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value can have, without unions, lists, sets and tuples around them."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType) or origin in SEQUENCES:
        for argument in get_args(annotation):
            if argument is not type(None) and argument is not Ellipsis:
                yield from _open(argument)
    elif hasattr(annotation, "__metadata__"):
        yield from _open(get_args(annotation)[0])
    else:
        yield annotation
