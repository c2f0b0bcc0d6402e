"""What the groups of settings have in common."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from holdfast.agent.paths import is_location
from holdfast.resources.accepts import accepts

LOOPBACK = r"localhost|127(\.[0-9]{1,3}){3}|::1"
"""Pattern of names and addresses of this host."""


def stays_here(host: str) -> bool:
    """Return whether what is sent to a host crosses no network."""
    return re.fullmatch(LOOPBACK, host) is not None


class SettingsGroup(BaseModel):
    """A group of settings: immutable, and unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


@accepts(pattern=r"[^\0]+")
def _parse_location(value: object) -> object:
    if isinstance(value, str) and not is_location(value):
        raise ValueError("a path cannot be empty or contain a NUL character; without this line the default applies")
    return value


Location = Annotated[Path, BeforeValidator(_parse_location)]
"""A path; not empty, without NUL."""
