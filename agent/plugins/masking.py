"""Masks secrets that a provider repeats in its messages, on both ends of a connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from holdfast.agent.plugins.values import Secret, revealed
from holdfast.resources.secrets import Redactor

TOLD = ("message", "path", "unwatched")
"""Members with free text of the provider."""


def redactor_of(secrets: Iterable[str]) -> Redactor:
    """Return a redactor of these texts."""
    return Redactor({"secrets": {str(number): text for number, text in enumerate(secrets)}})


def texts_of(value: Any, *, secret: bool = False) -> Iterable[str]:
    """Yield the texts in the secrets of a value."""
    secret = secret or isinstance(value, Secret)
    value = revealed(value)
    if isinstance(value, dict):
        for each in value.values():
            yield from texts_of(each, secret=secret)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_of(each, secret=secret)
    elif secret and value is not None:
        yield str(value)


def mask(response: Any, redactor: Redactor) -> Any:
    """Mask the secrets in the messages of a response; payloads stay as they are. Return the response."""
    for field, value in response.ListFields():
        if isinstance(value, str) and field.name in TOLD:
            setattr(response, field.name, redactor(value))
        elif isinstance(value, Message):
            mask(value, redactor)
        elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
            for each in value:
                if isinstance(each, Message):
                    mask(each, redactor)
    return response
