"""Real members of etcd on loopback, for the tests of the northbound store."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deadline import DEADLINE

SHARED = Path("/dev/shm")


def installed() -> bool:
    """Return whether etcd is installed."""
    return shutil.which("etcd") is not None


def free_port() -> int:
    """Return an unused port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Member:
    """One process of a cluster. It can be killed, stopped for a while and started again."""

    def __init__(self, name: str, directory: Path, options: Sequence[str]) -> None:
        self.name = name
        self.port, self.peer_port = free_port(), free_port()
        self._directory, self._options = directory / name, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def peer(self) -> str:
        """The URL by which the other members reach this one."""
        return f"{self.name}=http://127.0.0.1:{self.peer_port}"

    @property
    def running(self) -> bool:
        """Whether the process of the member runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, cluster: str, scheme: str = "http") -> None:
        """Start the member. A second start uses the data of the first."""
        client, peer = f"{scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        with Path(f"{self._directory}.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["etcd", "--name", self.name, "--data-dir", self._directory,
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", cluster, "--log-level", "error",
                 "--heartbeat-interval", "50", "--election-timeout", "500", *self._options],
                stdout=log, stderr=log,
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until the member accepts connections."""
        until = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE).close()
            except OSError:
                if time.monotonic() > until or (self._process and self._process.poll() is not None):
                    raise RuntimeError(Path(f"{self._directory}.log").read_text()[-2000:]) from None
                time.sleep(0.02)
            else:
                return

    def status(self) -> dict[str, Any]:
        """Return the status that the member reports; empty if it does not answer."""
        request = urllib.request.Request(f"http://{self.endpoint}/v3/maintenance/status", b"{}")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}

    def signal(self, number: int) -> None:
        """Send a signal: SIGSTOP and SIGCONT make it hang for a while."""
        if self._process:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the member."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


class Cluster:
    """Some members, in a temporary directory. `durable`: they write to a disk, and flush."""

    def __init__(
        self, size: int = 1, options: Sequence[str] = (), scheme: str = "http", *, durable: bool = False
    ) -> None:
        self._directory = Path(tempfile.mkdtemp(dir="/var/tmp" if durable or not SHARED.is_dir() else SHARED))
        options = options if durable else [*options, "--unsafe-no-fsync"]
        self.members = [Member(f"m{number}", self._directory, options) for number in range(size)]
        self._scheme = scheme

    def __enter__(self) -> Self:
        """Start all members and wait for them."""
        for member in self.members:
            self.start(member)
        for member in self.members:
            member.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill them and remove their data."""
        for member in self.members:
            member.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self, member: Member) -> None:
        """Start a member, also one that was killed."""
        member.start(",".join(each.peer for each in self.members), self._scheme)

    def leader(self) -> Member:
        """Return the member that the others follow; blocks until there is one."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            for member in self.members:
                if (status := member.status()) and status["header"]["member_id"] == status.get("leader"):
                    return member
            time.sleep(0.02)
        raise RuntimeError("the cluster has no leader")

    def post(self, path: str, token: str = "", **values: Any) -> dict[str, Any]:
        """Send a request to the JSON gateway, for functions that the driver does not need; return the answer."""
        url = f"http://{self.endpoints[0]}/v3/{path}"
        request = urllib.request.Request(url, json.dumps(values).encode(), {"Authorization": token} if token else {})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return dict(json.load(answer))

    def demand_users(self, password: str) -> None:
        """Make the cluster demand a password. The user `root` with this password may do everything."""
        self.post("auth/user/add", name="root", password=password)
        self.post("auth/role/add", name="root")
        self.post("auth/user/grant", user="root", role="root")
        self.post("auth/enable")

    @property
    def endpoints(self) -> list[str]:
        """`host:port` of each member."""
        return [member.endpoint for member in self.members]
