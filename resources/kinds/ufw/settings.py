"""Whether ufw is on, and what it does with packets that match no rule."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Literal

from holdfast.resources.context import Context, Services, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._netfilter import ChangeFilter, changes
from holdfast.resources.kinds.ufw.base import DEFAULTS, DIRECTORY, SWITCH, Ufw, released
from holdfast.resources.kinds.ufw.kernel import RUNNING, LoadedRules, present
from holdfast.resources.traits import Backed, Declaration, Reversible
from holdfast.resources.watches import either

POLICIES = {"ACCEPT": "allow", "DROP": "deny", "REJECT": "reject"}


def loaded(ctx: Context) -> LoadedRules:
    """Return what ufw has loaded, as the agent has seen it; in a run without the agent, nothing has been seen yet."""
    return ctx.background if isinstance(ctx.background, LoadedRules) else LoadedRules()


class Switch(Ufw, Reversible):
    """Base of the kinds that turn ufw on or off."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("enable", "disable")
    on: ClassVar[bool] = True

    def desired(self) -> State:
        """Return whether ufw is on, now and after the next boot."""
        return {"active": self.on, "boot": self.on}

    async def probe(self, ctx: Context) -> State:
        """Return whether ufw is on: whether its rules are in the kernel."""
        await released()
        boot = (await self.setting(ctx, SWITCH, "ENABLED")).lower() == "yes"
        now = await present(ctx)
        active = RUNNING in now[0]
        if active and boot and self.on:
            active = await loaded(ctx).agrees(ctx, now)
        return {"active": active, "boot": boot}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Turn ufw on or off."""
        async with file_lock(DIRECTORY):
            await self.turn(ctx, again="boot" in delta.fields)

    @abstractmethod
    async def turn(self, ctx: Context, *, again: bool) -> None:
        """Turn ufw on or off; `again` means that its settings had the other value, too."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return whether ufw is on now."""
        now = await self.probe(ctx) or {}
        if now["active"] != now["boot"]:
            return None
        return Declaration("ufw.enabled" if now["active"] else "ufw.disabled", {"name": self.name})

    def watch(self, ctx: Context) -> Watch:
        """Watch ufw's switch and its chains in the kernel."""
        chains = [changes(ChangeFilter(family, "filter")) for family in ("ip", "ip6")]
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


class Enabled(Backed, Switch, kind="ufw.enabled"):
    """ufw is on, now and after the next boot.

    firewall:
      ufw.enabled

    Events of the kernel report that its rules were removed, and events of its files that it was turned off. The agent
    restores all rules that ufw had loaded; it does so without ufw, which would take ten times as long. Rules that were
    removed while no agent ran are restored if their chain has lost all rules of ufw. Declare the rule that allows ssh
    before this state.
    """

    on: ClassVar[bool] = True

    async def turn(self, ctx: Context, *, again: bool) -> None:
        """Restore the rules that were loaded; run ufw to load them if the agent does not know them."""
        if not await self._put_back(ctx, again=again):
            await self.ufw(ctx, "--force", "enable")

    async def _put_back(self, ctx: Context, *, again: bool) -> bool:
        """Restore the rules that were loaded; return whether this was possible."""
        known = loaded(ctx)
        if known is not ctx.background and RUNNING in (now := await present(ctx))[0]:  # a run without the agent
            await known.agrees(ctx, now)
        if not await known.is_current(ctx, again=again):
            return False
        try:
            async with asyncio.TaskGroup() as together:
                together.create_task(known.put_back(ctx, again=again), name="the rules of ufw")
                together.create_task(self._switch_on(ctx), name="the switch of ufw")
        except* (Permanent, OSError) as errors:
            ctx.log.warning("the rules of ufw could not be restored, so ufw loads them", why=str(errors.exceptions[0]))
        else:
            return True
        return False

    async def _switch_on(self, ctx: Context) -> None:
        """Turn ufw on for the next boot. Raises `Permanent` if its settings have no line for that."""
        text = await ctx.read_text(SWITCH)
        on = re.sub(r"(?m)^ENABLED=.*$", "ENABLED=yes", text)
        if on != text:
            await self.overwrite(ctx, SWITCH, on)
        if "ENABLED=yes" not in on.splitlines():
            raise Permanent(f"cannot turn ufw on: {SWITCH} does not say whether ufw is on")

    @classmethod
    async def background(cls, services: Services) -> AsyncIterator[Any]:  # noqa: ARG003 - it needs none
        """Keep what ufw has loaded for all states."""
        yield LoadedRules()
        await asyncio.Event().wait()


class Disabled(Switch, kind="ufw.disabled"):
    """ufw is off, now and after the next boot.

    firewall:
      ufw.disabled
    """

    on: ClassVar[bool] = False

    async def turn(self, ctx: Context, *, again: bool) -> None:
        """Run ufw to remove its rules."""
        await self.ufw(ctx, "disable")


class Default(Ufw, Reversible):
    """Base of the kinds of defaults."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    direction: ClassVar[str] = ""
    variable: ClassVar[str] = ""

    default: Literal["allow", "deny", "reject"]
    """What happens to packets that match no rule."""

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
        """Return the command of ufw, as the formula reports it."""
        return {"rule": f"default {self.default} {self.direction}"}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        return Effect(("set",), f"the default of ufw for {self.direction} packets", detail=f" to {self.default}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the default for {self.direction} packets is {self.default} already"


class DefaultIncoming(Default, kind="ufw.default_incoming"):
    """What ufw does with packets to this host that match no rule.

    deny the rest:
      ufw.default_incoming:
        - default: deny
    """

    direction: ClassVar[str] = "incoming"
    variable: ClassVar[str] = "DEFAULT_INPUT_POLICY"


class DefaultOutgoing(Default, kind="ufw.default_outgoing"):
    """What ufw does with packets from this host that match no rule.

    let all out:
      ufw.default_outgoing:
        - default: allow
    """

    direction: ClassVar[str] = "outgoing"
    variable: ClassVar[str] = "DEFAULT_OUTPUT_POLICY"
