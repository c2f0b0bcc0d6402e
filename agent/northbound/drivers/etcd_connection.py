"""Connections to the members of an etcd cluster, one at a time: the next one if it fails; TLS, users and tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from holdfast.agent.northbound.call_thread import CallThread
from holdfast.agent.northbound.drivers.etcd_messages import METHODS, message
from holdfast.agent.northbound.errors import Unavailable

OPTIONS = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]
"""A connection that breaks without a message is detected after 15 seconds. Proxies of the environment are for HTTP."""
NOISE = re.compile(r"^failed to connect to all addresses; last error: ([A-Z_]+: )?(ipv[46]:\S+: )?")
"""The text before the reason in an error of gRPC. The error of the driver names the member, too."""
CREDENTIALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
LOST = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
)
"""Codes after which another member may answer. gRPC itself reports INTERNAL when a connection ends during a call."""
OLD_TOKEN = ("invalid auth token", "auth revision is old", "revision of auth store is old")
"""Parts of messages after which the request may succeed with a new token."""
NOT_DONE = ("no leader", "too many requests")
"""Parts of messages after which the request was certainly not executed."""

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Tls:
    """Certificates in PEM form."""

    ca: bytes | None = None
    """Certificates of the authorities that sign those of the members; None: the ones that gRPC trusts."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Access:
    """The access to a cluster."""

    endpoints: Sequence[str]
    """`host:port` of each member."""
    tls: Tls | None = None
    """None: not encrypted."""
    user: str = ""
    password: str = field(default="", repr=False)
    connect: float = 3.0
    """Seconds in which a member must accept a connection."""
    answer: float = 10.0
    """Seconds in which a member must answer a request."""


