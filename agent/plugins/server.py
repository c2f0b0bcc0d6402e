"""The process of a plugin: a gRPC server on a unix socket, which only the agent that has started it can use.

The agent gives the path of the socket as the only argument, in a directory that belongs to the plugin's user (0700),
and the secret of this start through the descriptor that `HOLDFAST_PLUGIN_SECRET` names. The process writes `READY` to
standard output once it listens, and ends when its standard input does: no plugin outlives its agent. Its log goes to
standard error, one object of JSON a line.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc import aio

from holdfast.agent.plugins.failures import log_failure
from holdfast.agent.plugins.messages import (
    LARGEST,
    METHODS,
    PACKAGE,
    READY,
    SECRET,
    SECRET_VARIABLE,
    START,
    Method,
    message,
)
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.plugins.stub import Configure, Function, Operations
from holdfast.resources.errors import HoldfastError

GRACE = 2.0
"""Seconds within which calls must end when the process is to end: less than the time of the process
(`process.GRACE`)."""


DENIED = ("Configure", "Cancel")
"""Methods that only the agent that has started the plugin may call."""
DENIAL = "the plugin has its configuration from where it was started, and Cancel would end the calls of other agents"


def started_by_agent() -> bool:
    """Return whether the agent has started this process."""
    return len(sys.argv) == 2 and SECRET_VARIABLE in os.environ


def run(schema: str, operations: Iterable[Operations[Any] | Function[Any, Any]], configure: Configure | None) -> None:
    """Serve until standard input ends, or SIGTERM. Ends the process with a message if it cannot serve."""
    logging.basicConfig(handlers=[logging.StreamHandler(sys.stderr)], level=logging.INFO)
    logging.getLogger().handlers[0].setFormatter(JsonLines())
    with os.fdopen(int(os.environ.pop(SECRET_VARIABLE))) as file:
        secret = file.read().strip()
    try:
        asyncio.run(serve(Servicer(schema, operations, configure), sys.argv[1], secret))
    except HoldfastError as error:
        sys.exit(str(error))


def new_server() -> aio.Server:
    """Return a server that does not listen yet."""
    return aio.server(
        options=[
            ("grpc.max_receive_message_length", LARGEST),
            ("grpc.max_send_message_length", LARGEST),
            ("grpc.so_reuseport", 0),  # a second process would get a part of the calls
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # an agent sends a keepalive every 10 s
        ]
    )


async def serve(servicer: Servicer, path: str, secret: str) -> None:
    """Serve on a socket until standard input ends, or SIGTERM."""
    os.umask(0o077)
    server = new_server()
    server.add_generic_rpc_handlers([Handlers(servicer, secret)])
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    sys.stdout.write(READY + "\n")
    sys.stdout.flush()
    await _end_of_agent()
    await server.stop(GRACE)


async def _end_of_agent() -> None:
    """Return when standard input ends, or at SIGTERM."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    await ended.wait()
    loop.remove_reader(0)


class Handlers(grpc.GenericRpcHandler):
    """The methods of the service. A call without the secret is refused before its request is read.

    An empty secret means that certificates identify the caller; such a caller may not set the configuration.
    """

    def __init__(self, servicer: Servicer, secret: str) -> None:
        self._servicer = servicer
        self._secret = secret.encode()

    def service(self, details: Any) -> Any:
        """Return the handler of a method; None if there is no such method."""
        package, _, name = details.method.strip("/").rpartition("/")
        if package != f"{PACKAGE}.Provider" or name not in METHODS:
            return None
        given = {key: str(value) for key, value in details.invocation_metadata if key in (SECRET, START)}
        if self._secret and not hmac.compare_digest(given.get(SECRET, "").encode(), self._secret):
            return grpc.unary_unary_rpc_method_handler(_refuse)
        if given.get(START, self._servicer.start) != self._servicer.start:
            return grpc.unary_unary_rpc_method_handler(_started_anew)
        if not self._secret and name in DENIED:
            return grpc.unary_unary_rpc_method_handler(_denied)
        method = METHODS[name]
        read = message[method.request].FromString
        if method.streams:
            return grpc.unary_stream_rpc_method_handler(self._watch, read, _serialized)
        return grpc.unary_unary_rpc_method_handler(self._answers(method), read, _serialized)

    def _answers(self, method: Method) -> Any:
        async def answer(request: Any, _: Any) -> Any:
            return await self._servicer.answer(method.name, request)

        return answer

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for event in self._servicer.watch(list(request.tokens), request.revision, noop=request.noop):
                yield event
        except Exception as error:  # noqa: BLE001 - the code of an author may raise anything
            log_failure("Watch", error)
            await context.abort(grpc.StatusCode.ABORTED, self._servicer.masked(str(error)) or type(error).__name__)


def _serialized(response: Any) -> bytes:
    data: bytes = response.SerializeToString()
    return data


async def _refuse(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the call does not carry the secret of this start")


async def _started_anew(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the plugin was restarted: shake hands again")


async def _denied(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, DENIAL)


class JsonLines(logging.Formatter):
    """Formats the log as one object of JSON a line, which the agent parses."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said = {"time": time.time(), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said)
