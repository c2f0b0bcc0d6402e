"""One stream of events for all watches of a plugin, shared requests for reads, and the items for each resource."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.plugins import watching
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.reading import MOST, Reads
from holdfast.agent.plugins.watching import EventStream
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary

NOTE, BOOK = "notes:note:Note", "notes:book:Book"


class Streams:
    """The requested streams of a plugin; a test puts events and errors into the last one."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str]] = []
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.refusal: Exception | None = None

    async def open(self, tokens: Collection[str], revision: str) -> AsyncIterator[Any]:
        """Open a stream."""
        self.asked.append((list(tokens), revision))
        if self.refusal is not None:
            raise self.refusal
        self.events = asyncio.Queue()
        yield message["WatchEvent"](armed=True)
        while True:
            event = await self.events.get()
            if isinstance(event, Exception):
                raise event
            yield event

    def tell(self, token: str = NOTE, **members: Any) -> None:
        """Report an event."""
        self.events.put_nowait(message["WatchEvent"](token=token, **members))


class Watcher:
    """Counts what one watch reports; `why` is why it reports nothing."""

    def __init__(self, stream: EventStream, id_: str | Callable[[], str] = "web", token: str = NOTE) -> None:
        self.times = 0
        self.why = ""
        self.task = asyncio.create_task(self._run(stream.watch(token, id_ if callable(id_) else lambda: id_)))

    async def _run(self, watch: Watch) -> None:
        async for item in watch:
            self.why = item.why if item else ""
            self.times += item is None


