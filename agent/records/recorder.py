"""Writes down what the engine reports, in the background and in order.

An event costs the engine one entry in a queue. A task turns the queue into rows and writes them at most `DELAY` seconds
later, so `kill -9` loses no more than that. A run that finds nothing to do writes nothing. While the file cannot be
written, the queue keeps the latest entries, up to `MOST`; health says that records were lost, and a note how many.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from holdfast import __version__
from holdfast.agent import disk_room
from holdfast.agent.engine.model.events import Event, Outcome, PassEnded, PassRecord, PassStarted, Ran
from holdfast.agent.health import Health, HealthCondition
from holdfast.agent.host.blocking import LINGER, Blocking
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete, Put, TableRow
from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.agent.records import rows
from holdfast.agent.records.ids import TimeIds
from holdfast.agent.records.recent import KEPT, Recent
from holdfast.agent.records.records import Records
from holdfast.agent.records.resource_history import history_of, last_failure
from holdfast.agent.records.rows import LASTING, ChangeEntry, Wrong
from holdfast.states.gc_pause import trim

DELAY = 0.2
"""Seconds from an event to the writing of its record."""
RETRY = 5.0
"""Seconds between two tries while the file cannot be written."""
MOST, MOST_TEXT = 10_000, 16 << 20
"""Most entries, and most characters of their diffs, that wait to be written."""
FACTS = ("os", "os_family", "osrelease", "oscodename", "kernel", "kernelrelease", "cpuarch", "virtual", "fqdn")
"""Grains of this host that its record has."""
PATIENCE = 2.0
"""Seconds that a question waits for the disk."""
SHORT = 4000
"""Most characters of changes that are kept of a failure as long as it lasts; of more, only the names are."""
GROUP = 200
"""Most entries that are written together."""
NO_ROOM = "records-no-room"
"""Code of the health condition for a disk on which the journal needs the room that is left."""
MANY = 1000
"""Entries after which free memory is returned to the system."""
LOST, UNOPENED = "records-lost", "records-unopened"
"""Codes of the health conditions for records that were never written, and for a database that cannot be opened."""

Asker = Mapping[str, Any]
"""The fields of an `Actor` who asked for something."""
Work = Callable[[], Sequence[Put | Delete]]
"""Makes rows, in a thread."""


class _Waiting(NamedTuple):
    work: Work
    size: int
    """Characters that wait with it."""


class Recorder:
    """Writes the records of one agent or of one one-shot run.

    `host` returns the ID of this host. `declared` says whether a resource is in the graph. `redact` masks secrets in
    texts that the engine has not masked. `operator`: who made the one-shot run; None for the agent.
    """

    def __init__(
        self,
        records: Records,
        health: Health,
        *,
        host: Callable[[], str],
        declared: Callable[[str], bool],
        redact: Callable[[Any], Any],
        operator: Asker | None = None,
    ) -> None:
        self.recent = Recent()
        self._records, self._health = records, health
        self._host, self._declared, self._redact = host, declared, redact
        self._operator = operator
        self._ids = TimeIds(agent=operator is None)
        self._queue: deque[_Waiting] = deque()
        self._size = 0
        self._lost = 0
        self._no_room = ""
        """Why the disk has no room for records; empty if it has."""
        self._untrimmed = 0
        """Entries written since free memory was last returned to the system."""
        self._failures: dict[str, ChangeEntry] = {}
        """Resource -> the record of its failure, as long as the failure lasts."""
        self._unrepaired: dict[str, int] = {}
        """Resource that would be repaired (noop, pause) -> hash of the difference in its last record."""
        self._wrong: dict[str, Wrong] = {}
        """Resource that is not as declared -> what its row says."""
        self._identities: dict[str, str] = {}
        """Name of a resource in the records -> its identity, if that differs: secrets are masked, texts readable."""
        self._described: Mapping[str, Any] = {}
        """What the row of this host says."""
        self._conditions: Mapping[str, HealthCondition] = {}
        """Code -> the condition in its row."""
        self._pass = ""
        """ID of the present pass."""
        self._news = False
        """Whether the present pass has a record of its own: something changed or failed for the first time."""
        self._swapped = True
        """Whether resources may have left the graph since the records of these were last removed."""
        self._askers: dict[str, Asker] = {}
        """Resource, or empty for all -> the operator who asked for its next run."""
        if operator is None:
            records.renewed = self.write_again
        self._blocking = Blocking(1, linger=LINGER)
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def described(self) -> Mapping[str, Any]:
        """What the record of this host says; empty until the first states were applied."""
        return self._described

    # -- what happens ------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Record an event of the engine."""
        match event:
            case Ran(_, outcome):
                self._ran(outcome)
            case PassStarted():
                self._pass, self._news = self._ids.new(time.time()), False
            case PassEnded(record):
                self._ended(record)

    def asked(self, by: Asker, identity: str = "") -> None:
        """Note who asked for the next run of a resource, or for a pass over all of them."""
        self._askers[identity] = by

    def conditions(self, present: Collection[HealthCondition]) -> None:
        """Record the conditions of health."""
        now = {each.code: each for each in present}
        ended = [Delete("conditions", code) for code in self._conditions.keys() - now.keys()]
        begun = [each for code, each in now.items() if self._conditions.get(code) != each]
        self._conditions = now
        if ended or begun:
            self._add(lambda: [*ended, *(self._condition(each) for each in begun)])

    def describe(self, states: Path, grains: Mapping[str, Any]) -> None:
        """Record what this host is, if that is new. Called after each swap of the graph."""
        self._swapped = True
        facts = {name: grains[name] for name in FACTS if name in grains}
        values = {"id": self._host(), "version": __version__, "states": str(states), "facts": facts}
        if values != self._described:
            self._described = values
            self._add(lambda: [rows.row("hosts", values)])

    def write_again(self) -> None:
        """Write what is true now: a database that was recreated may have lost it."""
        if described := self._described:
            self._add(lambda: [rows.row("hosts", described)])
        present, self._conditions = self._conditions, {}
        self.conditions(present.values())
        for identity, wrong in self._wrong.items():
            self._add(lambda row=(identity, wrong): [rows.status(self._host(), *row)])  # type: ignore[misc]

    def note(self, what: str, about: Sequence[str], text: str, by: Asker | None) -> None:
        """Record what an operator did."""
        at = time.time()
        about = [rows.readable(self._redact(each)) for each in about]
        values = {"id": self._ids.new(at), "host": self._host(), "at": at, "what": what, "about": about, "by": by}
        self._add(lambda: [rows.row("notes", {**values, "text": self._redact(text)})], len(text))

    def called(self, identity: str, comment: str, seconds: float, by: Asker) -> None:
        """Record that an operator called a function that may have changed a resource."""
        outcome = Outcome(
            self._name(identity), 0, True, comment=self._redact(comment), duration=seconds, cause="command"
        )
        self._write_change(self._entry(outcome, "called", None, by))

    # -- what is asked -----------------------------------------------------------------------------------------

    async def history(self, identity: str) -> list[dict[str, Any]]:
        """Return the latest changes of a resource, newest first; none if the disk does not answer."""
        await self.settle()
        with suppress(NorthboundError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return await history_of(self._redact(identity), self._records.driver)
        return []

    async def settle(self) -> None:
        """Write what waits, unless the disk does not answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self.flush()

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Where the records are."""
        return self._records.path

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; empty if it can."""
        return self._no_room or self._records.driver.trouble

    @property
    def waits(self) -> bool:
        """Whether something is not written yet."""
        return bool(self._queue)

    async def run(self) -> None:
        """Open the database, a one-shot run at its first change; then write what is reported, until cancelled."""
        if self._operator:
            await self._wake.wait()
        await self._prepare()
        while True:
            await self._wake.wait()
            await asyncio.sleep(DELAY)
            self._wake.clear()
            if not await self.flush():
                await asyncio.sleep(RETRY)
                self._wake.set()

    async def flush(self) -> bool:
        """Write everything reported so far; return False if the file cannot be written now."""
        async with self._writing:
            most, left = GROUP, len(self._queue)  # later entries wait: many small groups would cost twice as much
            while left > 0 and self._queue:
                group = list(islice(self._queue, min(most, left)))
                writes, failed = await self._blocking(_rows, [each.work for each in group])
                if not await self._has_room():
                    return False
                try:
                    await self._records.driver.commit(DbTransaction(writes))
                except Invalid:  # it would fail again: the others are written one by one
                    if len(group) > 1:
                        most = 1
                        continue
                    failed = 1
                except NorthboundError:  # health says why
                    return False
                self._lost += failed
                left -= len(group)
                self._written(group)
                most = GROUP
        if self._untrimmed >= MANY:
            self._untrimmed = 0
            await self._blocking(trim)
        if self._lost:
            lost, self._lost = self._lost, 0
            self._health.clear(LOST)
            self.note("lost", (), f"{lost} records were lost: they could not be written", None)
            return await self.flush()
        return True

    async def _has_room(self) -> bool:
        """Return whether the disk has room for records; set or clear the health condition about that."""
        path = self._records.path
        try:
            spare = await self._blocking(disk_room.spare, path.parent)
            if spare < 0:  # pages that retention has freed are used again
                spare += path.stat().st_size - await self._records.driver.used()
        except (OSError, NorthboundError):
            return True  # writing tells what is wrong
        if spare < 0:
            self._no_room = f"cannot write {path}: what is free on its disk is left to the journal; free some space"
            self._health.set(NO_ROOM, f"{self._no_room}; repairs go on, and their history is written later")
            return False
        self._no_room = ""
        self._health.clear(NO_ROOM)
        return True

    async def _prepare(self) -> None:
        """Open the database; try again until that is possible."""
        while True:
            try:
                await self.adopt()
            except NorthboundError as error:
                self._health.set(UNOPENED, f"cannot open the records: {error}; repairs go on")
                await asyncio.sleep(RETRY)
            else:
                self._health.clear(UNOPENED)
                return

    async def adopt(self) -> None:
        """Open the database, and continue what an earlier process has left there. Raises `Unavailable`.

        A one-shot run leaves the statuses, the conditions and the record of the host to the agent.
        """
        await self._records.open()
        driver = self._records.driver
        for table in ("changes", "passes", "notes"):
            for last in await driver.scan(table, limit=1, newest=True):
                self._ids.begin_after(last.id)
        if self._operator:
            return
        if not self._described and (row := await driver.get("hosts", self._host())):
            self._described = {name: value for name, value in json.loads(row.data).items() if name != "$v"}
        self.recent.load(await self._blocking(_values, await driver.scan("changes", limit=KEPT, newest=True)))
        left = await driver.read(["resources", "conditions"])
        for each in left.rows:
            if each.table == "resources":
                await self._continue(each)
        if ended := [each.id for each in left.rows if each.table == "conditions" and each.id not in self._conditions]:
            self._add(lambda: [Delete("conditions", code) for code in ended])

    async def _continue(self, left: TableRow) -> None:
        """Continue the status of a resource, and the record of its failure, unless it has run meanwhile."""
        values = rows.read(left)
        since = values.get("since")
        wrong = Wrong(
            str(values.get("result", "")),
            str(values.get("comment", "")),
            since if isinstance(since, float) else time.time(),
        )
        failure = await last_failure(left.id, self._records.driver)
        self._wrong.setdefault(left.id, wrong)
        if failure:
            self._failures.setdefault(left.id, failure)

    def _add(self, work: Work, size: int = 0) -> None:
        """Queue rows. If too many wait, the oldest are lost."""
        self._queue.append(_Waiting(work, size))
        self._size += size
        while len(self._queue) > MOST or self._size > MOST_TEXT:
            self._size -= self._queue.popleft().size
            self._lost += 1
            self._health.set(LOST, "records of changes are lost: the database cannot be written for too long")
        self._wake.set()

    def _written(self, group: Sequence[_Waiting]) -> None:
        """Remove what was written from the queue; some of it may have been lost meanwhile."""
        self._records.grown.set()
        self._untrimmed += len(group)
        for each in group:
            if self._queue and self._queue[0] is each:
                self._size -= self._queue.popleft().size

    # -- outcomes ----------------------------------------------------------------------------------------------

    def _ran(self, outcome: Outcome) -> None:
        if self._is_quiet(outcome):
            return
        by = self._asker(outcome.identity) if outcome.cause == "command" else self._operator
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
        if not self._operator and (outcome.result is not True or self._wrong):
            self._status(outcome)

    def _is_quiet(self, outcome: Outcome) -> bool:
        """Return whether an outcome changes nothing that is recorded. Most outcomes are quiet, so this is cheap."""
        if outcome.news or self._identities:
            return False
        return not any(outcome.identity in known for known in (self._failures, self._wrong, self._unrepaired))

    def _repeated(self, outcome: Outcome) -> bool:
        """Return whether a difference that is not repaired, in noop or a pause, is the one recorded last.

        What an operator asked for is always recorded, and is no drift.
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

    def _failed(self, outcome: Outcome, what: str, before: ChangeEntry | None, by: Asker | None) -> ChangeEntry:
        """Record a failure; one that is the same as the last one of the resource extends its record."""
        if before and (before.what, before.outcome.comment) == (what, rows.cut(outcome.comment, rows.COMMENT)):
            entry = before._replace(at=time.time(), times=before.times + 1)
            self._write_change(entry)
        else:
            entry = self._entry(outcome, what, before, by)
            self._change(entry)
        return entry if _size(entry.outcome) < SHORT else entry._replace(outcome=entry.outcome.outline())

    def _entry(self, outcome: Outcome, what: str, before: ChangeEntry | None, by: Asker | None) -> ChangeEntry:
        at = time.time()
        origin = "command" if self._operator else rows.origin(outcome.cause, before)
        return ChangeEntry(self._ids.new(at), _kept(outcome), what, at, at, 1, self._pass, origin, by)

    def _change(self, entry: ChangeEntry) -> None:
        self._news = True
        self._write_change(entry)

    def _write_change(self, entry: ChangeEntry) -> None:
        self.recent.add(entry)
        self._add(lambda: rows.change(self._host(), entry), _size(entry.outcome))

    def _status(self, outcome: Outcome) -> None:
        """Update the row of a resource that is not as declared, or remove it."""
        identity = outcome.identity
        if outcome.listener and outcome.result is not False:
            return  # it does not show that the resource is as declared
        if outcome.result is True:
            if self._wrong.pop(identity, None) is not None:
                self._add(lambda: [rows.no_status(identity)])
            return
        wrong, before = Wrong.of(outcome, time.time()), self._wrong.get(identity)
        if before and before.result == wrong.result:
            wrong = wrong._replace(since=before.since)
        if before != wrong:
            self._wrong[identity] = wrong
            self._add(lambda: [rows.status(self._host(), identity, wrong)])

    def _asker(self, identity: str) -> Asker | None:
        return self._askers.pop(identity, None) or self._askers.get("")

    # -- passes ------------------------------------------------------------------------------------------------

    def _ended(self, record: PassRecord) -> None:
        """Record a pass with news, and forget resources that have left the graph."""
        key, by = self._pass, self._askers.pop("", self._operator)
        self._pass = ""
        if self._news and key:
            self._add(lambda: [rows.passed(self._host(), key, record, by)])
        self._askers.clear()
        if self._swapped:
            self._swapped = False
            self._forget_undeclared()

    def _forget_undeclared(self) -> None:
        for identity in [each for each in self._wrong if not self._is_declared(each)]:
            del self._wrong[identity]
            self._add(lambda gone=identity: [rows.no_status(gone)])  # type: ignore[misc]
        for identity in [each for each in self._unrepaired if not self._is_declared(each)]:
            del self._unrepaired[identity]
        for identity in [each for each in self._failures if not self._is_declared(each)]:
            del self._failures[identity]
        for name in [each for each in self._identities if not self._is_declared(each)]:
            del self._identities[name]

    def _is_declared(self, name: str) -> bool:
        return self._declared(self._identities.get(name, name))

    def _condition(self, condition: HealthCondition) -> Put:
        values = {"severity": condition.severity, "text": self._redact(condition.text), "since": condition.since}
        return rows.row("conditions", {"id": condition.code, "host": self._host(), **values})


def _kept(outcome: Outcome) -> Outcome:
    """Return the outcome as it waits to be written."""
    if len(outcome.diff) <= rows.DIFF and len(outcome.comment) <= rows.COMMENT:
        return outcome
    return outcome._replace(diff=rows.cut(outcome.diff, rows.DIFF), comment=rows.cut(outcome.comment, rows.COMMENT))


def _values(found: Sequence[TableRow]) -> list[dict[str, Any]]:
    """Return the values of rows, without those that cannot be read. Blocks."""
    return [values for row in found if (values := rows.read(row))]


def _size(outcome: Outcome) -> int:
    """Return about the number of characters that an outcome holds."""
    texts = (each for each in outcome.changes.values() if isinstance(each, str))
    return len(outcome.diff) + len(outcome.comment) + len(outcome.identity) + sum(map(len, texts))


def _rows(works: Sequence[Work]) -> tuple[Sequence[Put | Delete], int]:
    """Return the rows of several entries, and the number of entries that fail. Blocks."""
    latest: dict[tuple[str, str], Put | Delete] = {}  # of several writes of one row, only the last is needed
    failed = 0
    for work in works:
        try:
            latest.update({(each.table, each.id): each for each in work()})
        except Exception:  # noqa: BLE001 - kinds report anything, and other records must be written
            failed += 1
    return list(latest.values()), failed
