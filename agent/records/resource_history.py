"""The latest changes of one resource, as `why` shows them. Reads rows: the models are loaded for other questions."""

from __future__ import annotations

import json
from typing import Any

from holdfast.agent.northbound.drivers.base import Driver
from holdfast.agent.records.rows import ChangeEntry, change_of, failure_of, readable

SHOWN = 10
"""Most changes in an answer."""
FIELDS = ("at", "what", "cause", "comment", "duration", "times", "first", "undone", "ended", "by", "public")
COMMENT = 200
"""Most characters of a comment."""


async def history_of(identity: str, driver: Driver) -> list[dict[str, Any]]:
    """Return the latest changes of a resource, newest first, ready for JSON. Raises `Unavailable`."""
    found = [await driver.get("changes", key) for key in await _keys(readable(identity), driver)]
    return [_entry(json.loads(each.data)) for each in found if each]


async def last_failure(identity: str, driver: Driver) -> ChangeEntry | None:
    """Return the record of the latest failure of a resource. Raises `Unavailable`."""
    for key in (await _keys(identity, driver))[:1]:
        if found := await driver.get("changes", key):
            return failure_of(found)
    return None


async def _keys(identity: str, driver: Driver) -> list[str]:
    """Return the IDs of the latest changes of a resource, newest first."""
    keys: list[str] = []
    before = f"{identity} ~"
    while len(keys) < SHOWN:
        rows = await driver.scan("resource_changes", after=f"{identity} ", before=before, limit=SHOWN, newest=True)
        keys += [key for each in rows if (key := change_of(identity, each.id))]
        if len(rows) < SHOWN:
            break
        before = rows[-1].id
    return keys[:SHOWN]


def _entry(values: dict[str, Any]) -> dict[str, Any]:
    entry = {name: values.get(name, "") for name in FIELDS}
    return {**entry, "comment": str(entry["comment"])[:COMMENT]}
