"""A recorder with a real database, and what it has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.agent.engine.model.events import Event, Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.health import Health
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.records.models import Change
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.records.records import Records

FILE = "file.managed[x]"


class Desk:
    """A recorder and its database."""

    def __init__(self, directory: Path) -> None:
        self.health = Health()
        self.records = Records(directory, self.health, agent=True, durable=False)
        self.declared: set[str] | None = None
        """Resources of the graph; None: all."""
        self.recorder = self.new_recorder()

    def new_recorder(self, **values: Any) -> Recorder:
        """Return a new recorder, as after a restart."""
        return Recorder(
            self.records,
            self.health,
            host=lambda: "web1",
            declared=lambda identity: self.declared is None or identity in self.declared,
            **{"redact": lambda value: value, **values},
        )

    async def written(self, *events: Event | Outcome) -> NbApi:
        """Pass these events to the recorder, write them, and return the store."""
        for each in events:
            self.recorder.tell(Ran(1, each) if isinstance(each, Outcome) else each)
        assert await self.recorder.queue.flush()
        return await self.records.api()

    @staticmethod
    def ran(outcome: Outcome) -> Event:
        """Return the event of a run."""
        return Ran(1, outcome)

    async def changes(self, *outcomes: Outcome | Event) -> list[Change]:
        """Return the changes after these outcomes, newest first."""
        return await (await self.written(*outcomes)).page(Change, newest=True)


def outcome(identity: str = FILE, **values: Any) -> Outcome:
    """Return an outcome that repaired something, unless the values say otherwise."""
    return Outcome(identity, 0, **{"result": True, "changes": {"a": 1}, "cause": "drift", **values})


def failure(identity: str = FILE, **values: Any) -> Outcome:
    """Return an outcome that failed."""
    return outcome(identity, **{"result": False, "changes": {}, "comment": "no", **values})
