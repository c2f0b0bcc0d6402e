"""Field types that kinds share, and `field`, their one way to declare an argument.

A kind's arguments are pydantic fields. What pydantic cannot say is said here: a value that must never be shown
(`secret`), and the spellings that state files use for modes, paths and lists.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticUndefined

from holdfast.resources.modes import symbolic


def field(default: Any = PydanticUndefined, *, secret: bool = False, **rules: Any) -> Any:
    """Declare one argument of a kind.

    `default` left out makes it required. `secret` values never reach a log, a diff, a status or a command line.
    `rules` are pydantic's own (`pattern=`, `ge=`, `default_factory=`, ...).
    """
    if secret:
        rules["json_schema_extra"] = {**rules.get("json_schema_extra", {}), "secret": True}
        rules["repr"] = False
    return Field(default, **rules)


def secret_fields(model: type[BaseModel]) -> Iterator[str]:
    """Names of the arguments whose values must be masked."""
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and extra.get("secret"):
            yield name


def parse_mode(value: object) -> object:
    """A file mode as four octal digits: `0644`, `'0644'`, `644`, `'0o644'` and `u=rw,go=r` all give `'0644'`.

    State files read a number with a leading zero as decimal (Salt's rule), so its digits are the mode. A number whose
    digits cannot be a mode was meant otherwise, and is refused. Source: design/language, rule 9.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    digits = str(value).removeprefix("0o")
    if re.fullmatch(r"[0-7]{1,5}", digits) and int(digits, 8) <= 0o7777:
        return f"{int(digits, 8):04o}"
    if re.match("[ugoa]", digits):
        return f"{symbolic(digits):04o}"
    raise ValueError(f"{value!r} is not a file mode: write it as four octal digits in quotes, like '0644', or as 'u=rw,go=r'")


def parse_umask(value: object) -> int:
    """A umask as a number, from octal digits, as text or as the number that they read as."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-7]{1,4}", str(value)):
        raise ValueError(f"{value!r} is not a umask: write octal digits in quotes, like '022'")
    return int(str(value), 8)


def parse_text(value: object) -> object:
    """Text where YAML may have read a number: `1.0` and `8080` are accepted and kept as written."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def parse_path(value: object) -> object:
    """An absolute path, normalised as text (no `.`, `..`, doubled or trailing slash); `~` is not expanded."""
    if not isinstance(value, str):
        return value
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path: it must begin with /")
    if "\0" in value:
        raise ValueError("a path cannot contain a NUL character")
    return os.path.normpath(value.replace("//", "/"))


def parse_list(value: object) -> object:
    """A list where one plain item may stand for a list of one."""
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


Mode = Annotated[str, BeforeValidator(parse_mode)]
"""A file mode, four octal digits as text, or symbolic: `u=rw,go=r`."""
Text = Annotated[str, BeforeValidator(parse_text)]
"""Text; numbers are taken as written."""
AbsPath = Annotated[str, BeforeValidator(parse_path)]
"""An absolute, normalised path."""
Texts = Annotated[tuple[Text, ...], BeforeValidator(parse_list)]
"""A list of texts; one plain text stands for a list of one."""
Paths = Annotated[tuple[AbsPath, ...], BeforeValidator(parse_list)]
"""A list of absolute paths; one plain path stands for a list of one."""
