"""What all kinds of nftables share: the command, the saved rules, and events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from holdfast.resources import paths
from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import Permanent, refused_call
from holdfast.resources.fields import Text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._netfilter import Filter, changes
from holdfast.resources.traits import Edgeable
from holdfast.resources.watches import either

FAMILIES = {"ipv4": "ip", "ip4": "ip", "ip": "ip", "ipv6": "ip6", "ip6": "ip6"} | {
    name: name for name in ("inet", "arp", "bridge", "netdev")
}
"""Names of families that Salt accepts -> those of nft."""
FILE = "/etc/nftables/salt-all-in-one.nft"
"""Where Salt saves the rules."""
MISSING = "No such file or directory"
Name = Annotated[Text, shaped(r"[A-Za-z_][\w.-]*", "a name of nftables: letters, digits and _.-", 128)]


@accepts(str)
def parse_family(value: object) -> object:
    """Return nft's name of a family. Raises `ValueError` for an unknown one."""
    if not isinstance(value, str) or value not in FAMILIES:
        raise ValueError(f"{value!r} is not a family: write one of {', '.join(FAMILIES)}")
    return FAMILIES[value]


class Nft(Edgeable, Resource):
    """Base of all kinds of nftables."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}

    family: Annotated[str, BeforeValidator(parse_family)] = "ip"
    """`ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`."""

    @property
    @abstractmethod
    def in_table(self) -> str:
        """The table that the resource is about."""

    @property
    def in_chain(self) -> str:
        """The chain that the resource is about; empty for the table."""
        return ""

    @property
    def place(self) -> tuple[str, ...]:
        """The words by which nft knows the table or the chain."""
        return (self.family, self.in_table, *([self.in_chain] if self.in_chain else []))

    @property
    def where(self) -> str:
        """The table or the chain, for people."""
        chain = f"the chain {self.in_chain} of " if self.in_chain else ""
        return f"{chain}the table {self.family} {self.in_table}"

    async def nft(self, ctx: Context, *words: str, stdin: str | None = None) -> Completed:
        """Run nft. Raises `Permanent` with the error that it reports."""
        done = await ctx.run("nft", *words, stdin=stdin, check=False, limit=16 << 20)
        if done.retcode != 0:
            raise self.failure(done)
        return done

    def failure(self, done: Completed) -> Permanent:
        """Return the error of a run of nft."""
        return Permanent(f"cannot use {self.where}: {reason(done)}")

    async def listing(self, ctx: Context, *options: str, what: str = "") -> str | None:
        """Return the table or the chain as nft prints it; None if it is not there."""
        word = what or ("chain" if self.in_chain else "table")
        words = self.place if word == "chain" else self.place[:2]
        done = await ctx.run("nft", *options, "list", word, *words, check=False, limit=16 << 20)
        if done.retcode != 0 and MISSING in done.stderr:
            return None
        if done.retcode != 0:
            raise self.failure(done)
        return done.stdout

    def watch(self, ctx: Context) -> Watch:
        """Watch the table or the chain by events of the kernel."""
        return either(changes(Filter(self.family, self.in_table, self.in_chain)), *self.more_watches(ctx))

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Return further watches."""
        return ()

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: only tables and chains are needed by others."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package, the table and the chain."""
        chain = [Dependency("nft-chain", " ".join(self.place))] if self.in_chain else []
        return (Dependency("pkg", "nftables", vital=False), Dependency("nft-table", " ".join(self.place[:2])), *chain)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name, as Salt does."""
        return {"locale": self.name}


class Saving(Nft):
    """Base of the kinds that can save the rules for the next boot."""

    save: bool = False
    """Save all rules to `/etc/nftables/salt-all-in-one.nft`, which another file must include to be loaded at boot."""

    async def is_saved(self, ctx: Context) -> bool:
        """Return whether the saved rules of the chain are the present ones."""
        if not self.save:
            return True
        try:
            text = await ctx.read_text(FILE)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refused_call(f"cannot read {FILE}: {(error.strerror or '').lower()}", error) from None
        block = await self._block(ctx)
        return f"table {self.family} {self.in_table} {{\n" in text and block in text

    async def _block(self, ctx: Context) -> str:
        """Return the chain as nft prints it, without the table around it."""
        return "\n".join((await self.listing(ctx, "--stateless") or "").splitlines()[1:-1])

    async def write(self, ctx: Context) -> None:
        """Write all rules to the file."""
        if not self.save:
            return
        text = f"#! nft -f\n{(await self.nft(ctx, '--stateless', 'list', 'ruleset')).stdout}"
        try:
            async with file_lock(FILE):
                paths.make_parents(FILE)
                await ctx.write_file(FILE, text.encode(), mode=0o600)
        except OSError as error:
            raise refused_call(f"cannot write {FILE}: {(error.strerror or '').lower()}", error) from None

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Watch the file of the saved rules."""
        return (ctx.watch_path(FILE),) if self.save else ()