async def becomes(wanted: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(DEADLINE):
        while not wanted():
            await asyncio.sleep(0)


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    """The streams; all tasks of the test are ended."""
    before = asyncio.all_tasks()
    yield Streams()
    tasks = asyncio.all_tasks() - before - {asyncio.current_task()}
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_resource_is_told_of_its_own_events(streams):
    """An unknown identifier may belong to a resource whose creation the agent does not know yet."""
    stream = EventStream(streams.open)
    web, mail, new = Watcher(stream), Watcher(stream, "mail"), Watcher(stream, "")
    await becomes(lambda: (web.times, mail.times, new.times) == (1, 1, 1))
    streams.tell(id="mail", revision="1")
    await becomes(lambda: mail.times == 2)
    streams.tell(id="stranger", revision="2")
    await becomes(lambda: new.times == 2)
    streams.tell("notes:other:Thing", id="web", revision="3")
    streams.tell(relist=True, revision="4")
    await becomes(lambda: (web.times, mail.times, new.times) == (2, 3, 3))

    assert streams.asked == [([NOTE], "")]


async def test_a_stream_is_resumed_from_the_last_revision(streams, monkeypatch):
    """The provider reports what may have been missed, so nothing is told twice."""
    monkeypatch.setattr(watching, "PAUSE", 0.0)
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.tell(id="web", revision="7")
    await becomes(lambda: web.times == 2)
    streams.events.put_nowait(Temporary("the plugin has ended"))
    await becomes(lambda: len(streams.asked) == 2)
    streams.tell(id="web", revision="8")
    await becomes(lambda: web.times == 3)

    assert streams.asked[1] == ([NOTE], "7")


async def test_without_a_revision_all_count_as_changed_after_an_outage(streams, monkeypatch):
    """Nothing is missed."""
    monkeypatch.setattr(watching, "PAUSE", 0.0)
    stream = EventStream(streams.open)
    web, mail = Watcher(stream), Watcher(stream, "mail")
    await becomes(lambda: (web.times, mail.times) == (1, 1))
    streams.events.put_nowait(Temporary("the plugin has ended"))

    await becomes(lambda: (web.times, mail.times) == (2, 2))


async def test_a_kind_without_revisions_counts_as_changed_after_an_outage(streams, monkeypatch):
    """Also if another kind has revisions, or if only some of its own events have."""
    monkeypatch.setattr(watching, "PAUSE", 0.0)
    stream = EventStream(streams.open)
    web, book = Watcher(stream), Watcher(stream, "b", BOOK)
    await becomes(lambda: (web.times, book.times) == (1, 1))
    streams.tell(id="web", revision="7")
    streams.tell(BOOK, id="b")
    await becomes(lambda: (web.times, book.times) == (2, 2))
    streams.events.put_nowait(Temporary("the plugin has ended"))
    await becomes(lambda: book.times == 3)
    streams.tell(BOOK, id="b", revision="8")
    await becomes(lambda: book.times == 4)
    streams.events.put_nowait(Temporary("the plugin has ended"))
    await becomes(lambda: book.times == 5)

    assert web.times == 2


async def test_nothing_is_resumed_with_other_settings(streams):
    """Another server does not know the revision, and all its resources may differ."""
    stream = EventStream(streams.open)
    web, mail = Watcher(stream), Watcher(stream, "mail")
    await becomes(lambda: (web.times, mail.times) == (1, 1))
    streams.tell(id="web", revision="7")
    await becomes(lambda: web.times == 2)
    streams.tell(id="web", revision="8")
    stream.renew()
    await becomes(lambda: mail.times == 2)

    assert streams.asked == [([NOTE], ""), ([NOTE], "")]
    assert web.times == 3


async def test_a_further_kind_joins_the_stream(streams):
    """All kinds share one stream."""
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.tell(id="web", revision="1")
    await becomes(lambda: web.times == 2)
    book = Watcher(stream, "b", BOOK)
    await becomes(lambda: book.times == 1)
    late = Watcher(stream, "mail")
    await becomes(lambda: late.times == 1)

    assert streams.asked == [([NOTE], ""), ([BOOK, NOTE], "1")]
    assert web.times == 2


async def test_a_long_outage_is_told_with_its_reason_and_ends_by_itself(streams, monkeypatch):
    """The agent then shows that the resources are not watched; a new one is not watched either."""
    monkeypatch.setattr(watching, "PAUSE", 0.001)
    monkeypatch.setattr(watching, "OUTAGE", 0.01)
    reported: list[str] = []
    stream = EventStream(streams.open, reported.append)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.refusal = Temporary("the plugin crashes at every start")
    streams.events.put_nowait(streams.refusal)
    await becomes(lambda: web.why != "")
    late = Watcher(stream, "mail")
    await becomes(lambda: late.why != "")
    assert web.why == late.why == "the plugin crashes at every start"
    streams.refusal = None

    await becomes(lambda: (web.times, web.why, late.times, late.why) == (2, "", 1, ""))
    assert (reported[0], reported[-1]) == ("the plugin crashes at every start", "")


async def test_a_plugin_that_cannot_be_used_is_told_at_once(streams):
    """A wait of some seconds would not help."""
    streams.refusal = Permanent("cannot start /no/such")
    web = Watcher(EventStream(streams.open))

    await becomes(lambda: web.why == "cannot start /no/such")


async def test_a_defect_of_ours_is_told_and_the_stream_is_opened_again(streams, monkeypatch):
    """Meanwhile nothing counts as watched, and no change is missed."""
    monkeypatch.setattr(watching, "PAUSE", 0.001)
    monkeypatch.setattr(watching, "OUTAGE", 0.0)
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.refusal = KeyError("web")
    streams.events.put_nowait(KeyError("web"))
    await becomes(lambda: web.why == "the watch has failed: KeyError: 'web'")
    streams.refusal = None

    await becomes(lambda: (web.times, web.why) == (2, ""))


@pytest.mark.parametrize(
    ("lost", "again", "mail"),
    [({}, {"relist": True}, "down"), ({"id": "web"}, {"id": "web"}, ""), ({"id": "web"}, {"relist": True}, "")],
    ids=["kind", "resource", "all again"],
)
async def test_what_the_provider_does_not_see_is_told_until_it_reports_the_same(
    streams, monkeypatch, lost, again, mail
):
    """The loss may be of one resource or of all of its kind. Those of another kind stay watched."""
    monkeypatch.setattr(watching, "OUTAGE", 0.01)
    reported: list[str] = []
    stream = EventStream(streams.open, reported.append)
    web, other, book = Watcher(stream), Watcher(stream, "mail"), Watcher(stream, "web", BOOK)
    await becomes(lambda: (web.times, other.times, book.times) == (1, 1, 1))
    streams.tell(unwatched="down", **lost)
    await becomes(lambda: web.why == "down" and other.why == mail)
    streams.tell(**again)
    await becomes(lambda: web.times == 2 and not web.why and not other.why)

    assert (book.why, book.times) == ("", 1)
    assert reported == ["down", ""]


async def test_a_short_loss_is_not_told_but_everything_counts_as_changed(streams):
    """A restart of the server is not a reason for an alarm."""
    reported: list[str] = []
    stream = EventStream(streams.open, reported.append)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.tell(unwatched="down")
    streams.tell(relist=True)
    await becomes(lambda: web.times == 2)

    assert (web.why, reported, stream._losses) == ("", [], {})


async def test_a_loss_of_what_nothing_watches_is_not_kept(streams):
    """A provider may report any number of them."""
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    for number in range(100):
        streams.tell(id=f"stranger {number}", unwatched="down")
        streams.tell(f"notes:other:Thing{number}", unwatched="down")
    streams.tell(id="web")
    await becomes(lambda: web.times == 2)

    assert stream._losses == {}


async def test_a_flood_of_events_is_told_once_a_second(streams, monkeypatch):
    """A flood costs the agent little, and no change is missed, because the resources are checked."""
    monkeypatch.setattr(watching, "SECOND", 10 * DEADLINE)
    monkeypatch.setattr(watching, "MOST", 5)
    stream = EventStream(streams.open)
    web, mail = Watcher(stream), Watcher(stream, "mail")
    await becomes(lambda: (web.times, mail.times) == (1, 1))
    told: list[str] = []
    tell = stream._tell
    monkeypatch.setattr(stream, "_tell", lambda token, id_: (told.append(id_), tell(token, id_)))
    for _ in range(100):
        streams.tell(id="web")
    streams.tell(id="mail")
    await becomes(lambda: stream._events == 101)
    stream._next_second()
    await becomes(lambda: mail.times == 2)

    assert told == ["web"] * 5 + [""]


async def test_a_new_stream_says_again_what_the_provider_does_not_see(streams, monkeypatch):
    """Otherwise, a loss that ended in the former stream would persist."""
    monkeypatch.setattr(watching, "PAUSE", 0.0)
    monkeypatch.setattr(watching, "OUTAGE", 0.01)
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    streams.tell(unwatched="down")
    await becomes(lambda: web.why == "down")
    streams.events.put_nowait(Temporary("the plugin has ended"))

    await becomes(lambda: (web.times, web.why) == (2, ""))


async def test_a_stream_without_watches_is_closed(streams):
    """A plugin that nothing watches has nothing to report."""
    stream = EventStream(streams.open)
    web = Watcher(stream)
    await becomes(lambda: web.times == 1)
    web.task.cancel()
    await becomes(lambda: stream._task is None)

    assert stream._watched == set()


def item(name: str) -> Any:
    """Return the item of a read of one resource."""
    return message["ReadItem"](subject=message["Subject"](token=NOTE, id=name))


async def test_many_reads_are_a_few_requests_and_each_gets_its_own_result():
    """The results are in the order of the items."""
    sizes = []

    async def ask(request):
        sizes.append(len(request.items))
        results = [message["ReadResult"](exists=True, id=each.subject.id) for each in request.items]
        return message["ReadResponse"](results=results)

    reads = Reads(ask)
    found = await asyncio.gather(*(reads.read(item(str(number))) for number in range(MOST + 5)))

    assert [each.id for each in found] == [str(number) for number in range(MOST + 5)]
    assert sizes == [MOST, 5]


@pytest.mark.parametrize(
    ("response", "told"),
    [
        ({"failure": message["Failure"](code="cancelled", message="it ends")}, ("cancelled", "it ends")),
        ({"results": []}, ("fault", "the provider answered 0 results for 2 resources")),
    ],
)
async def test_an_answer_without_a_result_for_each_is_a_failure_of_each(response, told):
    """No result is given to the wrong resource."""

    async def ask(request):
        return message["ReadResponse"](**response)

    reads = Reads(ask)
    found = await asyncio.gather(reads.read(item("web")), reads.read(item("mail")))

    assert [(each.failure.code, each.failure.message) for each in found] == [told, told]


async def test_a_cancelled_read_does_not_disturb_the_others():
    """Its result is dropped."""
    gate = asyncio.Event()

    async def ask(request):
        await gate.wait()
        return message["ReadResponse"](results=[message["ReadResult"](exists=True)] * len(request.items))

    reads = Reads(ask)
    first, second = (asyncio.ensure_future(reads.read(item(name))) for name in ("web", "mail"))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()

    assert (await second).exists
    assert first.cancelled()
