"""Answers calls of a package's functions with an author's code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from holdfast.agent.model.package import FunctionModel
from holdfast.agent.plugins.construct import construct
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.stub import Function, plain
from holdfast.resources.errors import Permanent


class FunctionCalls:
    """Decodes and validates arguments, calls the author's code, and validates and encodes its result."""

    def __init__(self, schema: Schema, functions: Mapping[str, Function[Any, Any]]) -> None:
        self.schema = schema
        self.functions = functions
        self.payloads = Payloads(schema, os.environ)

    async def invoke(self, request: Any) -> Any:
        """Return the result of one call."""
        if request.function not in self.functions:
            raise Permanent(f"there is no function {request.function} in version {self.schema.package.version}")
        model, function = self.schema.functions[request.function], self.functions[request.function]
        arguments = construct(function.arguments, self.payloads.arguments(model, request.arguments))
        async with asyncio.timeout(request.timeout_ms / 1000 or None):
            result = await function.call(arguments)
        return message["InvokeResponse"](result=self._returned(model, function, result))

    def _returned(self, model: FunctionModel, function: Function[Any, Any], result: Any) -> bytes:
        """Return the encoded result, after checking it against the schema."""
        if not isinstance(result, function.result):
            raise TypeError(f"{model.name} must return {function.result.__name__}, not {type(result).__name__}")
        try:
            data = self.payloads.pack_results(model, plain(result))
            self.payloads.results(model, data)
        except InvalidPayload as error:
            raise ValueError(f"the provider returned a wrong result of {model.name}: {error}") from None
        except (TypeError, AttributeError, KeyError, StopIteration) as error:
            raise ValueError(f"the provider returned a result of {model.name} of a wrong type: {error}") from None
        return data
