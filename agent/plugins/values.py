"""Values of remote resources: the types of the IDL in Python and as text.

| type | in Python | as text |
|---|---|---|
| bytes | `bytes` | base64 |
| moment | `datetime` with a zone | RFC 3339, in UTC |
| duration | `timedelta` | seconds: `5400s`, `0.25s`; state files may say `1h30m`, or a number of seconds |
| path | `PurePosixPath` | absolute, without `.` and `..` |
| address | `IPv4Address` or `IPv6Address` | the shortest form |

A record is a `dict` by the names of its fields, without those that are not given; a tagged one also has `type`. Two
values are special: `UNKNOWN` stands for a value that becomes known later, and `Secret` contains one that must never be
shown.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import enum
import ipaddress
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple


class Unknown(enum.Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "known later"


UNKNOWN: Final = Unknown.UNKNOWN
"""Stands for a value that another resource will send once it exists."""


@dataclass(frozen=True)
class Secret:
    """A value that must never be shown. It is equal to another secret with an equal value."""

    value: Any = field(repr=False)


def revealed(value: Any) -> Any:
    """Return a value, or the content of a secret."""
    return value.value if isinstance(value, Secret) else value


def has_unknown(value: Any) -> bool:
    """Return whether a value, or a part of it, becomes known later."""
    value = revealed(value)
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    return any(map(has_unknown, value)) if isinstance(value, list) else value is UNKNOWN


class TextForm(NamedTuple):
    """The text form of the values of a type."""

    parse: Callable[[str], Any]
    """Raises `ValueError`, whose message completes "it must be"."""
    format: Callable[[Any], str]
    types: tuple[type, ...]


UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}
PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|d)")
WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:us|ms|s|m|h|d))+")
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
MICROSECOND = dt.timedelta(microseconds=1)


def parse_duration(text: str) -> dt.timedelta:
    """Return the duration of `1h30m` or `5400s`."""
    if not WHOLE.fullmatch(text):
        raise ValueError("a duration such as '1h30m' or '90s'")
    try:
        return sum((dt.timedelta(seconds=float(n) * UNITS[unit]) for n, unit in PART.findall(text)), dt.timedelta())
    except OverflowError:
        raise ValueError("a duration of less than a thousand million days") from None


def format_duration(value: dt.timedelta) -> str:
    """Return a duration in seconds, exactly: `5400s`, `0.25s`."""
    whole, rest = divmod(value // MICROSECOND, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".") + "s"


def parse_moment(text: str) -> dt.datetime:
    """Return the moment of a text in the form of RFC 3339, in UTC."""
    wanted = "a date and time with zone, such as '2026-01-31T12:00:00Z'"
    if not MOMENT.fullmatch(text):
        raise ValueError(wanted)
    try:
        return dt.datetime.fromisoformat(text).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None


def format_moment(value: dt.datetime) -> str:
    """Return a moment in the form of RFC 3339, in UTC."""
    return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def parse_path(text: str) -> PurePosixPath:
    """Return an absolute path in its normal form."""
    if not text.startswith("/") or "\0" in text or ".." in text.split("/"):
        raise ValueError("an absolute path without '..'")
    return PurePosixPath("/" + posixpath.normpath(text).lstrip("/"))


def parse_bytes(text: str) -> bytes:
    """Return the bytes of a text in base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("text in base64") from None


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address of version 4 or 6."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ValueError("an IP address, such as '192.0.2.1' or '2001:db8::1'") from None


TEXT_FORMS: Mapping[str, TextForm] = {
    "bytes": TextForm(parse_bytes, lambda value: base64.b64encode(value).decode(), (bytes,)),
    "moment": TextForm(parse_moment, format_moment, (dt.datetime,)),
    "duration": TextForm(parse_duration, format_duration, (dt.timedelta,)),
    "path": TextForm(parse_path, str, (PurePosixPath,)),
    "address": TextForm(parse_address, str, (ipaddress.IPv4Address, ipaddress.IPv6Address)),
}
"""Word of a type whose values are written as text -> its form."""


STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path: those of `ingress[0].from_port` are `ingress`, 0 and `from_port`."""
    return tuple(int(number) if number else name for number, name in STEP.findall(path))


class Violation(NamedTuple):
    """One rule of the schema that a value violates. Both sides find the same violations in the same order."""

    code: str
    """One of `CODES`."""
    path: str
    """Path to the value, by names of the IDL: `ingress[0].from_port`; empty: the value as a whole."""
    message: str


CODES = {
    "missing": "a required field is not given",
    "unexpected": "there is no such field, or the provider sets it",
    "type": "the value has another type",
    "form": "the text is not in the form of its type",
    "range": "the number is too small or too large",
    "length": "the value is too short or too long",
    "pattern": "the text does not match the pattern",
    "choice": "the value is not one of those that are allowed",
    "duplicate": "a set contains a value twice",
    "rule": "fields do not fit together",
}
