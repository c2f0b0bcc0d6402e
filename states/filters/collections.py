"""Filters of lists and mappings."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Environment
from jinja2.filters import do_sum, make_attrgetter
from jinja2.runtime import Context
from jinja2.utils import pass_context, pass_environment

from holdfast.states.filters.formats import refuse_undefined
from holdfast.states.view.values import traverse


class _Members:
    """Values with a test for membership, which is fast for hashable values."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._hashed: set[Any] = set()
        self._others: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> None:
        """Add a value."""
        try:
            self._hashed.add(item)
        except TypeError:
            self._others.append(item)

    def __contains__(self, item: Any) -> bool:
        """Return whether an equal value is in it."""
        try:
            return item in self._hashed
        except TypeError:
            return item in self._others


class OrderedValues(set[Any]):
    """A set that iterates in the order of insertion; the order of a plain set differs between processes."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._places = {item: place for place, item in enumerate(dict.fromkeys(items))}
        super().__init__(self._places)

    def __iter__(self) -> Iterator[Any]:
        """Iterate in order; values that a template has added come last."""
        return iter(sorted(super().__iter__(), key=lambda item: (self._places.get(item, len(self)), str(item))))

    def __repr__(self) -> str:
        """Return the representation of a plain set."""
        return "{" + ", ".join(map(repr, self)) + "}" if self else "set()"


def unique(values: Any) -> Any:
    """Return the distinct items of a list, in order; of a tuple or a text a set, as in Salt."""
    if isinstance(values, Hashable):
        return OrderedValues(values)  # type: ignore[arg-type]  # a tuple or a text
    found, known = [], _Members()
    for value in values:
        if value not in known:
            known.add(value)
            found.append(value)
    return found


def _both(first: Any, second: Any) -> bool:
    return isinstance(first, Hashable) and isinstance(second, Hashable)


def _kept(first: Iterable[Any], second: Iterable[Any], *, wanted: bool) -> list[Any]:
    """Return the items of the first list that are, or are not, in the second."""
    others = _Members(second)
    return [item for item in first if (item in others) is wanted]


def union(first: Any, second: Any) -> Any:
    """Return the distinct items of both."""
    return OrderedValues([*first, *second]) if _both(first, second) else unique([*first, *second])


def intersect(first: Any, second: Any) -> Any:
    """Return the distinct items that are in both."""
    return (OrderedValues if _both(first, second) else unique)(_kept(first, second, wanted=True))


def difference(first: Any, second: Any) -> Any:
    """Return the distinct items that are only in the first."""
    return (OrderedValues if _both(first, second) else unique)(_kept(first, second, wanted=False))


def symmetric_difference(first: Any, second: Any) -> Any:
    """Return the distinct items that are in exactly one of them."""
    return (OrderedValues if _both(first, second) else list)([*difference(first, second), *difference(second, first)])


def average(values: Any) -> float:
    """Return the mean of a list; the mean of a number is the number."""
    return float(sum(values) / len(values)) if iterable(values) else float(values)


def iterable(value: Any) -> bool:
    """Return whether a value is iterable; a text is not."""
    return not isinstance(value, str) and isinstance(value, Iterable)


def sequence(value: Any) -> Any:
    """Return a single value as a list of one item."""
    return value if isinstance(value, (list, tuple, set, dict)) else [value]


def flatten(values: Iterable[Any], levels: int | None = None, preserve_nulls: bool = False) -> list[Any]:
    """Return the items of nested lists as one list; without nulls, unless they are wanted."""
    found: list[Any] = []
    for value in values:
        if value in (None, "None", "null") and not preserve_nulls:
            continue
        if iterable(value) and levels != 0:
            found += flatten(value, None if levels is None else levels - 1, preserve_nulls)
        else:
            found.append(value)
    return found


@pass_environment
def total(environment: Environment, values: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    """Return the sum of values, or of an attribute of each.

    Lists are joined at once, because Python's own sum makes a new list for each of them.
    """
    if not isinstance(start, list):
        return do_sum(environment, values, attribute, start)
    found = [*start]
    for value in values if attribute is None else map(make_attrgetter(environment, attribute), values):
        if not isinstance(value, list):
            raise TypeError(f"a list cannot be added to a {type(value).__name__}")
        found += value
    return found


def compare_dicts(old: Mapping[Any, Any] | None = None, new: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """Return the keys whose values differ, each with both values; empty text for a missing key."""
    old, new = old or {}, new or {}
    keys = dict.fromkeys([*old, *new])
    return {
        key: {"old": old.get(key, ""), "new": new.get(key, "")}
        for key in keys
        if key not in old or key not in new or old[key] != new[key]
    }


def compare_lists(old: Iterable[Any] = (), new: Iterable[Any] = ()) -> dict[str, list[Any]]:
    """Return the items that are only in the one list, and only in the other."""
    old, new = list(old), list(new)
    found = {"new": [item for item in new if item not in old], "old": [item for item in old if item not in new]}
    return {key: items for key, items in found.items() if items}


def to_entries(data: Any) -> list[dict[str, Any]]:
    """Return a mapping (or a list) as a list of mappings with `key` and `value`."""
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
    return [{"key": key, "value": value} for key, value in pairs]


def from_entries(entries: Iterable[Mapping[str, Any]]) -> dict[Any, Any]:
    """Return the mapping of a list of mappings with `key` (or `name`) and `value`."""
    found = {}
    for entry in entries:
        lower = {key.lower(): value for key, value in entry.items()}
        key = lower.get("key") or lower.get("name")
        if key:
            found[key] = lower.get("value")
    return found


def _holder(data: dict[Any, Any], keys: str, delimiter: str) -> tuple[dict[Any, Any], str]:
    """Return the mapping that contains a nested key, which is made if necessary, and the last part of the key."""
    *path, last = keys.split(delimiter)
    for part in path:
        if not isinstance(data.get(part), dict):
            data[part] = {}
        data = data[part]
    return data, last


def _nested(change: Callable[[dict[Any, Any], str, Any], None]) -> Callable[..., Any]:
    """Return a filter that changes one nested key of a mapping in place, and returns the mapping."""

    def run(
        data: dict[Any, Any],
        keys: str,
        value: Any,
        delimiter: str = ":",
        ordered_dict: bool = False,  # noqa: ARG001 - Salt's signature
    ) -> dict[Any, Any]:
        change(*_holder(data, keys, delimiter), value)
        return data

    return run


def _default(holder: dict[Any, Any], key: str, empty: Any) -> Any:
    if holder.get(key) is None:
        holder[key] = empty
    return holder[key]


def mysql_to_dict(lines: Iterable[str], key: str) -> dict[Any, Any]:
    """Return the rows of a table in the output of mysql, by one of its columns."""
    from holdfast.states.filters.text import to_num  # noqa: PLC0415 - hardly any template has such a table

    headers: list[str] = []
    found = {}
    for line in lines:
        if not line or line.startswith("+"):
            continue
        cells = [cell.strip() for cell in line.split("|")][1:-1]
        if not headers:
            headers = cells
            continue
        row = dict(zip(headers, map(to_num, cells), strict=False))
        found[row[key]] = row
    return found


def json_query(data: Any, expression: str) -> Any:
    """Return the result of a JMESPath expression. Raises `RuntimeError` if the package jmespath is not installed."""
    try:
        import jmespath  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: PLC0415 - optional
    except ImportError as error:
        raise RuntimeError("json_query needs the Python package jmespath, which is not installed") from error
    return jmespath.search(expression, data)


def method_call(value: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a method of a value; None if there is no such method."""
    if name.startswith("_"):
        raise AttributeError(f"templates cannot call {name}")
    method = getattr(value, name, None)
    return None if method is None else method(*args, **kwargs)


