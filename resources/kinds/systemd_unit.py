"""`systemd_unit`: a service of one's own, whole: the unit that says what it is, and that it runs.

app:
  systemd_unit.running:
    - contents: |
        [Service]
        ExecStart=/opt/app/serve
        [Install]
        WantedBy=multi-user.target
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from holdfast.resources.composite import Composite, Part
from holdfast.resources.contract import Concern
from holdfast.resources.fields import Mode, Unit, Variables
from holdfast.resources.needs import UNITS

TEXT = ("contents", "source", "source_hash", "template", "context", "defaults", "show_changes")
"""Arguments that are those of the unit's file."""
SUFFIXES = ("service", "socket", "timer", "path", "mount", "automount", "swap", "target", "slice")
"""Types of units that have files."""


class Running(Composite, kind="systemd_unit.running"):
    """A unit file in /etc/systemd/system, and its unit running; restarted when the file has changed.

    Made of `file.managed` and `service.running`, which watches it.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    name: Unit
    """The unit; `.service` where it has no suffix. Of `app@one` the file is that of all, `app@.service`."""
    contents: str | tuple[str, ...] | None = None
    """The unit's file, as text; this or `source`."""
    source: str | tuple[str, ...] | None = None
    """Where the file comes from, as in file.managed."""
    source_hash: str | None = None
    """What the source must hash to, as in file.managed."""
    template: Literal["jinja"] | None = None
    """Render the file."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template where `context` has none."""
    mode: Mode = "0644"
    """Mode of the file."""
    show_changes: bool | None = None
    """Show the diff of the file: true always, false never. Default: where others may read it."""
    enable: bool | None = True
    """Start it at boot (true) or not (false); None leaves that as it is."""

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.contents is None) is (self.source is None):
            raise ValueError("the unit needs a text: say either contents or source")
        return self

    def parts(self) -> Sequence[Part]:
        """The file, then the service."""
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
        """The unit's file."""
        stem, dot, suffix = self.name.rpartition(".")
        if not dot or suffix not in SUFFIXES:
            stem, suffix = self.name, "service"
        name, at, _ = stem.partition("@")
        return f"{UNITS[0]}/{name}{at}.{suffix}"
