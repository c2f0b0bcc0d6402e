"""MQTT with brokers that hang, refuse, take little, or are no brokers. No fault lasts, and each is told."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

import mosquitto
from deadline import DEADLINE
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub import mqtt, mqtt_session
from holdfast.agent.northbound.pubsub.base import Message, MessageRefused, PubSub
from holdfast.agent.northbound.pubsub.mqtt import MqttPubSub
from holdfast.agent.northbound.pubsub.mqtt_session import Broker

pytestmark = pytest.mark.skipif(not mosquitto.installed(), reason="mosquitto is not installed")


def connection(port: int, identifier: str = "", **options: Message) -> MqttPubSub:
    """Return a connection to a broker on loopback."""
    broker = Broker("127.0.0.1", port, identifier)
    return MqttPubSub(lambda: broker, **options)


async def until(pubsub: PubSub, condition: Callable[[], object]) -> None:
    """Wait until a condition holds, which is looked at whenever the connection or its trouble changes."""
    changed = asyncio.Event()
    pubsub.listen = changed.set
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await changed.wait()
            changed.clear()


@asynccontextmanager
async def peer(answer: bytes | None) -> AsyncIterator[int]:
    """Serve a port that answers with these bytes and closes the connection; None: it never answers."""
    ends: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        if answer is not None:
            await reader.read(1)
            writer.write(answer)
            with suppress(ConnectionError):
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in ends:
            writer.close()


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (None, "it does not answer"),
        (b"", "it closes the connection without an answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it "),
        (b"\x20\x03\x00\xff\xff", "it"),
        (b"\xff" * 100, "it"),
    ],
    ids=["silent", "closes", "http", "broken answer", "nonsense"],
)
async def test_what_is_no_broker_is_told(monkeypatch, answer, trouble):
    """The attempts continue, because the next one may find a broker."""
    monkeypatch.setattr(mqtt_session, "ANSWER", 0.2)
    monkeypatch.setattr(mqtt, "RETRIES", (0.01,))
    async with peer(answer) as port, connection(port) as pubsub:
        await until(pubsub, lambda: pubsub.trouble)
        assert pubsub.trouble.startswith(f"the broker mqtt://127.0.0.1:{port}: {trouble}")
        pubsub.trouble = ""
        await until(pubsub, lambda: pubsub.trouble)


async def test_a_failed_connection_leaves_no_socket(monkeypatch):
    """A connection whose broker never answers leaves no socket either."""
    monkeypatch.setattr(mqtt_session, "ANSWER", 0.05)
    monkeypatch.setattr(mqtt, "RETRIES", (0.01,))
    async with peer(None) as port, connection(port) as pubsub:
        tries: list[int] = []
        await until(pubsub, lambda: tries.append(len(ours(port))) or len(tries) > 8)
        assert max(tries) <= 2


def ours(port: int) -> list[object]:
    """Return the connections of this process to a port."""
    return [each for each in psutil.Process().net_connections("tcp4") if each.raddr and each.raddr.port == port]


async def test_a_refused_message_is_told_and_others_are_delivered(tmp_path: Path):
    """The broker acknowledges a message that it does not pass on; the reason is in the acknowledgement."""
    (tmp_path / "acl").write_text("topic readwrite good/#\n")
    (tmp_path / "acl").chmod(0o644)
    with mosquitto.Mosquitto(("allow_anonymous true", f"acl_file {tmp_path}/acl")) as broker:
        async with connection(broker.port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            with pytest.raises(MessageRefused, match="the broker refuses messages to bad/x: Not authorized"):
                await pubsub.publish(Message("bad/x", b""))
            await pubsub.publish(Message("good/x", b""))
            assert pubsub.connected.is_set()


async def test_a_message_that_is_larger_than_the_broker_takes_is_not_sent():
    """The message would end the connection each time."""
    with mosquitto.Mosquitto(("allow_anonymous true", "max_packet_size 2000")) as broker:
        async with connection(broker.port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            assert 1900 < pubsub.room < 2000
            await pubsub.publish(Message("a", b"x" * (pubsub.room - 1)))
            with pytest.raises(MessageRefused, match=f"cannot publish {pubsub.room + 1} bytes to a"):
                await pubsub.publish(Message("a", b"x" * pubsub.room))
            assert pubsub.connected.is_set()


async def test_many_messages_at_once_respect_what_the_broker_takes_at_once():
    """A broker ends the connection of a client that has too many messages without acknowledgement."""
    with mosquitto.Mosquitto(("allow_anonymous true", "max_inflight_messages 2")) as broker:
        async with connection(broker.port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            async with asyncio.timeout(DEADLINE):
                await asyncio.gather(*(pubsub.publish(Message("a", b"x")) for _ in range(300)))


async def test_a_broker_that_hangs_is_left_and_found_again(monkeypatch):
    """A message that it has not acknowledged may or may not have arrived."""
    monkeypatch.setattr(mqtt_session, "ACKNOWLEDGED", 0.3)
    with mosquitto.Mosquitto() as broker:
        async with connection(broker.port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            broker.pause()
            with pytest.raises(Unavailable) as raised:
                await pubsub.publish(Message("a", b"x"))
            assert raised.value.unsure
            await until(pubsub, lambda: pubsub.trouble)
            assert pubsub.trouble.endswith("no message was acknowledged for 0 s")
            broker.resume()
            await until(pubsub, pubsub.connected.is_set)
            await pubsub.publish(Message("a", b"x"))


async def test_a_slow_broker_keeps_its_connection(monkeypatch):
    """The connection stays while the broker acknowledges some of the waiting messages."""
    monkeypatch.setattr(mqtt_session, "ACKNOWLEDGED", 0.5)
    with mosquitto.Mosquitto(("allow_anonymous true", "max_inflight_messages 1")) as broker:
        async with slowed(broker.port, 0.1) as port, connection(port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(pubsub.publish(Message("a", b"x")) for _ in range(10)))
            assert asyncio.get_running_loop().time() - began > 0.5
            assert not pubsub.trouble


@asynccontextmanager
async def slowed(port: int, seconds: float) -> AsyncIterator[int]:
    """Pass connections on to a port; what comes back comes this much later."""

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, rest: float) -> None:
        while data := await source.read(65536):
            await asyncio.sleep(rest)
            to.write(data)
        to.close()

    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        tasks.extend(asyncio.create_task(each) for each in (copy(reader, outer, 0), copy(inner, writer, seconds)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.wait(tasks)


async def test_two_clients_with_one_name_are_told_and_do_not_fight(monkeypatch):
    """The broker ends the session of one when the other connects. After a few times, one of them waits for a minute."""
    monkeypatch.setattr(mqtt, "RETRIES", (0.01,))
    with mosquitto.Mosquitto() as broker:
        async with connection(broker.port, "web1") as first, connection(broker.port, "web1") as second:
            told = await either(first, second, "another client may use the name 'web1'")
            other = second if told is first else first
            await until(other, other.connected.is_set)
            await other.publish(Message("a", b"x"))
            assert not told.connected.is_set()


async def either(first: PubSub, second: PubSub, text: str) -> PubSub:
    """Return the connection that tells this text first."""
    changed = asyncio.Event()
    first.listen = second.listen = changed.set
    async with asyncio.timeout(DEADLINE):
        while True:
            for each in (first, second):
                if text in each.trouble and not each.connected.is_set():
                    return each
            await changed.wait()
            changed.clear()


async def test_a_broker_that_dies_is_told(monkeypatch):
    """The connection ends without a reason."""
    with mosquitto.Mosquitto() as broker:
        async with connection(broker.port) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            broker.kill()
            await until(pubsub, lambda: pubsub.trouble)
            assert pubsub.trouble == f"the broker mqtt://127.0.0.1:{broker.port}: the connection was lost"


async def test_a_connection_that_is_lost_often_stays_in_doubt_until_it_lasts(monkeypatch):
    """Otherwise, the health condition would begin and end with each connection."""
    monkeypatch.setattr(mqtt, "RETRIES", (0.01,))
    monkeypatch.setattr(mqtt, "LOSSES_REST", 0.01)
    monkeypatch.setattr(mqtt, "LASTING", 0.3)
    accepted, lost = b"\x20\x03\x00\x00\x00", b"\xe0\x02\x8e\x00"
    with mosquitto.Mosquitto() as broker:
        port = [0]
        async with peer(accepted + lost) as own, MqttPubSub(lambda: Broker("127.0.0.1", port[0], "web1")) as pubsub:
            port[0] = own
            await until(pubsub, lambda: "Session taken over; another client may use" in pubsub.trouble)
            port[0] = broker.port
            await until(pubsub, pubsub.connected.is_set)
            assert pubsub.trouble
            await until(pubsub, lambda: not pubsub.trouble)
            assert pubsub.connected.is_set()


async def test_a_connection_ends_at_once_while_the_broker_hangs(monkeypatch):
    """The agent's stop does not wait for it, neither before nor after it is connected."""
    with mosquitto.Mosquitto() as broker:
        async with asyncio.timeout(DEADLINE / 3):
            async with connection(broker.port, will=Message("a", b"gone")) as pubsub:
                await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
                broker.pause()
            async with connection(broker.port):
                await asyncio.sleep(0)
        broker.resume()


