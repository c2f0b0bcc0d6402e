"""Events of the kernel's packet filter: netlink reports which chain of which table has changed.

`iptables-nft` and `nft` both cause these events. `iptables-legacy` does not use nf_tables, so no event reports its
changes. The output of the tools is kept until the next change, because each change leads to many checks.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from holdfast.resources.context import Completed, Context
from holdfast.resources.errors import Permanent
from holdfast.resources.watch_items import MISSED, WatchItem

T = TypeVar("T")
PROTOCOL, GROUP = 12, 7
"""NETLINK_NETFILTER; NFNLGRP_NFTABLES, the group of changes of tables, chains and rules."""
SUBSYSTEM = 10
"""NFNL_SUBSYS_NFTABLES, the upper byte of the type of a message."""
TABLES, CHAINS, RULES = frozenset({0, 2}), frozenset({3, 5}), frozenset({6, 8})
"""Lower bytes of the types. Sets are left out: no chain or rule changes with their elements."""
NAME_OF_CHAIN = {**dict.fromkeys(CHAINS, 3), **dict.fromkeys(RULES, 2)}
"""Lower byte -> number of the attribute with the name of the chain; attribute 1 is the table."""
HEADER, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
CHUNK, ROOM = 1 << 16, 1 << 22
LIMIT = 64
"""Maximum output of a tool, in MiB."""
VARIANT = 30.0
"""Seconds until the agent asks again which variant iptables is. With iptables-legacy no output can be kept."""


LEGACY = "-legacy tables present"
"""Part of the warning that iptables-nft prints if the kernel has rules of iptables-legacy."""


class Changed(NamedTuple):
    """One change: the family, the table and the chain, which is empty for a change of the table itself."""

    family: str
    table: str
    chain: str


class ChangeFilter(NamedTuple):
    """The changes that a watch reports: those of one family, one table (empty: all) and one chain (empty: all)."""

    family: str
    table: str = ""
    chain: str = ""

    def matches(self, change: Changed) -> bool:
        """Return whether to report a change. A change of a whole table counts as a change of each of its chains."""
        return (
            change.family == self.family
            and self.table in {"", change.table}
            and (not self.chain or change.chain in {"", self.chain})
        )


def parse(data: bytes) -> Iterator[Changed]:
    """Yield the changes in one datagram. Skip messages of another form."""
    while len(data) >= HEADER.size + 4:
        length, kind = HEADER.unpack_from(data)[:2]
        if length < HEADER.size:
            return
        message, data = data[HEADER.size : length], data[(length + 3) & ~3 :]
        what = kind & 0xFF
        if kind >> 8 == SUBSYSTEM and what in TABLES | CHAINS | RULES and len(message) >= 4:
            names = dict(_attributes(message[4:]))
            yield Changed(FAMILIES.get(message[0], ""), names.get(1, ""), names.get(NAME_OF_CHAIN.get(what, 0), ""))


def _attributes(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each attribute."""
    while len(data) >= ATTRIBUTE.size:
        length, number = ATTRIBUTE.unpack_from(data)
        if length < ATTRIBUTE.size:
            return
        yield number & 0x3FFF, data[ATTRIBUTE.size : length].rstrip(b"\0").decode(errors="replace")
        data = data[(length + 3) & ~3 :]


class Hub:
    """One socket for all watches of an event loop. It is open while there are watches."""

    def __init__(self) -> None:
        self._queues: dict[asyncio.Queue[WatchItem], ChangeFilter] = {}
        self._socket: socket.socket | None = None
        self._generation = 0

    def generation(self) -> int | None:
        """Return a number that grows with each change; None while there is no watch."""
        self._read()
        return None if self._socket is None else self._generation

    def add(self, queue: asyncio.Queue[WatchItem], wanted: ChangeFilter) -> None:
        """Report changes to a queue. Raises `Permanent` if the kernel does not report them."""
        if self._socket is None:
            self._socket = self._opened()
        self._queues[queue] = wanted

    def remove(self, queue: asyncio.Queue[WatchItem]) -> None:
        """Stop reporting changes to a queue."""
        self._queues.pop(queue, None)
        if not self._queues and self._socket is not None:
            loop = asyncio.get_running_loop()
            _MEMORIES.pop(loop, None)
            loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _opened(self) -> socket.socket:
        opened = None
        try:
            flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            opened = socket.socket(socket.AF_NETLINK, flags, PROTOCOL)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
            opened.bind((0, 1 << (GROUP - 1)))
        except OSError as error:
            if opened is not None:
                opened.close()
            raise Permanent(f"cannot watch the packet filter of the kernel: {error.strerror}") from None
        asyncio.get_running_loop().add_reader(opened, self._read)
        return opened

    def _read(self) -> None:
        """Report all changes that have arrived."""
        changes: set[Changed] = set()
        while self._socket is not None:
            try:
                changes.update(parse(self._socket.recv(CHUNK)))
                self._generation += 1
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # the kernel has dropped messages
                    self._generation += 1
                    for queue in self._queues:
                        _put(queue, MISSED)
                    continue
                raise
        for queue, wanted in self._queues.items():
            if any(map(wanted.matches, changes)):
                _put(queue, None)


