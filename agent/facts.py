"""What the agent knows of its host without asking anybody: the grains, under Salt's names and with Salt's values.

Only local files and system calls: no name service, no command, nothing that can hang. Costs a few milliseconds.
"""

from __future__ import annotations

import os
import platform
import pwd
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.agent.places import read_mapping
from holdfast.agent.settings import Settings
from holdfast.states.marks import plain
from holdfast.states.source import exists

Grains = dict[str, Any]

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
"""Distributions whose `osfinger` has the short name instead of the full one."""
DEB_ARCH = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "i686": "i386", "ppc64le": "ppc64el"}
"""Machine -> what apt calls it; other architectures have one name."""
HYPERVISORS = {
    "kvm": "kvm",
    "qemu": "kvm",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "microsoft corporation": "HyperV",
    "xen": "xen",
    "amazon ec2": "kvm",
}
"""What firmware says of the machine (in lower case) -> Salt's `virtual`."""


def gather(settings: Settings) -> Grains:
    """The host's grains with those that the operator set on top. Raises `CompileError` when the grains file is broken."""
    grains = host(Path("/"))
    if exists(settings.grains_file):
        grains.update(plain(read_mapping(settings.grains_file)[1]))
    grains.update(settings.grains)
    if settings.id is not None or "id" not in grains:
        grains["id"] = settings.id or grains["fqdn"]
    return grains


def stand_in(file: Path, settings: Settings) -> Grains:
    """Another host's grains, read from a YAML or JSON file, in place of this one's. Raises `CompileError`."""
    grains = plain(read_mapping(file)[1])
    grains["id"] = settings.id or grains.get("id") or grains.get("fqdn") or "unknown"
    return dict(grains)


def host(root: Path) -> Grains:
    """All grains of the machine itself; `root` is where its files are looked for."""
    grains: Grains = {}
    for part in (_names, _kernel, _system, _hardware, _network, _process):
        grains.update(part(root))
    return grains


def _names(root: Path) -> Grains:
    """Names as the host itself has them: /etc/hostname and /etc/hosts, never a query."""
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
    """The names on the line of /etc/hosts that has this host's."""
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
    """The distribution, from os-release."""
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
    return {"init": "sysvinit", "openrc-init": "openrc", "runit": "runit"}.get(name, name or "unknown")


def _systemd(root: Path) -> Grains:
    """The version of systemd, read from the name of its library: asking it would take a process."""
    for place in ("usr/lib/systemd", "lib/systemd"):
        for library in sorted((root / place).glob("libsystemd-shared-*.so")):
            version = library.stem.removeprefix("libsystemd-shared-").partition("-")[0].partition(".")[0]
            if version.isdigit():
                return {"systemd": {"version": version, "features": ""}}
    return {}


def _hardware(root: Path) -> Grains:
    meminfo = dict(line.split(":", 1) for line in _text(Path("/proc/meminfo")).splitlines() if ":" in line)
    cpu = next((line.partition(":")[2].strip() for line in _text(Path("/proc/cpuinfo")).splitlines() if line.startswith("model name")), "")
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
    """Whether this is a virtual machine or a container, from what firmware and PID 1 leave in files."""
    container = _line(root / "run/systemd/container") or ("docker" if (root / ".dockerenv").exists() else "")
    if container:
        return {"virtual": "container", "virtual_subtype": {"docker": "Docker", "lxc": "LXC"}.get(container, container)}
    words = [_line(root / f"sys/class/dmi/id/{name}").lower() for name in ("sys_vendor", "product_name")]
    found = next((HYPERVISORS[known] for known in HYPERVISORS for word in words if word.startswith(known)), "physical")
    return {"virtual": found}


def _network(_: Path) -> Grains:
    """Addresses of all interfaces; psutil asks the kernel only."""
    import psutil  # noqa: PLC0415 - 30 ms that only verbs which need facts should pay

    four: dict[str, list[str]] = {}
    six: dict[str, list[str]] = {}
    hardware: dict[str, str] = {}
    for name, addresses in sorted(psutil.net_if_addrs().items()):
        of = {
            family: [a.address.partition("%")[0] for a in addresses if a.family == family] for family in (socket.AF_INET, socket.AF_INET6)
        }
        four[name], six[name] = of[socket.AF_INET], of[socket.AF_INET6]
        hardware[name] = next((a.address for a in addresses if a.family == psutil.AF_LINK), "")
    return {
        "ipv4": sorted({address for group in four.values() for address in group}),
        "ipv6": sorted({address for group in six.values() for address in group}),
        "ip4_interfaces": four,
        "ip6_interfaces": six,
        "ip_interfaces": {name: [*four[name], *six[name]] for name in four},
        "hwaddr_interfaces": hardware,
    }


def _process(_: Path) -> Grains:
    """The agent's own process and Python."""
    from holdfast import __version__  # noqa: PLC0415 - the package's own top imports nothing

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
        "pythonversion": list(sys.version_info),
        "pythonexecutable": sys.executable,
        "locale_info": {"timezone": time.tzname[0], "defaultencoding": sys.getfilesystemencoding()},
        "holdfast_version": __version__,
        "python_implementation": platform.python_implementation(),
    }


def _try(call: Callable[[], str]) -> str:
    """What the call says, or nothing: a vanished directory or an unknown uid is no reason to stop."""
    try:
        return call()
    except (OSError, KeyError):
        return ""


def _text(path: Path) -> str:
    """Content of a small file; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str:
    return _text(path).strip()


def _kibibytes(value: str) -> int:
    number = value.split()[:1]
    return int(number[0]) if number and number[0].isdigit() else 0
