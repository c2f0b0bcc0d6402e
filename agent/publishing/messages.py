"""Topics and payloads: the form of records as messages. docs/mqtt.md describes them for subscribers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast import __version__
from holdfast.agent.northbound.api import Followed
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.privacy import for_viewers
from holdfast.agent.northbound.pubsub.base import Message
from holdfast.agent.records.models import Change, Condition, Pass

VERSION = 1
"""Version of the payloads. It grows when a consumer of an earlier version could misunderstand a field."""
MOST = 100_000
"""Most bytes of a payload: several brokers accept 128 KiB. A larger record loses its largest fields."""
NEEDED = frozenset({"id", "host", "resource", "at"})
"""Fields of records that are never left out."""
LOGGED: Mapping[type[Model], str] = {Change: "changes", Pass: "passes", Condition: "conditions/changed"}
"""Model -> topic to which each write of a record is published, below that of the host."""


class MessageWriter:
    """Writes the messages of one host. `redact` masks secrets; `started` is the Unix time of the agent's start."""

    def __init__(self, prefix: str, host: str, redact: Callable[[Any], Any], started: float) -> None:
        self._base, self._host, self._redact, self._started = f"{prefix}/{host}", host, redact, started

    def presence(self, *, online: bool) -> Message:
        """Return the message that is retained while the agent is connected, or that the broker publishes afterwards."""
        values: dict[str, Any] = {"state": "online" if online else "offline"}
        if online:
            values |= {"version": __version__, "started": self._started}
        return self._message("presence", values, retain=True)

    def conditions(self, present: Sequence[Condition]) -> Message:
        """Return the message that is retained with all present conditions."""
        shown = [self._shown(each) for each in sorted(present, key=lambda each: (each.since, each.id))]
        return self._message("conditions", {"conditions": shown}, retain=True)

    def written(self, write: Followed, room: int) -> Message | None:
        """Return the message about a write, of at most `room` bytes with its topic; None: it is not published.

        Larger records lose their largest fields, which `cut` names.
        """
        values: dict[str, Any] = {"id": f"{write.revision}/{write.model.table}/{write.id}"}
        if write.record is not None:
            record = self._shown(write.record)
        elif write.model is Condition:
            record = {"id": write.id}
            values["ended"] = True
        else:
            return None  # the record was deleted because of its age
        topic = LOGGED[write.model]
        message = self._message(topic, values | {"record": record})
        cut: list[str] = []
        while _size(message) > min(room, MOST) and (largest := _largest(record)):
            cut.append(largest)
            del record[largest]
            message = self._message(topic, values | {"record": record, "cut": cut})
        return message

    def gap(self, revision: int, since: float | None) -> Message:
        """Return the message that earlier messages, before this revision, may be missing.

        `since`: None if the time is unknown.
        """
        return self._message("gap", {"id": f"{revision}/gap", "from": since, "to": time.time()})

    def _shown(self, record: Model) -> dict[str, Any]:
        shown: dict[str, Any] = self._redact(for_viewers(record))
        return shown

    def _message(self, topic: str, values: Mapping[str, Any], *, retain: bool = False) -> Message:
        payload = json.dumps({"v": VERSION, "host": self._host, **values}, ensure_ascii=False, separators=(",", ":"))
        return Message(f"{self._base}/{topic}", payload.encode(errors="replace"), retain)


def _size(message: Message) -> int:
    return len(message.topic.encode()) + len(message.payload)


def _largest(record: Mapping[str, Any]) -> str | None:
    """Return the name of the largest field that may be left out; None if there is none."""
    names = [name for name in record if name not in NEEDED]
    return max(names, key=lambda name: len(json.dumps(record[name])), default=None)
