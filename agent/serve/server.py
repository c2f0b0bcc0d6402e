"""The process of `holdfast serve`: its address, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from holdfast.agent.connections import BACKLOG, Connections, Exhaustion
from holdfast.agent.control.socket_file import SocketFile
from holdfast.agent.health import Health
from holdfast.agent.paths import Sockets
from holdfast.agent.serve import openapi
from holdfast.agent.serve.access_control import AccessControl, names_at, token_file
from holdfast.agent.serve.http import LIMIT, HttpError, read_request, refusal
from holdfast.agent.serve.routes import RETRY, Routes
from holdfast.agent.serve.view_client import ViewClient
from holdfast.resources.errors import HoldfastError

CLIENTS = 128
"""Most connections at once."""
LOOPBACK = ("127.0.0.1", "::1")


class ServeError(HoldfastError):
    """The server cannot start."""


class ListenAddress(NamedTuple):
    """The address to listen at: a path, or a port of the loopback interface."""

    path: Path | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def of(cls, text: str) -> ListenAddress:
        """Return the place of `unix:PATH` or `127.0.0.1:PORT`. Raises `ValueError`."""
        if text.startswith("unix:"):
            if not (path := text.removeprefix("unix:")):
                raise ValueError("a path must follow unix:")
            return cls(Path(os.path.abspath(path)))  # noqa: PTH100 - removes ".."
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host not in LOOPBACK:
            raise ValueError("it is unix:PATH or 127.0.0.1:PORT; for other hosts, put a proxy with TLS in front of it")
        if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise ValueError(f"{port!r} is not a port")
        return cls(None, host, int(port))


def serve(
    place: ListenAddress, sockets: Sockets, token: Path | None, names: Collection[str], tell: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT. Raises `HoldfastError` and `OSError` if that cannot begin."""
    if os.geteuid() == 0:
        raise ServeError(
            "cannot serve as root: this server needs no rights; start it as a user in the group of the socket for "
            "viewers, or with systemctl start holdfast-serve"
        )
    if sockets.view is None:
        raise ServeError("cannot serve: this agent has no socket for viewers; set `view` and `viewers` in agent.yaml")
    with contextlib.ExitStack() as stack:
        key = ""
        if place.path is None:
            where = token or run_time_path("token")
            key = stack.enter_context(token_file(where))
            tell(f"the token is in {where}")
        asyncio.run(_serve(place, sockets.view, key, names, tell))


def default_place() -> ListenAddress:
    """Return the place to listen at if none is given. Raises `ServeError`."""
    return ListenAddress(run_time_path("http.sock"))


def run_time_path(name: str) -> Path:
    """Return the path of a file in the directory that systemd gives to the process or to the session.

    Raises `ServeError` without one.
    """
    for variable, prefix in (("RUNTIME_DIRECTORY", ""), ("XDG_RUNTIME_DIR", "holdfast-serve.")):
        if directory := os.environ.get(variable):
            return Path(directory.partition(":")[0]) / f"{prefix}{name}"
    raise ServeError(f"there is no run-time directory for {name}: give --listen, and --token-file for a port")


async def _serve(
    place: ListenAddress, view: Path, token: str, names: Collection[str], tell: Callable[[str], None]
) -> None:
    health = Health()

    def told() -> None:
        for condition in health.conditions:
            tell(condition.text)

    health.listen = told
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(Exhaustion(health).handle)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        listener = _listener(place, view, stack)
        port = 0 if place.path else listener.getsockname()[1]
        access = AccessControl(token, names_at(port, names)) if token else AccessControl()
        tables = frozenset(openapi.tables())
        routes = Routes(ViewClient(view), access, tables, openapi.document)
        connections = Connections(read_request, routes.talk, _full, CLIENTS)
        start = asyncio.start_unix_server if place.path else asyncio.start_server
        server = await start(connections.take, sock=listener, limit=LIMIT, backlog=BACKLOG)
        stack.push_async_callback(connections.stop)
        stack.callback(server.close)
        host = f"[{place.host}]" if ":" in place.host else place.host
        tell(f"serving at unix:{place.path}" if place.path else f"serving at http://{host}:{port}/v1")
        await stop.wait()


def _listener(place: ListenAddress, view: Path, stack: contextlib.AsyncExitStack) -> socket.socket:
    """Return a socket that is bound. A path is open to the same group as the socket for viewers.

    Raises `HoldfastError` and `OSError`.
    """
    if place.path is None:
        return socket.create_server(
            (place.host, place.port), family=socket.AF_INET6 if ":" in place.host else socket.AF_INET
        )
    file = SocketFile(place.path, "name another path with --listen")
    group = view.stat().st_gid
    listener = file.make(group if group in {os.getegid(), *os.getgroups()} else None)
    stack.callback(file.remove)
    return listener


def _full() -> bytes:
    return refusal(HttpError(503, f"there are {CLIENTS} connections already", RETRY))
