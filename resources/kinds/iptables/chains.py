"""Chains of iptables: their policies, their rules as a whole, and whether they exist."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.delta import Delta
from holdfast.resources.kinds._packet_filter import Creating, Existing, Flushing, PolicySetting, Removing
from holdfast.resources.kinds.iptables.base import Chain, SavingIptables, Tables


@accepts(str, pattern="ACCEPT|DROP|accept|drop")
def parse_policy(value: object) -> object:
    """Return a policy in capitals."""
    return value.upper() if isinstance(value, str) else value


class SetPolicy(SavingIptables, PolicySetting, kind="iptables.set_policy"):
    """A built-in chain has a policy, which applies to packets that match no rule.

    drop the rest:
      iptables.set_policy:
        - chain: INPUT
        - policy: DROP

    Events of nf_tables report changes. iptables-legacy causes no events: if `iptables` is iptables-legacy, the agent
    compares the rules every 30 s.
    """

    none: ClassVar[str] = "the table has no built-in chain with this name"

    chain: Chain
    """The chain."""
    policy: Annotated[Literal["ACCEPT", "DROP"], BeforeValidator(parse_policy)]
    """The policy."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    async def present_policy(self, ctx: Context) -> str | None:
        """Return the present policy; None if the chain has none."""
        listed = await self.listing(ctx)
        return next((line.split()[2] for line in listed or [] if line.startswith("-P ")), None)

    async def set(self, ctx: Context) -> None:
        """Set the policy."""
        await self.run(ctx, "-P", self.chain, self.policy)


class Flush(Tables, Flushing, kind="iptables.flush"):
    """The rules of a chain, or of all chains of a table, are removed, once.

    nat:
      iptables.flush:
        - table: nat

    This is an action: the agent runs it once for each version of its declaration, so it does not remove rules that
    other states add later. `holdfast apply` runs it every time. Without `chain`, it flushes all chains of the table.
    """

    chain: Chain | None = None
    """The chain. Default: all chains of the table."""

    @property
    def in_chain(self) -> str:
        """The chain; empty for all."""
        return self.chain or ""

    @property
    def where(self) -> str:
        """The chain, or all."""
        return super().where if self.chain else f"all chains of {self.table} ({self.family})"

    async def count(self, ctx: Context) -> int:
        """Return the number of rules."""
        done = await self.run(ctx, "-S", *self._chain)
        return sum(line.startswith("-A ") for line in done.stdout.splitlines())

    async def flush(self, ctx: Context) -> None:
        """Remove the rules."""
        await self.run(ctx, "-F", *self._chain)

    @property
    def _chain(self) -> tuple[str, ...]:
        return (self.chain,) if self.chain else ()


class OneIptablesChain(Tables, Existing):
    """Base of the kinds of single chains."""

    name: Chain
    """The chain."""

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.name

    async def is_there(self, ctx: Context) -> bool:
        """Return whether the chain exists."""
        return await self.listing(ctx) is not None


class ChainPresent(OneIptablesChain, Creating, kind="iptables.chain_present"):
    """A chain exists.

    web:
      iptables.chain_present:
        - table: filter

    Events report changes as for `iptables.append`.
    """

    opposite: ClassVar[str] = "iptables.chain_absent"

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Create the chain."""
        await self.run(ctx, "-N", self.name)


class ChainAbsent(OneIptablesChain, Removing, kind="iptables.chain_absent"):
    """A chain does not exist; its rules are removed first.

    web:
      iptables.chain_absent:
        - table: filter

    A chain cannot be removed while rules jump to it. Events report changes as for `iptables.append`.
    """

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the rules, then the chain."""
        await self.run(ctx, "-F", self.name)
        await self.run(ctx, "-X", self.name)
