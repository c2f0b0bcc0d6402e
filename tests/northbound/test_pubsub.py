"""Messages: within a process, and by MQTT through a real broker that dies, refuses, or asks for TLS and a password."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import mosquitto
from certificates import make_certificates
from deadline import DEADLINE
from holdfast.agent.northbound.errors import Invalid, Unavailable
from holdfast.agent.northbound.pubsub.base import Message, PubSub
from holdfast.agent.northbound.pubsub.local import BACKLOG, LocalPubSub
from holdfast.agent.northbound.pubsub.mqtt import Broker, MqttPubSub
from holdfast.agent.northbound.pubsub.topics import matches, topic_part

needs_mosquitto = pytest.mark.skipif(not mosquitto.installed(), reason="mosquitto is not installed")


@pytest.fixture(scope="module")
def broker() -> Iterator[mosquitto.Mosquitto]:
    """One broker for the tests that do not kill it."""
    with mosquitto.Mosquitto() as running:
        yield running


@pytest.fixture(params=["local", pytest.param("mqtt", marks=needs_mosquitto)])
def connect(request: pytest.FixtureRequest) -> Callable[[], PubSub]:
    """Return a function that makes a connection."""
    if request.param == "local":
        shared = LocalPubSub()
        return lambda: shared
    port = request.getfixturevalue("broker").port
    return lambda: MqttPubSub(lambda: Broker("127.0.0.1", port))


@asynccontextmanager
async def listening(pubsub: PubSub, pattern: str) -> AsyncIterator[asyncio.Queue[Message]]:
    """Collect messages; what the test sends to `ready` shows that the subscription is there."""
    queue: asyncio.Queue[Message] = asyncio.Queue()

    async def collect() -> None:
        async for message in pubsub.subscribe(pattern):
            queue.put_nowait(message)

    task = asyncio.create_task(collect())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.wait([task])


async def subscribed(pubsub: PubSub, queue: asyncio.Queue[Message], topic: str) -> None:
    """Publish until a message comes back, then forget all that came."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with suppress(Unavailable):
                await pubsub.publish(Message(topic, b"ready?"))
            with suppress(TimeoutError):
                await asyncio.wait_for(queue.get(), 0.1)
                break
    await pubsub.publish(Message(topic, b"last"))
    async with asyncio.timeout(DEADLINE):
        while (await queue.get()).payload != b"last":
            pass


async def test_messages_reach_those_whose_pattern_covers_their_topic(connect: Callable[[], PubSub]) -> None:
    """Payloads are bytes; other topics are not delivered."""
    async with connect() as pubsub:  # type: ignore[attr-defined]
        await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
        async with listening(pubsub, "a/+/c") as queue:
            await subscribed(pubsub, queue, "a/x/c")
            await pubsub.publish(Message("a/b/d", b"no"))
            await pubsub.publish(Message("a/b/c", b"\x00\xff"))
            assert await asyncio.wait_for(queue.get(), DEADLINE) == Message("a/b/c", b"\x00\xff")


async def test_a_retained_message_waits_for_subscribers(connect: Callable[[], PubSub]) -> None:
    """Only the last message is retained; an empty one removes it."""
    async with connect() as pubsub:  # type: ignore[attr-defined]
        await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
        await pubsub.publish(Message("r/1", b"old", retain=True))
        await pubsub.publish(Message("r/1", b"new", retain=True))
        async with listening(pubsub, "r/#") as queue:
            assert (await asyncio.wait_for(queue.get(), DEADLINE)).payload == b"new"
        await pubsub.publish(Message("r/1", b"", retain=True))


async def test_a_topic_that_no_message_can_have_is_refused(connect: Callable[[], PubSub]) -> None:
    """Wildcards, empty levels, control characters, and the broker's own names are refused."""
    async with connect() as pubsub:  # type: ignore[attr-defined]
        for topic in ("a/+", "a/#", "", "a//b", "$SYS/x", "a\0b", "a\nb", "x" * 300):
            with pytest.raises(Invalid):
                await pubsub.publish(Message(topic, b""))


@pytest.mark.parametrize(
    ("pattern", "topic", "covered"),
    [
        ("a/b", "a/b", True), ("a/b", "a/b/c", False), ("a/+", "a/b", True), ("a/+", "a", False),
        ("a/#", "a/b/c", True), ("#", "a", True), ("a/#", "a", True), ("+/b", "a/b", True), ("a/b/c", "a/b", False),
    ],
)  # fmt: skip
def test_patterns(pattern: str, topic: str, covered: bool) -> None:
    """Patterns match as defined in MQTT 5, section 4.7."""
    assert matches(pattern, topic) == covered


def test_a_host_whose_name_cannot_be_a_level_of_a_topic_is_refused() -> None:
    """The message says which character is wrong."""
    assert topic_part("web-1.example.org") == "web-1.example.org"
    with pytest.raises(Invalid, match="'a/b' cannot be a part of a topic: it has '/'"):
        topic_part("a/b")


