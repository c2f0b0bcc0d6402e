"""Requests for tables: records, pages and writes, for root and for viewers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.server import ControlServer
from holdfast.agent.control.table_requests import MOST, GetRecord, ListRecords, Subscribe
from holdfast.agent.control.view_server import ViewServer
from holdfast.agent.health import Health
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.records.models import Change, Condition, Host, Note
from holdfast.agent.records.records import Records
from holdfast.resources.secrets import Redactor
from strangers import open_directory

Asking = Callable[[ControlRequest], Awaitable[Any]]


def change(number: int, *, public: bool = False) -> Change:
    """Return a change."""
    return Change(
        id=f"c{number}",
        host="web1",
        resource="file.managed[x]",
        kind="file.managed",
        at=1.0,
        first=1.0,
        what="repaired",
        result="changed",
        origin="drift",
        cause="drift",
        comment="a comment",
        diff="-old\n+new\n",
        public=public,
    )


class Site:
    """The sockets of an agent with a real database."""

    def __init__(self, top: Path, api: NbApi, view: ViewServer) -> None:
        self.api, self._view = api, view
        self.control, self.viewers = top / "control.sock", top / "view.sock"

    async def root(self, request: ControlRequest) -> Any:
        """Return the answer at the control socket."""
        return await asyncio.to_thread(ask, self.control, request)

    async def viewer(self, request: ControlRequest) -> Any:
        """Return the answer at the socket for viewers."""
        return await asyncio.to_thread(ask, self.viewers, request)

    @asynccontextmanager
    async def subscribed(self, path: Path, **fields: Any) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        """Yield a function that returns the next message of a subscription."""
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 20)
        writer.write(json.dumps({"verb": "subscribe", **fields}).encode() + b"\n")

        async def following() -> Any:
            async with asyncio.timeout(DEADLINE):
                return json.loads(await reader.readline())

        yield following
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Both servers over the records of an agent."""
    health = Health()
    records = Records(tmp_path, health, agent=True, durable=False)
    await records.open()
    agent: Any = SimpleNamespace(records=records, logs=SimpleNamespace(redactor=Redactor()))
    with open_directory() as top:
        control, view = ControlServer(top / "control.sock", agent), ViewServer(top / "view.sock", "root", agent, health)
        await control.start()
        await view.start()
        yield Site(top, await records.api(), view)
        await view.stop()
        await control.stop()
    await records.close()


async def test_a_record_is_read_by_its_id(site: Site) -> None:
    """Root gets all fields, viewers those that are not private; None stands for no record."""
    await site.api.create(change(1))

    whole, shown = await site.root(GetRecord("changes", "c1")), await site.viewer(GetRecord("changes", "c1"))
    assert whole["diff"] == "-old\n+new\n"
    assert whole.keys() - shown.keys() >= {"comment", "changes", "diff"}
    assert await site.root(GetRecord("changes", "c2")) is None


async def test_what_everyone_could_read_is_shown_to_viewers(site: Site) -> None:
    """The record says that it is public."""
    await site.api.create(change(1, public=True))

    assert await site.viewer(GetRecord("changes", "c1")) == await site.root(GetRecord("changes", "c1"))


async def test_pages_follow_each_other(site: Site) -> None:
    """Pages follow each other in both directions."""
    for number in range(5):
        await site.api.create(change(number))

    async def ids(**fields: Any) -> list[str]:
        found = await site.viewer(ListRecords("changes", **fields))
        return [each["id"] for each in found["records"]]

    assert await ids() == ["c0", "c1", "c2", "c3", "c4"]
    assert await ids(limit=2) == ["c0", "c1"]
    assert await ids(limit=2, after="c1") == ["c2", "c3"]
    assert await ids(limit=2, newest=True) == ["c4", "c3"]
    assert await ids(limit=2, newest=True, before="c3") == ["c2", "c1"]


