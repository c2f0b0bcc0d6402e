"""Other values for arguments of a state: a patch of its state file where they are literal text, otherwise YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from holdfast.resources import paths
from holdfast.resources.diff import unified
from holdfast.states.data import Call
from holdfast.states.format.formatter import format_text

MARKS = ("{{", "{%", "{#")
"""Marks of Jinja."""
ENDLESS = 1 << 30
"""Columns of a line that is never wrapped."""

Arguments = Mapping[str, Any]


class NoPatchError(Exception):
    """The reason why no patch can be made."""


def as_yaml(name: str, kind: str, arguments: Arguments) -> str:
    """Return a state with these arguments, in canonical form; as PyYAML writes it if it has marks of Jinja."""
    given = [{name: value} for name, value in arguments.items()]
    text: str = yaml.dump({name: {kind: given} if given else [kind]}, Dumper=_BlockDumper)
    if not any(mark in text for mark in MARKS):
        text = format_text(text, name).text
    return text.removesuffix("\n")


def state_patch(call: Call, arguments: Arguments, states: Path) -> str:
    """Return a patch of the state file after which the state has these arguments, for `patch -p1` in `states`.

    Raises `NoPatchError`.
    """
    path = Path(call.location.file)
    if call.part or not path.is_relative_to(states):
        raise NoPatchError("no state file of this directory declares it")
    try:
        data = paths.read(str(path))
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise NoPatchError(f"{path} cannot be read: {error}") from None
    if text.startswith("#!") or any(mark in text for mark in MARKS):
        raise NoPatchError("the state file is a template")
    changed = _edited(text, call, arguments)
    if any(mark in changed for mark in MARKS):
        raise NoPatchError(
            "it has marks of Jinja: put it between {% raw %} and {% endraw %}, or into a source without a template"
        )
    return patch(data, changed.encode(), str(path.relative_to(states)))


def patch(old: bytes, new: bytes, name: str) -> str:
    """Return a patch of a file, for `patch -p1`. Raises `NoPatchError`."""
    diff = unified(old, new, name)
    if not diff.startswith("--- ") or diff.endswith(" characters]\n"):
        raise NoPatchError(f"{diff.strip().splitlines()[-1]}")
    first, second, rest = diff.split("\n", 2)
    return f"--- a/{first[4:]}\n+++ b/{second[4:]}\n{rest}".removesuffix("\n")


def _edited(text: str, call: Call, arguments: Arguments) -> str:
    """Return the text of a state file with other arguments of a state. Raises `NoPatchError`.

    A change of the text is only accepted if nothing else of the data changes.
    """
    try:
        root, old = yaml.compose(text, Loader=yaml.SafeLoader), _data(text, call)
    except (yaml.YAMLError, LookupError, TypeError, AttributeError):
        raise NoPatchError("the state is written in an unusual form") from None
    items = _items(root, call)
    places = {name: place for name in arguments if (place := _place(items, name))}
    if not places or any(name in call.low and name not in places for name in arguments):
        raise NoPatchError("its arguments are not written there")
    for one_line in (False, True):
        changed = text
        new = [name for name in arguments if name not in places]
        for name, place in sorted(places.items(), key=lambda each: each[1].start_mark.index, reverse=True):
            begin, end = place.start_mark, text[: place.end_mark.index].rstrip("\n")
            written = [_written(arguments[name], items.start_mark.column + 2, one_line=one_line or items.flow_style)]
            written += [f"- {each}: {_written(arguments[each], 0, one_line=True)}" for each in new]
            changed = changed[: begin.index] + f"\n{' ' * items.start_mark.column}".join(written) + changed[len(end) :]
            new = []
        try:
            now = _data(changed, call)
        except (yaml.YAMLError, LookupError, TypeError, AttributeError):
            continue
        if now == old._replace(arguments={**old.arguments, **arguments}):
            return changed
    raise NoPatchError("its arguments are not written there as plain values")


class _Data(NamedTuple):
    """The data of a state file."""

    arguments: Arguments
    """Of the state."""
    words: list[Any]
    """What else the list of its arguments has."""
    rest: Any
    """Everything else."""


def _data(text: str, call: Call) -> _Data:
    """Return the data of a state file. Raises `YAMLError`, and other errors if the state is not in it."""
    rest = yaml.safe_load(text)
    states = rest[call.low["__id__"]]
    items = states.pop(call.kind if call.kind in states else call.low["state"])
    arguments: dict[str, Any] = {}
    for item in items:
        if isinstance(item, dict):
            arguments.update(item)
    if "names" in arguments:
        raise LookupError(call.identity)
    return _Data(arguments, [item for item in items if not isinstance(item, dict)], rest)


def _items(root: Any, call: Call) -> Any:
    """Return the list of the arguments of a state that `_data` has found."""
    states = _values(root)[call.low["__id__"]]
    found = _values(states)
    return found.get(call.kind) or found[call.low["state"]]


def _values(mapping: Any) -> dict[str, Any]:
    return {key.value: value for key, value in mapping.value if isinstance(key, yaml.ScalarNode)}


def _place(items: Any, name: str) -> Any:
    """Return the value of an argument; None if it is not there as one."""
    found = [item for item in items.value if isinstance(item, yaml.MappingNode) and name in _values(item)]
    value = _values(found[0])[name] if len(found) == 1 else None
    return value if isinstance(value, yaml.ScalarNode) else None


def _written(value: Any, column: int, *, one_line: bool) -> str:
    """Return a value as YAML; the lines of a block are indented further than `column`."""
    if one_line and isinstance(value, str) and "\n" in value:
        text = yaml.safe_dump({"x": value}, default_style='"', width=ENDLESS, allow_unicode=True)
        return text.partition(": ")[2].removesuffix("\n")
    text = yaml.dump({"x": value}, Dumper=_BlockDumper, width=ENDLESS, allow_unicode=True)
    first, *rest = text.removesuffix("\n").partition(": ")[2].split("\n")
    return "\n".join([first, *(f"{' ' * column}{line}" if line else "" for line in rest)])


class _BlockDumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _represent)
