"""Tables and chains of nftables, their policies, and their rules as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context, Watch, announced
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text, field, shaped
from holdfast.resources.kinds.nftables.base import Name, Nft, Saving
from holdfast.resources.kinds.nftables.ruleset import rules_of
from holdfast.resources.traits import Declaration, Reversible
from holdfast.resources.watches import idle

PACKAGE = Dependency("pkg", "nftables", vital=False)


@accepts(str, pattern="accept|drop|ACCEPT|DROP")
def parse_policy(value: object) -> object:
    """Return a policy in small letters."""
    return value.lower() if isinstance(value, str) else value


class Existing(Nft, Reversible):
    """Base of the kinds that make or remove something."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "remove")
    there: ClassVar[bool] = True
    opposite: ClassVar[str] = ""

    name: Name
    """Its name."""

    def desired(self) -> State:
        """Return whether it exists."""
        return {} if self.there else None

    async def probe(self, ctx: Context) -> State:
        """Return whether it exists."""
        return None if await self.listing(ctx) is None else {}

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return that it does not exist, if it does not exist now."""
        if not self.there or await self.probe(ctx) is not None:
            return None
        table = {"table": self.in_table} if self.in_chain else {}
        return Declaration(self.opposite, {"name": self.name, "family": self.family, **table})

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("create" if self.there else "remove",), self.where)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.where} {'exists' if self.there else 'does not exist'}"

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package, and the table of a chain."""
        return (PACKAGE, *([Dependency("nft-table", f"{self.family} {self.in_table}")] if self.in_chain else []))

    def uids(self) -> tuple[Uid, ...]:
        """Return its uid."""
        return (("nft-chain" if self.in_chain else "nft-table", " ".join(self.place)),)

    def offers(self) -> tuple[Uid, ...]:
        """Return what rules and chains need."""
        return self.uids() if self.there else ()


class TablePresent(Existing, kind="nftables.table_present"):
    """A table exists.

    filter:
      nftables.table_present:
        - family: inet

    Events of the kernel report that it was removed.
    """

    opposite: ClassVar[str] = "nftables.table_absent"

    @property
    def in_table(self) -> str:
        """The table."""
        return self.name

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Make the table."""
        await self.nft(ctx, "add", "table", *self.place)


class TableAbsent(Existing, kind="nftables.table_absent"):
    """A table does not exist; its chains and rules are removed with it.

    old:
      nftables.table_absent: []

    Events of the kernel report that it was made.
    """

    there: ClassVar[bool] = False

    @property
    def in_table(self) -> str:
        """The table."""
        return self.name

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the table."""
        await self.nft(ctx, "delete", "table", *self.place)


class ChainPresent(Existing, kind="nftables.chain_present"):
    """A chain exists.

    input:
      nftables.chain_present:
        - table: filter
        - table_type: filter
        - hook: input
        - priority: 0

    With a type, a hook and a priority the kernel sends packets to it; otherwise only rules do. Those of a chain that
    exists are not changed. Events of the kernel report that it was removed.
    """

    opposite: ClassVar[str] = "nftables.chain_absent"

    table: Name = "filter"
    """The table."""
    table_type: Literal["filter", "nat", "route"] | None = None
    """What the chain is for."""
    hook: Literal["prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"] | None = None
    """Where packets come from."""
    priority: (
        Annotated[Text, shaped(r"-?\d+|[a-z]+( ?[+-] ?\d+)?", "a priority: a number, or a name as filter")] | None
    ) = field(None)
    """Order of the chains of one hook: a number, or a name as `filter` or `srcnat`."""

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({value is None for value in (self.table_type, self.hook, self.priority)}) > 1:
            raise ValueError("give table_type, hook and priority together, or none of them")
        return self

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Make the chain."""
        base = f" {{ type {self.table_type} hook {self.hook} priority {self.priority}; }}" if self.hook else ""
        await self.nft(ctx, "--file", "-", stdin=f"add chain {' '.join(self.place)}{base}\n")


class ChainAbsent(Existing, kind="nftables.chain_absent"):
    """A chain does not exist; its rules are removed before.

    web:
      nftables.chain_absent:
        - table: filter

    A chain to which rules still jump cannot be removed. Events of the kernel report that it was made.
    """

    there: ClassVar[bool] = False

    table: Name = "filter"
    """The table."""

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the rules and the chain, both or none."""
        place = " ".join(self.place)
        await self.nft(ctx, "--file", "-", stdin=f"flush chain {place}\ndelete chain {place}\n")


