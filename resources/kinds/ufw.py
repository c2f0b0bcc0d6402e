"""ufw, the firewall of Ubuntu: whether it is on, its defaults and its rules, as the public ufw-formula declares them.

ufw itself says whether a rule is there: with `--dry-run` it names each rule that it would not add again.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent, Temporary, refused_call
from holdfast.resources.fields import Text, field, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._netfilter import Filter, changes
from holdfast.resources.traits import Declaration, Edgeable, Reversible
from holdfast.resources.watches import either

DIRECTORY, DEFAULTS, SWITCH = "/etc/ufw", "/etc/default/ufw", "/etc/ufw/ufw.conf"
RULES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules", "/lib/ufw/user.rules", "/lib/ufw/user6.rules")
"""Where ufw keeps its rules; before version 0.36 below /lib."""
POLICIES = {"ACCEPT": "allow", "DROP": "deny", "REJECT": "reject"}
NO_POSITION = "Invalid position"
ADDRESS = r"[0-9A-Fa-f:.]+(/[0-9.]+)?"
HOST = r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?"
PORT = r"[0-9]+(:[0-9]+)?(,[0-9]+(:[0-9]+)?)*|[A-Za-z0-9][A-Za-z0-9_-]*"


@accepts(str, int, None)
def parse_quoted(value: object) -> object:
    """Return text without the quotes around it, which the formula writes for a shell; None for `*`."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return value
    text = str(value).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return None if text == "*" else text


Quoted = BeforeValidator(parse_quoted)
Port = Annotated[Text, shaped(PORT, "a port, a range as 6000:6007, a list of these, or the name of a service", 256)]
Address = Annotated[Text, shaped(f"{ADDRESS}|{HOST}", "an address, a network, or the name of a host", 256)]


class Ufw(Edgeable, Resource):
    """Base of all kinds of ufw."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}

    async def ufw(self, ctx: Context, *words: str) -> Completed:
        """Run ufw. Raises `Permanent` with the error that it reports."""
        done = await ctx.run("ufw", *words, check=False)
        if done.retcode != 0:
            raise self.failure(done)
        return done

    def failure(self, done: Completed) -> Permanent:
        """Return the error of a run of ufw."""
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith("ERROR: ")), (lines or ["it failed"])[0])
        return Permanent(f"cannot use ufw: {said.removeprefix('ERROR: ')}")

    async def setting(self, ctx: Context, path: str, name: str) -> str:
        """Return a setting in one of ufw's files; empty if it is not there. Raises `Permanent`."""
        try:
            text = await ctx.read_text(path)
        except FileNotFoundError:
            raise Permanent(f"cannot read {path}: there is no such file; ufw must be installed first") from None
        except OSError as error:
            raise refused_call(f"cannot read {path}: {(error.strerror or '').lower()}", error) from None
        found = re.findall(rf"(?m)^\s*{name}\s*=\s*\"?([^\"\n]*?)\"?\s*$", text)
        return str(found[-1]) if found else ""

    def watch(self, ctx: Context) -> Watch:
        """Watch the files of ufw."""
        return ctx.watch_path(SWITCH, DEFAULTS, *RULES)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on ufw."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package, and the files that other states may manage."""
        files = (SWITCH, DEFAULTS, f"{DIRECTORY}/applications.d")
        return (Dependency("pkg", "ufw"), *[Dependency("path", path, vital=False) for path in files])


class Switch(Ufw, Reversible):
    """Base of the kinds that turn ufw on or off."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("enable", "disable")
    on: ClassVar[bool] = True

    def desired(self) -> State:
        """Return whether ufw is on, now and after the next boot."""
        return {"active": self.on, "boot": self.on}

    async def probe(self, ctx: Context) -> State:
        """Return whether ufw is on."""
        boot = (await self.setting(ctx, SWITCH, "ENABLED")).lower() == "yes"
        return {"active": "Status: active" in (await self.ufw(ctx, "status")).stdout, "boot": boot}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Turn ufw on or off."""
        async with file_lock(DIRECTORY):
            await self.ufw(ctx, *(("--force", "enable") if self.on else ("disable",)))

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return whether ufw is on now."""
        now = await self.probe(ctx) or {}
        if now["active"] != now["boot"]:
            return None
        return Declaration("ufw.enabled" if now["active"] else "ufw.disabled", {"name": self.name})

    def watch(self, ctx: Context) -> Watch:
        """Watch ufw's switch, and its chains in the kernel."""
        chains = [changes(Filter(family, "filter")) for family in ("ip", "ip6")]
        return either(ctx.watch_path(SWITCH), *chains)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the switch."""
        return (("ufw", "switch"),)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return that ufw is on or off now."""
        return {"enabled": self.on}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("enable" if self.on else "disable",), "ufw")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"ufw is {'on' if self.on else 'off'} already"


