"""What iptables has printed, kept until the kernel reports a change, because each change leads to many checks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from holdfast.resources.kinds._netfilter import generation

VARIANT = 10.0
"""Seconds for which iptables is taken for the variant that it was: with iptables-legacy nothing can be kept."""


class Listings:
    """Outputs of iptables for all resources of one kind."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], tuple[int, str]] = {}
        self._locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._variant = ("", 0.0)
        self.holding: dict[str, frozenset[str]] = {}
        """Rule of a state -> lines of the chain; one of them is that rule."""

    async def output(self, key: tuple[str, ...], run: Callable[[], Awaitable[str]]) -> str:
        """Return what `run` prints, or has printed since the last change. Raises what `run` raises."""
        async with self._locks[key]:
            now = generation()
            known = self._kept.get(key)
            if known is not None and known[0] == now:
                return known[1]
            text = await run()
            if now is not None:
                self._kept[key] = now, text
            return text

    async def reports(self, version: Callable[[], Awaitable[str]]) -> bool:
        """Return whether the kernel reports the changes that this iptables makes."""
        seen, until = self._variant
        if (now := asyncio.get_running_loop().time()) >= until:
            seen = await version()
            self._variant = seen, now + VARIANT
        return "nf_tables" in seen and generation() is not None
