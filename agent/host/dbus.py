"""The system's D-Bus for all resources: one connection, opened on first use and opened again when it breaks.

A task keeps the connection open for the life of the process. While D-Bus is not available (`systemctl restart dbus`),
calls wait for it within their deadlines, and health reports `dbus-gone`. When D-Bus is back, each subscriber gets a
request to check again, because it has missed signals. Only this module uses the library that implements the protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any

from dbus_fast import BusType, Message, MessageFlag, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError
from dbus_fast.unpack import unpack_variants

from holdfast.agent.health import Health
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.tasks import Tasks
from holdfast.resources.interfaces.host import BusError, Match, Signal

log = LazyLogger("holdfast.dbus")

DAEMON = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
MANAGER = "org.freedesktop.systemd1"
CONNECT_TIMEOUT = 10.0
"""Seconds for the handshake."""
BACKOFF = (0.02, 5.0)
"""Seconds before the second attempt to connect, doubled for each further attempt up to the second number."""
IN_FLIGHT = 32
"""Most calls in flight: the library drops the connection when more is sent than the socket takes."""
BROKEN = (OSError, EOFError, TimeoutError, BusError, DBusFastError)
"""Errors of the library if the bus is missing, disconnects, or violates the protocol."""

Queue = asyncio.Queue[Signal | None]
Key = tuple[str, str, str]
"""Interface, member and path of a signal; an empty string matches any."""


class SystemBus:
    """The connection, as `holdfast.resources.interfaces.base.Bus` describes it.

    `before` is awaited before each call; `address` is for tests.
    """

    def __init__(
        self,
        tasks: Tasks,
        health: Health,
        *,
        before: Callable[[], Awaitable[None]] | None = None,
        address: str | None = None,
    ) -> None:
        self._tasks = tasks
        self._health = health
        self._before = before
        self._address = address
        self._keeper: asyncio.Task[Any] | None = None
        self._bus: MessageBus | None = None
        self._news = asyncio.Event()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._why = ""
        self._known = False
        self._managed = False
        self._rules: Counter[str] = Counter()
        """Match rule -> number of subscribers."""
        self._asked: dict[str, asyncio.Task[Any]] = {}
        """Match rule -> the running call that adds it on the bus."""
        self._matched: set[str] = set()
        """Match rules that the connection has. The bus counts duplicates, so no rule may be added twice."""
        self._queues: dict[Key, dict[Queue, None]] = {}

    # -- what providers use --------------------------------------------------------------------------------------

    async def call(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        *arguments: Any,
        timeout: float = 25.0,
    ) -> list[Any]:
        """Call a method and return its values, with variants unpacked.

        Raises `BusError`: with the error name of the reply; without a name if D-Bus is missing, disconnects during the
        call, or does not answer within `timeout` seconds.
        """
        if self._before is not None:
            await self._before()
        try:
            async with asyncio.timeout(timeout), self._slots:
                bus = await self._connection()
                return await exchange(bus, message(destination, path, interface, member, signature, arguments))
        except TimeoutError:
            what = "no answer" if self._bus else f"D-Bus is away: {self._why}"
            raise BusError(f"cannot call {member} of {destination}: {what} within {timeout:g} s") from None

    async def signals(self, *matches: Match) -> AsyncGenerator[Signal | None, None]:
        """Yield signals as they arrive.

        None means that the subscription is armed or was renewed, so that signals may be lost.
        """
        queue: Queue = asyncio.Queue()
        self._enter(queue, matches)
        try:
            await self._connection()
            for text in {rule(match) for match in matches}:
                await self._ask(text)
            yield None
            while True:
                yield await queue.get()
        finally:
            self._leave(queue, matches)

    async def close(self) -> None:
        """Close the connection permanently."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    # -- the connection ------------------------------------------------------------------------------------------

    async def _connection(self) -> MessageBus:
        """Wait for the connection. Raises `BusError` if there never was one and none can be made."""
        if self._keeper is None:
            self._keeper = self._tasks.start("dbus", self._keep())
        while self._bus is None:
            if self._why and not self._known:
                raise BusError(f"cannot reach D-Bus: {self._why}", delay=1.0)
            self._news.clear()
            await self._news.wait()
        return self._bus

    async def _keep(self) -> None:
        """Keep a connection open until cancelled."""
        wait = BACKOFF[0]
        while True:
            try:
                bus = await self._connect()
            except BROKEN as error:
                self._gone(str(error) or type(error).__name__)
                await asyncio.sleep(wait)
                wait = min(wait * 2, BACKOFF[1])
            else:
                wait = BACKOFF[0]
                await self._attend(bus)

    async def _connect(self) -> MessageBus:
        """Open a connection that has all rules of the subscribers. Raises one of `BROKEN`."""
        bus = MessageBus(bus_address=self._address, bus_type=BusType.SYSTEM)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await bus.connect()
                if not self._known:
                    self._managed = await has_manager(bus)
                while self._managed and not await has_manager(bus):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(BACKOFF[0])
                self._matched.clear()
                for text in list(self._rules):
                    await exchange(bus, message(*DAEMON, "AddMatch", "s", (text,)))
                    self._matched.add(text)
        except BaseException:  # cancellation included: the descriptor must not stay open
            bus.disconnect()
            raise
        return bus

    async def _attend(self, bus: MessageBus) -> None:
        """Serve one connection until it breaks."""
        bus.add_message_handler(self._received)
        again, self._known, self._bus, self._why = self._known, True, bus, ""
        self._news.set()
        if again:
            log.info("D-Bus is back")
            self._health.clear("dbus-gone")
            for queue in {queue: None for found in self._queues.values() for queue in found}:
                queue.put_nowait(None)
        why = "it closed the connection"
        try:
            await bus.wait_for_disconnect()  # type: ignore[no-untyped-call] # the library leaves out `-> None`
        except BROKEN as error:
            why = str(error) or why
        finally:
            self._bus = None
            bus.disconnect()
        self._gone(why)

    def _gone(self, why: str) -> None:
        new, self._why = not self._why, why
        self._news.set()
        if self._known and new:
            log.warning("D-Bus is gone", why=why)
            self._health.set(
                "dbus-gone",
                f"D-Bus is gone ({why}): services and other things that it reports are not watched until it is back",
            )

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def _ask(self, text: str) -> None:
        """Add a rule on the bus once.

        If the subscriber that asked first leaves meanwhile, the others still get their rule.
        """
        asked = self._asked.get(text)
        if asked is None or (asked.done() and (asked.cancelled() or asked.exception())):
            asked = self._asked[text] = asyncio.create_task(self._match(text), name="dbus rule")
        await asyncio.shield(asked)

    async def _match(self, text: str) -> None:
        await self._connection()  # a new connection gets all current rules
        if text not in self._matched:
            await self.call(*DAEMON, "AddMatch", "s", text)
            self._matched.add(text)

    def _enter(self, queue: Queue, matches: Iterable[Match]) -> None:
        for match in matches:
            self._queues.setdefault((match.interface, match.member, match.path), {})[queue] = None
        self._rules.update({rule(match) for match in matches})

    def _leave(self, queue: Queue, matches: Iterable[Match]) -> None:
        for key in {(match.interface, match.member, match.path) for match in matches}:
            self._queues[key].pop(queue)
            if not self._queues[key]:
                del self._queues[key]
        for text in {rule(match) for match in matches}:
            self._rules[text] -= 1
            if not self._rules[text]:
                del self._rules[text]
                self._matched.discard(text)
                if (asked := self._asked.pop(text, None)) is not None:
                    asked.cancel()
                if self._bus:
                    self._bus.send(message(*DAEMON, "RemoveMatch", "s", (text,), MessageFlag.NO_REPLY_EXPECTED))

    def _received(self, received: Message) -> None:
        """Hand a signal to its subscribers.

        The bus checks the sender of a broadcast against the rules. It does not check a signal addressed to this
        connection alone, and any local user may send one, so such signals are dropped.
        """
        if received.message_type is not MessageType.SIGNAL or received.destination:
            return
        interface, member, path = received.interface or "", received.member or "", received.path or ""
        queues: dict[Queue, None] = {}
        for key in ((interface, member, path), (interface, member, ""), (interface, "", path), (interface, "", "")):
            queues |= self._queues.get(key, {})
        if queues:
            signal = Signal(interface, member, path, unpack_variants(received.body))
            for queue in queues:
                queue.put_nowait(signal)


