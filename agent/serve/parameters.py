"""Parameters of a request, each declared once: read from the query, and described in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.agent.control.table_requests import MOST
from holdfast.agent.serve.http import HttpError, Request

LONGEST = 3600
"""Most seconds of `timeout`."""


class Parameter(NamedTuple):
    """One parameter of the query."""

    name: str
    schema: Mapping[str, Any]
    """The JSON schema of the parameter."""
    text: str
    read: Callable[[str], Any]
    """Returns the value of a text. Raises `ValueError`."""
    several: bool = False
    """Whether it may be repeated; its value is then a list."""


def _number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
            raise ValueError
        return int(text)

    return read


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError
    return text == "true"


def _count(most: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


ANSWER, STREAM = 10, 3600
"""Default seconds within which the agent must answer, and for which a stream lasts."""
AFTER = Parameter("after", {"type": "string"}, "Only records with greater IDs: `next` of the previous page.", str)
BEFORE = Parameter("before", {"type": "string"}, "Only records with smaller IDs.", str)
LIMITED = Parameter("limit", _count(MOST, 100), "Most records of the page.", _number(MOST))
NEWEST = Parameter("newest", {"type": "boolean", "default": False}, "From the greatest ID downwards.", _truth)
TIMEOUT = Parameter("timeout", _count(LONGEST, ANSWER), "Seconds that the agent has to answer.", _number(LONGEST))
LASTS = Parameter("timeout", _count(LONGEST, STREAM), "Seconds after which the stream ends.", _number(LONGEST))
TABLES = Parameter(
    "table",
    {"type": "array", "items": {"type": "string"}},
    "Only writes to this table; may be repeated. By default all tables.",
    str,
    several=True,
)
OF_PAGE, OF_RECORD, OF_WATCH = (AFTER, BEFORE, LIMITED, NEWEST, TIMEOUT), (TIMEOUT,), (TABLES, LASTS)


def values(request: Request, known: Sequence[Parameter]) -> dict[str, Any]:
    """Return the given parameters of a request. Raises `HttpError` for others, and for values that are not valid."""
    by_name = {each.name: each for each in known}
    found = {}
    for name, texts in request.query.items():
        parameter = by_name.get(name)
        if parameter is None:
            raise HttpError(400, f"there is no parameter {name!r}; available: {', '.join(by_name) or 'none'}")
        if len(texts) > 1 and not parameter.several:
            raise HttpError(400, f"the parameter {name!r} is repeated")
        try:
            read = [parameter.read(text) for text in texts]
        except ValueError:
            raise HttpError(400, f"the value of {name!r} is not valid: {parameter.text}") from None
        found[name] = read if parameter.several else read[0]
    return found
