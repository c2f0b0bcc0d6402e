"""The grains of this host, under Salt's names and with Salt's values, without queries to other machines.

Only local files and system calls are used: no name service, no command, nothing that can hang. This takes a few
milliseconds.
"""

from __future__ import annotations

import copy
import errno
import os
import platform
import pwd
import socket
import sys
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from holdfast.agent.host.addresses import addresses
from holdfast.agent.paths import read_mapping
from holdfast.agent.settings import Settings
from holdfast.resources.errors import TRANSIENT
from holdfast.states.parse.marks import plain
from holdfast.states.source.files import exists

Grains = dict[str, Any]

SALT = (3007, 17)
"""What `saltversion` says to formulas that ask for it: the version of Salt with whose language states are compared."""

FAMILIES = {
    "debian": "Debian",
    "rhel": "RedHat",
    "fedora": "RedHat",
    "suse": "Suse",
    "arch": "Arch",
    "alpine": "Alpine",
    "gentoo": "Gentoo",
    "void": "Void",
}
"""ID or ID_LIKE of os-release -> Salt's `os_family`."""
NAMES = {
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "raspbian": "Raspbian",
    "linuxmint": "Mint",
    "kali": "Kali",
    "fedora": "Fedora",
    "rhel": "RedHat",
    "centos": "CentOS",
    "centos stream": "CentOS Stream",
    "rocky": "Rocky",
    "almalinux": "AlmaLinux",
    "ol": "OEL",
    "amzn": "Amazon",
    "arch": "Arch",
    "manjaro": "Manjaro",
    "alpine": "Alpine",
    "gentoo": "Gentoo",
    "void": "Void",
    "opensuse-leap": "Leap",
    "opensuse-tumbleweed": "Tumbleweed",
    "sles": "SUSE",
}
"""ID of os-release -> Salt's `os`."""
SHORT_FINGER = ("debian", "raspbian")
"""Distributions whose `osfinger` uses the short name instead of the full one."""
DEB_ARCH = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "i686": "i386", "ppc64le": "ppc64el"}
"""Machine -> apt's name of the architecture; other architectures have one name for both."""
INITS = {"init": "sysvinit", "openrc-init": "openrc", "runit": "runit", "runsvdir": "runit", "my_init": "runit"}
"""Command of PID 1 -> Salt's `init`; runsvdir is PID 1 of containers. OpenRC mostly runs below another init."""
HYPERVISORS = {
    "kvm": "kvm",
    "qemu": "kvm",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "microsoft corporation": "HyperV",
    "xen": "xen",
    "amazon ec2": "kvm",
}
"""Names of the machine in the firmware, in lower case -> Salt's `virtual`."""


def gather(settings: Settings, parts: GrainParts | None = None) -> Grains:
    """Return the host's grains, overridden by those that the operator has set.

    Raises `CompileError` if the grains file is broken, `OSError` for a part that cannot be read and was never read by
    `parts`.
    """
    grains = (GrainParts() if parts is None else parts).read()
    if settings.grains_file is not None and exists(settings.grains_file):
        grains.update(plain(read_mapping(settings.grains_file)[1]))
    grains.update(settings.grains)
    if settings.id is not None or "id" not in grains:
        grains["id"] = settings.id or grains["fqdn"]
    return grains


def stand_in(file: Path, settings: Settings) -> Grains:
    """Return another host's grains, from a YAML or JSON file, to use in place of this host's. Raises `CompileError`."""
    grains = plain(read_mapping(file)[1])
    grains["id"] = settings.id or grains.get("id") or grains.get("fqdn") or "unknown"
    return dict(grains)


class GrainParts:
    """The grains of the machine. They can be read repeatedly: a part that cannot be read keeps its value.

    `root` is the directory below which the files are looked up.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._known: dict[Callable[[Path], Grains], Grains] = {}

    def read(self) -> Grains:
        """Return all grains. Raises `OSError` if a part cannot be read and was never read before."""
        for part in PARTS:
            try:
                self._known[part] = part(self._root)
            except OSError:  # for example for lack of descriptors
                if part not in self._known:
                    raise
        return copy.deepcopy({name: value for part in PARTS for name, value in self._known[part].items()})


def _names(root: Path) -> Grains:
    """Return the names from the host's own files, /etc/hostname and /etc/hosts; no name service is queried."""
    node = socket.gethostname()
    short = node.partition(".")[0]
    fqdn = node if "." in node else next((name for name in _hosts_names(root, short) if "." in name), node)
    return {
        "nodename": node,
        "host": fqdn.partition(".")[0],
        "localhost": node,
        "fqdn": fqdn,
        "domain": fqdn.partition(".")[2],
        "machine_id": _line(root / "etc/machine-id"),
    }


