"""Messages for users that say why pydantic refuses a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WANTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}
"""First part of the name of a pydantic error -> what the value must be."""
VIOLATION, VIOLATION_OF_TYPE = "violation", "violation_of_a_type"
"""Types of the errors of a value that a schema validates. Each error has its own location, and all are reported."""


def said(detail: Mapping[str, Any]) -> str:
    """Return the message for one of pydantic's errors."""
    if (wanted := _WANTED.get(detail["type"].partition("_")[0])) and detail["type"].endswith(("_type", "_parsing")):
        return f"it must be {wanted}"
    if detail["type"] == "extra_forbidden":
        return f"{detail['loc'][-1]!r} is not a known key"
    text = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text.replace("Input should be", "it must be")
