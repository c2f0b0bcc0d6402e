"""Filters of texts, numbers and dates."""

from __future__ import annotations

import base64
import datetime as dt
import fnmatch
import hashlib
import hmac
import os
import posixpath
import re
import shlex
import uuid
from collections.abc import Hashable, Sequence
from typing import Any

from holdfast.resources.expressions import expression

NAMESPACE = uuid.UUID("91633EBF-1C86-5E33-935A-28061F4B480E")
"""Namespace of `uuid`, as in Salt: the same name has the same UUID everywhere."""
UNITS = "bkmgtpezy"


def to_bool(value: Any) -> bool:
    """Return whether a value means yes.

    True, an integer above 0, one of the words yes, true and 1, and a non-empty list or mapping mean yes.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() in ("yes", "1", "true")
    if isinstance(value, int):
        return value > 0
    return not isinstance(value, Hashable) and len(value) > 0


def _flags(ignorecase: bool, multiline: bool) -> int:
    return (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0)


def regex_replace(text: str, pattern: str, repl: str, ignorecase: bool = False, multiline: bool = False) -> str:
    """Return a text with each match of a pattern replaced."""
    return expression(pattern, _flags(ignorecase, multiline)).sub(repl, str(text))


def regex_search(text: str, pattern: str, ignorecase: bool = False, multiline: bool = False) -> tuple[Any, ...] | None:
    """Return the groups of the first match anywhere; None without one."""
    return expression(pattern, _flags(ignorecase, multiline)).search(str(text))


def regex_match(text: str, pattern: str, ignorecase: bool = False, multiline: bool = False) -> tuple[Any, ...] | None:
    """Return the groups of a match at the beginning; None without one."""
    return expression(pattern, _flags(ignorecase, multiline)).match(str(text))


def matches(text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Return whether the beginning of a text matches a pattern."""
    return expression(pattern, _flags(ignorecase, multiline)).match(str(text)) is not None


def hexdigest(text: Any, algorithm: str) -> str:
    """Return the checksum of a text."""
    return hashlib.new(algorithm, _bytes(text), usedforsecurity=False).hexdigest()


def hmac_compute(text: Any, key: str) -> str:
    """Return the SHA-256 signature of a text, in hex."""
    return hmac.new(_bytes(key), _bytes(text), hashlib.sha256).hexdigest()


def hmac_holds(text: Any, key: str, signature: str) -> bool:
    """Return whether a signature (base64) is that of the text."""
    return hmac.compare_digest(
        base64.b64encode(hmac.new(_bytes(key), _bytes(text), hashlib.sha256).digest()), _bytes(signature)
    )


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def to_num(value: Any) -> Any:
    """Return the number of a text; the text itself if it is not a number."""
    for number in (int, float):
        try:
            return number(value)
        except (TypeError, ValueError):
            pass
    return value


def human_to_bytes(size: Any, default_unit: str = "B", handle_metric: bool = False) -> int:
    """Return the number of bytes of a size such as `2G` or `1.5 MiB`; 0 for invalid text.

    With `handle_metric`, `MB` is a million bytes.
    """
    found = re.match(r"(?P<value>[0-9.]*)\s*(?P<unit>.*)$", str(size).strip())
    value = to_num(found["value"]) if found else None
    unit = ((found["unit"] if found else "") or default_unit).lower()
    metric = re.fullmatch(f"[{UNITS[1:]}]b", unit) is not None
    if not isinstance(value, (int, float)) or not (metric or re.fullmatch(f"b|[{UNITS[1:]}](ib)?", unit)):
        return 0
    power = UNITS.index(unit[0])
    return int(value * (1000**power if metric and handle_metric else 1024**power))


