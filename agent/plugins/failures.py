"""Converts exceptions of an author's code to failures of the protocol, which contain no secret of the request."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload
from holdfast.agent.plugins.stub import Conflict, Partial
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.secrets import Redactor

LONGEST = 2000
"""Characters of a message."""


def failure_of(error: BaseException, request: Any) -> Any:
    """Return the failure for an exception. Secrets in the payloads of the request are masked in its text."""
    said = str(error) or type(error).__name__
    code = next((code for kind, code in CODES if isinstance(error, kind)), "fault")
    if code == "fault":
        said = f"{type(error).__name__}: {said}"
    if isinstance(error, TimeoutError):
        said = "the time has run out"
    redactor = Redactor(*({"secret": each} for payload in _payloads(request) for each in secrets_in(payload)))
    return message["Failure"](code=code, message=redactor(said)[:LONGEST])


CODES: tuple[tuple[type[BaseException], str], ...] = (
    (Partial, "retry"),
    (Temporary, "retry"),
    (TimeoutError, "retry"),
    (ConnectionError, "retry"),
    (Conflict, "conflict"),
    (Permanent, "permanent"),
    (NotImplementedError, "unsupported"),
    (asyncio.CancelledError, "cancelled"),
    (InvalidPayload, "fault"),
)
"""Exception -> code of the failure; the first match applies. Any other exception is a defect of the provider."""


def _payloads(request: Any) -> Iterable[bytes]:
    """Yield the payloads in a message, and in the messages within it."""
    for _, value in request.ListFields():
        for each in [value] if isinstance(value, (bytes, Message)) else value if isinstance(value, Sequence) else ():
            if isinstance(each, bytes):
                yield each
            elif isinstance(each, Message):
                yield from _payloads(each)


def secrets_in(payload: bytes) -> list[str]:
    """Return the texts that a payload marks as secret."""
    try:
        return list(_secret_texts(json.loads(payload or b"null")))
    except (ValueError, RecursionError):
        return []


def _secret_texts(data: Any, *, secret: bool = False) -> Iterable[str]:
    if isinstance(data, dict):
        for key, item in data.items():
            yield from _secret_texts(item, secret=secret or key == "$secret")
    elif isinstance(data, list):
        for item in data:
            yield from _secret_texts(item, secret=secret)
    elif secret and isinstance(data, str):
        yield data


def log_failure(method: str, error: BaseException) -> None:
    """Log the place of an error in the author's code, unless the code has raised it on purpose.

    The text of the error may contain secrets, and is not logged.
    """
    if isinstance(error, (HoldfastError, TimeoutError, asyncio.CancelledError)):
        return
    places = "".join(traceback.format_tb(error.__traceback__))
    logging.getLogger("holdfast.plugin").error("%s has failed: %s\n%s", method, type(error).__name__, places)
