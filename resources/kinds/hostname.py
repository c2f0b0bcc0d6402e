"""The name of the host, now and after the next boot."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import refused_call
from holdfast.resources.fields import AbsPath, Text, shaped
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._lines import end_of, ended, split
from holdfast.resources.traits import Declaration, Reversible
from holdfast.resources.watches import either

KERNEL = "/proc/sys/kernel/hostname"
"""File with the present name. The kernel reports each change of the name to programs that poll this file."""
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
MOST = 64
"""Maximum length of a name in Linux, in characters."""


HostName = Annotated[
    Text,
    shaped(
        rf"{LABEL}(\.{LABEL})*",
        "the name of a host: a name has letters, digits, dots and inner dashes, at most 64 characters",
        MOST,
    ),
]


class OfHost(Reversible, ConfigEntry):
    """Base of the kinds that name the host."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    apply_hostname: bool = True
    """Also set the name of the running system; false: set it only for the next boot."""
    config: AbsPath = "/etc/hostname"
    """The file with the name for the next boot."""

    @property
    @abstractmethod
    def wanted(self) -> str:
        """The name."""

    def file(self) -> str:
        """Return the file with the name."""
        return self.config

    def desired(self) -> State:
        """Return the name in the file and in the kernel."""
        return {"static": self.wanted, **({"kernel": self.wanted} if self.apply_hostname else {})}

    def read(self, text: str) -> State:
        """Return the name in the file, or an empty text."""
        return {"static": next((line.strip() for line in text.split("\n") if _names(line)), "")}

    def edited(self, text: str) -> str:
        """Return the text with the name in place of the present name, or at the end; comments stay."""
        lines = split(text)
        first = next((number for number, line in enumerate(lines) if _names(line)), None)
        if first is None:
            return f"{ended(text)}{self.wanted}\n"
        return "".join([*lines[:first], self.wanted, end_of(lines[first]), *lines[first + 1 :]])

    async def probe(self, ctx: Context) -> State:
        """Return both names."""
        return {**(await super().probe(ctx) or {}), "kernel": socket.gethostname()}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the name in the kernel first: a name that the kernel refuses must not be written for the next boot."""
        if "kernel" in delta.fields:
            try:
                socket.sethostname(self.wanted)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise refused_call(
                    f"cannot set the name of this host: {why}; a container may not be permitted to do this", error
                ) from None
        if "static" in delta.fields:
            await super().apply(ctx, delta)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and the name in the kernel."""
        file = super().watch(ctx)
        return either(file, ctx.watch_kernel("hostname")) if self.apply_hostname else file

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the host's name."""
        return (("hostname", self.config),)

    def contradicts(self, other: Resource) -> str | None:
        """Return whether both declare different names."""
        if isinstance(other, OfHost):
            return None if other.wanted == self.wanted else f"the host's name is {self.wanted}, not {other.wanted}"
        return super().contradicts(other)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the name in the file; None if the file has none."""
        known = (self.read(await self.text(ctx)) or {})["static"]
        arguments = {"name": known, "apply_hostname": self.apply_hostname, "config": self.config}
        return Declaration("hostname.system", arguments) if known else None

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new name."""
        return {"hostname": self.wanted}

    def effect(self, delta: Delta) -> Effect:
        """Return which of the two names a repair sets."""
        where = "" if len(delta.fields) > 1 else " in the kernel" if "kernel" in delta.fields else " for the next boot"
        return Effect(("set",), "the host's name", detail=f" to {self.wanted}{where}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the host's name is already {self.wanted}"


class System(OfHost, kind="hostname.system"):
    """The host has a name, now and after each boot.

    The state sets the name in the kernel and writes it to `/etc/hostname`, which systemd, OpenRC and sysvinit read.
    systemd's own service (`hostnamectl`) sees both at once. Events of the kernel and inotify report changes. The state
    does not change the addresses of the name in /etc/hosts.

    web1.example.org:
      hostname.system
    """

    name: HostName
    """The name: `web1` or, with its domain, `web1.example.org`."""

    @property
    def wanted(self) -> str:
        """The name."""
        return self.name


def _names(line: str) -> bool:
    """Return whether a line of the file is a name, and neither blank nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")