def _hosts_names(root: Path, short: str) -> list[str]:
    """Return the names on the line of /etc/hosts that contains this host's name."""
    for line in _text(root / "etc/hosts").splitlines():
        names = line.partition("#")[0].split()[1:]
        if any(name.partition(".")[0] == short for name in names):
            return names
    return []


def _kernel(_: Path) -> Grains:
    uname = os.uname()
    return {
        "kernel": uname.sysname,
        "kernelrelease": uname.release,
        "kernelversion": uname.version,
        "kernelparams": [_parameter(word) for word in _text(Path("/proc/cmdline")).split()],
        "cpuarch": uname.machine,
    }


def _parameter(word: str) -> list[str | None]:
    name, equals, value = word.partition("=")
    return [name, value if equals else None]


def _system(root: Path) -> Grains:
    """Return the distribution, from os-release."""
    release = _os_release(root)
    ident = release.get("ID", "linux")
    like = [ident, *release.get("ID_LIKE", "").split()]
    full, version = release.get("NAME", "Linux"), release.get("VERSION_ID", "")
    major = version.partition(".")[0]
    name = NAMES.get("centos stream" if full == "CentOS Stream" else ident, full)
    codename = release.get("VERSION_CODENAME", "")
    return {
        "os": name,
        "os_family": next((FAMILIES[word] for word in like if word in FAMILIES), name),
        "osfullname": full,
        "osrelease": version,
        "osrelease_info": [int(part) if part.isdigit() else part for part in version.split(".") if part],
        "osmajorrelease": int(major) if major.isdigit() else major,
        "oscodename": codename or release.get("PRETTY_NAME", full),
        "osfinger": f"{name if ident in SHORT_FINGER else full}-{version if ident == 'ubuntu' else major}",
        "osarch": _package_arch(like),
        "lsb_distrib_id": full,
        "lsb_distrib_codename": codename,
        "lsb_distrib_release": version,
        "init": _init(root),
        **_systemd(root),
    }


def _os_release(root: Path) -> dict[str, str]:
    lines = (_text(root / "etc/os-release") or _text(root / "usr/lib/os-release")).splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip().strip("\"'") for name, _, value in pairs}


def _package_arch(like: list[str]) -> str:
    machine = os.uname().machine
    return DEB_ARCH.get(machine, machine) if "debian" in like else machine


def _init(root: Path) -> str:
    if (root / "run/systemd/system").is_dir():
        return "systemd"
    name = _line(root / "proc/1/comm")
    return INITS.get(name, name or "unknown")


def _systemd(root: Path) -> Grains:
    """Return the version of systemd, read from the name of its library: running systemctl would take a process."""
    for place in ("usr/lib/systemd", "lib/systemd"):
        for library in sorted((root / place).glob("libsystemd-shared-*.so")):
            version = library.stem.removeprefix("libsystemd-shared-").partition("-")[0].partition(".")[0]
            if version.isdigit():
                return {"systemd": {"version": version, "features": ""}}
    return {}


def _hardware(root: Path) -> Grains:
    meminfo = dict(line.split(":", 1) for line in _text(Path("/proc/meminfo")).splitlines() if ":" in line)
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _text(Path("/proc/cpuinfo")).splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {
        "num_cpus": os.cpu_count() or 1,
        "cpu_model": cpu,
        "mem_total": _kibibytes(meminfo.get("MemTotal", "")) // 1024,
        "swap_total": _kibibytes(meminfo.get("SwapTotal", "")) // 1024,
        "manufacturer": _line(root / "sys/class/dmi/id/sys_vendor"),
        "productname": _line(root / "sys/class/dmi/id/product_name"),
        "biosversion": _line(root / "sys/class/dmi/id/bios_version"),
        **_virtual(root),
    }