def message(  # noqa: PLR0917 - the fields of a method call, in the order of D-Bus
    destination: str,
    path: str,
    interface: str,
    member: str,
    signature: str = "",
    arguments: Iterable[Any] = (),
    flags: MessageFlag = MessageFlag.NONE,
) -> Message:
    """Return a method call."""
    return Message(
        destination=destination,
        path=path,
        interface=interface,
        member=member,
        signature=signature,
        body=list(arguments),
        flags=flags,
    )


async def exchange(bus: MessageBus, call: Message) -> list[Any]:
    """Make one call and return the values of the reply. Raises `BusError`."""
    what = f"{call.member} of {call.destination}"
    try:
        reply = await bus.call(call)
    except BROKEN as error:
        raise BusError(f"cannot call {what}: D-Bus went away: {error}", delay=0.1) from error
    if reply is None:
        raise BusError(f"cannot call {what}: D-Bus went away", delay=0.1)
    if reply.message_type is MessageType.ERROR:
        why = str(reply.body[0]) if reply.body else str(reply.error_name)
        raise BusError(f"{what} was refused: {why}", name=str(reply.error_name))
    return list(unpack_variants(reply.body))


async def has_manager(bus: MessageBus) -> bool:
    """Return whether systemd is on this bus."""
    return bool((await exchange(bus, message(*DAEMON, "NameHasOwner", "s", (MANAGER,))))[0])


def rule(match: Match) -> str:
    """Return the match rule as the bus takes it."""
    fields = {"type": "signal", "sender": match.sender, "interface": match.interface, "member": match.member}
    fields |= {"path_namespace": match.within} if match.within else {"path": match.path}
    return ",".join(f"{name}='{value}'" for name, value in fields.items() if value)
