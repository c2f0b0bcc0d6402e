"""Kinds that send and receive values, on the fake machine, and states of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import field_validator

from engine_bench import State, state
from fake_machine import Machine, Setting
from holdfast import Context, Recvable, Resource, Sendable


class Source(Sendable, Setting, kind="zsource.present"):
    """A setting that sends its value."""

    sends: ClassVar[Mapping[str, type]] = {"now": str, "count": int}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send the machine's value of this setting, if it has one."""
        right = await super().check_apply(ctx, apply)
        if f"silent {self.name}" not in self.machine.broken and (right or apply):
            ctx.send(now=self.machine.settings[f"says {self.name}"], count=1)
        return right


class Sink(Recvable, Setting, kind="zsink.present"):
    """A setting whose value is received."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Note which received values are new."""
        new = [name for name, got in ctx.assignment.received.items() if got.changed]
        self.machine.log.append(f"new {self.name} {' '.join(new)}")
        return await super().check_apply(ctx, apply)


class Choosy(Recvable, Setting, kind="zchoosy.present"):
    """A setting that refuses a value, with an error that contains the value."""

    @field_validator("value")
    @classmethod
    def _known(cls, value: str) -> str:
        if value == "hello":
            raise ValueError(f"{value!r} is no value for {cls.__name__}")
        return value


class Relay(Sendable, Recvable, Setting, kind="zrelay.present"):
    """A setting that sends the value it has received."""

    sends: ClassVar[Mapping[str, type]] = {"what": str}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send the received value."""
        ctx.send(what=self.value)
        return await super().check_apply(ctx, apply)


class Once(Recvable, Resource, kind="zonce.run"):
    """An action whose argument is received."""

    machine: ClassVar[Machine]
    what: str = "nothing"

    def action(self) -> bool:
        """Return whether this is an action: always."""
        return True

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Note the received value."""
        if apply:
            Setting.machine.log.append(f"once {self.what}")
        ctx.report.changes = {"ran": True}
        return False


class Told(Sendable, Resource, kind="ztold.run"):
    """An action that sends a value."""

    sends: ClassVar[Mapping[str, type]] = {"now": str}

    def action(self) -> bool:
        """Return whether this is an action: always."""
        return True

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send the machine's value of this action."""
        if apply:
            Setting.machine.log.append(f"told {self.name}")
            await Setting.machine.gate(f"told {self.name}")
            ctx.send(now=Setting.machine.settings[f"says {self.name}"])
        ctx.report.changes = {"ran": True}
        return False


class Liar(Resource, kind="zliar.present"):
    """A kind that sends a value it has not declared."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send an undeclared value."""
        ctx.send(truth=1)
        return True


class Confused(Sendable, Resource, kind="zconfused.present"):
    """A kind that sends a value of another type than declared."""

    sends: ClassVar[Mapping[str, type]] = {"count": int}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send a value of the wrong type."""
        ctx.send(count="many")
        return True


def source(name: str = "a", **spec: Any) -> State:
    """Declare a sender."""
    return state(name, "zsource.present", **spec)


def sink(
    name: str = "b",
    sender: str = "a",
    *,
    kind: str = "zsink.present",
    argument: str = "value",
    key: str = "now",
    **spec: Any,
) -> State:
    """Declare a receiver."""
    meta = {**spec.pop("meta", {}), "recv": {argument: {"zsource": sender, "key": key}}}
    return state(name, kind, meta=meta, recv=[sender], **spec)
