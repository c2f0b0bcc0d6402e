"""What the groups of settings have in common."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

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


class _OnceGiven:
    """Builds the validator of a group when its settings are first given: most runs are given none."""

    def __get_pydantic_core_schema__(self, source: type[BaseModel], _: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return the schema of a call that validates the group; pydantic keeps the places of its errors."""
        return core_schema.no_info_plain_validator_function(source.model_validate)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON schema of the group."""
        validate: Any = schema
        return handler(validate["function"]["function"].__self__.__pydantic_core_schema__)


T = TypeVar("T", bound=BaseModel)
Group = Annotated[T, _OnceGiven()]
"""A group of settings within others."""


@accepts(pattern=r"[^\0]+")
def _parse_location(value: object) -> object:
    if isinstance(value, str) and not is_location(value):
        raise ValueError("a path cannot be empty or contain a NUL character; without this line the default applies")
    return value


Location = Annotated[Path, BeforeValidator(_parse_location)]
"""A path; not empty, without NUL."""
