"""Tables and chains of nftables, their policies, and their rules as a whole."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.delta import Delta
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text, field, shaped
from holdfast.resources.kinds._packet_filter import Creating, Existing, Flushing, PolicySetting, Removing
from holdfast.resources.kinds.nftables.base import InTable, Name, Nft, SavingNft
from holdfast.resources.kinds.nftables.ruleset import chain_of, rules_of


@accepts(str, pattern="accept|drop|ACCEPT|DROP")
def parse_policy(value: object) -> object:
    """Return a policy in lower case."""
    return value.lower() if isinstance(value, str) else value


class NftTable(Nft, Existing):
    """Base of the kinds of tables."""

    name: Name
    """Name of the table or chain."""

    @property
    def in_table(self) -> str:
        """The table."""
        return self.name

    @property
    def in_chain(self) -> str:
        """Return an empty name, which means the table itself."""
        return ""

    async def is_there(self, ctx: Context) -> bool:
        """Return whether it exists."""
        return await self.table_text(ctx) is not None


class TablePresent(NftTable, Creating, kind="nftables.table_present"):
    """A table exists.

    filter:
      nftables.table_present:
        - family: inet

    Events of the kernel report its removal.
    """

    opposite: ClassVar[str] = "nftables.table_absent"
    common: ClassVar[tuple[str, ...]] = ("family",)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Create the table."""
        await self.nft(ctx, "add", "table", *self.place.split())


class TableAbsent(NftTable, Removing, kind="nftables.table_absent"):
    """A table does not exist; its chains and rules are removed with it.

    old:
      nftables.table_absent: []

    Events of the kernel report its creation.
    """

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the table."""
        await self.nft(ctx, "delete", "table", *self.place.split())


class OneNftChain(InTable, Existing):
    """Base of the kinds of single chains."""

    name: Name
    """Name of the table or chain."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    async def is_there(self, ctx: Context) -> bool:
        """Return whether it exists."""
        return chain_of(await self.table_text(ctx) or "", self.name) is not None


class ChainPresent(OneNftChain, Creating, kind="nftables.chain_present"):
    """A chain exists.

    input:
      nftables.chain_present:
        - table: filter
        - table_type: filter
        - hook: input
        - priority: 0

    The kernel sends packets to a chain that has a type, a hook and a priority; packets reach other chains only by rules
    that jump to them. The state does not change the type, hook and priority of an existing chain. Events of the kernel
    report its removal.
    """

    opposite: ClassVar[str] = "nftables.chain_absent"

    table_type: Literal["filter", "nat", "route"] | None = None
    """Purpose of the chain."""
    hook: Literal["prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"] | None = None
    """Point at which packets enter the chain."""
    priority: (
        Annotated[Text, shaped(r"-?\d+|[a-z]+( ?[+-] ?\d+)?", "a priority: a number, or a name such as filter")] | None
    ) = field(None)
    """Order of the chains of one hook: a number, or a name such as `filter` or `srcnat`."""

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({value is None for value in (self.table_type, self.hook, self.priority)}) > 1:
            raise ValueError("give table_type, hook and priority together, or none of them")
        return self

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Create the chain."""
        base = f" {{ type {self.table_type} hook {self.hook} priority {self.priority}; }}" if self.hook else ""
        await self.nft(ctx, "--file", "-", stdin=f"add chain {self.place}{base}\n")


class ChainAbsent(OneNftChain, Removing, kind="nftables.chain_absent"):
    """A chain does not exist; its rules are removed first.

    web:
      nftables.chain_absent:
        - table: filter

    A chain cannot be removed while rules jump to it. Events of the kernel report its creation.
    """

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the rules and the chain in one transaction."""
        await self.nft(ctx, "--file", "-", stdin=f"flush chain {self.place}\ndelete chain {self.place}\n")


class SetPolicy(SavingNft, PolicySetting, kind="nftables.set_policy"):
    """A chain with a hook has a policy, which applies to packets that match no rule.

    drop the rest:
      nftables.set_policy:
        - table: filter
        - chain: input
        - policy: drop

    Events of the kernel report changes.
    """

    none: ClassVar[str] = "the chain does not exist or has no hook"

    chain: Name
    """The chain."""
    policy: Annotated[Literal["accept", "drop"], BeforeValidator(parse_policy)]
    """The policy."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    async def present_policy(self, ctx: Context) -> str | None:
        """Return the present policy; None if the chain has none."""
        items = json.loads(await self.chain_json(ctx) or "{}").get("nftables", ())
        policies = [item["chain"].get("policy") for item in items if "chain" in item]
        return policies[0] if policies else None

    async def set(self, ctx: Context) -> None:
        """Set the policy."""
        await self.nft(ctx, "--file", "-", stdin=f"chain {self.place} {{ policy {self.policy}; }}\n")


class Flush(InTable, Flushing, kind="nftables.flush"):
    """The rules of a chain, or of all chains of a table, are removed, once.

    filter:
      nftables.flush:
        - table: filter

    This is an action: the agent runs it once for each version of its declaration, so it does not remove rules that
    other states add later. `holdfast apply` runs it every time.
    """

    chain: Name | None = None
    """The chain. Default: all chains of the table."""
    ignore_absence: bool = False
    """Succeed if the table or chain does not exist."""

    @property
    def in_chain(self) -> str:
        """The chain; empty for all."""
        return self.chain or ""

    async def count(self, ctx: Context) -> int:
        """Return the number of rules. Raises `Permanent` if the table or chain does not exist."""
        listed = await self.chain_json(ctx)
        if listed is None and not self.ignore_absence:
            raise Permanent(f"cannot flush {self.where}: it does not exist; declare it, or set ignore_absence: true")
        return len(rules_of(listed or "{}"))

    async def flush(self, ctx: Context) -> None:
        """Remove the rules."""
        await self.nft(ctx, "flush", "chain" if self.chain else "table", *self.place.split())
