"""The calls that templates may make: `salt['module.function'](...)`. One table; each entry is a function of the world.

To add one: write a function whose first parameter is the `World` and decorate it. It must not change anything. One that
looks at something other than the world's data says so with `world.looked = True`, so that its file is rendered each time.
"""

# ruff: noqa: ARG001, PLR0917 - a helper takes the world and then what it takes in Salt, used or not
from __future__ import annotations

import fnmatch
import hashlib
import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from holdfast.states.filters import to_json, to_yaml
from holdfast.states.world import MISSING, Helper, TemplateStop, World, merge, traverse

TABLE: dict[str, Helper] = {}
"""Every call there is."""

F = TypeVar("F", bound=Callable[..., Any])


def helper(*names: str) -> Callable[[F], F]:
    """Enter a function in the table."""

    def enter(function: F) -> F:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def globals_for(world: World) -> dict[str, Any]:
    """Functions that templates have without `salt`."""

    def stop(text: object = "") -> None:
        raise TemplateStop(str(text))

    return {
        "raise": stop,
        "ifelse": lambda *args: ifelse(world, *args),
        "odict": dict,
    }


@helper("grains.get")
def grains_get(world: World, key: str, default: Any = "", delimiter: str = ":", ordered: bool = True) -> Any:
    """A grain, nested ones as `a:b`."""
    return traverse(world.grains, key, default, delimiter)


@helper("grains.items")
def grains_items(world: World, sanitize: bool = False) -> Any:
    """All grains."""
    return world.grains


@helper("grains.item")
def grains_item(world: World, *keys: str, default: Any = "") -> dict[str, Any]:
    """Some grains, by name."""
    return {key: traverse(world.grains, key, default) for key in keys}


@helper("grains.has_value")
def grains_has_value(world: World, key: str) -> bool:
    """Whether a grain exists and is not empty."""
    return bool(traverse(world.grains, key, None))


@helper("grains.equals")
def grains_equals(world: World, key: str, value: Any) -> bool:
    """Whether a grain has this value."""
    return str(traverse(world.grains, key)) == str(value)


