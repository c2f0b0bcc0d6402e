"""Rules of iptables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.resources.context import Context
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.fields import field, plain_numbers
from holdfast.resources.kinds._netfilter import generation
from holdfast.resources.kinds.iptables.base import Chain, Saving
from holdfast.resources.kinds.iptables.options import demand_options, words
from holdfast.resources.traits import Declaration, Reversible

NO_RULE = "does a matching rule exist in that chain"
NO_TARGET = "' does not exist"
"""What iptables says of a rule that jumps to a chain which does not exist."""
COPIES = 1000
"""Most copies of one rule that are deleted."""


class Rule(Saving):
    """Base of the kinds of rules: every other argument is an option of iptables."""

    model_config = ConfigDict(extra="allow")

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "remove", "change")

    chain: Chain
    """The chain."""
    options: dict[str, Any] = field(default_factory=dict)
    """The rule, made from all further arguments: each is a long option of iptables (`dport`, `source`, `jump`, ...).

    `connstate` stands for `--state`, `if` and `of` for the interfaces. A value that begins with `!` is negated. An
    option without a value has an empty text. Not to be written in states.
    """

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Collect the options. An error has the position of the option."""
        if not isinstance(given, dict):
            return given
        own = cls.model_fields.keys() | cls.refused.keys() | cls.ignored.keys()
        inner = given.get("options", {})
        if not isinstance(inner, dict):
            raise ValueError("options is a mapping of options: write each as an argument of its own")  # noqa: TRY004
        options = {str(key): plain_numbers(value) for key, value in given.items() if key not in own}
        options = {**inner, **options}
        try:
            demand_options(options)
            words(options)
        except ValueError as error:
            name, why = error.args if len(error.args) > 1 else ("chain", str(error))
            raise wrong(cls, name, why) from None
        return {key: value for key, value in given.items() if key in own} | {"options": options}

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    @property
    def rule(self) -> list[str]:
        """The arguments of iptables."""
        return words(self.options)

    @property
    def text(self) -> str:
        """The rule for people."""
        return " ".join(self.rule)

    async def is_present(self, ctx: Context) -> bool:
        """Return whether iptables finds the rule in the chain, or nothing that it has found there is gone."""
        listings = await self.listings(ctx)
        if listings is None:
            return await self._check(ctx)
        began, lines = generation(), await self._lines(ctx)
        holding = listings.holding.pop(self._key, frozenset())
        if holding and holding <= lines:
            listings.holding[self._key] = holding
            return True
        found = await self._check(ctx)
        if found and generation() == began:
            listings.holding[self._key] = holding & lines or lines
        return found

    @property
    def _key(self) -> str:
        return " ".join([self.program, self.table, self.chain, *self.rule])

    async def _check(self, ctx: Context) -> bool:
        """Return whether iptables finds the rule in the chain."""
        done = await self.run(ctx, "-C", self.chain, *self.rule, check=False)
        if done.retcode == 0:
            return True
        if NO_RULE in done.stderr or NO_TARGET in done.stderr or await self.listing(ctx) is None:
            return False
        raise self.failure(done)

    async def change(self, ctx: Context, *argv: str) -> None:
        """Add the rule, and remember the line that is new then."""
        listings = await self.listings(ctx)
        before = await self._lines(ctx) if listings else frozenset()
        await self.run(ctx, *argv, *self.rule)
        if listings and len(added := await self._lines(ctx) - before) == 1:
            listings.holding[self._key] = added

    async def _lines(self, ctx: Context) -> frozenset[str]:
        """Return the rules of the chain as iptables prints them."""
        return frozenset(line for line in await self.listing(ctx) or () if line.startswith("-A "))

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the rule."""
        return (("iptables", f"{self.family}:{self.table}:{self.chain}:{self.text}"),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Add the chain to which the rule jumps."""
        jump = next((self.options[name] for name in ("jump", "j", "target", "goto", "g") if self.options.get(name)), "")
        return (
            *super().dependencies(),
            Dependency("iptables-chain", f"{self.family}:{self.table}:{jump}", vital=False),
        )

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the chain."""
        where = f"the chain {self.chain} of {self.table} ({self.family})"
        if delta.fields == ("saved",):
            return Effect(("change",), "the saved rules")
        if not (delta.before or {}).get("present", True):
            return Effect(("add",), self.text, detail=f" to {where}")
        return Effect(("remove",), self.text, detail=f" from {where}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.text} is {'' if (self.desired() or {}).get('present') else 'not '}in the chain {self.chain}"

    async def probe(self, ctx: Context) -> State:
        """Return whether the rule is in the chain, and saved."""
        present = await self.is_present(ctx)
        return {"present": present, "saved": await self.is_saved(ctx)}


def wrong(cls: type[Rule], key: str, why: str) -> ValidationError:
    """Return an error at one argument."""
    error = InitErrorDetails(type=PydanticCustomError("value_error", "{why}", {"why": why}), loc=(key,), input=None)
    return ValidationError.from_exception_data(cls.__name__, [error])


class Adding(Rule, Reversible):
    """Base of the kinds that add a rule."""

    def desired(self) -> State:
        """Return that the rule is in the chain, and saved."""
        return {"present": True, "saved": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Add the rule, and save all rules."""
        if "present" in delta.fields:
            await self.add(ctx)
        await self.write(ctx)

    @abstractmethod
    async def add(self, ctx: Context) -> None:
        """Add the rule."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return that there is no such rule, if there is none now."""
        if await self.is_present(ctx):
            return None
        given = {"name": self.name, "table": self.table, "family": self.family, "chain": self.chain, "save": self.save}
        return Declaration("iptables.delete", {**given, **self.options})