async def test_writes_after_a_page_are_told(site: Site) -> None:
    """A subscription begins at the revision of the page, so no write is missed."""
    page = await site.viewer(ListRecords("changes"))
    await site.api.create(change(1))
    async with site.subscribed(site.viewers, tables=["changes"], after=page["revision"]) as following:
        begin, write, end = await following(), await following(), await following()

        assert begin == {"revision": page["revision"]}
        assert (write["write"]["table"], write["write"]["id"]) == ("changes", "c1")
        assert "diff" not in write["write"]["record"]
        assert end == {"revision": await site.api.revision()}

        await site.api.delete(Change(id="c1"))
        assert await following() == {"write": {"table": "changes", "id": "c1", "record": None}}
        assert await following() == {"revision": end["revision"] + 1}


async def test_a_subscription_begins_now_and_tells_of_its_tables_only(site: Site) -> None:
    """Root gets complete records."""
    await site.api.create(change(1))
    async with site.subscribed(site.control, tables=["changes"]) as following:
        begin = await following()
        await site.api.create(Host(id="web1", version="1"))
        assert await following() == {"revision": begin["revision"] + 1}
        await site.api.create(change(2))
        write = (await following())["write"]

    assert (write["id"], write["record"]["diff"]) == ("c2", "-old\n+new\n")


async def test_the_revision_follows_all_writes_of_a_transaction(site: Site) -> None:
    """A subscriber that stops within a transaction gets the whole transaction again."""
    async with site.subscribed(site.viewers) as following:
        await following()
        async with site.api.transaction() as writing:
            writing.create(Host(id="web1", version="1"))
            writing.create(change(1))
        found = [await following() for _ in range(3)]

    assert [*map(list, found)] == [["write"], ["write"], ["revision"]]


async def test_a_revision_that_is_no_longer_kept_is_refused(site: Site) -> None:
    """The error has a code of its own; a client must then list the tables again."""
    for number in range(3):
        await site.api.create(change(number))
    await site.api._driver.compact(await site.api.revision())

    with pytest.raises(ControlError) as refused:
        await site.root(Subscribe(after=1))
    assert refused.value.code == "gone"


@pytest.mark.parametrize(
    "request_of", [lambda table: GetRecord(table, "a"), ListRecords, lambda table: Subscribe(tables=(table,))]
)
@pytest.mark.parametrize("table", ["nonsense", "Change", "resource_changes", "counters", ""])
async def test_other_tables_are_refused(site: Site, request_of: Any, table: str) -> None:
    """Names of classes, and internal tables, are refused, too."""
    with pytest.raises(ControlError, match="there is no table") as refused:
        await site.viewer(request_of(table))

    assert "changes" in str(refused.value)


@pytest.mark.parametrize("limit", [0, -1, MOST + 1])
async def test_a_page_of_an_impossible_size_is_refused(limit: int) -> None:
    """The client refuses it before sending, and so does the agent."""
    with pytest.raises(ValueError, match="a page has 1 to"):
        ListRecords("changes", limit=limit)


async def test_a_name_that_is_no_unicode_text_is_refused(site: Site) -> None:
    """SQLite and etcd cannot search for such a name, so the reader of requests refuses it."""
    with pytest.raises(ControlError, match="cannot read the request"):
        await site.viewer(GetRecord("changes", "\ud800"))


async def test_a_database_that_cannot_be_read_may_answer_later(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets an error message."""

    async def fail(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(site.api._driver, "get", fail)
    with pytest.raises(ControlError, match="cannot read the records: the disk is full") as refused:
        await site.viewer(GetRecord("changes", "c1"))
    assert refused.value.code == "busy"


async def test_what_only_root_may_read_of_the_other_tables_is_private(site: Site) -> None:
    """These fields are facts, texts of conditions, and texts of operators."""
    await site.api.create(Host(id="web1", version="1", facts={"secret": "x"}))
    await site.api.create(Condition(id="broken", host="web1", severity="error", text="secret", since=1.0))
    await site.api.create(Note(id="n", host="web1", at=1.0, what="pause", text="secret"))
    said = [await site.viewer(ListRecords(table)) for table in ("hosts", "conditions", "notes")]

    assert all(each["records"] for each in said)
    assert "secret" not in json.dumps(said)
