"""Dictionaries and lists that cannot change: records are shared by all readers, so nothing in them may be modified."""

from __future__ import annotations

from math import isfinite
from typing import Any, Never

from pydantic import BaseModel


def _refuse(self: object, *_: object, **__: object) -> Never:
    base = type(self).__base__
    raise TypeError(f"a {base and base.__name__} of a record cannot change; build a new record")


class FrozenDict(dict[Any, Any]):
    """A dictionary without the methods that change it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain dictionary."""
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list without the methods that change it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain list."""
        return list, (list(self),)


class FrozenSet(set[Any]):
    """A set without the methods that change it. Pydantic writes it as the declared set, unlike a `frozenset`."""

    __slots__ = ()
    __iand__ = __ior__ = __isub__ = __ixor__ = add = clear = discard = pop = remove = _refuse
    update = difference_update = intersection_update = symmetric_difference_update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain set."""
        return set, (list(self),)


FROZEN = (FrozenDict, FrozenList, FrozenSet, frozenset)
CONTAINERS = (dict, list, set, tuple, frozenset)


def freeze(value: Any) -> Any:
    """Return the value with all that it contains frozen. Models in it are frozen already.

    Raises `ValueError` for a value that a record cannot keep.
    """
    if isinstance(value, FROZEN):
        return value
    if isinstance(value, dict):
        return FrozenDict({key: freeze(each) for key, each in value.items()})
    if isinstance(value, list):
        return FrozenList([freeze(each) for each in value])
    if isinstance(value, set):
        return FrozenSet(value)
    if type(value) is tuple:
        return tuple(freeze(each) for each in value)
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} cannot be stored: JSON has no such number")
    if isinstance(value, BaseModel) and not value.model_config.get("frozen"):
        raise ValueError(f"{type(value).__name__} can change: embed models that are derived from Struct or are frozen")
    return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values of a field are the same; unlike `==`, True is not 1."""
    if one is other or type(one) is type(other) is str:
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, BaseModel) and type(one) is type(other):
        return same(dict(one), dict(other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
