"""Field types that kinds share, and `field`, which declares an argument.

The arguments of a kind are pydantic fields. This module adds what pydantic lacks: values that must never be shown
(`secret`), and the spellings that state files use for modes, paths and lists.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from sys import intern
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticUndefined

from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.modes import symbolic
from holdfast.resources.numbers import Written, plain_number
from holdfast.resources.spelling import SURE, nearest


def field(default: Any = PydanticUndefined, *, secret: bool = False, unit: str = "", **rules: Any) -> Any:
    """Declare one argument of a kind.

    Without `default` the argument is required. `secret` values never reach a log, a diff, a status or a command line.
    `unit` is that of a number (`seconds`, `days`, `per second`), for documents. `rules` are pydantic's own (`pattern=`,
    `ge=`, `default_factory=`, ...).
    """
    marks = {**({"secret": True} if secret else {}), **({"unit": unit} if unit else {})}
    if marks:
        rules["json_schema_extra"] = {**rules.get("json_schema_extra", {}), **marks}
    if secret:
        rules["repr"] = False
    return Field(default, **rules)


def secret_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the names of the arguments whose values must be masked."""
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and extra.get("secret"):
            yield info.alias or name


@accepts(str, numbers=True, pattern=r"(0o)?[0-7]{1,5}|[ugoa].*")
def parse_mode(value: object) -> object:
    """Return a file mode as four octal digits: `0644`, `'0644'`, `644`, `'0o644'` and `u=rw,go=r` all give `'0644'`.

    State files read a number with a leading zero as decimal (Salt's rule), so its decimal digits are the octal digits
    of the mode. A number with other digits cannot be a mode and is refused.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    digits = str(value).removeprefix("0o")
    if re.fullmatch(r"[0-7]{1,5}", digits) and int(digits, 8) <= 0o7777:
        return intern(f"{int(digits, 8):04o}")
    if re.match("[ugoa]", digits):
        return intern(f"{symbolic(digits):04o}")
    raise ValueError(
        f"{value!r} is not a file mode: write it as four octal digits in quotes, like '0644', or as 'u=rw,go=r'"
    )


@accepts(str, int, pattern=r"[0-7]{1,4}")
def parse_umask(value: object) -> int:
    """Return a umask as a number. The value is octal digits, as text or as a number with these digits."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-7]{1,4}", str(value)):
        raise ValueError(f"{value!r} is not a umask: write octal digits in quotes, like '022'")
    return int(str(value), 8)


@accepts(numbers=True)
def parse_text(value: object) -> object:
    """Return text where YAML may have read a number: `1.0` and `8080` are taken as written.

    Raises `ValueError` for `1.10`, which YAML reads as 1.1.
    """
    if isinstance(value, Written):
        raise ValueError(  # noqa: TRY004 - pydantic collects ValueErrors
            f"it must be text, but YAML reads {value.written} as the number {value}: write '{value.written}', in quotes"
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def shaped(pattern: str, what: str, most: int = 4096) -> AfterValidator:
    """Return a validator for `Annotated`: the whole text must match `pattern`.

    `what` says in the error what the text should be; `most` is the greatest length in characters.
    """
    expression = re.compile(pattern)

    @accepts(pattern=pattern)
    def check(value: str) -> str:
        if len(value) > most or not expression.fullmatch(value):
            shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}..."
            raise ValueError(f"{shown!r} is not {what}")
        return value

    return AfterValidator(check)


@accepts(pattern=r"/[^\0]*")
def demand_absolute(value: str) -> str:
    """Check that a path is absolute. The path is not normalised: `..` after a link goes up from the link's target."""
    if not value.startswith("/") or "\0" in value:
        raise ValueError(f"{value!r} is not an absolute path: it must begin with /")
    return value


@accepts(pattern=r"\s*\S.*")
def one_line(value: str) -> str:
    """Return one line of text without surrounding blanks.

    Raises `ValueError` if the text has several lines or is empty.
    """
    if not value.strip() or any(end in value for end in "\r\n\0"):
        raise ValueError("it must be one line that is not empty")
    return value.strip()


@accepts(pattern=r"[\s\S]*\S[\s\S]*")
def demand_given(value: str) -> str:
    """Check a name or a command. Raises `ValueError` if it is empty or cannot be passed to a program."""
    if not value.strip():
        raise ValueError("it must not be empty")
    if "\0" in value:
        raise ValueError("it cannot contain a NUL character")
    return value