class Enabled(Switch, kind="ufw.enabled"):
    """ufw is on, now and after the next boot.

    firewall:
      ufw.enabled

    Events of the kernel report that its chains were removed, and events of its files that it was turned off. Declare
    the rule that allows ssh before this state.
    """

    on: ClassVar[bool] = True


class Disabled(Switch, kind="ufw.disabled"):
    """ufw is off, now and after the next boot.

    firewall:
      ufw.disabled
    """

    on: ClassVar[bool] = False


class Default(Ufw, Reversible):
    """Base of the kinds of defaults."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    direction: ClassVar[str] = ""
    variable: ClassVar[str] = ""

    default: Literal["allow", "deny", "reject"]
    """What happens to packets that no rule decides."""

    async def probe(self, ctx: Context) -> State:
        """Return the present default."""
        return {"default": POLICIES.get((await self.setting(ctx, DEFAULTS, self.variable)).upper(), "unknown")}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the default."""
        async with file_lock(DIRECTORY):
            await self.ufw(ctx, "default", self.default, self.direction)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present default."""
        now = (await self.probe(ctx) or {})["default"]
        return None if now == "unknown" else Declaration(self.kind, {"name": self.name, "default": now})

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the default."""
        return (("ufw", f"default {self.direction}"),)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the command of ufw, as the formula does."""
        return {"rule": f"default {self.default} {self.direction}"}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        return Effect(("set",), f"the default of ufw for {self.direction} packets", detail=f" to {self.default}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the default for {self.direction} packets is {self.default} already"


class DefaultIncoming(Default, kind="ufw.default_incoming"):
    """What ufw does with packets to this host that no rule decides.

    deny the rest:
      ufw.default_incoming:
        - default: deny
    """

    direction: ClassVar[str] = "incoming"
    variable: ClassVar[str] = "DEFAULT_INPUT_POLICY"


class DefaultOutgoing(Default, kind="ufw.default_outgoing"):
    """What ufw does with packets from this host that no rule decides.

    let all out:
      ufw.default_outgoing:
        - default: allow
    """

    direction: ClassVar[str] = "outgoing"
    variable: ClassVar[str] = "DEFAULT_OUTPUT_POLICY"


class Rule(Ufw):
    """Base of the kinds of rules."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add",)
    method: ClassVar[tuple[str, ...]] = ()

    app: Annotated[Text | None, Quoted, shaped(r"(?!-)[^\x00-\x1f\x7f\"']+", "the name of a profile", 256)] = field(
        None
    )
    """Name of an application profile, as in `/etc/ufw/applications.d`."""
    interface: Annotated[Text | None, shaped(r"(?!-)[^\s/\x00-\x1f\x7f]{1,15}", "an interface", 15)] = field(None)
    """Interface at which packets come in."""
    protocol: Literal["tcp", "udp", "any", "ah", "esp", "gre", "igmp", "ipv6"] | None = field(None)
    """Protocol."""
    from_addr: Annotated[Address | None, Quoted] = field(None)
    """Address or network that packets come from. The name of a host is looked up at each check."""
    from_port: Annotated[Port | None, Quoted] = field(None)
    """Port that packets come from."""
    to_addr: Annotated[Address | None, Quoted] = field(None)
    """Address or network that packets go to."""
    to_port: Annotated[Port | None, Quoted] = field(None)
    """Port that packets go to: a number, a range, a list or the name of a service."""
    comment: Annotated[Text | None, Quoted, shaped(r"[^\x00-\x1f\x7f']*", "one line without quotes", 256)] = field(None)
    """Comment of the rule."""

    @model_validator(mode="after")
    def _says_something(self) -> Rule:
        given = (self.app, self.interface, self.protocol, self.from_addr, self.from_port, self.to_addr, self.to_port)
        if all(value is None for value in given):
            raise ValueError("give what the rule is about: to_port, from_addr, app or interface")
        return self

    @property
    def match(self) -> list[str]:
        """The words of the rule after its action, as the formula makes them."""
        source, to = ["from", self.from_addr or "any"], ["to", self.to_addr or "any"]
        if self.app is not None:
            return [*source, *to, "app", self.app]
        if self.interface is not None:
            return ["in", "on", self.interface]
        proto = ["proto", self.protocol] if self.protocol else []
        ports = [["port", port] if port else [] for port in (self.from_port, self.to_port)]
        return [*proto, *source, *ports[0], *to, *ports[1]]

    async def words(self, ctx: Context) -> list[str]:
        """Return the words of ufw, with addresses in place of names of hosts. Raises `Temporary`."""
        found = list(self.match)
        if self.from_addr and self.from_addr in found:
            found[found.index("from") + 1] = await ctx.blocking(looked_up, self.from_addr)
        return found + (["comment", self.comment] if self.comment else [])

    def desired(self) -> State:
        """Return that the rule is there."""
        return {"present": True}

    async def probe(self, ctx: Context) -> State:
        """Return whether ufw would skip the rule, because it is there."""
        done = await self._try(ctx, "--dry-run")
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        return {"present": bool(lines) and all(line.startswith("Skipping ") for line in lines)}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Add the rule, or give it this action and comment."""
        async with file_lock(DIRECTORY):
            await self._try(ctx)

    async def _try(self, ctx: Context, *options: str) -> Completed:
        """Run ufw with the rule; at the end where ufw has no rule before which to insert it."""
        words = await self.words(ctx)
        done = await ctx.run("ufw", *options, *self.method, *words, check=False)
        if NO_POSITION in done.stdout + done.stderr:
            done = await ctx.run("ufw", *options, self.method[-1], *words, check=False)
        if done.retcode != 0:
            raise self.failure(done)
        return done

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the rule: one match has one action."""
        return (("ufw", " ".join(self.match)),)

    def contradicts(self, other: Resource) -> str | None:
        """Return why another state gives the same packets another rule: `allow` and `allowed` are one."""
        if isinstance(other, Rule) and self.method == other.method:
            return None if self.comment == other.comment else "comment differs"
        return super().contradicts(other)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the rule, as the formula does."""
        comment = ["comment", self.comment] if self.comment else []
        return {"rule": " ".join([*self.method, *self.match, *comment])}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair adds."""
        return Effect(("add",), " ".join([self.method[-1], *self.match]), detail=" to the rules of ufw")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{' '.join([self.method[-1], *self.match])} is a rule of ufw already"


