"""`network.system`: the name of the host, with Salt's name for the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.resources.kinds.hostname import HostName, OfHost

ELSEWHERE = "write the configuration of the network with file.managed in the format of its program"


class System(OfHost, kind="network.system"):
    """The host has a name, now and after each boot, as with `hostname.system`.

    This is the part of Salt's state `network.system` that sets the name of the host. Events of the kernel and inotify
    report changes.

    system:
      network.system:
        - hostname: web1.example.org
    """

    ignored: ClassVar[Mapping[str, str]] = {
        "enabled": "use service.enabled to start the network at boot",
        "require_reboot": "nothing needs a reboot",
        "retain_settings": "other settings are always kept",
    }
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("dns", "gateway", "gatewaydev", "nisdomain", "nozeroconf", "search"), ELSEWHERE
    )

    name: str
    """Any text. Default: the ID of the state."""
    hostname: HostName
    """The name of the host: `web1` or, with its domain, `web1.example.org`."""

    @property
    def wanted(self) -> str:
        """The name of the host."""
        return self.hostname
