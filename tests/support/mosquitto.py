"""A real mosquitto on loopback, for the tests of messages."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from deadline import DEADLINE
from etcd_server import free_port

PROGRAM = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


def installed() -> bool:
    """Return whether mosquitto is installed."""
    return os.access(PROGRAM, os.X_OK)


def write_password(path: Path, user: str, password: str) -> None:
    """Make a file of passwords with one user."""
    subprocess.run(["mosquitto_passwd", "-c", "-b", path, user, password], check=True)


class Mosquitto:
    """One broker, which can be killed and started again. `settings` are lines of its configuration."""

    def __init__(self, settings: tuple[str, ...] = ("allow_anonymous true",)) -> None:
        self.port = free_port()
        self._directory = Path(tempfile.mkdtemp())
        self._process: subprocess.Popen[bytes] | None = None
        lines = [f"listener {self.port} 127.0.0.1", "user root", *settings]
        (self._directory / "conf").write_text("\n".join(lines) + "\n")

    def __enter__(self) -> Self:
        """Start the broker."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the broker."""
        self.kill()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Start the broker, and wait until it accepts connections."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([PROGRAM, "-c", self._directory / "conf"], stdout=log, stderr=log)
        until = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE).close()
            except OSError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError((self._directory / "log").read_text()[-2000:]) from None
                time.sleep(0.02)
            else:
                return

    def pause(self) -> None:
        """Make the broker hang; the kernel still accepts connections for it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    def reload(self) -> None:
        """Make the broker read its files of users and rights again."""
        self._signal(signal.SIGHUP)

    def _signal(self, number: int) -> None:
        assert self._process
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the broker."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
