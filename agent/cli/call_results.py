"""Results of functions as text: one line for each name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.agent.cli.terminal import one_line

TIMES = ("since", "installed_at")
"""Fields that are Unix times."""
CHANGES = {"changes", "comment", "reboot_required"}
"""Fields of a change set."""


def lines(result: Any, *, test: bool = False) -> Iterator[str]:
    """Yield the lines of a result, safe to print. `test`: nothing was changed."""
    return map(one_line, _lines(result, test=test))


def _lines(result: Any, *, test: bool) -> Iterator[str]:
    if isinstance(result, Mapping) and result.keys() >= CHANGES:
        yield from _change_set(result, test=test)
    elif isinstance(result, Mapping):
        yield from (f"{name}: {_value(value, name)}" for name, value in result.items())
        if not result:
            yield "nothing"
    elif isinstance(result, (list, tuple)):
        yield from map(_value, result)
        if not result:
            yield "nothing"
    elif isinstance(result, str):
        yield from result.splitlines() or ['""']
    else:
        yield _value(result)


def _change_set(result: Mapping[str, Any], *, test: bool) -> Iterator[str]:
    head = "would change " if test else ""
    for name, change in result["changes"].items():
        if isinstance(change, Mapping) and change.keys() == {"old", "new"}:
            yield f"{head}{name}: {_value(change['old'] or None)} -> {_value(change['new'] or None)}"
        else:
            yield f"{head}{name}: {_value(change)}"
    if not result["changes"]:
        yield "nothing would be changed" if test else "nothing was changed"
    if result["comment"]:
        yield result["comment"]
    if result["reboot_required"]:
        yield "a reboot is required"


def _value(value: Any, name: str = "") -> str:
    """Return a value in one line; `name` is the name that the line begins with."""
    if isinstance(value, Mapping):
        return ", ".join(filter(None, (_field(key, item) for key, item in value.items() if item != name))) or "{}"
    if isinstance(value, (list, tuple)):
        between = "; " if any(isinstance(item, Mapping) for item in value) else ", "
        return between.join(_value(item, name) for item in value) or "none"
    if isinstance(value, str):
        return value or '""'
    return "none" if value is None else json.dumps(value)


def _field(name: str, value: Any) -> str:
    """Return a field of a record: `active`, `not enabled`, `pid 12`; empty for a field without a value."""
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if name in TIMES and isinstance(value, (int, float)):
        return f"{name} {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(value))}"
    return _value(value) if name == "extra" else f"{name} {_value(value)}"
