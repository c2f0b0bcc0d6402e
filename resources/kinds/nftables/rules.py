"""Rules of nftables."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds import _packet_rules
from holdfast.resources.kinds._netfilter import LIMIT, memory
from holdfast.resources.kinds.nftables.base import FAMILIES, Name, SavingNft
from holdfast.resources.kinds.nftables.ruleset import added, demand_options, rehearsal, rules_of, text_of


class NftRule(SavingNft, _packet_rules.PacketRule):
    """Base of the kinds of rules: every other argument is a part of the rule."""

    table: Name
    """The table."""
    chain: Name
    """The chain."""
    options: dict[str, Any] = field(default_factory=dict)
    """The rule, made from all further arguments, which have Salt's names: `if`, `of`, `proto`, `connstate`, `source`,
    `destination`, `dport`, `sport`, `dports`, `sports`, `icmp-type`, `counter`, `jump`, `to-port`, `reject-with`, ...

    States write each option as an argument of its own, not `options`.
    """

    @classmethod
    def demand_rule(cls, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Raise `ValueError` for an option that no rule has, and for an invalid value."""
        demand_options(options)
        text_of(FAMILIES.get(str(given.get("family", "ip")), "ip"), options)

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    @property
    def text(self) -> str:
        """The rule in the syntax of nft."""
        return text_of(self.family, self.options)

    async def is_present(self, ctx: Context) -> bool:
        """Return whether the rule is in the chain."""
        return bool(await self.handles(ctx))

    async def handles(self, ctx: Context) -> list[int]:
        """Return the handles of all copies of the rule in the chain. Raises `Permanent` for a rule that nft refuses."""
        listed, table = await asyncio.gather(self.chain_json(ctx), self.table_text(ctx))
        if listed is None:
            return []
        wanted = await self._rehearsed(ctx, rehearsal(table or "", self.family, self.table, self.chain, self.text))
        return [handle for rule, handle in rules_of(listed) if rule == wanted]

    async def _rehearsed(self, ctx: Context, script: str) -> list[Any]:
        """Run a script of nft in a network namespace of its own; return the rule that it adds, in comparable form."""
        known, key = memory(), (self.place, self.text)
        if known is not None and known.rehearsed.get(key, ("",))[0] == script:
            return known.rehearsed[key][1]
        done = await ctx.run(
            *("unshare", "--net", "nft", "--echo", "--json", "--file", "-"),
            stdin=script,
            check=False,
            limit=LIMIT << 20,
        )
        wanted = added(self.complete(done).stdout) if done.retcode == 0 else None
        if wanted is None:
            raise Permanent(f"{self.failure(done)}; the rule is {self.text!r}")
        if known is not None:
            known.rehearsed[key] = script, wanted
        return wanted


class AddedNftRule(NftRule, _packet_rules.AddedRule):
    """Base of the kinds that add a rule."""

    opposite: ClassVar[str] = "nftables.delete"

    async def add(self, ctx: Context) -> None:
        """Add the rule."""
        await self.nft(ctx, "--file", "-", stdin=f"{await self.command(ctx)} {self.text}\n")

    @abstractmethod
    async def command(self, ctx: Context) -> str:
        """Return the command that adds the rule."""


class Append(AddedNftRule, kind="nftables.append"):
    """A rule is in a chain. A missing rule is added at the end.

    allow ssh:
      nftables.append:
        - table: filter
        - chain: input
        - proto: tcp
        - dport: 22
        - jump: accept

    The position of an existing rule does not matter. Events of the kernel report changes of the chain.
    """

    ignored: ClassVar[Mapping[str, str]] = {"position": "a rule is appended at the end; use nftables.insert"}

    async def command(self, ctx: Context) -> str:
        """Return the command that appends the rule."""
        return f"add rule {self.place}"


class Insert(AddedNftRule, kind="nftables.insert"):
    """A rule is in a chain. A missing rule is inserted at a position.

    drop a network first:
      nftables.insert:
        - table: filter
        - chain: input
        - source: 192.0.2.0/24
        - jump: drop

    The position of an existing rule does not matter. Events of the kernel report changes of the chain.
    """

    position: int = Field(1, ge=1)
    """Number of the new rule in the chain (Salt: handle of another rule). It is appended if the chain is shorter."""

    async def command(self, ctx: Context) -> str:
        """Return the command that inserts the rule."""
        count = len(rules_of(await self.chain_json(ctx) or "{}"))
        if self.position > count:
            return f"add rule {self.place}"
        return f"insert rule {self.place} index {self.position - 1}"


class Delete(NftRule, _packet_rules.Deleting, kind="nftables.delete"):
    """A rule is not in a chain.

    no telnet:
      nftables.delete:
        - table: filter
        - chain: input
        - proto: tcp
        - dport: 23
        - jump: accept

    All copies of the rule are deleted. Events of the kernel report changes of the chain.
    """

    async def delete(self, ctx: Context) -> None:
        """Delete all copies of the rule at once."""
        lines = [f"delete rule {self.place} handle {handle}\n" for handle in await self.handles(ctx)]
        await self.nft(ctx, "--file", "-", stdin="".join(lines))
