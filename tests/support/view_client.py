"""A blocking client of the sockets of an agent. It implements the protocol itself, for any user, also after a fork."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from deadline import DEADLINE


def connected(path: Path) -> socket.socket:
    """Return a connection to a socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))  # waits until the server has room; with a timeout it would fail at once
    connection.settimeout(DEADLINE)
    return connection


def answered(path: Path, verb: str, **fields: Any) -> bytes:
    """Return the whole answer to a request, as bytes. A refusal may arrive before the request was read."""
    with connected(path) as connection:
        with suppress(BrokenPipeError):
            connection.sendall(json.dumps({"verb": verb, **fields}).encode() + b"\n")
        return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    """Return everything that a server sends until the connection ends, also by an error."""
    received = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 20):
            received += part
    return received


def told(path: Path, verb: str, **fields: Any) -> Any:
    """Return the last message of an answer."""
    return json.loads(answered(path, verb, **fields).splitlines()[-1])


def first(path: Path, verb: str, number: int, **fields: Any) -> bytes:
    """Return the first messages of an answer that does not end."""
    with connected(path) as connection:
        connection.sendall(json.dumps({"verb": verb, **fields}).encode() + b"\n")
        with connection.makefile("rb") as stream:
            return b"".join(stream.readline() for _ in range(number))
