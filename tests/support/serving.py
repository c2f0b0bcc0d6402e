"""`holdfast serve` in a process of its own, as a user of the group of viewers; and its clients."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from deadline import DEADLINE
from holdfast_process import COMMAND, Running
from strangers import UID

BECOMING = f"""
import encodings.utf_8_sig, encodings.idna, encodings.unicode_escape, os, resource, sys
import holdfast.agent.settings, holdfast.states.errors
import holdfast.agent.cli.terminal, holdfast.resources.visible, holdfast.agent.serve.server
from holdfast.agent.cli.main import main
from holdfast.agent.serve import openapi
from holdfast.agent import verbs
verbs.sections()
openapi.document()
if files := int(sys.argv[2]):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
os.setgroups([int(sys.argv[1])]); os.setgid({UID}); os.setuid({UID})
main(sys.argv[3:])
"""
"""Runs a verb as the user. The modules are imported before, because the user may not be able to read root's files."""


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The JSON document of the response."""
        return json.loads(self.body)


class Serving(Running):
    """A running server. `files` is its limit of descriptors."""

    def __init__(self, top: Path, config: Path, group: int, *words: str, files: int = 0) -> None:
        user = [*COMMAND[:3], "-c", BECOMING, str(group), str(files)]
        words = (*user, "serve", "--config", str(config), *words)
        super().__init__(words, top / f"serve-{len([*top.iterdir()])}.log")
        self.wait(lambda: "serving at" in self.log, "the server")
        found = re.search(r"serving at (?:unix:(\S+)|http://127\.0\.0\.1:(\d+)/v1)", self.log)
        assert found, self.log
        self.path, self.port = found[1], int(found[2] or 0)

    def connected(self) -> socket.socket:
        """Return a connection."""
        if self.path:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.path)  # waits until the server has room; with a timeout it would fail at once
            connection.settimeout(DEADLINE)
            return connection
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and return everything that the server sends."""
        with self.connected() as connection:
            with suppress(OSError):  # the server has refused the request before all was sent
                connection.sendall(data)
            return rest_of(connection)

    def get(self, target: str, *, method: str = "GET", host: str = "", **headers: str) -> Answer:
        """Return the response to a request."""
        fields = {
            "Host": host or f"127.0.0.1:{self.port}",
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        return answer(self.raw("\r\n".join(lines).encode("latin-1")))

    @contextmanager
    def events(self, target: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
        """Yield an iterator over the events of a stream, as a browser would see them, and the bare IDs."""
        with self.connected() as connection:
            fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{fields}\r\n".encode())
            with connection.makefile("r", encoding="utf-8", newline="\n") as stream:
                status = stream.readline()
                assert " 200 " in status, status + stream.read()
                while stream.readline().strip():
                    pass
                yield _events(stream)


def _events(stream: Any) -> Iterator[dict[str, str]]:
    found: dict[str, str] = {}
    for line in stream:
        name, _, value = line.rstrip("\n").partition(": ")
        if name and not name.startswith(":"):
            found[name] = value
        elif not name and found:
            yield found
            found = {}


def rest_of(connection: socket.socket) -> bytes:
    """Return everything that a server sends until the connection ends, also by an error."""
    received = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 20):
            received += part
    return received


def answer(data: bytes) -> Answer:
    """Return the response that these bytes contain."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split(" ")[1]), {name.lower(): value for name, value in headers.items()}, body)
