"""What all kinds of nftables share: the command, what it prints, the saved rules, and events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, TypeVar

from pydantic import BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text, shaped
from holdfast.resources.kinds import _packet_filter
from holdfast.resources.kinds._netfilter import LIMIT, ChangeFilter, memory
from holdfast.resources.kinds.nftables.ruleset import chain_of, table_of

FAMILIES = {"ipv4": "ip", "ip4": "ip", "ip": "ip", "ipv6": "ip6", "ip6": "ip6"} | {
    name: name for name in ("inet", "arp", "bridge", "netdev")
}
"""Name of a family in Salt -> its name in nft."""
FILE = "/etc/nftables/salt-all-in-one.nft"
"""The file in which Salt saves the rules."""
MISSING = "No such file or directory"
T = TypeVar("T")
Name = Annotated[Text, shaped(r"[A-Za-z_][\w.-]*", "a name of nftables: letters, digits and _.-", 128)]


@accepts(str)
def parse_family(value: object) -> object:
    """Return nft's name of a family. Raises `ValueError` for an unknown family."""
    if not isinstance(value, str) or value not in FAMILIES:
        raise ValueError(f"{value!r} is not a family; available: {', '.join(FAMILIES)}")
    return FAMILIES[value]


class Nft(_packet_filter.PacketFilter):
    """Base of all kinds of nftables."""

    tool: ClassVar[str] = "nft"
    package: ClassVar[Dependency] = Dependency("pkg", "nftables", vital=False)

    family: Annotated[str, BeforeValidator(parse_family)] = "ip"
    """`ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`."""

    @property
    @abstractmethod
    def in_table(self) -> str:
        """The table of the resource."""

    @property
    def of_table(self) -> str:
        """The name of the table in commands of nft."""
        return f"{self.family} {self.in_table}"

    @property
    def place(self) -> str:
        """The name of the table or the chain in commands of nft."""
        return f"{self.of_table} {self.in_chain}" if self.in_chain else self.of_table

    @property
    def where(self) -> str:
        """The name of the table or the chain in messages."""
        chain = f"the chain {self.in_chain} of " if self.in_chain else ""
        return f"{chain}the table {self.of_table}"

    @property
    def heard(self) -> ChangeFilter:
        """The changes of the table or the chain."""
        return ChangeFilter(self.family, self.in_table, self.in_chain)

    async def nft(self, ctx: Context, *words: str, stdin: str | None = None) -> Completed:
        """Run nft. Raises `Permanent` with the error that it reports."""
        done = await ctx.run("nft", *words, stdin=stdin, check=False, limit=LIMIT << 20)
        if done.retcode != 0:
            raise self.failure(done)
        return self.complete(done)

    def complete(self, done: Completed) -> Completed:
        """Return a run of nft unless its output was cut off. Raises `Permanent` if it was."""
        if done.truncated:
            raise Permanent(f"cannot use {self.where}: nft prints more than {LIMIT} MiB about it")
        return done

    async def kept(self, key: tuple[str, ...], run: Callable[[], Awaitable[T]]) -> T:
        """Return what nft prints, or printed since the last change of nf_tables."""
        known = memory()
        return await run() if known is None else await known.output(("nft", *key), run)

    async def table_text(self, ctx: Context) -> str | None:
        """Return the text of the table without the elements of its sets; None if the table does not exist."""
        return await self._listing(ctx, "--stateless", "--terse", "list", "table", *self.of_table.split())

    async def chain_json(self, ctx: Context) -> str | None:
        """Return the chain, or the table, in JSON; None if it does not exist."""
        what = "chain" if self.in_chain else "table"
        return await self._listing(ctx, "--json", "list", what, *self.place.split())

    async def _listing(self, ctx: Context, *words: str) -> str | None:
        async def run() -> str | None:
            done = await ctx.run("nft", *words, check=False, limit=LIMIT << 20)
            if done.retcode != 0 and MISSING in done.stderr:
                return None
            if done.retcode != 0:
                raise self.failure(done)
            return self.complete(done).stdout

        return await self.kept(words, run)


class InTable(Nft):
    """Base of the kinds that name a table."""

    table: Name = "filter"
    """The table."""

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

    def dependencies(self) -> tuple[Dependency, ...]:
        """Add the table."""
        return (*super().dependencies(), Dependency("nft-table", self.of_table))


class SavingNft(InTable, _packet_filter.SavingRules):
    """Base of the kinds that can save the rules for the next boot."""

    save: bool = False
    """Save all rules to `/etc/nftables/salt-all-in-one.nft`. Another file must include this file to load it at boot."""

    def saved_at(self, ctx: Context) -> str:
        """Return the path of the saved rules; empty if they are not to be saved."""
        return FILE if self.save else ""

    async def agrees(self, ctx: Context, text: str) -> bool:
        """Return whether these saved rules contain the chain as it is now."""
        now = chain_of(await self.table_text(ctx) or "", self.in_chain)
        return now == chain_of(table_of(text, self.of_table), self.in_chain) is not None

    async def dump(self, ctx: Context) -> str:
        """Return all present rules in the format of the saved file. Raises `Permanent`."""

        async def run() -> str:
            return f"#! nft -f\n{(await self.nft(ctx, '--stateless', 'list', 'ruleset')).stdout}"

        return await self.kept(("ruleset",), run)
