"""Functions on the running system: time zone, clock, load, mounts, interfaces, and providers."""

# ruff: noqa: ARG001, ARG005 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.states.helpers.table import helper, looking
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import HostView

LOCALTIME, TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")
"""Files that name the time zone of the host."""
MOUNTS, FSTAB, SYSCTL = Path("/proc/self/mounts"), Path("/etc/fstab"), Path("/proc/sys")
MEMBERS = {"1-min": 0, "5-min": 1, "15-min": 2}
"""Key of `status.loadavg` -> index in the data of the system."""
PROVIDERS = {
    "pkg": {"Debian": "aptpkg", "RedHat": "yumpkg", "Suse": "zypperpkg", "Arch": "pacmanpkg", "Alpine": "apkpkg"},
    "service": {"Debian": "debian_service", "RedHat": "rh_service", "Alpine": "gentoo_service"},
    "user": {},
    "group": {},
}
"""Virtual module -> family of the host -> Salt's name of its provider."""
EVERYWHERE = {"user": "useradd", "group": "groupadd"}


@looking("timezone.get_zone")
def zone(view: HostView) -> str:
    """Return the name of the host's time zone, such as `Europe/Berlin`; UTC if it is not set."""
    target = _localtime()
    if "/zoneinfo/" in target:
        return target.partition("/zoneinfo/")[2]
    try:
        return hostfiles.read_text(TIMEZONE).strip() or "UTC"
    except (OSError, Permanent):
        return "UTC"


def _localtime() -> str:
    """Return the file of the host's time zone, which may be missing."""
    path = hostfiles.absolute(LOCALTIME)
    with contextlib.suppress(OSError, Permanent):
        return paths.resolve(path)
    with contextlib.suppress(OSError, Permanent):
        return paths.at(path).readlink()
    return path


def _now() -> dt.datetime:
    return dt.datetime.now().astimezone()


looking("timezone.get_offset")(lambda view: _now().strftime("%z"))
looking("timezone.get_zonecode")(lambda view: _now().strftime("%Z"))
looking("status.nproc")(lambda view: os.cpu_count() or 1)
looking("status.loadavg")(lambda view: {key: os.getloadavg()[place] for key, place in MEMBERS.items()})


@looking("status.time")
def clock(view: HostView, format: str = "%A, %d. %B %Y %I:%M%p") -> str:
    """Return the local time in a format."""
    return _now().strftime(format)


@looking("status.uptime")
def uptime(view: HostView) -> dict[str, Any]:
    """Return the time since the host was booted, and the number of logins."""
    since = psutil.boot_time()
    seconds = int(_now().timestamp() - since)
    return {
        "seconds": seconds,
        "since_t": int(since),
        "since_iso": dt.datetime.fromtimestamp(since, dt.UTC).replace(tzinfo=None).isoformat(),
        "days": seconds // 86400,
        "time": f"{seconds // 3600 % 24}:{seconds // 60 % 60:02}",
        "users": len(psutil.users()),
    }


def _table(path: Path) -> Iterator[list[str]]:
    """Yield the fields of each line of a table of file systems; empty if there is none."""
    try:
        lines = hostfiles.read_text(path, errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = [
            part.encode().decode("unicode_escape") for part in line.partition("#")[0].split()
        ]  # a blank is written \040
        if len(fields) >= 4:
            yield fields


@looking("mount.active")
def active(view: HostView, extended: bool = False) -> dict[str, dict[str, Any]]:
    """Return the mounted file systems: path -> device, type and options."""
    return {
        path: {"alt_device": device, "device": device, "fstype": type_, "opts": opts.split(",")}
        for device, path, type_, opts, *_ in _table(MOUNTS)
    }


looking("mount.is_mounted")(lambda view, name: any(fields[1] == name for fields in _table(MOUNTS)))


@looking("mount.fstab")
def fstab(view: HostView, config: str = str(FSTAB)) -> dict[str, dict[str, Any]]:
    """Return the file systems of fstab: path -> device, type, options, dump and pass."""
    rows = ((*fields, "0", "0")[:6] for fields in _table(Path(config)))
    return {
        path: {"device": device, "fstype": type_, "opts": opts.split(","), "dump": dump, "pass": order}
        for device, path, type_, opts, dump, order in rows
    }


@looking("sysctl.get")
def sysctl(view: HostView, name: str) -> str:
    """Return a kernel parameter as text; empty when there is none."""
    try:
        parts = (part for part in name.replace(".", "/").split("/") if part not in {"", ".."})
        return hostfiles.read_text(SYSCTL.joinpath(*parts)).strip()
    except (OSError, Permanent):
        return ""


@looking("network.interfaces")
def interfaces(view: HostView) -> dict[str, dict[str, Any]]:
    """Return each interface with its addresses."""
    up = psutil.net_if_stats()
    found: dict[str, dict[str, Any]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        one = found[name] = {"up": name in up and up[name].isup}
        for entry in addresses:
            if entry.family == socket.AF_INET:
                words = {
                    "address": entry.address,
                    "netmask": entry.netmask,
                    "broadcast": entry.broadcast,
                    "label": name,
                }
                one.setdefault("inet", []).append(words)
            elif entry.family == socket.AF_INET6:
                one.setdefault("inet6", []).append(_sixth(entry.address.partition("%")[0], entry.netmask or ""))
            else:
                one["hwaddr"] = entry.address
    return found


def _sixth(address: str, netmask: str) -> dict[str, str]:
    """Return an IPv6 address, with Salt's keys."""
    known = ipaddress.ip_address(address)
    scope = "host" if known.is_loopback else "link" if known.is_link_local else "global"
    return {
        "address": address,
        "prefixlen": str(int(ipaddress.IPv6Address(netmask or "::")).bit_count()),
        "scope": scope,
    }


looking("network.hw_addr")(lambda view, iface: interfaces(view).get(iface, {}).get("hwaddr", ""))


@helper("test.provider")
def provider(view: HostView, module: str) -> str:
    """Return Salt's name of the provider of a virtual module on this host; for other modules the name itself."""
    if module == "service" and view.grains.get("init") == "systemd":
        return "systemd_service"
    return PROVIDERS.get(module, {}).get(str(view.grains.get("os_family")), EVERYWHERE.get(module, module))


helper("test.version")(lambda view: view.grains.get("saltversion", ""))