@accepts(pattern=r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}")
def demand_unit(value: str) -> str:
    """Check the name of a unit. Raises `ValueError`.

    A name without a suffix is the name of a service. A suffix that resembles a known one is an error.
    """
    if len(value) > 255 or not re.fullmatch(r"[A-Za-z0-9:_.\\@-]+", value) or value.startswith("-"):
        raise ValueError(
            f"{value!r} is not the name of a unit: it has letters, digits and :_.\\@- and no path before it"
        )
    stem, dot, suffix = value.rpartition(".")
    if dot and suffix not in UNIT_TYPES and (near := nearest(suffix, UNIT_TYPES, SURE)):
        raise ValueError(
            f"systemd has no units of the type {suffix!r}; did you mean {stem}.{near}? Write {value}.service for a "
            "service of this name"
        )
    return value


@accepts(pattern=r"/[^\0]*")
def parse_path(value: object) -> object:
    """Return an absolute path, normalised as text (no `.`, `..`, doubled or trailing slash); `~` is not expanded.

    A normalised path is returned as the same object, so that a resource shares the text with its state.
    """
    if not isinstance(value, str):
        return value
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path: it must begin with /")
    if "\0" in value:
        raise ValueError("a path cannot contain a NUL character")
    normal = os.path.normpath(value.replace("//", "/"))
    return value if value == normal else normal


@accepts()
def plain_numbers(value: object) -> object:
    """Return data with plain numbers, without their spelling: templates compute with them."""
    if isinstance(value, dict):
        return {plain_number(key): plain_numbers(item) for key, item in value.items()}
    return [plain_numbers(item) for item in value] if isinstance(value, list) else plain_number(value)


@accepts(VALUE, ITEM, None)
def parse_list(value: object) -> object:
    """Return a list; a single item stands for a list with one item."""
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


UNIT_TYPES = ("service", "socket", "timer", "path", "mount", "automount", "swap", "target", "slice", "scope", "device")
"""Suffixes of units that systemd knows."""
SHOWN = 80
"""Number of characters of a wrong value that an error shows."""
LAST_ID = 0xFFFFFFFE
"""Highest number of a user or group; the next one means "leave as it is" to chown(2)."""

Mode = Annotated[str, BeforeValidator(parse_mode)]
"""A file mode, four octal digits as text, or symbolic: `u=rw,go=r`."""
Text = Annotated[str, BeforeValidator(parse_text)]
"""Text; numbers are taken as written."""
AbsPath = Annotated[str, BeforeValidator(parse_path)]
"""An absolute, normalised path."""
Texts = Annotated[tuple[Text, ...], BeforeValidator(parse_list)]
"""A list of texts; a single text stands for a list with one item."""
Variables = Annotated[dict[str, Any], BeforeValidator(plain_numbers)]
"""Variables of a template."""
Paths = Annotated[tuple[AbsPath, ...], BeforeValidator(parse_list)]
"""A list of absolute paths; a single path stands for a list with one item."""
Given = Annotated[str, AfterValidator(demand_given)]
"""Text that is not empty."""
Line = Annotated[Text, AfterValidator(one_line)]
"""One line of text that is not empty."""
RootedPath = Annotated[str, AfterValidator(demand_absolute)]
"""An absolute path, kept as written."""
Owner = Annotated[
    Text,
    shaped(
        r"(?!-)[^\s:/,\x00-\x1f\x7f]([^:/,\x00-\x1f\x7f]*[^\s:/,\x00-\x1f\x7f])?",
        "the name or number of a user or group",
        256,
    ),
]
"""A user or group, by name or number. Name services allow names with blanks and backslashes."""
Owners = Annotated[tuple[Owner, ...], BeforeValidator(parse_list)]
"""A list of users or groups; a single one stands for a list with one item."""
Account = Annotated[
    Text, shaped(r"[A-Za-z_0-9][A-Za-z0-9_.@-]*\$?", "the name of an account: it has letters, digits and _.@-", 256)
]
"""Name of a user or group in this host's own files."""
NewAccount = Annotated[
    Account,
    shaped(r"(?!\d+$).{1,32}", "a name for a new account: it has at most 32 characters, and not only digits", 256),
]
"""Name for a new user or group: digits alone would be taken for its number."""
Umask = Annotated[int, BeforeValidator(parse_umask)]
"""A umask, octal digits."""
Number = Annotated[int, Field(ge=0, le=LAST_ID)]
"""The number of a user or group."""
Unit = Annotated[Text, AfterValidator(demand_unit)]
"""A unit of systemd, or a service without its suffix."""
