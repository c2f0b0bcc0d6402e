"""Bases of the kinds of iptables and nftables: chains, policies, and rules saved for the next boot.

For each tool, `base.py` has the words by which its commands name a chain; the other modules run these commands.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._netfilter import ChangeFilter, changes
from holdfast.resources.kinds.file.base import found, os_errors, present_text
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.traits import Declaration, Edgeable, Reversible
from holdfast.resources.watches import either, idle


class PacketFilter(Edgeable, Resource):
    """Base of all kinds of iptables and nftables."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    tool: ClassVar[str] = ""
    """First part of the uids of chains, tables, policies and rules of the tool."""
    package: ClassVar[Dependency]
    """The package of the tool."""

    @property
    @abstractmethod
    def in_chain(self) -> str:
        """The chain of the resource; empty for the table itself."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The name of the table or the chain in uids."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The name of the table or the chain in messages."""

    @property
    @abstractmethod
    def heard(self) -> ChangeFilter:
        """The changes of the kernel that matter."""

    def failure(self, done: Completed) -> Permanent:
        """Return the error of a run of the tool that has failed."""
        return Permanent(f"cannot use {self.where}: {reason(done)}")

    def watch(self, ctx: Context) -> Watch:
        """Watch the table or the chain by events of the kernel."""
        return either(changes(self.heard), *self.more_watches(ctx))

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Return further watches."""
        return ()

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: other states depend only on tables and chains."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package and the chain, which another state may create."""
        return (self.package, Dependency(f"{self.tool}-chain", self.place))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name under the key that Salt uses for all of these kinds."""
        return {"locale": self.name}

    def inverse_of(self, kind: str, *names: str, **given: Any) -> Declaration:
        """Return a declaration of another kind with the name and these arguments of this one."""
        return Declaration(kind, {"name": self.name, **{name: getattr(self, name) for name in names}, **given})


class SavingRules(PacketFilter):
    """Base of the kinds that can save the rules for the next boot."""

    mode: ClassVar[int] = 0o600
    """Mode of a new file of saved rules."""

    @abstractmethod
    def saved_at(self, ctx: Context) -> str:
        """Return the path of the saved rules; empty if they are not to be saved. Raises `Permanent`."""

    @abstractmethod
    async def agrees(self, ctx: Context, text: str) -> bool:
        """Return whether these saved rules contain the chain as it is now."""

    @abstractmethod
    async def dump(self, ctx: Context) -> str:
        """Return all present rules in the format of the saved file. Raises `Permanent`."""

    async def is_saved(self, ctx: Context) -> bool:
        """Return whether the saved rules of the chain equal the present rules."""
        path = self.saved_at(ctx)
        if not path:
            return True
        place, seen = saved_place(path)
        if place is None or seen is None or place.weakness(seen) is not None:
            return False
        text = await present_text(ctx, path)
        return text is not None and await self.agrees(ctx, text)

    async def write(self, ctx: Context) -> None:
        """Write the present rules to the file."""
        path = self.saved_at(ctx)
        if not path:
            return
        with os_errors("write", path):
            async with file_lock(path):
                paths.make_parents(path)
                place, seen = saved_place(path)
                mode = self.mode if seen is None else seen.st_mode & 0o750
                await ctx.write_file(place or path, (await self.dump(ctx)).encode(), mode=mode)

    def more_watches(self, ctx: Context) -> tuple[Watch, ...]:
        """Watch the file of the saved rules."""
        path = self.saved_at(ctx)
        return (*super().more_watches(ctx), *([ctx.watch_path(path)] if path else []))


def saved_place(path: str) -> tuple[Place | None, os.stat_result | None]:
    """Return what `found` returns. Raises `Unsafe` if an untrusted user could replace the rules of the next boot."""
    place, seen = found(path, follow=True)
    if place is not None and (weak := place.directory.weak) is not None:
        raise Unsafe(f"cannot save the rules to {path}: {weak}")
    return place, seen


class Existing(PacketFilter):
    """Base of the kinds that create or remove a chain or a table."""

    @abstractmethod
    async def is_there(self, ctx: Context) -> bool:
        """Return whether it exists."""

    async def probe(self, ctx: Context) -> State:
        """Return whether it exists."""
        return {} if await self.is_there(ctx) else None

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package."""
        return (self.package,)

    def uids(self) -> tuple[Uid, ...]:
        """Return its uid."""
        return ((f"{self.tool}-{'chain' if self.in_chain else 'table'}", self.place),)


