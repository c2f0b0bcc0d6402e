"""`network.system`: the name of the host, in Salt's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.resources.kinds.hostname import HostName, OfHost

ELSEWHERE = "write the configuration of the network with file.managed, as its program reads it"


class System(OfHost, kind="network.system"):
    """The host has a name, and gets it again at each boot, as with `hostname.system`.

    Of Salt's state of this name, this is the part for the name of the host. Events of the kernel and inotify report
    changes.

    system:
      network.system:
        - hostname: web1.example.org
    """

    ignored: ClassVar[Mapping[str, str]] = {
        "enabled": "whether the network is started at boot is what service.enabled says",
        "require_reboot": "nothing needs a reboot",
        "retain_settings": "other settings are kept in any case",
    }
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("dns", "gateway", "gatewaydev", "nisdomain", "nozeroconf", "search"), ELSEWHERE
    )

    name: str
    """Any text; the ID of the state."""
    hostname: HostName
    """The name of the host: `web1`, or with its domain `web1.example.org`."""

    @property
    def wanted(self) -> str:
        """The name of the host."""
        return self.hostname
