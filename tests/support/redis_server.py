"""A real Redis server for tests, with its own files, on a unix socket only."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE

CONFIGURATION = """port 0
unixsocket {home}/s
unixsocketperm 777
dir {home}
save ""
logfile {home}/log
"""


class RedisServer:
    """A server that can be stopped and started again."""

    def __init__(self, home: Path, *settings: str) -> None:
        """Start the server; `settings` are more lines of redis.conf."""
        self.home = home
        self.socket = home / "s"
        self.password = ""
        (home / "redis.conf").write_text(CONFIGURATION.format(home=home) + "".join(f"{each}\n" for each in settings))
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.process = subprocess.Popen(["redis-server", self.home / "redis.conf"], stdout=subprocess.DEVNULL)
        until = time.monotonic() + DEADLINE
        while self.ask("PING", check=False) != "PONG":
            assert self.process.poll() is None, (self.home / "log").read_text()
            assert time.monotonic() < until, "the server does not answer"

    def stop(self) -> None:
        """Stop the server."""
        self.process.kill()
        self.process.wait()

    def ask(self, *words: str, check: bool = True) -> str:
        """Return the reply to a command."""
        login = ["--pass", self.password, "--no-auth-warning"] if self.password else []
        command = ["redis-cli", "-s", str(self.socket), *login, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")


@contextmanager
def asking(server: RedisServer) -> Iterator[Callable[..., str]]:
    """Yield a function that returns the reply to a command, over one connection. It handles replies of one line."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.socket))
        with connection.makefile("rwb") as stream:

            def ask(*words: str) -> str:
                parts = (f"${len(word.encode())}\r\n{word}\r\n" for word in words)
                stream.write(f"*{len(words)}\r\n{''.join(parts)}".encode())
                stream.flush()
                line = stream.readline().decode().rstrip()
                if line.startswith("$") and line != "$-1":
                    return stream.readline().decode().rstrip()
                return line[1:]

            yield ask


@contextmanager
def serving(*settings: str) -> Iterator[RedisServer]:
    """Run a server, with more lines of redis.conf. Skips the test if there is none; on CI the test fails."""
    if shutil.which("redis-server") is None:
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("redis-server is missing; as root, scripts/test installs it")
    with tempfile.TemporaryDirectory(prefix="redis-") as name:
        Path(name).chmod(0o755)
        server = RedisServer(Path(name), *settings)
        try:
            yield server
        finally:
            server.stop()
