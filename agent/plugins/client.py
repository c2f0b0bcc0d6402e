"""The agent's end of the connection to a plugin: gRPC on its unix socket, or over TCP with mutual TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # otherwise, gRPC writes to our standard error at each start

import grpc
from grpc import aio

from holdfast.agent.plugins.messages import LARGEST, METHODS, NEWEST, OLDEST, SECRET, START, message
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.errors import Permanent, Temporary

CALL = 30.0
"""Seconds that a call without a timeout of its own may take."""


OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.enable_http_proxy", 0),
]
ALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
]
"""Options over TCP: a connection that breaks without a message is detected after 15 seconds."""


class Client:
    """Calls a plugin: `local` one that the agent has started, `distant` one that runs by itself."""

    def __init__(self, name: str, channel: aio.Channel, metadata: Sequence[tuple[str, str]] = ()) -> None:
        self.name = name
        self.start = ""
        """Identifies the start of the plugin; empty before the handshake, and if the plugin does not send it."""
        self._channel, self._metadata = channel, tuple(metadata)
        self._local = bool(metadata)

    @classmethod
    def local(cls, name: str, path: str, secret: str) -> Self:
        """Return the client of a plugin that listens on a socket.

        `secret` proves to the plugin that the agent calls.
        """
        return cls(name, aio.insecure_channel(f"unix:{path}", options=OPTIONS), [(SECRET, secret)])

    @classmethod
    def distant(cls, name: str, address: str, ca: bytes, certificate: bytes, key: bytes) -> Self:
        """Return the client of a plugin at `host:port`. Each end has a certificate (PEM) that the other demands.

        `ca`: certificates of the authorities that may have signed the plugin's.
        """
        proof = grpc.ssl_channel_credentials(ca, key, certificate)
        return cls(name, aio.secure_channel(address, proof, options=[*OPTIONS, *ALIVE]))

    def know(self, start: str) -> None:
        """Call only this start of the plugin from now on: a later one may have another schema."""
        self.start = start
        if start:
            self._metadata = (*self._metadata, (START, start))

    async def close(self) -> None:
        """Close the connection; current calls fail as if the plugin had ended."""
        await self._channel.close()

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response. Raises `Temporary` if the plugin does not answer in `timeout` seconds, or ends."""
        names = METHODS[method]
        call = self._channel.unary_unary(
            names.path,
            request_serializer=message[names.request].SerializeToString,
            response_deserializer=message[names.response].FromString,
        )
        try:
            return await call(request, timeout=CALL if timeout is None else timeout, metadata=self._metadata)
        except aio.AioRpcError as error:
            raise self._failed(method, error) from None
        except (aio.UsageError, asyncio.CancelledError) as error:
            raise self._closed(error) from None

    async def watch(self, tokens: Sequence[str], revision: str, *, noop: bool = False) -> AsyncIterator[Any]:
        """Yield the events of resources; with `noop`, the watch does not change the server.

        Raises `Temporary` when the watch or the plugin ends.
        """
        names = METHODS["Watch"]
        start = self._channel.unary_stream(
            names.path,
            request_serializer=message[names.request].SerializeToString,
            response_deserializer=message[names.response].FromString,
        )
        stream: Any = None
        try:
            request = message["WatchRequest"](tokens=tokens, revision=revision, noop=noop)
            stream = start(request, metadata=self._metadata)
            async for event in stream:
                yield event
        except aio.AioRpcError as error:
            raise self._failed("Watch", error) from None
        except (aio.UsageError, asyncio.CancelledError) as error:
            raise self._closed(error) from None
        finally:
            if stream is not None:
                stream.cancel()
        raise Temporary(f"plugin {self.name}: the watch has ended")

    def _closed(self, error: BaseException) -> BaseException:
        """Return the exception for a call whose connection is closed, or the error if its caller is cancelled.

        gRPC cancels the calls of a connection that is closed, which must not end the tasks that wait for them.
        """
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            return error
        return Temporary(f"plugin {self.name}: the connection is closed")

    def _failed(self, method: str, error: aio.AioRpcError) -> Exception:
        """Return the exception for a failure of the transport."""
        told = f"plugin {self.name}: {method}: "
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                said = "no answer in time"
            case grpc.StatusCode.UNIMPLEMENTED:
                return Permanent(f"{told}the plugin has no such method: it speaks another protocol")
            case grpc.StatusCode.UNAUTHENTICATED:
                return Permanent(f"{told}the plugin refused the secret of this start")
            case grpc.StatusCode.FAILED_PRECONDITION if self.start:
                said = "the plugin was restarted"
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED if self._local:
                said = "the plugin has ended"
            case grpc.StatusCode.UNAVAILABLE:
                said = f"the plugin cannot be reached: {error.details()}"
            case _:
                said = error.details() or error.code().name
        return Temporary(f"{told}{said}")


async def shake_hands(client: Client, schema: Schema) -> None:
    """Agree on the protocol and the schema. Raises `Permanent`, whose message says what differs."""
    package = schema.package
    answer = await client.call(
        "Handshake",
        message["HandshakeRequest"](
            oldest=OLDEST, newest=NEWEST, package=package.name, schema_digest=schema.digest, capabilities=["events"]
        ),
        timeout=10,
    )
    if answer.failure.code:
        raise Permanent(f"plugin {client.name}: {answer.failure.message}")
    if not OLDEST <= answer.protocol <= NEWEST:
        raise Permanent(f"plugin {client.name}: it speaks version {answer.protocol} of the protocol, not {NEWEST}")
    if answer.schema_digest != schema.digest:
        told = f"version {answer.version} of the package with another schema; the agent has version {package.version}"
        raise Permanent(f"plugin {client.name}: it serves {told}: install both from one build")
    client.know(answer.start)


def listener(path: str) -> tuple[int, int]:
    """Return the process and the user that listen on a unix socket, as the kernel reports them. Raises `OSError`."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(5)
        asking.connect(path)
        pid, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid
