"""Bases of the kinds of rules of iptables and nftables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.resources.context import Context
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.fields import field, plain_numbers
from holdfast.resources.kinds._packet_filter import SavingRules
from holdfast.resources.traits import Declaration, Reversible


class PacketRule(SavingRules):
    """Base of the kinds of rules: every other argument is a part of the rule."""

    model_config = ConfigDict(extra="allow")

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "remove", "change")

    options: dict[str, Any] = field(default_factory=dict)
    """The rule, made from all further arguments."""

    @classmethod
    @abstractmethod
    def demand_rule(cls, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Raise `ValueError` for invalid options of a rule, with the name of the option as the first argument."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The rule in messages."""

    @abstractmethod
    async def is_present(self, ctx: Context) -> bool:
        """Return whether the rule is in the chain."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Collect the options. An error has the position of the option."""
        if not isinstance(given, dict):
            return given
        own = cls.model_fields.keys() | cls.refused.keys() | cls.ignored.keys()
        inner = given.get("options", {})
        if not isinstance(inner, dict):
            raise ValueError("options is not an argument: write each option as an argument of its own")  # noqa: TRY004
        options = {str(key): plain_numbers(value) for key, value in given.items() if key not in own}
        options = {**inner, **options}
        try:
            cls.demand_rule(given, options)
        except ValueError as error:
            name, why = error.args if len(error.args) > 1 else ("chain", str(error))
            raise wrong(cls, name, why) from None
        return {key: value for key, value in given.items() if key in own} | {"options": options}

    async def probe(self, ctx: Context) -> State:
        """Return whether the rule is in the chain, and saved."""
        present = await self.is_present(ctx)
        return {"present": present, "saved": await self.is_saved(ctx)}

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the rule."""
        return ((self.tool, f"{self.place} {self.text}"),)

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


def wrong(cls: type[PacketRule], key: str, why: str) -> ValidationError:
    """Return an error that points to one argument."""
    error = InitErrorDetails(type=PydanticCustomError("value_error", "{why}", {"why": why}), loc=(key,), input=None)
    return ValidationError.from_exception_data(cls.__name__, [error])


class AddedRule(PacketRule, Reversible):
    """Base of the kinds that add a rule."""

    opposite: ClassVar[str] = ""
    """Name of the kind that removes a rule."""

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
        """Return a declaration that removes the rule, if it does not exist now."""
        if await self.is_present(ctx):
            return None
        return self.inverse_of(self.opposite, "family", "table", "chain", "save", **self.options)


class Deleting(PacketRule):
    """Base of the kinds that remove a rule."""

    refused: ClassVar[Mapping[str, str]] = {
        "position": "the number of a rule changes with each deletion: declare the parts of the rule instead"
    }

    def desired(self) -> State:
        """Return that the rule is not in the chain, and that this is saved."""
        return {"present": False, "saved": True}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Delete all copies of the rule, and save the other rules."""
        if "present" in delta.fields:
            await self.delete(ctx)
        await self.write(ctx)

    @abstractmethod
    async def delete(self, ctx: Context) -> None:
        """Delete all copies of the rule."""
