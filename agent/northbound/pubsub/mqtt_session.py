"""One connection to a broker: a client of aiomqtt with additions for an agent.

aiomqtt does not report whether the broker has refused a message, does not close the socket of a failed connection, and
connects in a thread for which the end of the process waits. This class reads the answers, closes each socket, and
connects in a thread that delays nothing. It uses inner parts of aiomqtt 2; the tests connect it to a real broker.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from typing import Any

import aiomqtt
from paho.mqtt.client import MQTT_ERR_SUCCESS
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from holdfast.agent.northbound.call_thread import CallThread
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub.base import ROOM, Message, MessageRefused
from holdfast.agent.northbound.pubsub.local import BACKLOG

ANSWER = 10.0
"""Seconds in which the broker must answer the request to connect or to subscribe."""
ACKNOWLEDGED = 30.0
"""Seconds in which the broker must acknowledge at least one of the messages that wait for it."""
KEEP_ALIVE = 20
"""Seconds without messages after which the client asks the broker for a sign of life."""
IN_FLIGHT = 20
"""Most messages that wait for their acknowledgement at once; a broker may ask for less."""
HEADER = 16
"""Bytes of a message in addition to its topic and its payload."""
TAKEN_OVER = 142
"""Reason with which a broker ends a session because another client has the same name."""
UNSPECIFIED = 128
"""The reason that paho gives when the broker gave none."""
SILENT = logging.getLogger("holdfast.mqtt")
"""The log of the libraries. It is discarded: their errors are raised, and reported from there."""
SILENT.setLevel(logging.CRITICAL)
SILENT.propagate = False


@dataclass(frozen=True)
class Broker:
    """The access to a broker."""

    host: str
    port: int = 1883
    identifier: str = ""
    """Name of the session; a second connection with the same name ends the first. Empty: the broker chooses one."""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    """None: not encrypted."""

    def __str__(self) -> str:
        """Return the address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{host}:{self.port}"