async def test_a_message_that_comes_while_retained_ones_are_read_is_not_lost() -> None:
    """The subscription begins before the first retained message is handed over."""
    async with LocalPubSub() as pubsub:
        await pubsub.publish(Message("a", b"retained", retain=True))
        messages = pubsub.subscribe("a")
        assert (await anext(messages)).payload == b"retained"
        await pubsub.publish(Message("a", b"next"))
        assert (await asyncio.wait_for(anext(messages), DEADLINE)).payload == b"next"


async def test_a_slow_subscriber_loses_the_oldest_messages() -> None:
    """The queue of the subscriber is bounded, and no other subscriber waits for it."""
    async with LocalPubSub() as pubsub:
        messages = pubsub.subscribe("a")
        first = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        for number in range(BACKLOG + 10):
            await pubsub.publish(Message("a", str(number).encode()))
        assert (await first).payload == b"10"


async def test_a_connection_that_was_not_made_says_why() -> None:
    """Nothing is queued. The caller tries again when `connected` is set."""
    async with MqttPubSub(lambda: Broker("127.0.0.1", 1)) as pubsub:
        with pytest.raises(Unavailable):
            await pubsub.publish(Message("a", b""))
        async with asyncio.timeout(DEADLINE):
            while not pubsub.trouble:
                await asyncio.sleep(0.01)
        with pytest.raises(Unavailable, match=r"the broker mqtt://127\.0\.0\.1:1: Connection refused"):
            await pubsub.publish(Message("a", b""))


@needs_mosquitto
async def test_the_connection_comes_back_with_its_birth_and_its_subscriptions() -> None:
    """After the broker was killed and started again."""
    with mosquitto.Mosquitto() as own:
        birth = Message("here/host", b"online", retain=True)
        async with MqttPubSub(lambda: Broker("127.0.0.1", own.port), birth=birth) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            async with listening(pubsub, "#") as queue:
                await subscribed(pubsub, queue, "a")
                own.kill()
                async with asyncio.timeout(DEADLINE):
                    while pubsub.connected.is_set():
                        await asyncio.sleep(0.01)
                own.start()
                await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
                await subscribed(pubsub, queue, "a")
            async with listening(pubsub, "here/+") as queue:
                assert (await asyncio.wait_for(queue.get(), DEADLINE)).payload == b"online"


@needs_mosquitto
async def test_the_broker_tells_the_will_of_a_process_that_was_killed(broker: mosquitto.Mosquitto) -> None:
    """A process that ends normally publishes the message itself."""
    code = f"""
import asyncio
from holdfast.agent.northbound.pubsub.mqtt import *
from holdfast.agent.northbound.pubsub.base import Message
async def main():
    will, birth = Message("p/killed", b"offline", True), Message("p/killed", b"online", True)
    async with MqttPubSub(lambda: Broker("127.0.0.1", {broker.port}), birth=birth, will=will):
        await asyncio.sleep(600)
asyncio.run(main())
"""
    async with MqttPubSub(lambda: Broker("127.0.0.1", broker.port)) as watcher, listening(watcher, "p/+") as queue:
        with subprocess.Popen([sys.executable, "-c", code]) as process:  # noqa: ASYNC220 - it starts at once
            try:
                assert await asyncio.wait_for(queue.get(), DEADLINE) == Message("p/killed", b"online")
            finally:
                process.send_signal(signal.SIGKILL)
        assert await asyncio.wait_for(queue.get(), DEADLINE) == Message("p/killed", b"offline")
        will = Message("p/ended", b"offline", retain=True)
        async with MqttPubSub(lambda: Broker("127.0.0.1", broker.port), will=will) as ended:
            await asyncio.wait_for(ended.connected.wait(), DEADLINE)
        assert await asyncio.wait_for(queue.get(), DEADLINE) == Message("p/ended", b"offline")


@needs_mosquitto
async def test_tls_and_a_password(tmp_path: Path) -> None:
    """A wrong password or a wrong authority is reported as a problem."""
    at = make_certificates(tmp_path)
    mosquitto.write_password(at / "passwords", "agent", "secret")
    settings = (f"cafile {at}/ca.pem", f"certfile {at}/own.pem", f"keyfile {at}/own.key", "allow_anonymous false",
                f"password_file {at}/passwords")  # fmt: skip
    with mosquitto.Mosquitto(settings) as own:
        good, other = (ssl.create_default_context(cafile=at / name) for name in ("ca.pem", "other.pem"))
        async with MqttPubSub(
            lambda: Broker("127.0.0.1", own.port, user="agent", password="secret", tls=good)
        ) as pubsub:
            await asyncio.wait_for(pubsub.connected.wait(), DEADLINE)
            await pubsub.publish(Message("a", b"x"))
        for password, context, why in (("wrong", good, "(?i)authori"), ("secret", other, "(?i)certificate")):
            broker = Broker("127.0.0.1", own.port, user="agent", password=password, tls=context)
            async with MqttPubSub(lambda broker=broker: broker) as pubsub, asyncio.timeout(DEADLINE):
                while not pubsub.trouble:
                    await asyncio.sleep(0.01)
                with pytest.raises(Unavailable, match=why):
                    await pubsub.publish(Message("a", b"x"))
            assert "secret" not in repr(broker)