def looked_up(host: str) -> str:
    """Return an address as it is, and one address of a host of this name. Blocks. Raises `Temporary`."""
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


class Allow(Rule, kind="ufw.allow"):
    """ufw lets packets through.

    ssh from the office:
      ufw.allow:
        - protocol: tcp
        - from_addr: 192.0.2.0/24
        - to_port: 22

    Events of ufw's files report that the rule was removed.
    """

    method: ClassVar[tuple[str, ...]] = ("allow",)


class Allowed(Rule, kind="ufw.allowed"):
    """ufw lets packets through: another name of `ufw.allow`.

    eth1:
      ufw.allowed:
        - interface: eth1
    """

    method: ClassVar[tuple[str, ...]] = ("allow",)


class Deny(Rule, kind="ufw.deny"):
    """ufw drops packets. A new rule comes before all others.

    no telnet:
      ufw.deny:
        - protocol: tcp
        - to_port: 23
    """

    method: ClassVar[tuple[str, ...]] = ("insert", "1", "deny")


class Limit(Rule, kind="ufw.limit"):
    """ufw lets at most six connections of one address within half a minute through.

    ssh:
      ufw.limit:
        - protocol: tcp
        - to_port: 22
    """

    method: ClassVar[tuple[str, ...]] = ("limit",)
