"""A web server that sends exactly the bytes that a test writes; it records the requests."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deadline import DEADLINE


class Asked:
    """One request, and the connection on which the test answers."""

    def __init__(self, connection: Any, head: str) -> None:
        self.connection = connection
        self.line, *lines = head.split("\r\n")
        self.path = self.line.split()[1]
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.connection.sendall(data)

    def answer(self, status: str, body: bytes = b"", *, close: bool = False, **headers: object) -> None:
        """Send an answer with its length. With `close`, the end of the connection ends the answer instead."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {} if close or "Content-Length" in given else {"Content-Length": len(body)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
        self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)

    def gone(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(OSError):
            while self.connection.recv(1 << 16):
                pass


class HostileServer:
    """Calls `handler` with each request, in a thread for each connection. Use `serving`."""

    def __init__(self, handler: Callable[[Asked], None], context: ssl.SSLContext | None = None) -> None:
        self._handler, self._context = handler, context
        self.asked: list[Asked] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._connections: list[Any] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.settimeout(DEADLINE)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: Any) -> None:
        with suppress(OSError):
            self._connections.append(connection)
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := connection.recv(1 << 16)):
                    return
                head += piece
            asked = Asked(connection, head.partition(b"\r\n\r\n")[0].decode("latin-1"))
            self.asked.append(asked)
            self._handler(asked)
            if self._context:
                connection.unwrap()
        with suppress(OSError):
            connection.close()

    def close(self) -> None:
        """End all connections and threads."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE)


@contextmanager
def serving(handler: Callable[[Asked], None], context: ssl.SSLContext | None = None) -> Iterator[HostileServer]:
    """Serve in the body."""
    server = HostileServer(handler, context)
    try:
        yield server
    finally:
        server.close()
