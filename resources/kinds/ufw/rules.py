"""Rules of ufw.

ufw itself says whether a rule exists: with `--dry-run` it names each rule that it would skip.
"""

from __future__ import annotations

import asyncio
import ipaddress
import posixpath
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Services
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Temporary
from holdfast.resources.fields import Text, field, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds.ufw.base import DIRECTORY, RULES, Ufw, released
from holdfast.resources.kinds.ufw.kernel import PROGRAMS, RUNNING, present, restore
from holdfast.resources.traits import Backed

TUPLE = "### tuple ###"
"""Begins the line that describes a rule; the lines for the kernel follow."""
NO_POSITION = "Invalid position"
ADDRESS = r"[0-9A-Fa-f:.]+(/[0-9.]+)?"
HOST = r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?"
PORT = r"[0-9]+(:[0-9]+)?(,[0-9]+(:[0-9]+)?)*|[A-Za-z0-9][A-Za-z0-9_-]*"


@accepts(str, None, numbers=True)
def parse_quoted(value: object) -> object:
    """Return text without its surrounding quotes, which the formula writes for a shell; None for `*`."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return value
    text = str(value).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return None if text == "*" else text


Quoted = BeforeValidator(parse_quoted)
Port = Annotated[
    Text, shaped(PORT, "a port, a range such as 6000:6007, a list of these, or the name of a service", 256)
]
Profile = Annotated[Text, shaped(r"(?!-)[^\x00-\x1f\x7f\"']+", "the name of a profile", 256)]
Interface = Annotated[Text, shaped(r"(?!-)[^\s/\x00-\x1f\x7f]{1,15}", "an interface", 15)]
Comment = Annotated[
    Text, shaped(r"(?!-)[^\x00-\x1f\x7f']*", "one line without quotes that does not begin with a dash", 256)
]
Address = Annotated[Text, shaped(f"{ADDRESS}|{HOST}", "an address, a network, or the name of a host", 256)]


class AddedLines:
    """The lines that this agent has added to ufw's files for each rule, and the last files that had all of them.

    A change of one rule makes the agent check all others, and ufw takes 0.2 s to say whether a rule exists.
    """

    def __init__(self) -> None:
        self.of: dict[str, frozenset[str]] = {}
        self.files: Mapping[str, str] = {}

    def seen(self, files: Mapping[str, str]) -> None:
        """Remember the files if they have all lines."""
        if not self.lost(files):
            self.files = files

    def lost(self, files: Mapping[str, str]) -> frozenset[str]:
        """Return the lines that are missing in the files."""
        return frozenset().union(*self.of.values()) - lines_of(files)

    def restored(self, key: str, files: Mapping[str, str]) -> Mapping[str, str]:
        """Return the files with the restored lines of one rule; empty if ufw must repair other changes, too."""
        lost = self.lost(files)
        if not lost or {path: without(text, lost) for path, text in self.files.items()} != files:
            return {}
        others = lost - self.of.get(key, frozenset())  # the lines may belong to a rule that is no longer declared
        found = {path: without(text, others) for path, text in self.files.items()}
        return {path: text for path, text in found.items() if text != files[path]}


def lines_of(files: Mapping[str, str]) -> frozenset[str]:
    """Return the lines of ufw's files that describe rules."""
    return frozenset(line for text in files.values() for line in text.splitlines() if line.startswith(TUPLE))


def without(text: str, lines: frozenset[str]) -> str:
    """Return a file without the rules that these lines describe; each rule is a paragraph."""
    return "\n\n".join(part for part in text.split("\n\n") if part.partition("\n")[0] not in lines)


