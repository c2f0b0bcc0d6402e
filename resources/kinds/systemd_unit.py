"""`systemd_unit`: a unit with its file, a timer with its service, or a drop-in file of a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import model_validator

from holdfast.resources.composite import Composite, Part
from holdfast.resources.contract import Concern
from holdfast.resources.dependencies import UNITS
from holdfast.resources.fields import Mode, Unit, Variables, shaped

TEXT = ("contents", "source", "source_hash", "template", "context", "defaults", "show_changes")
"""Arguments for the file."""
SUFFIXES = ("service", "socket", "timer", "path", "mount", "automount", "swap", "target", "slice")
"""Types of units that have files."""
RELOAD = {"name": "systemd reads its unit files", "service.systemctl_reload": []}
"""Arguments of `module.wait`."""


def parted(name: str, suffix: str = "service") -> tuple[str, str]:
    """Return the name of a unit without its suffix, and the suffix or, if it has none, the given suffix."""
    stem, dot, found = name.rpartition(".")
    return (stem, found) if dot and found in SUFFIXES else (name, suffix)


def unit_path(name: str) -> str:
    """Return the path of a unit file. All instances of a template have one file."""
    stem, suffix = parted(name)
    template, at, _ = stem.partition("@")
    return f"{UNITS[0]}/{template}{at}.{suffix}"


class WithText(Composite):
    """Base of the kinds that write one file with a declared text."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    sample: ClassVar[str] = r'"[Service]\nRestart=always"'
    """An example of a text for error messages."""
    name: Unit
    """The unit; without a suffix, `.service` is added. The file of `app@one` is the template `app@.service`."""
    contents: str | tuple[str, ...] | None = None
    """Text of the file; set this or `source`."""
    source: str | tuple[str, ...] | None = None
    """Source of the file, as in file.managed."""
    source_hash: str | None = None
    """Hash of the source, as in file.managed."""
    template: Literal["jinja"] | None = None
    """Render the text."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""
    mode: Mode = "0644"
    """Mode of the file."""
    show_changes: bool | None = None
    """Show the diff of the file: true always, false never. Default: if other users may read the file."""

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.contents is None) is (self.source is None):
            raise ValueError(f"the unit needs a text: set either contents, such as {self.sample}, or source")
        return self

    def managed(self, path: str, **more: Any) -> Mapping[str, Any]:
        """Return the arguments of `file.managed` for the file with this text."""
        text = {name: value for name in TEXT if (value := getattr(self, name)) is not None}
        return {"name": path, "mode": self.mode, "user": "root", "group": "root", **text, **more}


class Running(WithText, kind="systemd_unit.running"):
    """A unit runs, with its file in /etc/systemd/system; it is restarted when the file has changed.

    Its parts are `file.managed` and `service.running`, which watches the file.

    worker.service:
      systemd_unit.running:
        - contents: |
            [Service]
            ExecStart=/usr/local/bin/worker
    """

    enable: bool | None = True
    """Start at boot (true) or not (false); null: unchanged."""

    def parts(self) -> Sequence[Part]:
        """Return the file, then the service."""
        service = {"name": self.name, "enable": self.enable}
        return (
            Part("unit", "file.managed", self.managed(unit_path(self.name))),
            Part("service", "service.running", service, {"watch": ("unit",)}),
        )


class Timer(WithText, kind="systemd_unit.timer"):
    """A timer runs, with its unit file and that of the service that it starts.

    Its parts are `file.managed` for each file and `service.running` for the timer, which is restarted when its own file
    has changed. A change of the service takes effect at its next start. inotify reports changes of the files, D-Bus
    those of the timer.

    backup:
      systemd_unit.timer:
        - contents: |
            [Timer]
            OnCalendar=daily
            Persistent=true
            [Install]
            WantedBy=timers.target
        - service: |
            [Service]
            Type=oneshot
            ExecStart=/usr/local/bin/backup
    """

    sample: ClassVar[str] = r'"[Timer]\nOnCalendar=daily"'

    name: Unit
    """The timer; without a suffix, `.timer` is added."""
    service: str | tuple[str, ...] | None = None
    """Text of the service with the same name. Default: the service already exists, or the timer names another unit."""
    enable: bool | None = True
    """Start the timer at boot (true) or not (false); null: unchanged."""

    @model_validator(mode="after")
    def _is_timer(self) -> Self:
        if parted(self.name, "timer")[1] != "timer":
            raise ValueError(f"{self.name} is not a timer: write {parted(self.name)[0]}.timer, or leave out the suffix")
        return self

    def parts(self) -> Sequence[Part]:
        """Return the files, then the timer. systemd reads the file of the service again after a change."""
        stem = parted(self.name, "timer")[0]
        timer = {"name": f"{stem}.timer", "enable": self.enable}
        own = Part("timer", "file.managed", self.managed(unit_path(f"{stem}.timer")))
        running = Part("running", "service.running", timer, {"watch": ("timer",)})
        if self.service is None:
            return own, running
        path = unit_path(f"{stem}.service")
        text = {**self.managed(path), "contents": self.service}
        service = {key: value for key, value in text.items() if key not in {"source", "source_hash"}}
        return (
            Part("service", "file.managed", service),
            Part("reload", "module.wait", RELOAD, {"watch": ("service",)}),
            own,
            running,
        )


class Dropin(WithText, kind="systemd_unit.dropin"):
    """A drop-in file has some settings of a unit, in addition to its unit file; systemd reads it after a change.

    Its parts are `file.managed` and a call of systemd. A running unit gets the settings at its next start: set
    `running`, or make a `service.running` watch this state. inotify reports changes of the file.

    nginx.service:
      systemd_unit.dropin:
        - file: limits
        - contents: |
            [Service]
            LimitNOFILE=65536
        - running: true
    """

    file: Annotated[
        str, shaped(r"[A-Za-z0-9_@%+:,-][A-Za-z0-9_@%+:,.-]*", "the name of a drop-in file, without a directory", 200)
    ] = "holdfast.conf"
    """Name of the file; without a suffix, `.conf` is added. systemd reads the files of a unit in order of names."""
    running: bool = False
    """Keep the unit running, too, and restart it when the file has changed."""

    def parts(self) -> Sequence[Part]:
        """Return the file, then the state that makes it take effect."""
        stem, suffix = parted(self.name)
        name = self.file if self.file.endswith(".conf") else f"{self.file}.conf"
        managed = self.managed(f"{UNITS[0]}/{stem}.{suffix}.d/{name}", makedirs=True)
        reload = Part("reload", "module.wait", RELOAD, {"watch": ("file",)})
        service = Part("service", "service.running", {"name": self.name}, {"watch": ("file",), "require": ("reload",)})
        return (Part("file", "file.managed", managed), reload, *((service,) if self.running else ()))
