"""Functions on the data of a host: grains, pillar, settings, and matching of targets."""

# ruff: noqa: ARG001, PLR0917 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.states.filters.formats import refuse_undefined
from holdfast.states.helpers.table import TABLE, helper
from holdfast.states.view.host_view import Helper, HostView
from holdfast.states.view.match import TargetHost, matches
from holdfast.states.view.values import MISSING, merge, traverse


@helper("grains.get", "grains.fetch")
def grains_get(view: HostView, key: str, default: Any = "", delimiter: str = ":", ordered: bool = True) -> Any:
    """Return the value of a grain; nested grains as `a:b`."""
    return traverse(view.grains, key, default, delimiter)


@helper("grains.items")
def grains_items(view: HostView, sanitize: bool = False) -> Any:
    """Return all grains."""
    return view.grains


@helper("grains.ls")
def grains_ls(view: HostView) -> list[str]:
    """Return the names of all grains, sorted."""
    return sorted(view.grains)


@helper("grains.item")
def grains_item(view: HostView, *keys: str, default: Any = "", delimiter: str = ":") -> dict[str, Any]:
    """Return some grains by name."""
    return {key: traverse(view.grains, key, default, delimiter) for key in keys}


@helper("grains.has_value")
def grains_has_value(view: HostView, key: str) -> bool:
    """Return whether a grain exists, whatever its value."""
    return traverse(view.grains, key, MISSING) is not MISSING


@helper("grains.equals")
def grains_equals(view: HostView, key: str, value: Any) -> bool:
    """Return whether a grain has this value."""
    return str(traverse(view.grains, key)) == str(value)


