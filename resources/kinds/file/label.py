"""`selinux`: the SELinux label of a file or parts of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.paths import Place, attributes

SWITCH = "/sys/fs/selinux/enforce"
"""A path that exists if SELinux is on, also in permissive mode."""
PARTS = ("seuser", "serole", "setype", "serange")
"""Parts of a label in their order; only the last part may contain a colon."""


class Label(BaseModel):
    """Parts of a label, named as in Salt; other parts are not changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    seuser: str | None = Field(None, pattern=r"^[^:\s\x00]+$")
    """SELinux user: `system_u`."""
    serole: str | None = Field(None, pattern=r"^[^:\s\x00]+$")
    """Role: `object_r`."""
    setype: str | None = Field(None, pattern=r"^[^:\s\x00]+$")
    """Type: `httpd_sys_content_t`."""
    serange: str | None = Field(None, pattern=r"^[^\s\x00]+$")
    """Level, or range of levels: `s0`, `s0-s0:c0.c1023`."""

    @model_validator(mode="after")
    def _something(self) -> Label:
        if not self.model_dump(exclude_none=True):
            raise ValueError(f"it is empty: set at least one of {', '.join(PARTS)}")
        return self

    def wrong(self, path: str, place: Place | None) -> dict[str, str]:
        """Return the change of a label that differs.

        Raises `Permanent` if SELinux is off or the label cannot be read.
        """
        if not is_on():
            raise Permanent(
                f"cannot label {path}: SELinux is off on this host ({SWITCH} is missing); turn it on, or remove selinux"
            )
        if place is None:
            return {}
        with os_errors("read the SELinux label of", path):
            present = attributes.label(place)
        wanted = self._over(path, present)
        return {} if wanted == present else {"selinux": wanted}

    def put(self, place: Place) -> None:
        """Set the declared parts and keep the others. Raises `Permanent` or `Temporary`."""
        with os_errors("label", place.path):
            present = attributes.label(place)
            wanted = self._over(place.path, present)
            if wanted != present:
                attributes.relabel(place, wanted)

    def _over(self, path: str, present: str) -> str:
        """Return the present label with the declared parts. Raises `Permanent` if the result is incomplete."""
        parts = dict(zip(PARTS, present.split(":", 3), strict=False)) if present else {}
        parts |= self.model_dump(exclude_none=True)
        missing = [part for part in PARTS[:3] if part not in parts]
        if missing:
            raise Permanent(f"cannot label {path}: it has no label yet; set {' and '.join(missing)}, too")
        return ":".join(parts[part] for part in PARTS if part in parts)


def is_on() -> bool:
    """Return whether SELinux is on."""
    return found(SWITCH)[1] is not None