@helper("grains.filter_by")
def filter_by(
    world: World,
    lookup_dict: Mapping[str, Any],
    grain: str = "os_family",
    merge: Any = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """The entry of `lookup_dict` for the value of a grain (globs match), upon `base`, under `merge`."""
    values = traverse(world.grains, grain, [])
    found = MISSING
    for value in values if isinstance(values, (list, tuple)) else [values]:
        found = next((lookup_dict[key] for key in lookup_dict if key == value or fnmatch.fnmatchcase(str(value), str(key))), MISSING)
        if found is not MISSING:
            break
    if found is MISSING:
        found = lookup_dict.get(default)
    return _layered(lookup_dict, found, base, merge)


@helper("match.filter_by")
def match_filter_by(
    world: World,
    lookup: Mapping[str, Any],
    tgt_type: str = "compound",
    minion_id: str | None = None,
    merge: Any = None,
    merge_lists: bool = False,
    default: str = "default",
) -> Any:
    """The first entry of `lookup` whose key matches this host."""
    found = next((value for expression, value in lookup.items() if _matches(world, tgt_type, expression)), lookup.get(default))
    return _layered(lookup, found, None, merge, lists=merge_lists)


def _layered(lookup: Mapping[str, Any], found: Any, base: str | None, over: Any, *, lists: bool = False) -> Any:
    if base is not None and base in lookup:
        found = merge(lookup[base], {} if found is None else found)
    if over:
        if found is not None and not isinstance(found, Mapping):
            raise TypeError("cannot merge into what the lookup found: it is not a mapping")
        found = merge(found or {}, over, lists=lists)
    return found


def _matches(world: World, kind: str, expression: str) -> bool:
    from holdfast.states.match import Host, matches  # noqa: PLC0415 - few templates match hosts

    return matches(kind, expression, Host(world.minion_id, world.grains, world.pillar, world.options))


def _matcher(kind: str) -> Helper:
    return lambda world, tgt, *_, **__: _matches(world, kind, tgt)


for _kind in ("compound", "glob", "pcre", "list", "grain", "grain_pcre", "pillar", "pillar_pcre", "ipcidr"):
    TABLE[f"match.{_kind}"] = _matcher(_kind)


@helper("pillar.get")
def pillar_get(world: World, key: str, default: Any = "", merge_default: bool = False, delimiter: str = ":", **kwargs: Any) -> Any:
    """A value of the pillar, nested ones as `a:b`; with `merge` it is laid upon the default."""
    found = traverse(world.pillar, key, MISSING, delimiter)
    if found is MISSING:
        return default
    if (merge_default or kwargs.get("merge")) and isinstance(found, (Mapping, list)):
        return merge(default, found, lists=True)
    return found


@helper("pillar.items")
def pillar_items(world: World) -> Any:
    """The whole pillar."""
    return world.pillar


@helper("pillar.item")
def pillar_item(world: World, *keys: str, default: Any = "") -> dict[str, Any]:
    """Some values of the pillar, by name."""
    return {key: traverse(world.pillar, key, default) for key in keys}


@helper("pillar.keys")
def pillar_keys(world: World, key: str) -> list[Any]:
    """The keys below a key of the pillar."""
    return list(traverse(world.pillar, key, {}))


@helper("config.get", "config.option")
def config_get(world: World, key: str, default: Any = "", delimiter: str = ":", **kwargs: Any) -> Any:
    """A setting: from the agent's options, else the grains, else the pillar."""
    for place in (world.options, world.grains, world.pillar):
        found = traverse(place, key, MISSING, delimiter)
        if found is not MISSING:
            return found
    return default


@helper("file.file_exists")
def file_exists(world: World, path: str) -> bool:
    """Whether there is a regular file."""
    world.looked = True
    return os.path.isfile(os.path.expanduser(path))  # noqa: PTH111, PTH113 - text in, text out


@helper("file.directory_exists")
def directory_exists(world: World, path: str) -> bool:
    """Whether there is a directory."""
    world.looked = True
    return os.path.isdir(os.path.expanduser(path))  # noqa: PTH111, PTH112 - text in, text out


@helper("file.path_exists_glob")
def path_exists_glob(world: World, path: str) -> bool:
    """Whether a glob matches any path."""
    world.looked = True
    return next(iter(Path("/").glob(path.lstrip("/"))), None) is not None


@helper("file.is_link")
def is_link(world: World, path: str) -> bool:
    """Whether there is a symbolic link."""
    world.looked = True
    return Path(path).is_symlink()


@helper("file.readlink")
def readlink(world: World, path: str) -> str:
    """Where a symbolic link points."""
    world.looked = True
    return str(Path(path).readlink())


@helper("file.dirname")
def dirname(world: World, path: str) -> str:
    """The directory of a path."""
    return posixpath.dirname(path)


@helper("file.basename")
def basename(world: World, path: str) -> str:
    """The last part of a path."""
    return posixpath.basename(path)


@helper("file.join")
def join(world: World, *parts: str) -> str:
    """A path of its parts."""
    return posixpath.join(*parts)


@helper("environ.get")
def environ_get(world: World, key: str, default: str = "") -> str:
    """A variable of the agent's environment."""
    world.looked = True
    return os.environ.get(key, default)


@helper("slsutil.merge", "slsutil.update")
def slsutil_merge(
    world: World, obj_a: Any, obj_b: Any, strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False, **_: Any
) -> Any:
    """The second laid upon the first."""
    return obj_b if strategy == "overwrite" else merge(obj_a, obj_b, lists=merge_lists)


@helper("slsutil.merge_all")
def slsutil_merge_all(world: World, lst: list[Any], strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False) -> Any:
    """Each laid upon the one before."""
    result: Any = {}
    for item in lst:
        result = slsutil_merge(world, result, item, strategy, renderer, merge_lists)
    return result


@helper("defaults.merge")
def defaults_merge(world: World, dest: Any, upd: Any, merge_lists: bool = False, in_place: bool = True, convert_none: bool = True) -> Any:
    """`upd` laid upon `dest`, in place when that was asked for, as it is by default."""
    result = merge(dest or {}, upd or {}, lists=merge_lists)
    if in_place and isinstance(dest, dict):
        dest.clear()
        dest.update(result)
        return dest
    return result


@helper("slsutil.serialize")
def serialize(world: World, serializer: str, obj: Any, **options: Any) -> str:
    """Data as text of a format: `yaml` or `json`."""
    if serializer == "json":
        return to_json(obj, **{key: value for key, value in options.items() if key in ("indent", "sort_keys")})
    if serializer == "yaml":
        return to_yaml(obj, flow_style=options.get("default_flow_style", False))
    raise ValueError(f"cannot serialize to {serializer}: use yaml or json")


@helper("slsutil.boolstr")
def boolstr(world: World, value: Any, true: str = "true", false: str = "false") -> str:
    """One of two words."""
    return true if value else false


@helper("hashutil.digest")
def digest(world: World, instr: str, checksum: str = "md5") -> str:
    """The checksum of a text, in hex."""
    return hashlib.new(checksum, instr.encode(), usedforsecurity=False).hexdigest()


@helper("log.debug", "log.info", "log.warning", "log.error", "log.trace", "log.critical")
def log(world: World, *_: Any, **__: Any) -> bool:
    """Accepted for the sake of templates that log; rendering is silent."""
    return True


def ifelse(world: World, *args: Any) -> Any:
    """The value after the first condition that is true, or matches this host; the last argument otherwise."""
    for condition, value in zip(args[::2], args[1::2], strict=False):
        if condition is True or (isinstance(condition, str) and _matches(world, "compound", condition)):
            return value
    return args[-1] if len(args) % 2 else None