class UfwRule(Backed, Ufw):
    """Base of the kinds of rules."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add",)
    method: ClassVar[tuple[str, ...]] = ()

    app: Annotated[Profile | None, Quoted] = field(None)
    """Name of an application profile of `/etc/ufw/applications.d`."""
    interface: Interface | None = field(None)
    """Interface at which packets arrive."""
    protocol: Literal["tcp", "udp", "any", "ah", "esp", "gre", "igmp", "ipv6"] | None = field(None)
    """Protocol."""
    from_addr: Annotated[Address | None, Quoted] = field(None)
    """Source address or network. The name of a host is looked up at each check."""
    from_port: Annotated[Port | None, Quoted] = field(None)
    """Source port."""
    to_addr: Annotated[Address | None, Quoted] = field(None)
    """Destination address or network."""
    to_port: Annotated[Port | None, Quoted] = field(None)
    """Destination port: a number, a range, a list or the name of a service."""
    comment: Annotated[Comment | None, Quoted] = field(None)
    """Comment of the rule."""

    @model_validator(mode="after")
    def _says_something(self) -> UfwRule:
        given = (self.app, self.interface, self.protocol, self.from_addr, self.from_port, self.to_addr, self.to_port)
        if all(value is None for value in given):
            raise ValueError("say which packets the rule matches: set to_port, from_addr, app or interface")
        return self

    @property
    def match(self) -> list[str]:
        """The words of the rule after its action, in the order of the formula."""
        source, to = ["from", self.from_addr or "any"], ["to", self.to_addr or "any"]
        if self.app is not None:
            return [*source, *to, "app", self.app]
        if self.interface is not None:
            return ["in", "on", self.interface]
        proto = ["proto", self.protocol] if self.protocol else []
        ports = [["port", port] if port else [] for port in (self.from_port, self.to_port)]
        return [*proto, *source, *ports[0], *to, *ports[1]]

    async def words(self, ctx: Context) -> list[str]:
        """Return the arguments of ufw, with addresses in place of names of hosts. Raises `Temporary`."""
        found = list(self.match)
        if self.from_addr and self.from_addr in found:
            found[found.index("from") + 1] = await ctx.blocking(looked_up, self.from_addr)
        return found + (["comment", self.comment] if self.comment else [])

    def desired(self) -> State:
        """Return that the rule exists."""
        return {"present": True}

    async def probe(self, ctx: Context) -> State:
        """Return whether ufw's files have the lines that were added for the rule, or ufw would skip the rule."""
        await released()
        background = ctx.background
        known = background.of.get(self._key) if isinstance(background, AddedLines) else None
        if known and isinstance(background, AddedLines):
            files = await self._files(ctx)
            background.seen(files)
            return {"present": known <= lines_of(files)}
        done = await self._try(ctx, "--dry-run")
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        return {"present": bool(lines) and all(line.startswith("Skipping ") for line in lines)}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Restore the lines of the rule, or run ufw to add the rule with this action and comment."""
        async with file_lock(DIRECTORY):
            known, before = ctx.background, await self._files(ctx)
            if isinstance(known, AddedLines) and (files := known.restored(self._key, before)):
                await self._put_back(ctx, files)
                return
            done = await self._try(ctx)
            files = await self._files(ctx)
            if isinstance(known, AddedLines):
                known.of.pop(self._key, None)
                if "Skipping" not in done.stdout:  # the agent has added none of the rule's lines yet
                    known.of[self._key] = lines_of(files) - lines_of(before)
                known.seen(files)

    async def _put_back(self, ctx: Context, files: Mapping[str, str]) -> None:
        """Load files of ufw into the kernel, as ufw does after a change, and write them."""
        on = RUNNING in (await present(ctx))[0]

        async def put_back(path: str, text: str) -> None:
            if on:
                await restore(ctx, PROGRAMS["6" in posixpath.basename(path)], text)
            await self.overwrite(ctx, path, text)

        await asyncio.gather(*(put_back(*each) for each in files.items()))

    @property
    def _key(self) -> str:
        return " ".join([*self.method, *self.match, self.comment or ""])

    async def _files(self, ctx: Context) -> Mapping[str, str]:
        """Return the texts of ufw's files of rules by their paths."""
        found = {}
        for path in RULES:
            with suppress(OSError):
                found[path] = await ctx.read_text(path)
        return found

    @classmethod
    async def background(cls, services: Services) -> AsyncIterator[Any]:  # noqa: ARG003 - it needs none
        """Keep the lines of the rules for all states."""
        yield AddedLines()
        await asyncio.Event().wait()

    async def _try(self, ctx: Context, *options: str) -> Completed:
        """Run ufw with the rule; append the rule if ufw has no rule before which to insert it."""
        words = await self.words(ctx)
        done = await ctx.run("ufw", *options, *self.method, *words, check=False)
        if NO_POSITION in done.stdout + done.stderr:
            done = await ctx.run("ufw", *options, self.method[-1], *words, check=False)
        if done.retcode != 0:
            raise self.failure(done)
        return done

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the rule, which is its match: one match has one action."""
        return (("ufw", " ".join(self.match)),)

    def contradicts(self, other: Resource) -> str | None:
        """Return why another state contradicts this rule for the same packets; `allow` and `allowed` agree."""
        if isinstance(other, UfwRule) and self.method == other.method:
            return None if self.comment == other.comment else "comment differs"
        return super().contradicts(other)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the rule, as the formula reports it."""
        comment = ["comment", self.comment] if self.comment else []
        return {"rule": " ".join([*self.method, *self.match, *comment])}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair adds."""
        return Effect(("add",), " ".join([self.method[-1], *self.match]), detail=" to the rules of ufw")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{' '.join([self.method[-1], *self.match])} is already a rule of ufw"


def looked_up(host: str) -> str:
    """Return an address unchanged, and for a host name one of its addresses. Blocks. Raises `Temporary`."""
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        if host == "any":
            return host
        try:
            return socket.gethostbyname(host)
        except OSError as error:
            raise Temporary(f"cannot look up {host}: {error.strerror or error}") from None
    return host


class Allow(UfwRule, kind="ufw.allow"):
    """ufw lets packets through.

    ssh from the office:
      ufw.allow:
        - protocol: tcp
        - from_addr: 192.0.2.0/24
        - to_port: 22

    Events of ufw's files report the removal of the rule.
    """

    method: ClassVar[tuple[str, ...]] = ("allow",)


class Allowed(UfwRule, kind="ufw.allowed"):
    """ufw lets packets through: another name of `ufw.allow`.

    eth1:
      ufw.allowed:
        - interface: eth1
    """

    method: ClassVar[tuple[str, ...]] = ("allow",)


class Deny(UfwRule, kind="ufw.deny"):
    """ufw drops packets. A new rule is inserted before all others.

    no telnet:
      ufw.deny:
        - protocol: tcp
        - to_port: 23
    """

    method: ClassVar[tuple[str, ...]] = ("insert", "1", "deny")


class Limit(UfwRule, kind="ufw.limit"):
    """ufw lets at most six connections from one address through in 30 seconds.

    ssh:
      ufw.limit:
        - protocol: tcp
        - to_port: 22
    """

    method: ClassVar[tuple[str, ...]] = ("limit",)
