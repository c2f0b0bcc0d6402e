"""Rules of nftables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.resources.context import Context
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field, plain_numbers
from holdfast.resources.kinds.nftables.base import FAMILIES, Name, Saving
from holdfast.resources.kinds.nftables.ruleset import added, demand_options, rehearsal, rules_of, text_of
from holdfast.resources.traits import Declaration, Reversible


class Rule(Saving):
    """Base of the kinds of rules: every other argument is a part of the rule."""

    model_config = ConfigDict(extra="allow")

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "remove", "change")

    table: Name
    """The table."""
    chain: Name
    """The chain."""
    options: dict[str, Any] = field(default_factory=dict)
    """The rule, made from all further arguments, which have Salt's names: `if`, `of`, `proto`, `connstate`, `source`,
    `destination`, `dport`, `sport`, `dports`, `sports`, `icmp-type`, `counter`, `jump`, `to-port`, `reject-with`, ...

    Not to be written in states.
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
            text_of(FAMILIES.get(str(given.get("family", "ip")), "ip"), options)
        except ValueError as error:
            name, why = error.args if len(error.args) > 1 else ("chain", str(error))
            found = InitErrorDetails(
                type=PydanticCustomError("value_error", "{why}", {"why": why}), loc=(name,), input=None
            )
            raise ValidationError.from_exception_data(cls.__name__, [found]) from None
        return {key: value for key, value in given.items() if key in own} | {"options": options}

    @property
    def in_table(self) -> str:
        """The table."""
        return self.table

    @property
    def in_chain(self) -> str:
        """The chain."""
        return self.chain

    @property
    def text(self) -> str:
        """The rule as nft reads it."""
        return text_of(self.family, self.options)

    async def handles(self, ctx: Context) -> list[int]:
        """Return the handles of all copies of the rule in the chain. Raises `Permanent` for a rule that nft refuses."""
        listed = await self.listing(ctx, "--json")
        if listed is None:
            return []
        present = rules_of(listed)
        table = await self.listing(ctx, what="table") or ""
        script = rehearsal(table, self.family, self.table, self.chain, self.text)
        done = await ctx.run(
            *("unshare", "--net", "nft", "--echo", "--json", "--file", "-"), stdin=script, check=False, limit=16 << 20
        )
        wanted = added(done.stdout) if done.retcode == 0 else None
        if wanted is None:
            said = self.failure(done)
            raise Permanent(f"{said}; the rule is {self.text!r}")
        return [handle for rule, handle in present if rule == wanted]

    async def probe(self, ctx: Context) -> State:
        """Return whether the rule is in the chain, and saved."""
        return {"present": bool(await self.handles(ctx)), "saved": await self.is_saved(ctx)}

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the rule."""
        return (("nft", f"{' '.join(self.place)} {self.text}"),)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the chain."""
        if delta.fields == ("saved",):
            return Effect(("change",), "the saved rules")
        if not (delta.before or {}).get("present", True):
            return Effect(("add",), self.text, detail=f" to {self.where}")
        return Effect(("remove",), self.text, detail=f" from {self.where}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.text} is {'' if (self.desired() or {}).get('present') else 'not '}in {self.where}"


class Adding(Rule, Reversible):
    """Base of the kinds that add a rule."""

    def desired(self) -> State:
        """Return that the rule is in the chain, and saved."""
        return {"present": True, "saved": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Add the rule, and save all rules."""
        if "present" in delta.fields:
            await self.nft(ctx, "--file", "-", stdin=f"{await self.command(ctx)} {self.text}\n")
        await self.write(ctx)

    async def command(self, ctx: Context) -> str:
        """Return the command that adds the rule."""
        raise NotImplementedError

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return that there is no such rule, if there is none now."""
        if await self.handles(ctx):
            return None
        given = {"name": self.name, "family": self.family, "table": self.table, "chain": self.chain, "save": self.save}
        return Declaration("nftables.delete", {**given, **self.options})


class Append(Adding, kind="nftables.append"):
    """A rule is in a chain. A new one comes at the end.

    allow ssh:
      nftables.append:
        - table: filter
        - chain: input
        - proto: tcp
        - dport: 22
        - jump: accept

    The position of a rule that is there already does not matter. Events of the kernel report changes of the chain.
    """

    ignored: ClassVar[Mapping[str, str]] = {"position": "a rule is appended at the end; use nftables.insert"}

    async def command(self, ctx: Context) -> str:
        """Return the command that appends the rule."""
        return f"add rule {' '.join(self.place)}"


class Insert(Adding, kind="nftables.insert"):
    """A rule is in a chain. A new one comes at a position.

    drop a network first:
      nftables.insert:
        - table: filter
        - chain: input
        - source: 192.0.2.0/24
        - jump: drop

    The position of a rule that is there already does not matter. Events of the kernel report changes of the chain.
    """

    position: int = Field(1, ge=1)
    """Number of the new rule in the chain (Salt: the handle of another rule). After the end, it is appended."""

    async def command(self, ctx: Context) -> str:
        """Return the command that inserts the rule."""
        count = len(rules_of(await self.listing(ctx, "--json") or "{}"))
        if self.position > count:
            return f"add rule {' '.join(self.place)}"
        return f"insert rule {' '.join(self.place)} index {self.position - 1}"


class Delete(Rule, kind="nftables.delete"):
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

    refused: ClassVar[Mapping[str, str]] = {
        "position": "the number of a rule is another one after each deletion: give what the rule consists of"
    }

    def desired(self) -> State:
        """Return that the rule is not in the chain, and that this is saved."""
        return {"present": False, "saved": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Delete all copies of the rule at once, and save the others."""
        found = await self.handles(ctx)
        if found:
            lines = [f"delete rule {' '.join(self.place)} handle {handle}\n" for handle in found]
            await self.nft(ctx, "--file", "-", stdin="".join(lines))
        await self.write(ctx)
