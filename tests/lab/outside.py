"""Resources of the machine that the lab uses: numbers of test runs, cgroups and bridges, and their removal."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from deadline import DEADLINE

STATE = Path(os.environ.get("HOLDFAST_LAB_STATE", "/dev/shm/holdfast-lab"))
"""Disks of the running guests, and locks of the test runs."""
DEBIAN_PACKAGES = ("mmdebstrap", "iproute2", "util-linux", "dpkg")
"""Debian packages that the machine needs for the tests."""


def missing() -> str:
    """Return why no host can be booted here; empty if one can."""
    if os.geteuid():
        return "only root can boot hosts"
    tools = [
        tool for tool in ("mmdebstrap", "ip", "unshare", "nsenter", "setpriv", "dpkg-deb") if shutil.which(tool) is None
    ]
    if tools:
        return f"{', '.join(tools)} not found: apt-get install {' '.join(DEBIAN_PACKAGES)}"
    trial = subprocess.run(
        ["unshare", "--fork", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if trial.returncode:
        return f"no namespaces here: {trial.stderr.strip()}"
    return "" if cgroup_root() else "no cgroup2 file system is mounted"


def cgroup_root() -> Path | None:
    """Return the mount point of the cgroup2 file system, if there is one."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)


def cgroups() -> Path:
    """Return the directory of the guests' cgroups. Raise `RuntimeError` if it cannot exist."""
    root = cgroup_root()
    if root is None:
        raise RuntimeError("no cgroup2 file system is mounted")
    return root


def wait_for(what: str, probe: Callable[[], Any], timeout: float = DEADLINE, interval: float = 0.02) -> Any:
    """Return the first true value of `probe`. Raise `TimeoutError` that names `what` if there is none in time."""
    end = time.monotonic() + timeout
    while True:
        if value := probe():
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout} s: {what}")
        time.sleep(interval)


def lock(number: int) -> IO[str] | None:
    """Lock a number; return None if another process holds the lock."""
    file = (STATE / f"{number}.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def claim() -> tuple[int, IO[str]]:
    """Lock the first free number."""
    for number in range(1, 255):
        if held := lock(number):
            return number, held
    raise RuntimeError(f"254 test runs hold a lock in {STATE}")


def sweep(number: int) -> None:
    """Remove everything of a run: guests, disks, bridge."""
    for group in cgroups().glob(f"{bridge_name(number)}-*"):
        end_group(group)
    if (STATE / str(number)).exists():
        remove(STATE / str(number))
    ip("link", "delete", bridge_name(number), quiet=True)


def sweep_others() -> None:
    """Remove what killed test processes have left."""
    for left in STATE.glob("*/"):
        if held := lock(int(left.name)):
            with held:
                sweep(int(left.name))


def bridge_name(number: int) -> str:
    """Return the name of a run's bridge."""
    return f"hflab{number}"


def end_group(group: Path) -> None:
    """Kill all processes of a cgroup and remove it, if it exists."""
    if not group.exists():
        return
    (group / "cgroup.kill").write_text("1")
    wait_for(f"the end of {group.name}", lambda: "populated 0" in (group / "cgroup.events").read_text(), interval=0.005)
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()


def remove(directory: Path) -> None:
    """Remove a guest's disk, including immutable files."""
    subprocess.run(["chattr", "-R", "-f", "-ia", str(directory)], capture_output=True, check=False)
    shutil.rmtree(directory, ignore_errors=True)


def ip(*arguments: str, quiet: bool = False) -> None:
    """Run `ip`; with `quiet` it may fail."""
    subprocess.run(["ip", *arguments], check=not quiet, stderr=subprocess.DEVNULL if quiet else None)


def allow_inotify() -> None:
    """Raise the machine's limit of inotify instances: each systemd of the guests needs up to ten."""
    hosts = sum(1 for _ in STATE.glob("*/*/"))
    limit, need = Path("/proc/sys/fs/inotify/max_user_instances"), 128 + 12 * hosts
    if int(limit.read_text()) < need:
        limit.write_text(str(need))