def _put(queue: asyncio.Queue[WatchItem], item: WatchItem) -> None:
    """Report an item unless one is already waiting."""
    if queue.empty() or item is MISSED:
        queue.put_nowait(item)


_HUBS: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def generation() -> int | None:
    """Return a number that grows with each change of nf_tables; None while there is no watch."""
    hub = _HUBS.get(asyncio.get_running_loop())
    return None if hub is None else hub.generation()


class OutputCache:
    """The output of the tools about the packet filter. It is discarded when the last watch ends."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], tuple[int | None, Any]] = {}
        self._locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._variant = (False, 0.0)
        self.holding: dict[tuple[str, ...], frozenset[str]] = {}
        """Rule of a state -> lines of iptables; one of them is this rule."""
        self.others: dict[tuple[str, ...], frozenset[str]] = {}
        """Rule of a state -> lines of iptables; none of them is this rule."""
        self.rehearsed: dict[tuple[str, ...], tuple[str, list[Any]]] = {}
        """Rule of a state -> the script of nft that adds it, and the added rule in comparable form."""

    async def output(self, key: tuple[str, ...], run: Callable[[], Awaitable[T]]) -> T:
        """Return what `run` returns, or returned for this key since the last change. Raises what `run` raises."""
        async with self._locks[key]:
            now = generation()
            seen, known = self._kept.get(key, (None, None))
            if seen is not None and seen == now:
                found: T = known
                return found
            found = await run()
            self._kept[key] = now, found
            return found

    async def uses_nf_tables(self, version: Callable[[], Awaitable[str]]) -> bool:
        """Return whether iptables uses nf_tables. `version` returns its version; it is called every 30 seconds."""
        known, until = self._variant
        if (now := asyncio.get_running_loop().time()) >= until:
            known = "nf_tables" in await version()
            self._variant = known, now + VARIANT
        return known


_MEMORIES: WeakKeyDictionary[asyncio.AbstractEventLoop, OutputCache] = WeakKeyDictionary()
_WARNED: WeakKeyDictionary[asyncio.AbstractEventLoop, set[str]] = WeakKeyDictionary()
"""Programs whose hidden rules the log has warned of."""


def memory() -> OutputCache | None:
    """Return the remembered output; None while there is no watch, because then no event reports changes."""
    return None if generation() is None else _MEMORIES.setdefault(asyncio.get_running_loop(), OutputCache())


async def memory_of(ctx: Context, program: str) -> OutputCache | None:
    """Return the remembered output of iptables; None in a one-shot run, and if no event reports changes."""
    known = memory()

    async def version() -> str:
        return (await ctx.run(program, "-V")).stdout

    return known if known is not None and await known.uses_nf_tables(version) else None


async def kept(ctx: Context, failure: Callable[[Completed], Permanent], program: str, *argv: str) -> str:
    """Return what iptables or a related tool prints, or printed since the last change. Raises `failure` of its run."""

    async def run() -> str:
        done = await ctx.run(program, *argv, check=False, limit=LIMIT << 20)
        if done.truncated:
            raise Permanent(f"cannot use {program}: it prints more than {LIMIT} MiB")
        if done.retcode != 0:
            raise failure(done)
        if LEGACY in done.stderr:
            _warn_of_legacy(ctx, program.removesuffix("-save"))
        return done.stdout

    known = await memory_of(ctx, program.removesuffix("-save"))
    return await run() if known is None else await known.output((program, *argv), run)


def _warn_of_legacy(ctx: Context, program: str) -> None:
    """Log once that the kernel has rules that neither the tool nor the states see."""
    warned = _WARNED.setdefault(asyncio.get_running_loop(), set())
    if program not in warned:
        warned.add(program)
        text = "this program has rules that take effect but that the states of iptables do not see"
        ctx.log.warning(text, program=f"{program}-legacy", shown_by=f"{program}-legacy-save")


async def changes(wanted: ChangeFilter) -> AsyncIterator[WatchItem]:
    """Watch the packet filter."""
    hub = _HUBS.setdefault(asyncio.get_running_loop(), Hub())
    queue: asyncio.Queue[WatchItem] = asyncio.Queue()
    hub.add(queue, wanted)
    try:
        yield None
        while True:
            yield await queue.get()
    finally:
        hub.remove(queue)
