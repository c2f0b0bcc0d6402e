"""Rules of iptables."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from holdfast.resources.context import Context
from holdfast.resources.dependencies import Dependency
from holdfast.resources.fields import field
from holdfast.resources.kinds import _packet_rules
from holdfast.resources.kinds._netfilter import generation, memory_of
from holdfast.resources.kinds.iptables.base import Chain, SavingIptables
from holdfast.resources.kinds.iptables.options import demand_options, words

NO_RULE = "does a matching rule exist in that chain"
NO_TARGET = "' does not exist"
"""Part of the error of iptables for a rule that jumps to a chain that does not exist."""
MOST = 200
"""Longest chain, in lines, for which the agent remembers that a rule of a state is none of these lines."""
COPIES = 1000
"""Maximum number of copies of one rule to delete."""


class IptablesRule(SavingIptables, _packet_rules.PacketRule):
    """Base of the kinds of rules: every other argument is an option of iptables."""

    chain: Chain
    """The chain."""
    options: dict[str, Any] = field(default_factory=dict)
    """The rule, made from all further arguments: each is a long option of iptables (`dport`, `source`, `jump`, ...).

    `connstate` becomes `--state`; `if` and `of` are the interfaces. A value that begins with `!` is negated. An option
    without a value gets an empty text. States write each option as an argument of its own, not `options`.
    """

    @classmethod
    def demand_rule(cls, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:  # noqa: ARG003 - nftables has
        """Raise `ValueError` for an option that iptables does not have, and for an invalid value."""
        demand_options(options)
        words(options)

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    @property
    def rule(self) -> list[str]:
        """The rule as arguments of iptables."""
        return words(self.options)

    @property
    def text(self) -> str:
        """The rule in messages."""
        return " ".join(self.rule)

    async def is_present(self, ctx: Context) -> bool:
        """Return whether the chain has the rule; run `iptables -C` only if the remembered lines do not answer this."""
        known = await memory_of(ctx, self.program)
        if known is None:
            return await self._check(ctx)
        began, lines = generation(), await self._lines(ctx)
        holding = known.holding.pop(self._key, frozenset())
        if holding and holding <= lines:
            known.holding[self._key] = holding
            return True
        if self._key in known.others and lines <= known.others[self._key]:
            return False
        found = await self._check(ctx)
        if generation() != began:
            return found
        if found:
            known.holding[self._key] = holding & lines or lines
        elif len(lines) <= MOST:
            known.others[self._key] = lines
        return found

    @property
    def _key(self) -> tuple[str, ...]:
        return (self.program, self.table, self.chain, *self.rule)

    async def _check(self, ctx: Context) -> bool:
        """Return whether `iptables -C` finds the rule in the chain."""
        return await self._found(ctx, "-C")

    async def _found(self, ctx: Context, command: str) -> bool:
        """Run a command on the rule; return whether the rule exists."""
        done = await self.run(ctx, command, self.chain, *self.rule, check=False)
        if done.retcode == 0:
            return True
        if NO_RULE in done.stderr or NO_TARGET in done.stderr or await self.listing(ctx) is None:
            return False
        raise self.failure(done)

    async def change(self, ctx: Context, *argv: str) -> None:
        """Add the rule, and remember the line that this adds to the chain."""
        known = await memory_of(ctx, self.program)
        before = await self._lines(ctx) if known else frozenset()
        await self.run(ctx, *argv, *self.rule)
        if known and len(added := await self._lines(ctx) - before) == 1:
            known.holding[self._key] = added

    async def _lines(self, ctx: Context) -> frozenset[str]:
        """Return the rules of the chain as iptables prints them."""
        return frozenset(sys.intern(line) for line in await self.listing(ctx) or () if line.startswith("-A "))

    def dependencies(self) -> tuple[Dependency, ...]:
        """Add the chain to which the rule jumps."""
        jump = next((self.options[name] for name in ("jump", "j", "target", "goto", "g") if self.options.get(name)), "")
        return (
            *super().dependencies(),
            Dependency("iptables-chain", f"{self.family}:{self.table}:{jump}", vital=False),
        )


class AddedIptablesRule(IptablesRule, _packet_rules.AddedRule):
    """Base of the kinds that add a rule."""

    opposite: ClassVar[str] = "iptables.delete"


class Append(AddedIptablesRule, kind="iptables.append"):
    """A rule is in a chain. A missing rule is added at the end.

    allow ssh:
      iptables.append:
        - chain: INPUT
        - proto: tcp
        - dport: 22
        - source: 10.0.0.0/8
        - jump: ACCEPT

    The position of an existing rule does not matter. Events of nf_tables report changes. iptables-legacy causes no
    events: if `iptables` is iptables-legacy, the agent compares the rules every 30 s.

    States see the rules that `iptables` shows. Rules of the other variant, `iptables-legacy` or `iptables-nft`, also
    take effect, but states do not change them; the log warns of rules of `iptables-legacy`.
    """

    ignored: ClassVar[Mapping[str, str]] = {"position": "a rule is appended at the end; use iptables.insert"}

    async def add(self, ctx: Context) -> None:
        """Append the rule."""
        await self.change(ctx, "-A", self.chain)


class Insert(AddedIptablesRule, kind="iptables.insert"):
    """A rule is in a chain. A missing rule is inserted at a position.

    drop a network first:
      iptables.insert:
        - chain: INPUT
        - position: 1
        - source: 192.0.2.0/24
        - jump: DROP

    The position of an existing rule does not matter. Events report changes as for `iptables.append`.
    """

    position: Annotated[int, field(ge=1)] = 1
    """Number of the new rule in the chain. If the chain is shorter, the rule is appended."""

    async def add(self, ctx: Context) -> None:
        """Insert the rule, at the end if the chain is shorter."""
        listed = await self.listing(ctx) or []
        rules = sum(line.startswith("-A ") for line in listed)
        await self.change(ctx, "-I", self.chain, str(min(self.position, rules + 1)))


class Delete(IptablesRule, _packet_rules.Deleting, kind="iptables.delete"):
    """A rule is not in a chain.

    no telnet:
      iptables.delete:
        - chain: INPUT
        - proto: tcp
        - dport: 23
        - jump: ACCEPT

    All copies of the rule are deleted. Events report changes as for `iptables.append`.
    """

    async def delete(self, ctx: Context) -> None:
        """Delete copies of the rule until iptables finds none."""
        for _ in range(COPIES):
            if not await self._found(ctx, "-D"):
                break
