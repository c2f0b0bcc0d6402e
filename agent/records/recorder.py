"""Turns events of the engine into records: the history (changes, passes, notes) and the present state.

An event costs the engine one entry in a queue (`write_queue`), whose task makes the rows and writes them. A run that
finds nothing to do writes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.agent.engine.model.events import Event, Interrupted, PassEnded, PassRecord, PassStarted, Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.drivers.base import Driver, Put, TableRow
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records import rows
from holdfast.agent.records.ids import TimeIds
from holdfast.agent.records.recent import KEPT, Recent
from holdfast.agent.records.records import Records
from holdfast.agent.records.resource_history import history_of, last_failure
from holdfast.agent.records.rows import LASTING, ChangeEntry
from holdfast.agent.records.state_rows import StateRows
from holdfast.agent.records.write_queue import TIMEOUT, Work, WriteQueue

SHORT = 4000
"""Most characters of changes that are kept while a failure lasts; of longer changes, only the names are kept."""

ActorFields = Mapping[str, Any]
"""The fields of the `Actor` who requested something."""


class Recorder:
    """Makes the records of one agent or of one one-shot run.

    `host` returns the ID of this host. `declared` says whether a resource is in the graph. `redact` masks secrets in
    texts that the engine has not masked. `operator`: who made the one-shot run; None for the agent. A one-shot run
    leaves the statuses, the conditions and the record of the host to the agent.
    """

    def __init__(
        self,
        records: Records,
        health: Health,
        *,
        host: Callable[[], str],
        declared: Callable[[str], bool],
        redact: Callable[[Any], Any],
        operator: ActorFields | None = None,
    ) -> None:
        self.recent = Recent()
        self._records = records
        self._host, self._declared, self._redact = host, declared, redact
        self._operator = operator
        self._ids = TimeIds(agent=operator is None, early=True)
        self._failures: dict[str, ChangeEntry] = {}
        """Resource -> the record of its failure, as long as the failure lasts."""
        self._unrepaired: dict[str, int] = {}
        """Resource that would be repaired (noop, pause) -> hash of the difference in its last record."""
        self._identities: dict[str, str] = {}
        """Name of a resource in the records -> its identity, if that differs: secrets are masked, texts readable."""
        self._right: set[str] | None = set() if operator is None else None
        """Resources that were as declared before the records of an earlier agent were read; None afterwards."""
        self._pass = ""
        """ID of the present pass."""
        self._news = False
        """Whether the present pass has a record of its own: something changed or failed for the first time."""
        self._swapped = True
        """Whether resources may have left the graph since the records of these were last removed."""
        self._requested_by: dict[str, ActorFields] = {}
        """Resource, or empty for all -> the operator who requested its next run."""
        self.queue = WriteQueue(records, health, self._adopt, self._tell_lost)
        self.state = StateRows(self.queue, host, redact)
        if operator is None:
            records.renewed = self.state.write_again

    async def run(self) -> None:
        """Write records until cancelled. A one-shot run opens the database at its first change."""
        await self.queue.run(at_once=self._operator is None)

    # -- what happens ------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Record an event of the engine."""
        match event:
            case Ran(_, outcome):
                self._ran(outcome)
            case Interrupted(outcome):
                self._change(self._entry(self._named(outcome), "interrupted", None, self._operator))
            case PassStarted():
                self._pass, self._news = self._ids.new(time.time()), False
            case PassEnded(record):
                self._ended(record)

    def asked(self, by: ActorFields, identity: str = "") -> None:
        """Note who requested the next run of a resource, or a pass over all of them."""
        self._requested_by[identity] = by

    def swapped(self, states: Path, grains: Mapping[str, Any]) -> None:
        """Record the description of this host, and that resources may have left the graph. Called after each swap."""
        self._swapped = True
        self.state.describe(states, grains)

    def note(self, what: str, about: Sequence[str], text: str, by: ActorFields | None) -> None:
        """Record what an operator did."""
        key, work = self._note(what, about, text, by)
        self.queue.add(("notes", key), work, len(text))

    def called(self, identity: str, comment: str, seconds: float, by: ActorFields) -> None:
        """Record that an operator called a function that may have changed a resource."""
        outcome = Outcome(
            self._name(identity), 0, True, comment=self._redact(comment), duration=seconds, cause="command"
        )
        self._write_change(self._entry(outcome, "called", None, by))

    async def history(self, identity: str) -> list[dict[str, Any]]:
        """Return the latest changes of a resource, newest first; none if the disk does not answer."""
        await self.queue.settle()
        with suppress(NorthboundError, TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                return await history_of(self._redact(identity), self._records.driver)
        return []

    # -- the database ------------------------------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Open the database, and continue the records of an earlier process. Raises `Unavailable`."""
        await self._records.open()
        driver = self._records.driver
        last = [await driver.scan(table, limit=1, newest=True) for table in ("changes", "passes", "notes")]
        if self._operator is None:
            await self._continue(driver)
        self._ids.begin_after(*(row.id for found in last for row in found))

    async def _continue(self, driver: Driver) -> None:
        """Continue the records of an earlier agent: its last changes, the rows of its state, lasting failures."""
        self.recent.load(await Blocking(1)(_values, await driver.scan("changes", limit=KEPT, newest=True)))
        for name in await self.state.resume(driver):
            if failure := await last_failure(name, driver):
                self._continue_failure(name, failure)
        right, self._right = self._right or set(), None
        for name in {*self.state.wrong, *self._failures}:
            if self._identities.get(name, name) in right:
                self.state.forget([name])
                self._failures.pop(name, None)
        if not self._swapped:
            self._forget_undeclared()  # a pass has ended, and has not known of these

    def _continue_failure(self, name: str, left: ChangeEntry) -> None:
        """Continue the record of a failure; reports of the same failure since then become a part of it."""
        new = self._failures.setdefault(name, left)
        if new is not left and (new.what, new.outcome.comment) == (left.what, left.outcome.comment):
            self.queue.withdraw(("changes", new.id))
            self._failures[name] = left._replace(at=new.at, times=left.times + new.times)
            self._write_change(self._failures[name])

    def _tell_lost(self, number: int) -> None:
        """Record that records are missing. This record waits like state, so that it is not lost."""
        what = "1 record was lost: it" if number == 1 else f"{number} records were lost: they"
        key, work = self._note("lost", (), f"{what} could not be written", None)
        self.queue.set(("notes", key), work)

    def _note(self, what: str, about: Sequence[str], text: str, by: ActorFields | None) -> tuple[str, Work]:
        at = time.time()
        key, about = self._ids.new(at), [rows.readable(self._redact(each)) for each in about]
        values = {"host": self._host(), "at": at, "what": what, "about": about, "by": by}
        return key, lambda: [rows.row("notes", {"id": self._ids.final(key), **values, "text": self._redact(text)})]

    # -- outcomes ----------------------------------------------------------------------------------------------

    def _ran(self, outcome: Outcome) -> None:
        if self._right is not None:
            if outcome.result is not True:
                self._right.discard(outcome.identity)
            elif not outcome.listener:
                self._right.add(outcome.identity)
        if self._is_quiet(outcome):
            return
        by = self._requester(outcome.identity) if outcome.cause == "command" else self._operator
        outcome = self._named(outcome)
        identity = outcome.identity
        before = self._failures.get(identity)
        what = rows.what_happened(outcome, before)
        if what in LASTING:
            self._failures[identity] = self._failed(outcome, what, before, by)
        else:
            self._failures.pop(identity, None)
            if not self._repeated(outcome) and what:
                self._change(self._entry(outcome, what, before, by))
        if not self._operator and (outcome.result is not True or self.state.wrong):
            self.state.tell(outcome)

    def _is_quiet(self, outcome: Outcome) -> bool:
        """Return whether an outcome changes nothing that is recorded. Most outcomes are quiet, so this is cheap."""
        if outcome.news or self._identities:
            return False
        identity = outcome.identity
        return not (identity in self._failures or identity in self.state.wrong or identity in self._unrepaired)

    def _repeated(self, outcome: Outcome) -> bool:
        """Return whether a difference that is not repaired, in noop or a pause, is the one recorded last.

        A run that an operator requested is always recorded, and is no drift.
        """
        if outcome.result is not None:
            self._unrepaired.pop(outcome.identity, None)
            return False
        if outcome.cause == "command":
            return False
        known = self._unrepaired.get(outcome.identity)
        now = self._unrepaired[outcome.identity] = hash((outcome.comment, outcome.diff, repr(outcome.changes)))
        return known == now

    def _name(self, identity: str) -> str:
        """Return the name of a resource in the records: an ID may contain a secret, or bytes that are not text."""
        name = rows.readable(self._redact(identity))
        if name != identity:
            self._identities[name] = identity
        return name

    def _named(self, outcome: Outcome) -> Outcome:
        name = self._name(outcome.identity)
        return outcome if name == outcome.identity else outcome._replace(identity=name)

    def _failed(self, outcome: Outcome, what: str, before: ChangeEntry | None, by: ActorFields | None) -> ChangeEntry:
        """Record a failure; one that is the same as the last one of the resource extends its record."""
        if before and (before.what, before.outcome.comment) == (what, rows.cut(outcome.comment, rows.COMMENT)):
            entry = before._replace(at=time.time(), times=before.times + 1)
            self._write_change(entry)
        else:
            entry = self._entry(outcome, what, before, by)
            self._change(entry)
        if entry.size < SHORT:
            return entry
        outline, size = rows.shortened(entry.outcome.outline())
        return entry._replace(outcome=outline, size=size)

    def _entry(self, outcome: Outcome, what: str, before: ChangeEntry | None, by: ActorFields | None) -> ChangeEntry:
        at = time.time()
        origin = "command" if self._operator else rows.origin(outcome.cause, before)
        outcome, size = rows.shortened(outcome)
        return ChangeEntry(self._ids.new(at), outcome, what, at, at, 1, self._pass, origin, by, size)

    def _change(self, entry: ChangeEntry) -> None:
        self._news = True
        self._write_change(entry)

    def _write_change(self, entry: ChangeEntry) -> None:
        if self._operator is None:  # a one-shot run has no live view
            self.recent.add(entry)
        self.queue.add(("changes", entry.id), lambda: self._change_rows(entry), entry.size)

    def _change_rows(self, entry: ChangeEntry) -> list[Put]:
        final = self._ids.final
        return rows.change(self._host(), entry._replace(id=final(entry.id), run=final(entry.run)))

    def _requester(self, identity: str) -> ActorFields | None:
        return self._requested_by.pop(identity, None) or self._requested_by.get("")

    # -- passes ------------------------------------------------------------------------------------------------

    def _ended(self, record: PassRecord) -> None:
        """Record a pass with news, and forget resources that have left the graph."""
        key, by = self._pass, self._requested_by.pop("", self._operator)
        self._pass = ""
        if self._news and key:
            final = self._ids.final
            self.queue.add(("passes", key), lambda: [rows.passed(self._host(), final(key), record, by)])
        self._requested_by.clear()
        if self._swapped:
            self._swapped = False
            self._forget_undeclared()

    def _forget_undeclared(self) -> None:
        self.state.forget([each for each in self.state.wrong if not self._is_declared(each)])
        for identity in [each for each in self._unrepaired if not self._is_declared(each)]:
            del self._unrepaired[identity]
        for identity in [each for each in self._failures if not self._is_declared(each)]:
            del self._failures[identity]
        for name in [each for each in self._identities if not self._is_declared(each)]:
            del self._identities[name]

    def _is_declared(self, name: str) -> bool:
        return self._declared(self._identities.get(name, name))


def _values(found: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Return the values of rows, without those that cannot be read. Blocks."""
    return [values for row in found if (values := rows.read(row))]
