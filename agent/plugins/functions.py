"""Calls of the functions of packages, as `holdfast call` makes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.agent.model.model import Field
from holdfast.agent.model.package import FunctionModel
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.encode import Shown
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.plugins import UsedPlugin
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.errors import ArgumentError
from holdfast.resources.spelling import nearest

LONGEST = 600.0
"""Seconds that a call without a timeout of its own may take."""
ANSWER = 5.0
"""Seconds that the answer may take in addition."""


class PackageFunction:
    """One function of a package. `find` returns it."""

    def __init__(self, name: str, token: str, plugin: UsedPlugin) -> None:
        self.name = name
        self._token, self._plugin = token, plugin
        schema = plugin.declared.schema
        self._model: FunctionModel = schema.functions[token]
        self._schema, self._payloads = schema, Payloads(schema)

    @classmethod
    def find(cls, name: str, plugin: UsedPlugin) -> PackageFunction:
        """Return the function that is called `package.function`. Raises `ArgumentError` if there is none."""
        known = plugin.declared.schema.called
        if name not in known:
            near = nearest(name, known)
            listed = f"did you mean {near!r}?" if near else f"available: {', '.join(sorted(known)) or 'none'}"
            raise ArgumentError(f"cannot call {name}: the package has no such function; {listed}")
        return cls(name, known[name], plugin)

    def bind(self, words: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. Raises `ArgumentError` with all of their problems."""
        data = {**self._read(words, given), **given}
        decoder = Decoder(self._schema, wire=False)
        values = decoder.fields(self._model.parameters, self._model.rules, data)
        if decoder.violations:
            told = "; ".join(
                f"{each.path}: {each.message}" if each.path else each.message for each in decoder.violations
            )
            raise ArgumentError(f"cannot call {self.name}: {told}")
        return values

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for display, with secrets masked."""
        return Shown(self._schema).fields(self._model.parameters, values)

    async def call(self, values: Mapping[str, Any], seconds: float | None) -> dict[str, Any]:
        """Call the function, and return its result, with secrets masked.

        Raises `Permanent` and `Temporary` as the plugin says, and `ArgumentError` for arguments that it refuses.
        """
        limit = LONGEST if seconds is None else seconds
        arguments = self._payloads.pack_arguments(self._model, values)
        request = message["InvokeRequest"](function=self._token, arguments=arguments, timeout_ms=int(limit * 1000))
        answer = await self._plugin.call("Invoke", request, limit + ANSWER)
        if answer.violations:
            told = "; ".join(f"{each.path}: {each.message}" for each in answer.violations)
            raise ArgumentError(f"cannot call {self.name}: {told}")
        if answer.failure.code:
            kind = Temporary if answer.failure.code == "retry" else Permanent
            fault = "a fault of the provider: " if answer.failure.code == "fault" else ""
            raise kind(f"cannot call {self.name}: {fault}{answer.failure.message}")
        try:
            result = self._payloads.results(self._model, answer.result)
        except InvalidPayload as error:
            raise Permanent(f"cannot call {self.name}: a fault of the provider: a wrong result: {error}") from None
        return Shown(self._schema).fields(self._model.results, result)

    def _read(self, words: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments in words of a command line: `name=value`, or in the order of the parameters."""
        parameters = {each.name: each for each in self._model.parameters}
        found: dict[str, Any] = {}
        placed = []
        for word in words:
            name, equals, text = word.partition("=")
            if equals and name.isidentifier():
                if name in found or name in given:
                    raise ArgumentError(f"cannot call {self.name}: {name!r} is given twice")
                found[name] = _value(parameters.get(name), text)
            else:
                placed.append(word)
        left = [name for name in parameters if name not in found and name not in given]
        if len(placed) > len(left):
            listed = ", ".join(parameters) or "none"
            raise ArgumentError(f"cannot call {self.name}: there are too many arguments; its parameters are {listed}")
        return found | {name: _value(parameters[name], text) for name, text in zip(left, placed, strict=False)}


def _value(field: Field | None, text: str) -> Any:
    """Return the value of a word: it is read as JSON, unless the parameter is some form of text."""
    if field is None or field.type.type not in (
        "boolean",
        "integer",
        "number",
        "list",
        "set",
        "mapping",
        "record",
        "any",
    ):
        members = [] if field is None else [each.type for each in field.type.members]
        if not set(members) & {"boolean", "integer", "number"}:
            return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
