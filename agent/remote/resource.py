"""The base class of all remote kinds: the resources that plugins provide, as the engine uses them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.restrictions import broken
from holdfast.agent.plugins.values import has_unknown, steps
from holdfast.agent.remote.kind import IDENTIFIER, RemoteKind, without_secrets
from holdfast.agent.remote.run import RemoteRun
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.effects import EffectVerb
from holdfast.resources.idl import UNSET
from holdfast.resources.meta import Receive
from holdfast.resources.traits import Declaration, Referring, Reversible, Sendable
from holdfast.resources.watch_items import MISSED


def attribute(argument: str) -> str:
    """Return the attribute of an argument: arguments may have the names of methods."""
    return argument if argument == "name" else f"{argument}_"


class RemoteResource(Resource, Referring, Reversible, Sendable):
    """A resource that a plugin provides."""

    remote: ClassVar[RemoteKind]
    """The kind; set when the class is declared."""
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change", "replace", "repair", "remove")

    ensure: Literal["present", "absent"] = "present"
    """Whether the resource should exist; `absent` deletes it."""

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        rules = self.remote.remote.rules
        wrong = [each.message for each in broken(rules, self.given(), self.remote.model.fields, "")] if rules else []
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def given(self) -> dict[str, Any]:
        """Return the arguments that are given, by name."""
        found = {name: getattr(self, attribute(name)) for name in self.remote.inputs}
        return {name: value for name, value in found.items() if value is not UNSET}

    def values(self) -> dict[str, Any]:
        """Return the arguments with their defaults."""
        return {**self.remote.defaults, **self.given()}

    def uids(self) -> tuple[Uid, ...]:
        """Return the name, with the arguments that cannot change without a replacement if all of them are known.

        Resources of different databases, for example, may have equal names.
        """
        fields = self.remote.inputs.values()
        parts = {each.name: each for each in fields if each.replaces and each.name != "name"}
        given = {name: value for name, value in without_secrets(self.given()).items() if name in parts}
        if any(map(has_unknown, given.values())):
            return ()
        encoder = Encoder(self.remote.schema)
        written = {name: encoder.value(parts[name].type, value) for name, value in sorted(given.items())}
        return ((self.remote.token, f"{self.name} {json.dumps(written, sort_keys=True)}" if written else self.name),)

    def contradicts(self, other: Resource) -> str | None:
        """Return why this declaration and another with an equal uid cannot both hold; None if they can."""
        if isinstance(other, RemoteResource) and other.ensure != self.ensure:
            return "ensure differs"
        return super().contradicts(other)

    @classmethod
    def references(cls, arguments: Mapping[str, Any]) -> tuple[Receive, ...]:
        """Return the states that the arguments name in place of identifiers."""
        kind, found = cls.remote, []
        for name in kind.referring:
            if name in arguments:
                for path, target, state in kind.decode(kind.inputs[name], arguments[name])[2]:
                    named = kind.schema.resources[target].name
                    family = named.partition(".")[0]
                    found.append(Receive(path, family, state, IDENTIFIER, steps(path), named))
        return tuple(found)

    def is_absent(self) -> bool:
        """Return whether the resource should not exist."""
        return self.ensure == "absent"

    def is_known_by(self, argument: str) -> bool:
        """Return whether the provider may need an argument to find the resource."""
        field = self.remote.inputs[argument]
        return field.required or field.replaces

    @classmethod
    def deprecations(cls, arguments: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the steps to each deprecated part, at any depth, with its replacement."""
        yield from super().deprecations(arguments)
        for name in dict.fromkeys(cls.remote.deprecating):
            if name in arguments:
                yield from ((steps(path), better) for path, better in cls.remote.deprecations(name, arguments[name]))

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read the resource, and create, update, replace or delete it: see `RemoteRun`."""
        return await RemoteRun(self.remote, self.name, self.ensure, self.given(), ctx, apply=apply).run()

    async def watch(self, ctx: Context) -> Watch:
        """Report events of the plugin; a kind without events is checked at the interval in its schema."""
        kind, plugin, key = self.remote, ctx.plugin(self.remote.package), self.remote.key(ctx.identity)
        if kind.remote.poll:
            yield None
            while True:
                yield MISSED if await plugin.poll(kind.remote.poll) else None
        if key not in kind.ids and (record := await plugin.remembered(kind.token, key)):
            kind.ids[key] = record.id
        async for item in plugin.watch(kind.token, lambda: kind.ids.get(key, "")):
            yield item

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present state as a declaration; None if that needs a value that is never returned."""
        run = RemoteRun(self.remote, self.name, self.ensure, self.given(), ctx, apply=False)
        found = await run.read(await run.record.load())
        values = self.given() if found is None else found.state
        known = without_secrets({name: value for name, value in values.items() if name in self.remote.inputs})
        if any(each.required and each.name not in known for each in self.remote.inputs.values()):
            return None
        encoder = Encoder(self.remote.schema, wire=False)
        data = {name: encoder.value(self.remote.inputs[name].type, value) for name, value in known.items()}
        return Declaration(self.kind, {**data, "name": self.name, **({"ensure": "absent"} if found is None else {})})
