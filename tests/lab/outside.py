"""The lab's work on the machine outside the guests: numbers of test runs, cgroups, bridges, and their removal."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

STATE = Path(os.environ.get("HOLDFAST_LAB_STATE", "/dev/shm/holdfast-lab"))
"""Disks of the guests that are up, and the locks of the test runs."""
DEBIAN_PACKAGES = ("mmdebstrap", "iproute2", "util-linux", "dpkg")
"""What the machine that runs the tests must have installed."""


def missing() -> str:
    """Why no host can be booted here, or nothing."""
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
    """Where the machine's cgroup2 file system is mounted, if it is."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)


def cgroups() -> Path:
    """The directory that holds the guests' cgroups. Raises `RuntimeError` when there can be none."""
    root = cgroup_root()
    if root is None:
        raise RuntimeError("no cgroup2 file system is mounted")
    return root


def wait_for(what: str, probe: Callable[[], Any], timeout: float = 10.0, interval: float = 0.02) -> Any:
    """The first true value of `probe`; raises `TimeoutError` that says `what` did not happen."""
    end = time.monotonic() + timeout
    while True:
        if value := probe():
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout} s: {what}")
        time.sleep(interval)


def lock(number: int) -> IO[str] | None:
    """Hold the lock of a number; None when somebody else does."""
    file = (STATE / f"{number}.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def claim() -> tuple[int, IO[str]]:
    """The first number that nobody holds, held now."""
    for number in range(1, 255):
        if held := lock(number):
            return number, held
    raise RuntimeError(f"254 test runs hold a lock in {STATE}")


def sweep(number: int) -> None:
    """Remove what is there of a run: guests, disks, bridge."""
    for group in cgroups().glob(f"{bridge_name(number)}-*"):
        end_group(group)
    if (STATE / str(number)).exists():
        remove(STATE / str(number))
    ip("link", "delete", bridge_name(number), quiet=True)


def sweep_others() -> None:
    """Remove what killed test processes have left behind."""
    for left in STATE.glob("*/"):
        if held := lock(int(left.name)):
            with held:
                sweep(int(left.name))


def bridge_name(number: int) -> str:
    """The bridge of a run."""
    return f"hflab{number}"


def end_group(group: Path) -> None:
    """Kill all processes of a cgroup and remove it; harmless when there is none."""
    if not group.exists():
        return
    (group / "cgroup.kill").write_text("1")
    wait_for(f"the end of {group.name}", lambda: "populated 0" in (group / "cgroup.events").read_text(), interval=0.005)
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()


def remove(directory: Path) -> None:
    """Remove a guest's disk, immutable files included."""
    subprocess.run(["chattr", "-R", "-f", "-ia", str(directory)], capture_output=True, check=False)
    shutil.rmtree(directory, ignore_errors=True)


def ip(*arguments: str, quiet: bool = False) -> None:
    """Run `ip`; `quiet`: it need not succeed."""
    subprocess.run(["ip", *arguments], check=not quiet, stderr=subprocess.DEVNULL if quiet else None)


def allow_inotify() -> None:
    """Raise the machine's limit of inotify instances for the hosts of all test runs: each systemd holds up to ten."""
    hosts = sum(1 for _ in STATE.glob("*/*/"))
    limit, need = Path("/proc/sys/fs/inotify/max_user_instances"), 128 + 12 * hosts
    if int(limit.read_text()) < need:
        limit.write_text(str(need))