def _virtual(root: Path) -> Grains:
    """Return the virtualisation of this machine, from files of the firmware and of PID 1."""
    container = _line(root / "run/systemd/container") or ("docker" if (root / ".dockerenv").exists() else "")
    if container:
        return {"virtual": "container", "virtual_subtype": {"docker": "Docker", "lxc": "LXC"}.get(container, container)}
    words = [_line(root / f"sys/class/dmi/id/{name}").lower() for name in ("sys_vendor", "product_name")]
    found = next((HYPERVISORS[known] for known in HYPERVISORS for word in words if word.startswith(known)), "physical")
    return {"virtual": found}


def _network(_: Path) -> Grains:
    """Return the addresses of all interfaces."""
    of: dict[int, dict[str, list[str]]] = {socket.AF_INET: {}, socket.AF_INET6: {}, socket.AF_PACKET: {}}
    for name, family, address in sorted(addresses(), key=itemgetter(0)):
        for each, named in of.items():
            named.setdefault(name, []).extend([address] if each == family else [])
    four, six, hardware = of.values()
    return {
        "ipv4": sorted({address for group in four.values() for address in group}),
        "ipv6": sorted({address for group in six.values() for address in group}),
        "ip4_interfaces": four,
        "ip6_interfaces": six,
        "ip_interfaces": {name: [*four[name], *six[name]] for name in four},
        "hwaddr_interfaces": {name: next(iter(found), "") for name, found in hardware.items()},
    }


def _routes(root: Path) -> Grains:
    """Return the gateways of the default routes as in Salt.

    An address, true for a route without a gateway, false for no route.
    """
    four = next((_four(fields[2]) for fields in _table(root, "route") if fields[1] == fields[7] == "0" * 8), False)
    zero = "0" * 32
    rows = (
        fields for fields in _table(root, "ipv6_route") if (fields[0], fields[1]) == (zero, "00") and fields[9] != "lo"
    )
    six = next((_six(fields[4]) for fields in rows), False)
    return {"ip_gw": bool(four or six), "ip4_gw": four, "ip6_gw": six}


def _table(root: Path, name: str) -> list[list[str]]:
    return [line.split() for line in _text(root / "proc/net" / name).splitlines() if "Iface" not in line]


def _four(number: str) -> str | bool:
    """Return an address from the kernel's table: a number in the byte order of the machine."""
    return socket.inet_ntop(socket.AF_INET, int(number, 16).to_bytes(4, sys.byteorder)) if int(number, 16) else True


def _six(number: str) -> str | bool:
    return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(number)) if int(number, 16) else True


def _disks(root: Path) -> Grains:
    """Return rotating and other block devices."""
    turning = {queue.parents[1].name: _line(queue) for queue in (root / "sys/block").glob("*/queue/rotational")}
    return {
        name: sorted(device for device, turns in turning.items() if turns == is_)
        for name, is_ in (("disks", "1"), ("ssds", "0"))
    }


def _process(_: Path) -> Grains:
    """Return the agent's own process, and Python."""
    from holdfast import __version__  # noqa: PLC0415 - the package itself imports nothing

    uid, gid = os.geteuid(), os.getegid()
    return {
        "path": os.environ.get("PATH", ""),
        "systempath": os.environ.get("PATH", "").split(os.pathsep),
        "shell": os.environ.get("SHELL", "/bin/sh"),
        "cwd": _try(os.getcwd),
        "uid": uid,
        "gid": gid,
        "username": _try(lambda: pwd.getpwuid(uid).pw_name),
        "pid": os.getpid(),
        "saltversion": ".".join(map(str, SALT)),
        "saltversioninfo": list(SALT),
        "pythonversion": list(sys.version_info),
        "pythonexecutable": sys.executable,
        "locale_info": {"timezone": time.tzname[0], "defaultencoding": sys.getfilesystemencoding()},
        "holdfast_version": __version__,
        "python_implementation": platform.python_implementation(),
    }


def _try(call: Callable[[], str]) -> str:
    """Return the result of a call; empty if it fails: a missing directory or an unknown uid must not stop others."""
    try:
        return call()
    except (OSError, KeyError):
        return ""


def _text(path: Path) -> str:
    """Return the content of a small file; empty if it is missing or not readable for us.

    Raises `OSError` for temporary failures.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno in TRANSIENT or error.errno == errno.EIO:
            raise
        return ""


def _line(path: Path) -> str:
    return _text(path).strip()


def _kibibytes(value: str) -> int:
    number = value.split()[:1]
    return int(number[0]) if number and number[0].isdigit() else 0


PARTS = (_names, _kernel, _system, _hardware, _network, _routes, _disks, _process)
"""Functions that each read a part of the grains."""
