"""Chains of iptables: their policies, their rules as a whole, and whether they exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context, Watch, announced
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.iptables.base import Chain, Saving, Tables
from holdfast.resources.traits import Declaration, Reversible
from holdfast.resources.watches import idle


@accepts(str, pattern="ACCEPT|DROP|accept|drop")
def parse_policy(value: object) -> object:
    """Return a policy in capitals."""
    return value.upper() if isinstance(value, str) else value


class SetPolicy(Saving, Reversible, kind="iptables.set_policy"):
    """A built-in chain has a policy, which applies to packets that no rule decides.

    drop the rest:
      iptables.set_policy:
        - chain: INPUT
        - policy: DROP

    Events of nf_tables report changes; where `iptables` is iptables-legacy there are none, and the agent compares the
    rules every 30 s.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)

    chain: Chain
    """The chain."""
    policy: Annotated[Literal["ACCEPT", "DROP"], BeforeValidator(parse_policy)]
    """The policy."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    def desired(self) -> State:
        """Return the policy, and that it is saved."""
        return {"policy": self.policy, "saved": True}

    async def probe(self, ctx: Context) -> State:
        """Return the present policy. Raises `Permanent` for a chain that can have none."""
        listed = await self.listing(ctx)
        found = next((line.split()[2] for line in listed or [] if line.startswith("-P ")), None)
        if found is None:
            raise Permanent(f"cannot set a policy for {self.chain}: {self.table} has no built-in chain of this name")
        return {"policy": found, "saved": await self.is_saved(ctx)}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the policy, and save all rules."""
        if "policy" in delta.fields:
            await self.run(ctx, "-P", self.chain, self.policy)
        await self.write(ctx)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present policy."""
        present = (await self.probe(ctx) or {})["policy"]
        given = {"table": self.table, "family": self.family, "chain": self.chain, "save": self.save}
        return Declaration("iptables.set_policy", {"name": self.name, "policy": present, **given})

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the policy."""
        return (("iptables-policy", f"{self.family}:{self.table}:{self.chain}"),)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        if delta.fields == ("saved",):
            return Effect(("set",), "the saved rules")
        return Effect(
            ("set",), f"the policy of {self.chain} in {self.table} ({self.family})", detail=f" to {self.policy}"
        )

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the policy of {self.chain} is {self.policy} already"


class Flush(Tables, kind="iptables.flush"):
    """The rules of a chain, or of all chains of a table, are removed, once.

    nat:
      iptables.flush:
        - table: nat

    This is an action: the agent runs it once for each version of its declaration, and `holdfast apply` every time, so
    that rules which other states add later stay. Without `chain` all chains of the table are flushed.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    ignored: ClassVar[Mapping[str, str]] = {"save": "the states that add rules save them"}
    exclusive: ClassVar[bool] = False

    chain: Chain | None = None
    """The chain. Default: all chains of the table."""

    @property
    def in_chain(self) -> str:
        """The chain; empty for all."""
        return self.chain or ""

    def action(self) -> bool:
        """Return True: the rules that other states add later are no reason to flush again."""
        return True

    def watch(self, ctx: Context) -> Watch:
        """Watch nothing."""
        return idle()

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Remove the rules, if there are any."""
        chain = [self.chain] if self.chain else []
        done = await self.run(ctx, "-S", *chain)
        rules = [line for line in done.stdout.splitlines() if line.startswith("-A ")]
        where = f"{self.chain or 'all chains'} of {self.table} ({self.family})"
        if not rules:
            ctx.report.comment = f"there is no rule in {where}"
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.changing()
            await self.run(ctx, "-F", *chain)
        ctx.report.changes = {"locale": self.name}
        ctx.report.did(Effect(("remove",), where, f"{len(rules)} rules"), applied=apply)
        return False


class ChainPresent(Tables, Reversible, kind="iptables.chain_present"):
    """A chain exists.

    web:
      iptables.chain_present:
        - table: filter

    Events report changes as for `iptables.append`.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create",)

    name: Chain
    """The chain."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    def desired(self) -> State:
        """Return that the chain exists."""
        return {}

    async def probe(self, ctx: Context) -> State:
        """Return whether the chain exists."""
        return None if await self.listing(ctx) is None else {}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Make the chain."""
        await self.run(ctx, "-N", self.name)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return that there is no such chain, if there is none now."""
        given = {"name": self.name, "table": self.table, "family": self.family}
        return Declaration("iptables.chain_absent", given) if await self.probe(ctx) is None else None

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the chain."""
        return (("iptables-chain", f"{self.family}:{self.table}:{self.name}"),)

    def offers(self) -> tuple[Uid, ...]:
        """Return the chain, which rules need."""
        return self.uids()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package."""
        return (Dependency("pkg", "iptables", vital=False),)

    def effect(self, delta: Delta) -> Effect:
        """Return that a repair makes the chain."""
        return Effect(("create",), f"the chain {self.name} of {self.table} ({self.family})")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the chain {self.name} exists already"


class ChainAbsent(Tables, kind="iptables.chain_absent"):
    """A chain does not exist; its rules are removed before.

    web:
      iptables.chain_absent:
        - table: filter

    A chain to which rules still jump cannot be removed. Events report changes as for `iptables.append`.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    name: Chain
    """The chain."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    def desired(self) -> State:
        """Return that there is no such chain."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return whether the chain exists."""
        return None if await self.listing(ctx) is None else {"chain": self.name}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the rules, then the chain."""
        await self.run(ctx, "-F", self.name)
        await self.run(ctx, "-X", self.name)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the chain."""
        return (("iptables-chain", f"{self.family}:{self.table}:{self.name}"),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package."""
        return (Dependency("pkg", "iptables", vital=False),)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name, as Salt does."""
        return {"locale": self.name}

    def effect(self, delta: Delta) -> Effect:
        """Return that a repair removes the chain."""
        return Effect(("remove",), f"the chain {self.name} of {self.table} ({self.family})")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"there is no chain {self.name}"