@pass_context
def chosen(context: Context, values: Iterable[Any], size: int | None = None, seed: Any = None) -> list[Any]:
    """Return some items at random, or all in random order: always the same for the same seed or the same host.

    Items that differ each time would change a file each time that states are compiled.
    """
    items = list(values)
    if seed is None:
        seed = (context.get("grains") or {}).get("id", "")
    return random.Random(str(seed)).sample(items, len(items) if size is None else size)  # noqa: S311 - not for secrets


@pass_context
def one(context: Context, values: Iterable[Any]) -> Any:
    """Return a random item; the same for one host."""
    found = chosen(context, values, None)
    return found[0] if found else context.environment.undefined("cannot choose an item: the list is empty")


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of itertools that refuses undefined values."""

    def run(*values: Any, **options: Any) -> Any:
        for value in values:
            refuse_undefined(value)
        return function(*values, **options)

    return run


FILTERS: dict[str, Any] = {
    "traverse": lambda data, key, default=None, delimiter=":": traverse(data, key, default, delimiter),
    "unique": unique,
    "union": union,
    "intersect": intersect,
    "difference": difference,
    "symmetric_difference": symmetric_difference,
    "avg": average,
    "sequence": sequence,
    "is_list": lambda value: isinstance(value, list),
    "is_iter": iterable,
    "flatten": flatten,
    "sum": total,
    "sorted_ignorecase": lambda values: sorted(values, key=str.lower),
    "compare_dicts": compare_dicts,
    "compare_lists": compare_lists,
    "to_entries": to_entries,
    "from_entries": from_entries,
    "exactly_n_true": lambda values, amount=1: sum(map(bool, values)) == amount,
    "exactly_one_true": lambda values: sum(map(bool, values)) == 1,
    "set_dict_key_value": _nested(lambda holder, key, value: holder.update({key: value})),
    "append_dict_key_value": _nested(lambda holder, key, value: _default(holder, key, []).append(value)),
    "extend_dict_key_value": _nested(lambda holder, key, value: _default(holder, key, []).extend(value)),
    "update_dict_key_value": _nested(lambda holder, key, value: _default(holder, key, {}).update(value)),
    "mysql_to_dict": mysql_to_dict,
    "json_query": json_query,
    "method_call": method_call,
    "random": one,
    "random_sample": chosen,
    "random_shuffle": pass_context(lambda context, values, seed=None: chosen(context, values, None, seed)),
    "combinations": _of(itertools.combinations),
    "combinations_with_replacement": _of(itertools.combinations_with_replacement),
    "compress": _of(itertools.compress),
    "permutations": _of(itertools.permutations),
    "product": _of(itertools.product),
    "zip": _of(zip),
    "zip_longest": _of(itertools.zip_longest),
}
"""Name in templates -> function."""
