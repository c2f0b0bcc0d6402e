"""What all kinds of iptables share: the command, the saved rules, and events."""

from __future__ import annotations

import asyncio
import posixpath
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from holdfast.resources import paths
from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Services, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import HoldfastError, Permanent, refused_call
from holdfast.resources.fields import Text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._netfilter import Filter, changes
from holdfast.resources.kinds.iptables.listings import Listings
from holdfast.resources.traits import Backed, Edgeable
from holdfast.resources.watches import either

PERIOD = 30.0
"""Seconds between two comparisons of the rules where `iptables` is iptables-legacy: no event reports its changes."""
SAVED: Mapping[str, tuple[str, str]] = {
    "RedHat": ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
    "Arch": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Debian": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "Alpine": ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
    "Void": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Gentoo": ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
}
"""Family of systems -> the files that it loads at boot, of IPv4 and IPv6."""
Name = shaped(
    r"(?![-!])[^\s\x00-\x1f\x7f/]+", "a name of iptables: it has no blanks, and does not begin with - or !", 64
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


class Tables(Backed, Edgeable, Resource):
    """Base of all kinds of iptables."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}

    table: Table = "filter"
    """The table."""
    family: Literal["ipv4", "ipv6"] = "ipv4"
    """`ipv4` (iptables) or `ipv6` (ip6tables)."""

    @property
    def program(self) -> str:
        """The command."""
        return "iptables" if self.family == "ipv4" else "ip6tables"

    @property
    @abstractmethod
    def in_chain(self) -> str:
        """The chain that the resource is about."""

    async def run(self, ctx: Context, *argv: str, check: bool = True) -> Completed:
        """Run the command on the table. Raises `Permanent` with the error that it reports."""
        done = await ctx.run(self.program, "-w", "-t", self.table, *argv, check=False)
        if check and done.retcode != 0:
            raise self.failure(done)
        return done

    def failure(self, done: Completed) -> Permanent:
        """Return the error of a command that has failed."""
        return Permanent(f"cannot use the chain {self.in_chain} of {self.table}: {reason(done)}")

    async def listing(self, ctx: Context) -> list[str] | None:
        """Return the rules of the chain as iptables prints them; None if there is no such chain."""
        # Of one chain that is missing, iptables says that it is incompatible.
        text = await self.kept(ctx, ("-S",), lambda: self._printed(ctx, "-S"))
        found = [line for line in text.splitlines() if line.split()[1:2] == [self.in_chain]]
        return found or None

    async def _printed(self, ctx: Context, *argv: str) -> str:
        return (await self.run(ctx, *argv)).stdout

    async def kept(self, ctx: Context, key: tuple[str, ...], run: Callable[[], Awaitable[str]]) -> str:
        """Return what a command prints, or has printed since the last change of nf_tables."""
        listings = await self.listings(ctx)
        return await run() if listings is None else await listings.output((self.program, self.table, *key), run)

    async def listings(self, ctx: Context) -> Listings | None:
        """Return what iptables has printed; None in a one-shot run, and where no event tells that it has changed."""
        found = ctx.background
        if not isinstance(found, Listings):
            return None

        async def version() -> str:
            return (await ctx.run(self.program, "-V")).stdout

        return found if await found.reports(version) else None

    @classmethod
    async def background(cls, services: Services) -> AsyncIterator[Any]:  # noqa: ARG003 - it needs none
        """Keep what iptables prints."""
        yield Listings()
        await asyncio.Event().wait()

    def watch(self, ctx: Context) -> Watch:
        """Watch the chain by events of nf_tables; compare it from time to time where iptables does not use that."""
        family = "ip" if self.family == "ipv4" else "ip6"
        return either(changes(Filter(family, self.table, self.in_chain)), self._legacy(ctx), *self.more_watches(ctx))

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Return further watches."""
        return ()

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

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: the uids tell what is managed."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package, and the chain, which another state may make."""
        chain = Dependency("iptables-chain", f"{self.family}:{self.table}:{self.in_chain}")
        return (Dependency("pkg", "iptables", vital=False), chain)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name, as Salt does."""
        return {"locale": self.name}


class Saving(Tables):
    """Base of the kinds that can save the rules for the next boot."""

    save: Annotated[bool | str, BeforeValidator(parse_save)] = False
    """Save the rules for the next boot: true for the file of this system, or a path.

    What loads the file at boot is declared elsewhere: on Debian it is the package iptables-persistent.
    """

    def saved_at(self, ctx: Context) -> str:
        """Return the path of the saved rules; empty if they are not to be saved. Raises `Permanent`."""
        if not self.save or isinstance(self.save, str):
            return self.save or ""
        family = str(ctx.facts.get("os_family", ""))
        found = SAVED.get(family) or SAVED.get(str(ctx.facts.get("os", "")))
        if found is None:
            raise Permanent(
                f"cannot save the rules: no file is known for {family or 'this system'}; give its path as save"
            )
        return found[self.family == "ipv6"]

    async def is_saved(self, ctx: Context) -> bool:
        """Return whether the saved rules of the chain are the present ones."""
        path = self.saved_at(ctx)
        if not path:
            return True
        try:
            text = await ctx.read_text(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refused_call(f"cannot read {path}: {(error.strerror or '').lower()}", error) from None
        now = await self.kept(ctx, ("save",), lambda: self._dump(ctx))
        return of_chain(text, self.table, self.in_chain) == of_chain(now, self.table, self.in_chain)

    async def _dump(self, ctx: Context) -> str:
        done = await ctx.run(f"{self.program}-save", check=False)
        if done.retcode != 0:
            raise Permanent(f"cannot save the rules: {reason(done)}")
        return done.stdout

    async def write(self, ctx: Context) -> None:
        """Write the present rules to the file."""
        path = self.saved_at(ctx)
        if not path:
            return
        try:
            async with file_lock(path):
                paths.make_parents(path)
                seen = paths.at(path, follow=True).look()
                mode = 0o640 if seen is None else seen.st_mode & 0o750
                await ctx.write_file(paths.at(path, follow=True), (await self._dump(ctx)).encode(), mode=mode)
        except OSError as error:
            raise refused_call(f"cannot write {path}: {(error.strerror or '').lower()}", error) from None

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Watch the file of the saved rules."""
        path = self.saved_at(ctx)
        return (ctx.watch_path(path),) if path else ()

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