def to_snake_case(text: str) -> str:
    """Return `camelCase` as `camel_case`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])", "_", text).lower()


def to_camelcase(text: str, uppercamel: bool = False) -> str:
    """Return `snake_case` as `snakeCase`."""
    first, *rest = text.split("_")
    return (first.capitalize() if uppercamel else first) + "".join(word.capitalize() for word in rest)


def path_join(*parts: str) -> str:
    """Join the parts of a path; all parts after the first are relative to it, without `..` and double slashes."""
    first, *rest = map(posixpath.normpath, parts)
    return posixpath.normpath(posixpath.join(first, *(part.lstrip("/") for part in rest)))


def allowed(
    value: str, whitelist: Sequence[str] | str | None = None, blacklist: Sequence[str] | str | None = None
) -> bool:
    """Return whether a text matches the first list, if there is one, and not the second.

    Both contain globs and regular expressions.
    """

    def on(patterns: Sequence[str] | str) -> bool:
        return any(
            fnmatch.fnmatch(value, pattern)
            or expression(pattern.replace("*", ".*") if pattern.startswith("*") else pattern).fullmatch(value)
            for pattern in ([patterns] if isinstance(patterns, str) else patterns)
        )

    return not (blacklist and on(blacklist)) and (not whitelist or on(whitelist))


def strftime(date: Any = None, format: str = "%Y-%m-%d") -> str:
    """Return a date in a format; the date is a time stamp or in a usual format.

    Raises `ValueError` for any other text.
    """
    return moment(date).strftime(format)


def moment(date: Any) -> dt.datetime:
    """Return the local time of a value; None means now."""
    if date is None:
        return dt.datetime.now()  # noqa: DTZ005 - local time is what templates show
    if isinstance(date, dt.datetime):
        return date
    number = to_num(date)
    if isinstance(number, (int, float)):
        return dt.datetime.fromtimestamp(number)  # noqa: DTZ006 - as above
    text = str(date).strip()
    try:
        return dt.datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        pass
    for form in ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%a, %d %b %Y %H:%M:%S %z", "%d %b %Y", "%b %d %Y", "%Y%m%d"):
        try:
            return dt.datetime.strptime(text, form)  # noqa: DTZ007 - a date without a zone is local
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a date: write 2024-12-31 or 2024-12-31 10:00")


def random_text(size: int = 32) -> str:
    """Return random letters and digits, different each time."""
    return base64.b64encode(os.urandom(size)).decode()[:size]


FILTERS: dict[str, Any] = {
    "to_bool": to_bool,
    "quote": lambda value: shlex.quote(str(value)),
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "regex_match": regex_match,
    "regex_escape": re.escape,
    "path_join": path_join,
    "base64_encode": lambda value: base64.b64encode(_bytes(value)).decode(),
    "base64_decode": lambda value: base64.b64decode(_bytes(value)).decode(),
    "md5": lambda value: hexdigest(value, "md5"),
    "sha1": lambda value: hexdigest(value, "sha1"),
    "sha256": lambda value: hexdigest(value, "sha256"),
    "sha512": lambda value: hexdigest(value, "sha512"),
    "hmac": hmac_holds,
    "hmac_compute": hmac_compute,
    "uuid": lambda value: str(uuid.uuid5(NAMESPACE, str(value))),
    "skip": lambda _: "",
    "to_num": to_num,
    "str_to_num": to_num,
    "to_bytes": _bytes,
    "human_to_bytes": human_to_bytes,
    "to_snake_case": to_snake_case,
    "to_camelcase": to_camelcase,
    "is_hex": lambda value: (
        isinstance(value, str) and re.fullmatch(r"\s*[+-]?(0[xX])?[0-9a-fA-F]+\s*", value) is not None
    ),
    "contains_whitespace": lambda text: any(char.isspace() for char in text),
    "substring_in_list": lambda text, items: any(text in item for item in items),
    "check_whitelist_blacklist": allowed,
    "strftime": strftime,
    "date_format": strftime,
    "mac_str_to_bytes": lambda text: bytes.fromhex(text.replace(":", "").replace("-", "")),
    "strip": lambda value, chars=None: str(value).strip(chars),
}
"""Name in templates -> function."""