class Rejected(Exception):
    """etcd has answered with an error that concerns the request itself."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Connection:
    """Requests and streams to any member that answers.

    `renew` reads the access again; it is called in a thread before each connection, and may raise `Unavailable`.
    """

    def __init__(self, access: Access, renew: Callable[[], Access] | None = None) -> None:
        self._access, self._renew = access, renew
        self._thread = CallThread("etcd credentials")
        self._channel: aio.Channel | None = None
        self._member = 0
        self._token = ""
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """End the connection, with all its streams."""
        channel, self._channel = self._channel, None
        if channel:
            await channel.close()

    async def ask(self, method: str, request: Any, *, repeatable: bool = True) -> Any:
        """Return the answer to a request.

        A request that is not `repeatable` is sent once. Raises `Rejected`, and `Unavailable`: with `unsure` if the
        request may have been executed.
        """
        errors: list[str] = []
        for _ in range(2 * len(self._access.endpoints)):
            try:
                channel = await self._connected()
            except Unavailable as error:
                errors.append(str(error))
                continue
            try:
                return await self._once(channel, method, request)
            except aio.AioRpcError as error:
                text = await self._failed(channel, error)
                errors.append(text)
                if not repeatable and not any(words in text for words in (*NOT_DONE, *OLD_TOKEN)):
                    raise Unavailable(f"etcd did not answer: {text}", unsure=True) from None
        raise Unavailable(f"cannot reach etcd: {'; '.join(dict.fromkeys(errors))}")

    async def stream(self, method: str, requests: Sequence[Any]) -> AsyncIterator[Any]:
        """Yield the answers of a stream that begins with these requests. Raises `Rejected` and `Unavailable`."""
        channel = await self._connected()
        call = self._method(channel.stream_stream, method)(metadata=[*self._metadata(), ("hasleader", "true")])
        try:
            for request in requests:
                await call.write(request)
            while (answer := await call.read()) is not aio.EOF:
                yield answer
        except (asyncio.InvalidStateError, asyncio.CancelledError):
            demand_not_cancelled()
            raise Unavailable("the connection to etcd was closed") from None
        except aio.AioRpcError as error:
            raise Unavailable(f"lost the connection to etcd: {await self._failed(channel, error)}") from None
        finally:
            call.cancel()

    # -- parts -------------------------------------------------------------------------------------------------

    async def _once(self, channel: aio.Channel, method: str, request: Any) -> Any:
        """Return the answer of one member. Raises `AioRpcError`."""
        call: Callable[..., Awaitable[Any]] = self._method(channel.unary_unary, method)
        try:
            return await call(request, timeout=self._access.answer, metadata=self._metadata())
        except asyncio.CancelledError:
            demand_not_cancelled()
            raise closed() from None

    def _method(self, kind: Callable[..., Any], method: str) -> Any:
        _, answer = METHODS[method]
        return kind(
            method,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=message[answer].FromString,
        )

    def _metadata(self) -> Metadata:
        return [("token", self._token)] if self._token else []

    async def _connected(self) -> aio.Channel:
        """Return a channel to a member that accepts connections. Raises `Unavailable`."""
        async with self._turn:
            if self._channel is None:
                if self._renew:
                    self._access = await self._thread.run(self._renew)
                endpoint = self._access.endpoints[self._member % len(self._access.endpoints)]
                channel = self._open(endpoint)
                try:
                    await self._prepare(channel, endpoint)
                except BaseException:
                    await channel.close()
                    raise
                self._channel = channel
            return self._channel

    async def _prepare(self, channel: aio.Channel, endpoint: str) -> None:
        """Connect, and get a token if that is needed. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(self._access.connect):
                why = await _refusal(channel)
        except TimeoutError:
            why = "no connection" + (", or no agreement on TLS" if self._access.tls else "")
            why = f"{why} within {self._access.connect:g} s"
        if why:
            self._member += 1
            raise Unavailable(f"{endpoint}: {why}")
        if self._access.user and not self._token:
            await self._authenticate(channel, endpoint)

    def _open(self, endpoint: str) -> aio.Channel:
        tls = self._access.tls
        if tls is None:
            return aio.insecure_channel(endpoint, options=OPTIONS)
        return aio.secure_channel(
            endpoint, grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate), options=OPTIONS
        )

    async def _authenticate(self, channel: aio.Channel, endpoint: str) -> None:
        """Get a token. Raises `Unavailable`."""
        request = message["AuthenticateRequest"](name=self._access.user, password=self._access.password)
        try:
            answer = await self._once(channel, "/etcdserverpb.Auth/Authenticate", request)
        except aio.AioRpcError as error:
            self._member += 1
            if error.code() in LOST:
                raise Unavailable(f"{endpoint}: {error.details()}") from None
            raise Unavailable(f"etcd refuses the user {self._access.user!r}: {error.details()}") from None
        self._token = answer.token

    async def _failed(self, channel: aio.Channel, error: aio.AioRpcError) -> str:
        """Return why a request failed, for another attempt at the next member.

        Raises `Rejected` if that cannot help.
        """
        text = error.details() or error.code().name
        if any(words in text for words in OLD_TOKEN):
            self._token = ""
            await self._drop(channel, same=True)
            return text
        if error.code() in CREDENTIALS:
            raise Unavailable(f"etcd refuses access: {text}") from None
        if error.code() in LOST or (error.code() is grpc.StatusCode.UNKNOWN and "etcdserver" not in text):
            await self._drop(channel)
            return text
        raise Rejected(error.code(), text) from None

    async def _drop(self, channel: aio.Channel, *, same: bool = False) -> None:
        """Close a channel that failed, unless another caller has; the next connection is to the next member."""
        if self._channel is channel:
            self._channel = None
            self._member += 0 if same else 1
        with suppress(Exception):
            await channel.close()


async def _refusal(channel: aio.Channel) -> str:
    """Wait for a connection; return why it was not made, or nothing if it was."""
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            try:  # only the error of a request says why
                call: Callable[..., Awaitable[Any]] = channel.unary_unary("/etcdserverpb.Maintenance/Status")
                await call(b"")
            except aio.AioRpcError as error:
                return NOISE.sub("", error.details() or error.code().name)
        await channel.wait_for_state_change(state)
    return ""


def demand_not_cancelled() -> None:
    """Raise `CancelledError` if the present task is being cancelled.

    gRPC raises it, too, in every call whose channel another caller has closed after a failure.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def closed() -> aio.AioRpcError:
    """Return the error of a call whose channel was closed."""
    return aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "the connection was closed")
