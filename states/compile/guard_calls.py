"""Calls in guards: `unless: {fun: file.file_exists, args: [/etc/motd]}`. Guards only look, as templates do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.states.source.files import Tree


class WrongCall(NamedTuple):
    """A call that a guard cannot make."""

    path: tuple[int, ...]
    """Its position, if the guard is a list."""
    message: str
    hint: str


def wrong_calls(guard: Any, tree: Tree | None) -> Iterator[WrongCall]:
    """Yield the calls of functions that do not exist, or that change something."""
    several = isinstance(guard, list)
    for number, entry in enumerate(guard if several else [guard]):
        if isinstance(entry, Mapping) and (wrong := _wrong(entry, tree)):
            yield WrongCall((number,) if several else (), *wrong)


def _wrong(call: Mapping[str, Any], tree: Tree | None) -> tuple[str, str] | None:
    """Return what is wrong with a call, and a hint; None if it is right."""
    from holdfast.resources.execution.template_functions import NAMES  # noqa: PLC0415 - few guards are calls

    name, args = call.get("fun"), call.get("args")
    if not isinstance(name, str):
        return (
            "has a call without a function (`fun`)",
            "write `{fun: file.file_exists, args: [/etc/motd]}`, or a command as text",
        )
    if name not in NAMES:
        from holdfast.states.helpers.calls import NoSuchCall  # noqa: PLC0415 - imports Jinja, for an error alone
        from holdfast.states.helpers.table import TABLE  # noqa: PLC0415 - the same

        return f"cannot call {name}", NoSuchCall(name, TABLE, tree).hint
    if args is not None and not isinstance(args, list):
        return f"calls {name} with args that are not a list", "write `args: [...]`"
    return None
