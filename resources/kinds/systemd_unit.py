"""`systemd_unit`: a service with its unit file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from holdfast.resources.composite import Composite, Part
from holdfast.resources.contract import Concern
from holdfast.resources.dependencies import UNITS
from holdfast.resources.fields import Mode, Unit, Variables

TEXT = ("contents", "source", "source_hash", "template", "context", "defaults", "show_changes")
"""Arguments for the unit file."""
SUFFIXES = ("service", "socket", "timer", "path", "mount", "automount", "swap", "target", "slice")
"""Types of units that have files."""


class Running(Composite, kind="systemd_unit.running"):
    """A unit file in /etc/systemd/system, and its running unit, which is restarted when the file has changed.

    Its parts are `file.managed` and `service.running`, which watches the file.

    worker.service:
      systemd_unit.running:
        - contents: |
            [Service]
            ExecStart=/usr/local/bin/worker
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    name: Unit
    """The unit; without a suffix, `.service` is added. The file of `app@one` is the template `app@.service`."""
    contents: str | tuple[str, ...] | None = None
    """Text of the unit file; give this or `source`."""
    source: str | tuple[str, ...] | None = None
    """Source of the unit file, as in file.managed."""
    source_hash: str | None = None
    """Hash of the source, as in file.managed."""
    template: Literal["jinja"] | None = None
    """Render the unit file."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template where `context` has none."""
    mode: Mode = "0644"
    """Mode of the unit file."""
    show_changes: bool | None = None
    """Show the diff of the unit file: true always, false never. Default: if others may read the file."""
    enable: bool | None = True
    """Start at boot (true) or not (false); left as it is if not declared."""

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.contents is None) is (self.source is None):
            raise ValueError("the unit needs a text: give either contents or source")
        return self

    def parts(self) -> Sequence[Part]:
        """Return the file, then the service."""
        text = {name: value for name in TEXT if (value := getattr(self, name)) is not None}
        service = {"name": self.name, "enable": self.enable}
        return (
            Part(
                "unit", "file.managed", {"name": self.path, "mode": self.mode, "user": "root", "group": "root", **text}
            ),
            Part("service", "service.running", service, {"watch": ("unit",)}),
        )

    @property
    def path(self) -> str:
        """Path of the unit file."""
        stem, dot, suffix = self.name.rpartition(".")
        if not dot or suffix not in SUFFIXES:
            stem, suffix = self.name, "service"
        name, at, _ = stem.partition("@")
        return f"{UNITS[0]}/{name}{at}.{suffix}"
