"""Reads requests. A request is valid if its verb is known and its fields are those of the verb, with their types."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holdfast.agent import verbs
from holdfast.agent.control import internal, table_requests  # noqa: F401 - declare requests
from holdfast.agent.control.answers import TIMEOUT
from holdfast.agent.control.request import ControlRequest, declared
from holdfast.agent.control.schema import LIMIT, ControlError

UNKNOWN = "unexpected_keyword_argument"
"""The code of pydantic's error for a field that does not exist."""


@cache
def requests() -> dict[str, type[ControlRequest]]:
    """Return the request of each verb.

    Their modules are imported: the agent calls this at its start, because the modules of a verb may be of another
    version when a client asks, after an upgrade.
    """
    for name in verbs.asking():
        verbs.command(name)
    return declared


@cache
def _adapter(verb: str) -> TypeAdapter[ControlRequest]:
    """Return the validator of the fields of a request."""
    return TypeAdapter(requests()[verb])


async def read_request(reader: asyncio.StreamReader) -> ControlRequest | ControlError:
    """Return the request that a client sends first, or the error in place of an invalid one."""
    try:
        return decode_request(await asyncio.wait_for(reader.readline(), TIMEOUT))
    except ControlError as error:
        return error
    except ValueError:
        return ControlError(f"cannot read the request: it is longer than {LIMIT} bytes", "not-understood")
    except TimeoutError:
        return ControlError(f"cannot wait longer than {TIMEOUT:g} s for a request")


def decode_request(line: bytes) -> ControlRequest:
    """Return the request in a line. Raises `ControlError` for anything else."""
    try:
        values = json.loads(line)
    except ValueError as error:
        raise _unreadable(f"it is not JSON: {error}") from error
    except RecursionError:
        raise _unreadable("it is nested too deeply") from None
    if not isinstance(values, dict) or "verb" not in values:
        raise _unreadable("it must be a JSON object with a verb")
    verb = values.pop("verb")
    if not isinstance(verb, str) or verb not in requests():
        raise ControlError(f"cannot do {verb!r}: known verbs are {', '.join(sorted(requests()))}", "not-understood")
    try:
        return _adapter(verb).validate_json(json.dumps(values))
    except ValidationError as error:
        raise _unreadable("; ".join(_problem(each) for each in error.errors(include_url=False))) from None


def _problem(error: Any) -> str:
    """Return the message for an invalid field, or for several fields together."""
    name = ".".join(map(str, error["loc"]))
    text = error["msg"].removeprefix("Value error, ")
    if error["type"] == UNKNOWN:
        return f"unknown {name!r}"
    return f"wrong value of {name}: {text}" if name else text


def _unreadable(why: str) -> ControlError:
    return ControlError(f"cannot read the request: {why}", "not-understood")
