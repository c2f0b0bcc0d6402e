"""The present state, one row each: this host, its conditions, and the resources that are not as declared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.health import HealthCondition
from holdfast.agent.northbound.drivers.base import Delete, Driver, Put
from holdfast.agent.records import rows
from holdfast.agent.records.rows import Wrong
from holdfast.agent.records.write_queue import WriteQueue

FACTS = ("os", "os_family", "osrelease", "oscodename", "kernel", "kernelrelease", "cpuarch", "virtual", "fqdn")
"""Grains of this host that its record has."""


class StateRows:
    """The rows of one agent. `host` returns the ID of this host, `redact` masks secrets."""

    def __init__(self, queue: WriteQueue, host: Callable[[], str], redact: Callable[[Any], Any]) -> None:
        self._queue, self._host, self._redact = queue, host, redact
        self.described: Mapping[str, Any] = {}
        """The values in the row of this host; empty until the first states were applied."""
        self._conditions: Mapping[str, HealthCondition] = {}
        """Code -> the condition in its row."""
        self.wrong: dict[str, Wrong] = {}
        """Name of a resource that is not as declared -> the values in its row."""

    def describe(self, states: Path, grains: Mapping[str, Any]) -> None:
        """Write the description of this host, if it has changed."""
        facts = {name: grains[name] for name in FACTS if name in grains}
        values = {"id": self._host(), "version": __version__, "states": str(states), "facts": facts}
        if values != self.described:
            self.described = values
            self._set_host(values)

    def conditions(self, present: Collection[HealthCondition]) -> None:
        """Write the conditions of health that are new, and delete those that have ended."""
        now = {each.code: each for each in present}
        for code in self._conditions.keys() - now.keys():
            self._set("conditions", code, None)
        for code, each in now.items():
            if self._conditions.get(code) != each:
                self._set_condition(each)
        self._conditions = now

    def tell(self, outcome: Outcome) -> None:
        """Update the row of a resource that is not as declared, or delete it."""
        name = outcome.identity
        if outcome.listener and outcome.result is not False:
            return  # the outcome does not show that the resource is as declared
        if outcome.result is True:
            self.forget([name])
            return
        wrong, before = Wrong.of(outcome, time.time()), self.wrong.get(name)
        if before and before.result == wrong.result:
            wrong = wrong._replace(since=before.since)
        if before != wrong:
            self.wrong[name] = wrong
            self._set_status(name, wrong)

    def forget(self, names: Iterable[str]) -> None:
        """Delete the rows of resources that are as declared, or no longer declared."""
        for name in names:
            if self.wrong.pop(name, None) is not None:
                self._set("resources", name, None)

    def write_again(self) -> None:
        """Write all rows: a database that was recreated may have lost them."""
        if self.described:
            self._set_host(self.described)
        for each in self._conditions.values():
            self._set_condition(each)
        for name, wrong in self.wrong.items():
            self._set_status(name, wrong)

    async def resume(self, driver: Driver) -> list[str]:
        """Continue the rows of an earlier agent; return the names of resources that are not as declared.

        Reports since then take precedence. Raises `Unavailable`.
        """
        if not self.described and (row := await driver.get("hosts", self._host())):
            self.described = {name: value for name, value in json.loads(row.data).items() if name != "$v"}
        left = await driver.read(["resources", "conditions"])
        for each in left.rows:
            if each.table == "conditions":
                if each.id not in self._conditions:
                    self._set("conditions", each.id, None)
            else:
                values = rows.read(each)
                since = values.get("since")
                since = since if isinstance(since, float) else time.time()
                wrong = Wrong(str(values.get("result", "")), str(values.get("comment", "")), since)
                known = self.wrong.setdefault(each.id, wrong)
                if known is not wrong and known.result == wrong.result:
                    self.wrong[each.id] = known._replace(since=since)
                    self._set_status(each.id, self.wrong[each.id])
        return [each.id for each in left.rows if each.table == "resources"]

    def _set_host(self, values: Mapping[str, Any]) -> None:
        self._set("hosts", values["id"], lambda: rows.row("hosts", values))

    def _set_condition(self, condition: HealthCondition) -> None:
        def row() -> Put:
            values = {"severity": condition.severity, "text": self._redact(condition.text), "since": condition.since}
            return rows.row("conditions", {"id": condition.code, "host": self._host(), **values})

        self._set("conditions", condition.code, row)

    def _set_status(self, name: str, wrong: Wrong) -> None:
        self._set("resources", name, lambda: rows.status(self._host(), name, wrong))

    def _set(self, table: str, id: str, row: Callable[[], Put] | None) -> None:
        """Write a row, or delete it."""
        self._queue.set((table, id), lambda: [row() if row else Delete(table, id)])
