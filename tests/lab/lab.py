"""Throw-away Debian hosts for tests, with systemd or another init as PID 1, real apt, services and users.

Booting takes 0.5 s.

A guest is a copy-on-write view (overlay on a tmpfs) of a cached root file system, in pid, mount, network, uts, ipc and
cgroup namespaces of its own. Nothing is mounted outside. A guest is not a security boundary: its root is the root of
the machine.

All guests of one test process belong to one `Run`. A run has a number, protected by a file lock, which names its
network, bridge and cgroups. The next test process that takes the number removes what a killed process has left.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import stat
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import image
from outside import (
    STATE,
    allow_inotify,
    bridge_name,
    cgroups,
    claim,
    end_group,
    ip,
    remove,
    sweep,
    sweep_others,
    wait_for,
)

from deadline import DEADLINE

HERE = Path(__file__).resolve().parent
DROP = "-sys_time,-sys_module,-sys_rawio,-syslog,-audit_control,-audit_read"
"""Capabilities that would affect the machine outside the namespaces."""
ENVIRONMENT = (
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)
SYSTEMD = "/lib/systemd/systemd"
BOOTED = "/run/lab-has-booted"
"""A file that inits other than systemd create at the end of the boot."""
MASKS = {
    "system-generators": [
        f"systemd-{name}-generator"
        for name in (
            *("cryptsetup", "debug", "getty", "gpt-auto", "hibernate-resume", "integritysetup", "rc-local", "run"),
            *("system-update", "veritysetup"),
        )
    ],
    "system": ["systemd-sysusers.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service"],
}
"""Parts of systemd that are useless in a guest, but take a quarter of each boot and half of each reload of systemd."""
BARE = "/etc/bare-init"
"""An init that starts nothing, for tests that need no services: a boot of systemd takes half a second of CPU time."""
REAPER = f"""#!/bin/bash
mkdir -m 1777 /run/lock
touch {BOOTED}
while :; do sleep infinity & wait $!; done
"""
"""The program of `BARE`: a shell, because it reaps the processes that it inherits."""
OVERLAY = "trusted.overlay."
"""Beginning of the names of overlay's own extended attributes."""
SHORT = 1000
"""Size in bytes below which the digest of a file is its content, so that differences are readable."""
Entry = Mapping[str, Any]
"""One entry of the journal: field -> value, both text as `journalctl --output=json` gives them."""