class SetPolicy(Saving, Reversible, kind="nftables.set_policy"):
    """A chain with a hook has a policy, which applies to packets that no rule decides.

    drop the rest:
      nftables.set_policy:
        - table: filter
        - chain: input
        - policy: drop

    Events of the kernel report changes.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)

    table: Name = "filter"
    """The table."""
    chain: Name
    """The chain."""
    policy: Annotated[Literal["accept", "drop"], BeforeValidator(parse_policy)]
    """The policy."""

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    def desired(self) -> State:
        """Return the policy, and that it is saved."""
        return {"policy": self.policy, "saved": True}

    async def probe(self, ctx: Context) -> State:
        """Return the present policy. Raises `Permanent` for a chain that can have none."""
        return {"policy": (await self._chain(ctx))["policy"], "saved": await self.is_saved(ctx)}

    async def _chain(self, ctx: Context) -> Mapping[str, Any]:
        """Return the chain as nft reports it. Raises `Permanent` if it has no hook."""
        items = json.loads(await self.listing(ctx, "--json") or "{}").get("nftables", ())
        chain: Mapping[str, Any] = next((item["chain"] for item in items if "chain" in item), {})
        if "policy" not in chain:
            raise Permanent(f"cannot set the policy of {self.where}: there is no such chain, or it has no hook")
        return chain

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the policy, and save all rules."""
        if "policy" in delta.fields:
            await self.nft(ctx, "--file", "-", stdin=f"chain {' '.join(self.place)} {{ policy {self.policy}; }}\n")
        await self.write(ctx)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the present policy."""
        given = {"family": self.family, "table": self.table, "chain": self.chain, "save": self.save}
        return Declaration(self.kind, {"name": self.name, "policy": (await self._chain(ctx))["policy"], **given})

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the policy."""
        return (("nft-policy", " ".join(self.place)),)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        if delta.fields == ("saved",):
            return Effect(("set",), "the saved rules")
        return Effect(("set",), f"the policy of {self.where}", detail=f" to {self.policy}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the policy of {self.where} is {self.policy} already"


class Flush(Nft, kind="nftables.flush"):
    """The rules of a chain, or of all chains of a table, are removed, once.

    filter:
      nftables.flush:
        - table: filter

    This is an action: the agent runs it once for each version of its declaration, and `holdfast apply` every time, so
    that rules which other states add later stay.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    ignored: ClassVar[Mapping[str, str]] = {"save": "the states that add rules save them"}
    exclusive: ClassVar[bool] = False

    table: Name = "filter"
    """The table."""
    chain: Name | None = None
    """The chain. Default: all chains of the table."""
    ignore_absence: bool = False
    """Accept that there is no such table or chain."""

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

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
        listed = await self.listing(ctx, "--json")
        if listed is None and not self.ignore_absence:
            raise Permanent(f"cannot flush {self.where}: it does not exist; declare it, or set ignore_absence: true")
        rules = rules_of(listed or "{}")
        if not rules:
            ctx.report.comment = f"there is no rule in {self.where}"
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.changing()
            await self.nft(ctx, "flush", "chain" if self.chain else "table", *self.place)
        ctx.report.changes = {"locale": self.name}
        ctx.report.did(Effect(("remove",), self.where, f"{len(rules)} rules"), applied=apply)
        return False