@helper("grains.filter_by")
def filter_by(
    view: HostView,
    lookup_dict: Mapping[Any, Any],
    grain: str = "os_family",
    merge: Any = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """Return the entry of `lookup_dict` whose glob matches a grain, merged into `base`, overridden by `merge`."""
    return _by_value(lookup_dict, traverse(view.grains, grain, []), default, base, merge)


@helper("pillar.filter_by")
def pillar_filter_by(
    view: HostView,
    lookup_dict: Mapping[Any, Any],
    pillar: str,
    merge: Any = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """Return the entry of `lookup_dict` for a value of the pillar, like `filter_by`."""
    return _by_value(lookup_dict, traverse(view.pillar, pillar, []), default, base, merge)


def _by_value(lookup: Mapping[Any, Any], values: Any, default: str, base: str | None, over: Any) -> Any:
    """Return the entry for the first of the values that has one."""
    for value in values if isinstance(values, list) else [values]:
        found = next(
            (lookup[key] for key in lookup if fnmatch.fnmatchcase(str(value), str(key)) or str(key) == str(value)), None
        )
        if found is not None:
            return _layered(lookup, found, base, over)
    return _layered(lookup, lookup.get(default), base, over)


def _layered(lookup: Mapping[Any, Any], found: Any, base: str | None, over: Any, *, lists: bool = False) -> Any:
    """Return the entry that was found, merged into `base`, overridden by `over`.

    Raises `TypeError` unless all are mappings.
    """
    if base and base in lookup:
        found = lookup[base] if found is None else merge(lookup[base], _mapping(found))
    if over:
        found = _mapping(over) if found is None else merge(_mapping(found), _mapping(over), lists=lists)
    return found


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("cannot merge the entry of the lookup: it is not a mapping")
    return value


def matching(view: HostView, kind: str, expression: str, minion_id: str | None = None, delimiter: str = ":") -> bool:
    """Return whether an expression matches this host (or one with that name and otherwise the same data)."""
    if delimiter != ":":
        expression = expression.replace(delimiter, ":")
    return matches(kind, expression, TargetHost(minion_id or view.minion_id, view.grains, view.pillar, view.options))


def _matcher(kind: str) -> Helper:
    if kind in {"grain", "grain_pcre", "pillar", "pillar_pcre"}:
        return lambda view, tgt, delimiter=":", minion_id=None: matching(view, kind, tgt, minion_id, delimiter)
    return lambda view, tgt, minion_id=None: matching(view, kind, tgt, minion_id)


for _kind in ("compound", "glob", "pcre", "list", "grain", "grain_pcre", "pillar", "pillar_pcre", "ipcidr"):
    TABLE.entered[f"match.{_kind}"] = _matcher(_kind)


@helper("match.filter_by")
def match_filter_by(
    view: HostView,
    lookup: Mapping[str, Any],
    tgt_type: str = "compound",
    minion_id: str | None = None,
    merge: Any = None,
    merge_lists: bool = False,
    default: str = "default",
) -> Any:
    """Return the first entry of `lookup` whose key matches this host."""
    found = next(
        (value for key, value in lookup.items() if matching(view, tgt_type, key, minion_id)), lookup.get(default)
    )
    return _layered(lookup, found, None, merge, lists=merge_lists)


@helper("match.search_by")
def match_search_by(
    view: HostView, lookup: Mapping[str, Iterable[str]], tgt_type: str = "compound", minion_id: str | None = None
) -> list[str] | None:
    """Return the keys of `lookup` with an expression that matches this host; None if there are none."""
    return [
        key for key, targets in lookup.items() if any(matching(view, tgt_type, target, minion_id) for target in targets)
    ] or None


@helper("pillar.get", "pillar.fetch")
def pillar_get(
    view: HostView,
    key: str,
    default: Any = "",
    merge: bool = False,
    merge_nested_lists: bool | None = None,
    delimiter: str = ":",
    **_: Any,
) -> Any:
    """Return a value of the pillar; nested values as `a:b`.

    With `merge` it is merged into the default, if both are mappings or both are lists.
    """
    refuse_undefined(default)  # as Salt does here, and only here
    found = traverse(view.pillar, key, MISSING, delimiter)
    if found is MISSING:
        return default
    if merge and isinstance(default, Mapping) and isinstance(found, Mapping):
        lists = view.options.get("pillar_merge_lists", False) if merge_nested_lists is None else merge_nested_lists
        return _merge(default, found, lists=bool(lists))
    if merge and isinstance(default, list) and isinstance(found, list):
        return _merge(default, found, lists=True)
    return found


_merge = merge
"""`merge` is also the name of an argument."""


@helper("pillar.items", "pillar.data")
def pillar_items(view: HostView) -> Any:
    """Return the whole pillar."""
    return view.pillar


@helper("pillar.ls")
def pillar_ls(view: HostView) -> list[Any]:
    """Return the names of all values of the pillar."""
    return list(view.pillar)


@helper("pillar.raw")
def pillar_raw(view: HostView, key: str | None = None) -> Any:
    """Return the whole pillar, or one value of it."""
    return view.pillar.get(key, {}) if key else view.pillar


@helper("pillar.item")
def pillar_item(view: HostView, *keys: str, default: Any = "", delimiter: str = ":") -> dict[str, Any]:
    """Return some values of the pillar, by name."""
    return {key: traverse(view.pillar, key, default, delimiter) for key in keys}


@helper("pillar.keys")
def pillar_keys(view: HostView, key: str, delimiter: str = ":") -> list[Any]:
    """Return the keys below a key of the pillar. Raises `KeyError` if there is none."""
    found = traverse(view.pillar, key, MISSING, delimiter)
    if not isinstance(found, Mapping):
        raise KeyError(f"the pillar has no mapping {key!r}")
    return list(found)


@helper("config.get")
def config_get(
    view: HostView,
    key: str,
    default: Any = "",
    delimiter: str = ":",
    merge: str | None = None,
    omit_opts: bool = False,
    omit_pillar: bool = False,
    omit_master: bool = False,
    omit_grains: bool = False,
) -> Any:
    """Return a setting: from the agent's options, else the grains, else the pillar.

    With `merge` these are merged, and earlier ones take precedence.
    """
    places = [
        place
        for omitted, place in ((omit_opts, view.opts()), (omit_grains, view.grains), (omit_pillar, view.pillar))
        if not omitted
    ]
    if merge == "overwrite":
        places = [place for place in places if key.partition(delimiter)[0] in place]
    found = [value for place in places if (value := traverse(place, key, MISSING, delimiter)) is not MISSING]
    if merge in {None, "overwrite"} or not found:
        return found[0] if found else default
    return functools.reduce(_merge, reversed(found))


@helper("config.option")
def config_option(view: HostView, value: str, default: Any = "", **_: Any) -> Any:
    """Return a setting by its full name."""
    return next((place[value] for place in (view.opts(), view.grains, view.pillar) if value in place), default)


@helper("config.merge")
def config_merge(view: HostView, value: str, default: Any = "", **_: Any) -> Any:
    """Return a setting of the agent's options, merged into that of the pillar."""
    found = [place[value] for place in (view.pillar, view.opts()) if value in place]
    if len(found) == 2 and isinstance(found[0], Mapping) and isinstance(found[1], Mapping):
        return {**found[0], **found[1]}
    return found[-1] if found else default


@helper("config.manage_mode")
def manage_mode(view: HostView, mode: Any) -> str:
    """Return a file mode as text of four digits."""
    return str(mode).zfill(4)