class Run:
    """The guests of one test process, and the bridge between them and the machine."""

    def __init__(self) -> None:
        STATE.mkdir(parents=True, exist_ok=True)
        self.number, self._lock = claim()
        self.directory = STATE / str(self.number)
        self.bridge = bridge_name(self.number)
        self.network = f"10.213.{self.number}"
        self.hosts: dict[str, Host] = {}
        self._addresses = itertools.count(2)
        sweep(self.number)
        sweep_others()

    def host(self, name: str = "host", **options: Any) -> Host:
        """Boot a host; `options` are those of `Host.up`. A host that does not boot is removed."""
        if name in self.hosts:
            raise ValueError(f"{name} is up already")
        host = self.hosts[name] = Host(self, name, next(self._addresses))
        try:
            host.up(**options)
        except BaseException:
            host.down()
            raise
        return host

    def ensure_bridge(self) -> None:
        """Create the bridge with a fixed hardware address, which would otherwise change whenever a guest ends."""
        if Path(f"/sys/class/net/{self.bridge}").exists():
            return
        ip("link", "add", self.bridge, "address", f"02:68:66:{self.number:02x}:00:01", "type", "bridge")
        ip("address", "add", f"{self.network}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def close(self) -> None:
        """Kill all guests and remove everything that belongs to the run."""
        for host in list(self.hosts.values()):
            host.down()
        sweep(self.number)
        self._lock.close()


class Spawned(subprocess.Popen[str]):
    """A command in a guest. If the block of its `with` statement fails, it is killed: a wait would hide the failure."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the end of the command."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


class Host:
    """One guest. Its disk exists until `down`; `cut_power` keeps it for `start`."""

    def __init__(self, run: Run, name: str, number: int) -> None:
        self.name = name
        self.address = f"{run.network}.{number}"
        self._run = run
        self._number = number
        self._cable = f"{run.bridge}-{number}"
        self._state = run.directory / name
        self._cgroup = cgroups() / f"{run.bridge}-{name}"
        self._options: tuple[tuple[str, ...], tuple[str, ...], str] = ((), (), SYSTEMD)
        self._supervisor: subprocess.Popen[bytes] | None = None

    # -- life --------------------------------------------------------------------------------------------------

    def up(
        self, binds: Iterable[str] = (), layers: Iterable[Path] = (), init: str = SYSTEMD, timeout: float = DEADLINE
    ) -> None:
        """Boot and wait until systemd reports that the system runs, or until another init has created `BOOTED`.

        `binds` are `SOURCE:TARGET`, read-only unless `:rw` follows. `layers` lie over the root file system, the top one
        first. `init` is the program of PID 1.
        """
        self._options = (tuple(binds), tuple(map(str, layers)), init)
        for directory in ("upper/etc", "work", "root"):
            (self._state / directory).mkdir(parents=True, exist_ok=True)
        self._name()
        if init == SYSTEMD:
            self._mask()
        elif init == BARE:
            self._add_reaper()
        (self._state / "binds").write_text("".join(f"{bind}\n" for bind in self._options[0]))
        (self._state / "off").unlink(missing_ok=True)
        for group in ("", "supervisor", "guest"):
            (self._cgroup / group).mkdir()
        self._run.ensure_bridge()
        allow_inotify()
        with (self._state / "console").open("ab") as console:
            self._supervisor = subprocess.Popen(
                ["bash", str(HERE / "supervise.sh")], env={**os.environ, **self._environment()}, start_new_session=True,
                stdin=subprocess.PIPE, stdout=console, stderr=console,
            )  # fmt: skip
        self.wait(timeout)

    def _name(self) -> None:
        etc = self._state / "upper/etc"
        if not (etc / "hostname").exists():
            (etc / "hostname").write_text(f"{self.name}\n")
            (etc / "machine-id").write_text(f"{os.urandom(16).hex()}\n")
            (etc / "hosts").write_text(
                f"127.0.0.1 localhost\n{self.address} {self.name}\n{self._run.network}.1 outside\n"
            )

    def _mask(self) -> None:
        for folder, names in MASKS.items():
            directory = self._state / "upper/etc/systemd" / folder
            directory.mkdir(parents=True, exist_ok=True)
            for name in names:
                if not (directory / name).is_symlink():
                    (directory / name).symlink_to("/dev/null")

    def _add_reaper(self) -> None:
        program = Path(f"{self._state}/upper{BARE}")
        program.write_text(REAPER)
        program.chmod(0o755)

    def _environment(self) -> dict[str, str]:
        return {
            "STATE": str(self._state),
            "CGROUP": str(self._cgroup),
            "LOWER": ":".join([*self._options[1], str(image.root())]),
            "BOOT": str(HERE / "boot.sh"),
            "CABLE": self._cable,
            "BRIDGE": self._run.bridge,
            "ADDRESS": self.address,
            "MAC": f"02:68:66:{self._run.number:02x}:01:{self._number:02x}",
            "DROP": DROP,
            "INIT": self._options[2],
        }

    @property
    def pid(self) -> int:
        """Return the guest's PID 1 as seen from outside; 0 if there is none."""
        with contextlib.suppress(OSError):
            pid = (self._state / "pid").read_text().strip()
            group = "guest/init.scope" if self._options[2] == SYSTEMD else "guest"
            if pid in (self._cgroup / group / "cgroup.procs").read_text().split():
                return int(pid)
        return 0

    def wait(self, timeout: float = DEADLINE, *, after: int = 0) -> None:
        """Wait for the end of the boot; `after` is the previous PID 1. Raise `TimeoutError` with the console."""

        def running() -> bool:
            if self.pid in (0, after):
                return False
            if self._options[2] != SYSTEMD:
                return self.run("test", "-e", BOOTED, check=False).returncode == 0
            return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

        try:
            wait_for(f"{self.name} has booted", running, timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{(self._state / 'console').read_text()[-2000:]}") from None

    def reboot(self, timeout: float = DEADLINE) -> None:
        """Reboot from inside, with the same disk."""
        before = self.pid
        self.run("systemctl", "reboot")
        self.wait(timeout, after=before)

    def cut_power(self) -> None:
        """Kill everything at once, and keep the disk; `start` boots it again."""
        ip("link", "delete", self._cable, quiet=True)  # first: no peer must see connections being closed
        end_group(self._cgroup)
        if self._supervisor:
            self._supervisor.communicate()
            self._supervisor = None

    def start(self) -> None:
        """Boot again from the same disk, with the same binds and layers."""
        self.up(*self._options)

    def down(self) -> None:
        """Kill the guest and remove everything that belongs to it."""
        self.cut_power()
        remove(self._state)
        self._run.hosts.pop(self.name, None)

    def plug(self, connected: bool) -> None:
        """Disconnect or connect the network cable."""
        ip("link", "set", self._cable, "up" if connected else "down")

    def save(self, target: Path, *paths: str) -> None:
        """Save the changes at these paths as a layer for other hosts."""
        for path in paths:
            kept = target / path.lstrip("/")
            kept.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["cp", "-a", "--no-target-directory", str(self._state / f"upper{path}"), str(kept)], check=True
            )

    # -- use ---------------------------------------------------------------------------------------------------

    def argv(self, *command: str) -> list[str]:
        """Return the command line that runs a command in the guest as root. A signal that ends it ends the command."""
        enter = 'mkdir -p "$0/guest/exec"; echo 0 >"$0/guest/exec/cgroup.procs"; exec "$@"'
        inside = ("nsenter", "-t", str(self.pid), "-a", *ENVIRONMENT)
        limited = ("setpriv", "--bounding-set", DROP, "--pdeathsig", "TERM")
        return ["sh", "-c", enter, str(self._cgroup), *inside, *limited, *command]

    def run(
        self, *command: str, check: bool = True, stdin: str | None = None, timeout: float = DEADLINE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the guest and wait for it.

        With `check`, raise an error with its output if its status is not 0.
        """
        done = subprocess.run(
            self.argv(*command), input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def sh(self, script: str, *, timeout: float = DEADLINE) -> str:
        """Run a shell script in the guest that stops at the first failure; return its output."""
        return self.run("bash", "-euc", script, timeout=timeout).stdout

    def spawn(self, *command: str, **options: Any) -> Spawned:
        """Start a command in the guest; `options` are those of `Popen`."""
        return Spawned(self.argv(*command), **{"text": True, **options})

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file atomically in the guest, and create its directories."""
        directory, _, name = path.rpartition("/")
        part = f"{directory}/.{name}.part"
        script = f'install -D -m {mode:o} /dev/stdin "$1" && mv -fT "$1" "$2"'
        self.run("sh", "-c", script, "write", part, path, stdin=text)

    def read(self, path: str) -> str:
        """Return the text of a file in the guest."""
        return self.run("cat", path).stdout

    def http(self, path: str = "/", *, port: int = 80, timeout: float = 5.0) -> str:
        """Request a page from the guest by HTTP, from outside. Raise `OSError` if that fails."""
        with urllib.request.urlopen(f"http://{self.address}:{port}{path}", timeout=timeout) as answer:
            return str(answer.read().decode())

    def changed(self, *, directories: bool = False) -> set[str]:
        """Return paths of files on the guest's own disk: the files that the guest has written over its layers."""
        upper = self._state / "upper"
        return {f"/{path.relative_to(upper)}" for path in upper.rglob("*") if directories or not path.is_dir()}

    def contents(self, *, exact: bool = False) -> dict[str, str]:
        """Return path -> digest of each file and link of `changed`, for comparison with a later call.

        With `exact`, the digests contain times, and directories are included.
        """
        upper = self._state / "upper"
        return {path: digest(Path(f"{upper}{path}"), times=exact) for path in self.changed(directories=exact)}

    # -- the journal -------------------------------------------------------------------------------------------

    def journal(self, unit: str | None = None, *, since: float | None = None) -> list[Entry]:
        """Return journal entries, oldest first, of one unit and since a Unix time."""
        options = [f"--unit={unit}"] if unit else []
        options += [f"--since=@{since:.6f}"] if since is not None else []
        lines = self.run("journalctl", "--output=json", "--no-pager", "--all", *options).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def wait_journal(
        self,
        predicate: Callable[[Entry], object],
        *,
        unit: str | None = None,
        since: float | None = None,
        timeout: float = DEADLINE,
    ) -> Entry:
        """Wait for the first entry for which `predicate` holds. Raise `TimeoutError` with the last entries."""
        try:
            entry: Entry = wait_for(
                "the entry in the journal",
                lambda: next(filter(predicate, self.journal(unit, since=since)), None),
                timeout,
                0.1,
            )
        except TimeoutError as error:
            seen = "\n".join(str(entry.get("MESSAGE")) for entry in self.journal(unit, since=since)[-30:])
            raise TimeoutError(f"{error}; the journal says:\n{seen}") from None
        return entry


def digest(path: Path, *, times: bool = False) -> str:
    """Return a digest of an entry: of the target of a link, or of the attributes and the content of a file."""
    info = path.lstat()
    attributes = f"{info.st_mode:o} {info.st_uid}:{info.st_gid} {info.st_mtime_ns if times else ''}"
    if stat.S_ISLNK(info.st_mode):
        return f"{attributes} link to {path.readlink()}"
    more = {name: os.getxattr(path, name) for name in sorted(os.listxattr(path)) if not name.startswith(OVERLAY)}
    content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
    told = str(content) if len(content) < SHORT else hashlib.sha256(content).hexdigest()
    return f"{attributes} {more or ''} {told}"


@contextlib.contextmanager
def running() -> Iterator[Run]:
    """Yield a `Run`, and close it at the end."""
    run = Run()
    try:
        yield run
    finally:
        run.close()
