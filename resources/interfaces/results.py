"""Results of the functions of interfaces: fields that every platform has, and `extra` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)

LENIENT = "lenient"
"""Key of the context of a validation: a function that is called with the name of each missing field that is filled."""
SMALLEST: Mapping[object, object] = {str: "", bool: False, int: 0, float: 0.0}
"""Type of a field -> the value that fills it."""


def strict(kind: Any) -> Any:
    """Return a type for results that converts no text, number or truth value from another type."""
    if kind in SMALLEST:
        return Annotated[kind, Strict()]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (None, Literal):
        return kind
    return (Union if origin is UnionType else origin)[tuple(strict(part) for part in parts)]


class Secrecy:
    """Marks a field of a result, or a parameter of a function, whose value is never shown or logged."""


SECRET = Secrecy()
Secret = Annotated[str, SECRET]
"""Text that is never shown or logged."""


class Result(BaseModel):
    """A typed result. A provider may return a mapping instead: keys that are not fields go into `extra`.

    An absent value is None, never an empty text; values are never converted from one type to another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    extra: dict[str, Any] = Field(default_factory=dict)
    """Values that only this platform has."""

    @model_validator(mode="before")
    @classmethod
    def _sort(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = {name: item for name, item in value.items() if name in cls.model_fields}
        rest = {name: item for name, item in value.items() if name not in cls.model_fields}
        if info.context and LENIENT in info.context:
            for name, field in cls.model_fields.items():
                if field.is_required() and name not in known and field.annotation in SMALLEST:
                    info.context[LENIENT](name)
                    known[name] = SMALLEST[field.annotation]
        return {**known, "extra": {**known.get("extra", {}), **rest}} if rest else known


class ChangeSet(Result):
    """What a call has changed, or with `test` would change."""

    changes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Name -> {old, new}."""
    comment: StrictStr = ""
    reboot_required: StrictBool = False

    def __bool__(self) -> bool:
        """Return whether anything was changed."""
        return bool(self.changes)


class Pkg(Result):
    """One installed version of a package."""

    name: StrictStr
    version: StrictStr
    """As the platform writes it, epoch and release included."""
    arch: StrictStr | None = None


class PkgSpec(Result):
    """A package to install."""

    name: StrictStr
    version: StrictStr | None = None
    """The version to install; None: the candidate."""
    source: StrictStr | None = None
    """Path of a package file to install instead of asking the repositories."""
    reinstall: StrictBool = False


class PkgInfo(Pkg):
    """Description of an installed package."""

    summary: StrictStr | None = None
    license: StrictStr | None = None
    url: StrictStr | None = None
    vendor: StrictStr | None = None
    size: StrictInt | None = None
    """Bytes that the installed package occupies."""
    installed_at: StrictFloat | None = None
    """Unix time at which this version was installed."""


class Repo(Result):
    """A repository of packages."""

    id: StrictStr
    uris: tuple[StrictStr, ...]
    enabled: StrictBool = True
    gpgcheck: StrictBool = True
    """Whether signatures are checked."""
    priority: StrictInt | None = None
    """Priority as the platform counts it; None: the default, or the platform has no priorities here."""


class FileDeviation(Result):
    """An installed file that differs from what its package shipped."""

    path: StrictStr
    what: tuple[StrictStr, ...]
    """What differs, sorted: `capabilities`, `device`, `digest`, `group`, `link`, `missing`, `mode`, `mtime`, `owner`,
    `size`; `unreadable` if it cannot be checked."""
    configuration: StrictBool = False
    """Whether the package declares it as a configuration file, which an administrator may change."""


class Patch(Result):
    """An announcement of corrected packages."""

    id: StrictStr
    summary: StrictStr | None = None
    category: StrictStr | None = None
    """Kind of the patch, in the platform's own word: `security`, `bugfix`, ..."""
    severity: StrictStr | None = None
    packages: tuple[StrictStr, ...] = ()
    """The corrected packages with their versions, in the platform's form, sorted."""
    installed: StrictBool = False


class ServiceStatus(Result):
    """Status of a service."""

    name: StrictStr
    exists: StrictBool
    active: StrictBool | None
    """Whether the service runs (or has done its one-time work and counts as running); None if this is unknown."""
    state: StrictStr
    """`active`, `inactive`, `failed`, `activating`, `deactivating` on every platform; some have further words."""
    enabled: StrictBool | None = None
    """Whether the service starts at boot; None if it can be neither enabled nor disabled."""
    masked: StrictBool | None = None
    pid: StrictInt | None = None
    since: StrictFloat | None = None
    """Unix time at which the service entered this state."""


class User(Result):
    """A user account."""

    name: StrictStr
    uid: StrictInt | StrictStr
    gid: StrictInt | None = None
    primary_group: StrictStr | None = None
    groups: tuple[StrictStr, ...] = ()
    """Supplementary groups, sorted."""
    home: StrictStr | None = None
    shell: StrictStr | None = None
    fullname: StrictStr | None = None
    locked: StrictBool | None = None
    password: Annotated[StrictStr | None, SECRET] = Field(None, repr=False)
    """Hash of the password; None if it cannot be read."""


class Group(Result):
    """A group of users."""

    name: StrictStr
    gid: StrictInt | None = None
    members: tuple[StrictStr, ...] = ()
    """Supplementary members, sorted."""