class Append(Adding, kind="iptables.append"):
    """A rule is in a chain. A new one comes at the end.

    allow ssh:
      iptables.append:
        - chain: INPUT
        - proto: tcp
        - dport: 22
        - source: 10.0.0.0/8
        - jump: ACCEPT

    The position of a rule that is there already does not matter. Events of nf_tables report changes; where `iptables`
    is iptables-legacy there are none, and the agent compares the rules every 30 s.
    """

    ignored: ClassVar[Mapping[str, str]] = {"position": "a rule is appended at the end; use iptables.insert"}

    async def add(self, ctx: Context) -> None:
        """Append the rule."""
        await self.change(ctx, "-A", self.chain)


class Insert(Adding, kind="iptables.insert"):
    """A rule is in a chain. A new one comes at a position.

    drop a network first:
      iptables.insert:
        - chain: INPUT
        - position: 1
        - source: 192.0.2.0/24
        - jump: DROP

    The position of a rule that is there already does not matter. Events report changes as for `iptables.append`.
    """

    position: Annotated[int, field(ge=1)] = 1
    """Number of the new rule in the chain. After the end of the chain, it is appended."""

    async def add(self, ctx: Context) -> None:
        """Insert the rule, at the end if the chain is shorter."""
        listed = await self.listing(ctx) or []
        rules = sum(line.startswith("-A ") for line in listed)
        await self.change(ctx, "-I", self.chain, str(min(self.position, rules + 1)))


class Delete(Rule, kind="iptables.delete"):
    """A rule is not in a chain.

    no telnet:
      iptables.delete:
        - chain: INPUT
        - proto: tcp
        - dport: 23
        - jump: ACCEPT

    All copies of the rule are deleted. Events report changes as for `iptables.append`.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "position": "the number of a rule is another one after each deletion: give the options of the rule"
    }

    def desired(self) -> State:
        """Return that the rule is not in the chain, and that this is saved."""
        return {"present": False, "saved": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Delete the rule, and save the others."""
        for _ in range(COPIES):
            if not await self.is_present(ctx):
                break
            await self.run(ctx, "-D", self.chain, *self.rule)
        await self.write(ctx)