class Creating(Existing, Reversible):
    """Base of the kinds that create a chain or a table."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create",)
    opposite: ClassVar[str] = ""
    """Name of the kind that removes the chain or table."""
    common: ClassVar[tuple[str, ...]] = ("family", "table")
    """Arguments that both kinds have."""

    def desired(self) -> State:
        """Return that it exists."""
        return {}

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return that it does not exist, if it does not exist now."""
        return None if await self.is_there(ctx) else self.inverse_of(self.opposite, *self.common)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("create",), self.where)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.where} exists"

    def offers(self) -> tuple[Uid, ...]:
        """Return the chain or table on which rules and chains depend."""
        return self.uids()


class Removing(Existing):
    """Base of the kinds that remove a chain or a table. No declaration could restore its content."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    def desired(self) -> State:
        """Return that it does not exist."""
        return None

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("remove",), self.where)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.where} does not exist"


class PolicySetting(SavingRules, Reversible):
    """Base of the kinds that set the policy of a chain."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    none: ClassVar[str] = ""
    """Message: why a chain has no policy."""

    policy: str
    """The policy."""

    @abstractmethod
    async def present_policy(self, ctx: Context) -> str | None:
        """Return the present policy; None if the chain has none."""

    @abstractmethod
    async def set(self, ctx: Context) -> None:
        """Set the policy."""

    def desired(self) -> State:
        """Return the policy, and that it is saved."""
        return {"policy": self.policy, "saved": True}

    async def probe(self, ctx: Context) -> State:
        """Return the present policy. Raises `Permanent` for a chain that cannot have a policy."""
        return {"policy": await self._present(ctx), "saved": await self.is_saved(ctx)}

    async def _present(self, ctx: Context) -> str:
        found = await self.present_policy(ctx)
        if found is None:
            raise Permanent(f"cannot set the policy of {self.where}: {self.none}")
        return found

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the policy, and save all rules."""
        if "policy" in delta.fields:
            await self.set(ctx)
        await self.write(ctx)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present policy."""
        return self.inverse_of(self.kind, "family", "table", "chain", "save", policy=await self._present(ctx))

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the policy."""
        return ((f"{self.tool}-policy", self.place),)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        if delta.fields == ("saved",):
            return Effect(("set",), "the saved rules")
        return Effect(("set",), f"the policy of {self.where}", detail=f" to {self.policy}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the policy of {self.where} is already {self.policy}"


class Flushing(PacketFilter):
    """Base of the kinds that remove the rules of a chain, or of all chains of a table, once."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    ignored: ClassVar[Mapping[str, str]] = {"save": "the states that add rules save them"}
    exclusive: ClassVar[bool] = False

    @abstractmethod
    async def count(self, ctx: Context) -> int:
        """Return the number of rules."""

    @abstractmethod
    async def flush(self, ctx: Context) -> None:
        """Remove the rules."""

    def action(self) -> bool:
        """Return True: rules that other states add later must not cause another flush."""
        return True

    def watch(self, ctx: Context) -> Watch:
        """Watch nothing."""
        return idle()

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Remove the rules, if there are any."""
        rules = await self.count(ctx)
        if not rules:
            ctx.report.comment = f"there are no rules in {self.where}"
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.changing()
            await self.flush(ctx)
        ctx.report.changes = {"locale": self.name}
        ctx.report.did(Effect(("remove",), self.where, f"{rules} rules"), applied=apply)
        return False
