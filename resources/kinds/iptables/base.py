"""What all kinds of iptables share: the command, what it prints, the saved rules, and events."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.fields import Text, shaped
from holdfast.resources.kinds import _packet_filter
from holdfast.resources.kinds._netfilter import ChangeFilter, kept

PERIOD = 30.0
"""Seconds between two comparisons of the rules if `iptables` is iptables-legacy, whose changes no event reports."""
SAVED: Mapping[str, tuple[str, str]] = {
    "RedHat": ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
    "Arch": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Debian": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "Alpine": ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
    "Void": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Gentoo": ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
}
"""Family of systems -> the files with the rules of IPv4 and of IPv6 that it loads at boot."""
Name = shaped(
    r"(?![-!])[^\s\x00-\x1f\x7f/]+", "a name of iptables: a name has no blanks and does not begin with - or !", 64
)
Table = Annotated[str, Name]
Chain = Annotated[Text, Name]


@accepts(bool, str, None)
def parse_save(value: object) -> object:
    """Return whether to save the rules, or the file to save them to."""
    if value is None or isinstance(value, bool):
        return bool(value)
    text = str(value)
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if not text.startswith("/") or "\0" in text:
        raise ValueError(f"{text!r} is neither true nor the absolute path of a file")
    return posixpath.normpath(text)


class Tables(_packet_filter.PacketFilter):
    """Base of all kinds of iptables."""

    tool: ClassVar[str] = "iptables"
    package: ClassVar[Dependency] = Dependency("pkg", "iptables", vital=False)

    table: Table = "filter"
    """The table."""
    family: Literal["ipv4", "ipv6"] = "ipv4"
    """`ipv4` (iptables) or `ipv6` (ip6tables)."""

    @property
    def program(self) -> str:
        """The command."""
        return "iptables" if self.family == "ipv4" else "ip6tables"

    @property
    def place(self) -> str:
        """The name of the chain in uids."""
        return f"{self.family}:{self.table}:{self.in_chain}"

    @property
    def where(self) -> str:
        """The name of the chain in messages."""
        return f"the chain {self.in_chain} of {self.table} ({self.family})"

    @property
    def heard(self) -> ChangeFilter:
        """The changes of the chain."""
        return ChangeFilter("ip" if self.family == "ipv4" else "ip6", self.table, self.in_chain)

    async def run(self, ctx: Context, *argv: str, check: bool = True) -> Completed:
        """Run the command on the table. Raises `Permanent` with the error that it reports."""
        done = await ctx.run(self.program, "-w", "-t", self.table, *argv, check=False)
        if check and done.retcode != 0:
            raise self.failure(done)
        return done

    async def listing(self, ctx: Context) -> list[str] | None:
        """Return the rules of the chain as iptables prints them; None if there is no such chain."""
        # If a chain is missing, iptables calls it incompatible.
        text = await kept(ctx, self.failure, self.program, "-w", "-t", self.table, "-S")
        found = [line for line in text.splitlines() if line.split()[1:2] == [self.in_chain]]
        return found or None

    def watch(self, ctx: Context) -> Watch:
        """Watch the chain by events of nf_tables; compare it from time to time if iptables does not use nf_tables."""
        return super().watch(ctx)

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Compare the chain from time to time if iptables does not use nf_tables."""
        return (*super().more_watches(ctx), self._legacy(ctx))

    async def _legacy(self, ctx: Context) -> Watch:
        """Compare the rules of iptables-legacy."""
        yield None
        last: str | None = None
        while True:
            await asyncio.sleep(PERIOD)
            try:
                if "nf_tables" in (await ctx.run(self.program, "-V")).stdout:
                    continue
                seen = (await self.run(ctx, "-S", check=False)).stdout
            except HoldfastError:  # it is not installed yet
                continue
            if last is not None and seen != last:
                yield None
            last = seen


class SavingIptables(Tables, _packet_filter.SavingRules):
    """Base of the kinds that can save the rules for the next boot."""

    mode: ClassVar[int] = 0o640

    save: Annotated[bool | str, BeforeValidator(parse_save)] = False
    """Save the rules for the next boot: true for the file of this system, or a path.

    Declare separately what loads the file at boot: on Debian, the package iptables-persistent.
    """

    def saved_at(self, ctx: Context) -> str:
        """Return the path of the saved rules; empty if they are not to be saved. Raises `Permanent`."""
        if not self.save or isinstance(self.save, str):
            return self.save or ""
        family = str(ctx.facts.get("os_family", ""))
        found = SAVED.get(family) or SAVED.get(str(ctx.facts.get("os", "")))
        if found is None:
            raise Permanent(
                f"cannot save the rules: no file is known for {family or 'this system'}; set save to its path"
            )
        return found[self.family == "ipv6"]

    async def agrees(self, ctx: Context, text: str) -> bool:
        """Return whether these saved rules contain the chain as it is now."""
        now = await self.dump(ctx)
        return of_chain(text, self.table, self.in_chain) == of_chain(now, self.table, self.in_chain)

    async def dump(self, ctx: Context) -> str:
        """Return all present rules in the format of the saved file. Raises `Permanent`."""
        return await kept(ctx, self.failure, f"{self.program}-save")

    def touches(self) -> tuple[Uid, ...]:
        """Return the file of the saved rules, if the state names it."""
        return (("path", self.save),) if isinstance(self.save, str) else ()


def of_chain(text: str, table: str, chain: str) -> list[str]:
    """Return the lines of one chain in the output of `iptables-save`, without counters."""
    found, inside = [], False
    for line in text.splitlines():
        if line.startswith("*"):
            inside = line[1:].strip() == table
        elif inside and line.startswith(f":{chain} "):
            found.append(" ".join(line.split()[:2]))
        elif inside and line.startswith(f"-A {chain} "):
            found.append(line.strip())
    return found