class _TlsSocket(ssl.SSLSocket):
    """A socket that is closed if the certificate of the broker is refused: paho leaves it to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class MqttSession(aiomqtt.Client):
    """One connection. After `open` it lasts until the broker ends it, or until `leave` or `drop`."""

    def __init__(self, broker: Broker, will: Message | None) -> None:
        if broker.tls:
            broker.tls.sslsocket_class = _TlsSocket
        super().__init__(
            broker.host,
            broker.port,
            username=broker.user or None,
            password=broker.password or None,
            identifier=broker.identifier or None,
            protocol=aiomqtt.ProtocolVersion.V5,
            tls_context=broker.tls,
            will=aiomqtt.Will(will.topic, will.payload, 1, will.retain) if will else None,
            keepalive=KEEP_ALIVE,
            timeout=ANSWER,
            logger=SILENT,
            max_queued_incoming_messages=BACKLOG,
            max_inflight_messages=IN_FLIGHT,
        )
        self.room = ROOM
        """Most bytes of a message, with its topic."""
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._answers: dict[int, asyncio.Future[ReasonCode]] = {}
        """Number of a message -> the broker's answer."""
        self._answered = 0.0
        """Time of the last answer."""
        self._dropped = False

    async def open(self, thread: CallThread) -> None:
        """Connect. Raises `OSError`, `MqttError`, and the errors of paho for an answer that is not MQTT."""
        await thread.run(self._connect)
        await self._first(self._connected, ANSWER)
        if self._connected.done():
            self._connected.result()
        elif self._disconnected.done():
            self._disconnected.result()
        else:
            raise aiomqtt.MqttError("it does not answer")

    async def deliver(self, message: Message) -> None:
        """Publish at least once. Raises `MessageRefused`, and `Unavailable`; `unsure` if the broker may have it."""
        async with self._slots:
            answer = await self._deliver(message)
        if answer is None:
            raise Unavailable("the connection to the broker was lost before it acknowledged a message", unsure=True)
        if answer.is_failure:
            raise MessageRefused(f"the broker refuses messages to {message.topic}: {answer}")

    def leave(self) -> None:
        """End the connection, and ask the broker to publish the will if the connection still works."""
        if self._client.socket() is not None:
            self._client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
            self._client.loop_write()
        self.drop()

    def drop(self) -> None:
        """End the connection without a message, and all calls that wait for it."""
        self._dropped = True
        self._connected.cancel()
        self._end(aiomqtt.MqttError("the connection is closed"))
        # Called by the loop, after earlier calls that paho has scheduled, so that no callback uses a closed socket.
        # paho has no other way to close the socket of a broker that does not answer.
        self._loop.call_soon(self._client._sock_close)  # noqa: SLF001

    # -- parts -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect in a thread. It may take long after the caller was cancelled."""
        self._client_connect()
        if self._dropped:
            self._loop.call_soon_threadsafe(self.drop)

    async def _deliver(self, message: Message) -> ReasonCode | None:
        """Send a message and return the broker's answer; None if the connection has ended. Raises `Unavailable`."""
        try:
            sent = self._client.publish(message.topic, message.payload, 1, message.retain)
        except ValueError as error:
            raise MessageRefused(f"cannot publish to {message.topic}: {error}") from None
        if sent.rc != MQTT_ERR_SUCCESS:
            raise Unavailable("the connection to the broker is lost")
        answer = self._answers[sent.mid] = self._loop.create_future()
        began = self._loop.time()
        try:
            while not answer.done() and not self._disconnected.done():
                left = max(began, self._answered) + ACKNOWLEDGED - self._loop.time()
                if left <= 0:
                    self._end(aiomqtt.MqttError(f"no message was acknowledged for {ACKNOWLEDGED:.0f} s"))
                await self._first(answer, left)
        finally:
            del self._answers[sent.mid]
        return answer.result() if answer.done() else None

    async def _first(self, event: asyncio.Future[Any], seconds: float) -> None:
        """Wait until the future is done, the connection has ended, or the time has run out."""
        either: list[asyncio.Future[Any]] = [event, self._disconnected]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _end(self, error: Exception) -> None:
        """End all calls that wait for the connection with this error, unless it has ended before."""
        if not self._disconnected.done():
            self._disconnected.set_exception(error)
        self._disconnected.exception()  # counts as retrieved: often no call waits

    # -- callbacks of paho ---------------------------------------------------------------------------------------

    def _on_connect(
        self, client: Any, userdata: Any, flags: Any, reason_code: ReasonCode, properties: Any = None
    ) -> None:
        self.room = min(ROOM, getattr(properties, "MaximumPacketSize", ROOM + HEADER) - HEADER)
        self._slots = asyncio.Semaphore(min(IN_FLIGHT, getattr(properties, "ReceiveMaximum", IN_FLIGHT)))
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(
        self, client: Any, userdata: Any, flags: Any, reason_code: ReasonCode, properties: Any = None
    ) -> None:
        if not self._connected.done():
            self._end(aiomqtt.MqttError("it closes the connection without an answer"))
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_publish(
        self,
        client: Any,  # noqa: ARG002 - paho passes it
        userdata: Any,  # noqa: ARG002 - paho passes it
        mid: int,
        reason_code: ReasonCode,
        properties: Any,  # noqa: ARG002 - paho passes it
    ) -> None:
        self._answered = self._loop.time()
        answer = self._answers.get(mid)
        if answer and not answer.done():
            answer.set_result(reason_code)

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:  # noqa: ARG002 - paho passes it
        def write() -> None:
            try:
                client.loop_write()
            except Exception as error:  # noqa: BLE001 - whatever it is, the connection is lost
                self._end(error)

        def register() -> None:
            if client.socket() is sock:  # the socket may have been closed meanwhile
                self._loop.add_writer(sock.fileno(), write)

        self._loop.call_soon_threadsafe(register)


def taken_over(error: BaseException) -> bool:
    """Return whether the broker has ended a session because another client with the same name has connected."""
    return isinstance(error, aiomqtt.MqttCodeError) and getattr(error.rc, "value", 0) == TAKEN_OVER


def why(error: BaseException) -> str:
    """Return why there is no connection, for an operator."""
    match error:
        case aiomqtt.MqttCodeError():
            refused = isinstance(error, aiomqtt.exceptions.MqttConnectError)
            text = "it refuses the connection" if refused else "the connection was lost"
            text += f": {error.rc}" if getattr(error.rc, "value", UNSPECIFIED) != UNSPECIFIED else ""
        case ssl.SSLCertVerificationError():
            text = f"its certificate is not accepted: {error.verify_message}"
        case ssl.SSLError():
            text = f"TLS fails: {error.reason or error}"
        case OSError():
            text = error.strerror or str(error)
        case aiomqtt.MqttError() | Unavailable() | ValueError():
            text = str(error)
        case _:  # mostly an answer that is not MQTT
            text = f"unexpected {type(error).__name__}: {error}"
    return text
