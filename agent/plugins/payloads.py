"""The bytes of the protocol's messages: values of one resource, encoded against the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.agent.model.model import KindModel
from holdfast.agent.model.package import FunctionModel
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.schema import Schema, inputs, outputs
from holdfast.agent.plugins.values import Violation


class InvalidPayload(Exception):
    """A payload breaks rules of the schema."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        told = (f"{each.path}: {each.message}" if each.path else each.message for each in violations)
        super().__init__("; ".join(told))
        self.violations = violations


class Payloads:
    """Packs and unpacks values. Every method that unpacks raises `InvalidPayload`."""

    def __init__(self, schema: Schema, environ: Mapping[str, str] | None = None) -> None:
        self.schema = schema
        self.environ = environ
        """Environment that gives defaults, in the process of the provider."""

    def inputs(self, kind: KindModel, data: bytes, *, defaults: bool = False) -> dict[str, Any]:
        """Return the arguments of a resource, with `defaults` for those that are not given."""
        decoder = Decoder(self.schema, wire=True, defaults=defaults, environ=self.environ)
        return _valid(decoder, decoder.inputs(kind, loaded(data)))

    def state(self, kind: KindModel, data: bytes) -> dict[str, Any]:
        """Return the state of a resource."""
        decoder = Decoder(self.schema, wire=True)
        return _valid(decoder, decoder.outputs(kind, loaded(data)))

    def config(self, data: bytes) -> dict[str, Any]:
        """Return the configuration of the provider, with defaults."""
        record, decoder = self.schema.config, Decoder(self.schema, wire=True, defaults=True, environ=self.environ)
        fields, rules = (record.fields, record.rules) if record else ((), ())
        return _valid(decoder, decoder.fields(fields, rules, loaded(data)))

    def config_given(self, data: Any) -> dict[str, Any]:
        """Return the configuration that an operator has written, with defaults."""
        record, decoder = self.schema.config, Decoder(self.schema, wire=False, defaults=True, environ=self.environ)
        fields, rules = (record.fields, record.rules) if record else ((), ())
        return _valid(decoder, decoder.fields(fields, rules, data))

    def arguments(self, function: FunctionModel, data: bytes) -> dict[str, Any]:
        """Return the arguments of a function, with defaults."""
        decoder = Decoder(self.schema, wire=True, defaults=True, environ=self.environ)
        return _valid(decoder, decoder.fields(function.parameters, function.rules, loaded(data)))

    def results(self, function: FunctionModel, data: bytes) -> dict[str, Any]:
        """Return the result of a function."""
        decoder = Decoder(self.schema, wire=True)
        return _valid(decoder, decoder.fields(function.results, (), loaded(data)))

    def pack_arguments(self, function: FunctionModel, values: Mapping[str, Any]) -> bytes:
        """Return the payload of arguments of a function."""
        return _dumped(Encoder(self.schema).fields(function.parameters, values))

    def pack_results(self, function: FunctionModel, values: Mapping[str, Any]) -> bytes:
        """Return the payload of a function's result."""
        return _dumped(Encoder(self.schema).fields(function.results, values))

    def pack_inputs(self, kind: KindModel, values: Mapping[str, Any]) -> bytes:
        """Return the payload of arguments."""
        return _dumped(Encoder(self.schema).fields(inputs(kind.fields), values))

    def pack_state(self, kind: KindModel, values: Mapping[str, Any]) -> bytes:
        """Return the payload of a state."""
        return _dumped(Encoder(self.schema).fields(outputs(kind.fields), values))

    def pack_config(self, values: Mapping[str, Any]) -> bytes:
        """Return the payload of a configuration."""
        record = self.schema.config
        return _dumped(Encoder(self.schema).fields(record.fields if record else (), values))


def _valid(decoder: Decoder, values: dict[str, Any]) -> dict[str, Any]:
    if decoder.violations:
        raise InvalidPayload(decoder.violations)
    return values


def loaded(data: bytes) -> Any:
    """Return the data of a payload. Raises `InvalidPayload`."""
    try:
        return json.loads(data or b"{}", parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload([Violation("form", "", f"the payload is not JSON: {error}")]) from None


def _refuse(word: str) -> Any:
    """Refuse a number that JSON does not have, such as NaN."""
    raise ValueError(f"{word} is not a JSON value")


def _dumped(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