async def test_a_connection_that_is_made_too_late_is_closed(monkeypatch):
    """Its thread connects after its owner has left, because a name server was slow."""
    begun, go_on, ended = (threading.Event() for _ in range(3))
    connect = socket.create_connection

    def slow(*arguments: object, **options: object) -> socket.socket:
        begun.set()
        go_on.wait(DEADLINE)
        try:
            return connect(*arguments, **options)
        finally:
            ended.set()

    with mosquitto.Mosquitto() as broker:
        monkeypatch.setattr(socket, "create_connection", slow)
        async with connection(broker.port):
            await asyncio.to_thread(begun.wait, DEADLINE)
        go_on.set()
        await asyncio.to_thread(ended.wait, DEADLINE)
        async with asyncio.timeout(DEADLINE):
            while ours(broker.port):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (Unavailable("cannot read /etc/holdfast/password"), "cannot read /etc/holdfast/password"),
        (RuntimeError("a bug"), "unexpected RuntimeError: a bug"),
    ],
)
async def test_a_broker_whose_settings_cannot_be_read_is_told_and_tried_again(monkeypatch, error, trouble):
    """Files of the settings may be missing now, and exist at the next attempt."""
    monkeypatch.setattr(mqtt, "RETRIES", (0.01,))
    errors = [error]
    with mosquitto.Mosquitto() as running:

        def broker() -> Broker:
            if errors:
                raise errors.pop()
            return Broker("127.0.0.1", running.port)

        async with MqttPubSub(broker) as pubsub:
            await until(pubsub, lambda: pubsub.trouble)
            assert pubsub.trouble == trouble
            await until(pubsub, pubsub.connected.is_set)
            assert not pubsub.trouble
