"""One GET of HTTP in a thread, which another thread can end at any moment.

Redirects are followed here and not by urllib, which would read their bodies whole: at most `REDIRECTS`, never from
https to http, and never with the password of another server. Proxies are those of the environment. The body of an
answer over TLS counts as ended only if TLS says so.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple, cast
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from holdfast.resources.downloads import shown_url
from holdfast.resources.errors import HoldfastError, Permanent, Temporary

REDIRECTS = 5
"""Most redirects of one request."""
REDIRECTED = frozenset({301, 302, 303, 307, 308})
IMPROPER = re.compile(r"[^!-~]")
"""A character that a URL cannot contain."""
REASON = 100
"""Most characters of a server's own text in a message."""
BROKEN = (OSError, HTTPException)
"""The errors of a broken connection."""


class HttpTarget(NamedTuple):
    """The parts of a URL: the request, the text for messages, and the credentials."""

    url: str
    """Without user and password."""
    shown: str
    """As messages show it."""
    authorization: str
    """Value of that header; empty if the URL has no user."""


def target_of(url: str) -> HttpTarget:
    """Return the parts of a URL. Raises `Permanent`, with a message that has no secret, if the URL is invalid."""
    shown = shown_url(url)
    try:
        parts = urlsplit(url)
        user, password, host, _ = parts.username, parts.password, parts.hostname, parts.port
    except ValueError as error:
        raise Permanent(f"cannot read {shown}: it is not a proper URL: {error}") from None
    address = parts.netloc.rpartition("@")[2]
    if not host or (wrong := IMPROPER.search(url)):
        why = f"it contains {wrong[0]!r}; write that as %XX" if host and wrong else "it has no host"
        raise Permanent(f"cannot read {shown}: it is not a proper URL: {why}")
    words = f"{unquote(user or '')}:{unquote(password or '')}"
    authorization = "" if user is None else f"Basic {base64.b64encode(words.encode()).decode()}"
    return HttpTarget(parts._replace(netloc=address, fragment="").geturl(), shown, authorization)


class HttpGet:
    """The requests of one download. `stall`: seconds without data after which a connection fails."""

    def __init__(self, stall: float) -> None:
        self.why = ""
        """Why the download was aborted; empty if it was not."""
        self._stall = stall
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        """Further descriptors of the connections, which stay valid until the download ends."""
        self._opener = self._made_opener()

    def abort(self, why: str) -> None:
        """End the download: all of its connections fail now. Thread-safe."""
        with self._lock:
            self.why = self.why or why
            for each in self._sockets:
                _shut(each)

    def close(self) -> None:
        """Close the descriptors; the requests have ended."""
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def uses(self, connection: socket.socket) -> None:
        """Note a new connection."""
        with self._lock:
            own = socket.socket(fileno=socket.dup(connection.fileno()))
            self._sockets.append(own)
            if self.why:
                _shut(own)

    def open(self, target: HttpTarget, headers: Mapping[str, str]) -> HTTPResponse:
        """Return the answer with its body unread: 200, 206, 304 or 416. Blocks.

        Raises `Permanent` and `Temporary` for any other answer, and `BROKEN`.
        """
        origin, here = urlsplit(target.url), urlsplit(target.url)
        for _ in range(REDIRECTS + 1):
            request = Request(here.geturl(), headers={"User-Agent": "holdfast", **headers})  # noqa: S310 - checked
            if target.authorization and _same_server(origin, here):
                request.add_unredirected_header("Authorization", target.authorization)
            answer = self._ask(request)
            if answer.status not in REDIRECTED:
                return _accepted(answer, target)
            with answer:
                here = _next(here, answer.headers.get("Location", ""), target)
        raise Permanent(f"cannot read {target.shown}: the server redirects more than {REDIRECTS} times")

    def _ask(self, request: Request) -> HTTPResponse:
        try:
            return cast("HTTPResponse", self._opener.open(request, timeout=self._stall))
        except HTTPError as error:
            return cast("HTTPResponse", error)  # the two have the same members that are used here

    def _made_opener(self) -> OpenerDirector:
        get, opener = self, OpenerDirector()

        class Http(HTTPHandler):
            def http_open(self, request: Request) -> HTTPResponse:
                return self.do_open(cast("Any", partial(_Connection, get)), request)

        class Https(HTTPSHandler):
            def https_open(self, request: Request) -> HTTPResponse:
                return self.do_open(HTTPSConnection, request, context=_context(get))

        for handler in (ProxyHandler, UnknownHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor, Http, Https):
            opener.add_handler(handler())
        return opener


class _Connection(HTTPConnection):
    """A connection that `HttpGet.abort` can end."""

    def __init__(self, get: HttpGet, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._get = get

    def connect(self) -> None:
        super().connect()
        self._get.uses(self.sock)


class _Context(ssl.SSLContext):
    """TLS on connections that `HttpGet.abort` can end, during the handshake, too."""

    get: HttpGet

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        self.get.uses(sock)
        return super().wrap_socket(sock, *args, **{**options, "suppress_ragged_eofs": False})


def _context(get: HttpGet) -> _Context:
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.get = get
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    return context


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the connection has ended already
        return


def _same_server(one: SplitResult, other: SplitResult) -> bool:
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def _next(here: SplitResult, location: str, target: HttpTarget) -> SplitResult:
    """Return where a redirect leads. Raises `Permanent` if it must not be followed."""
    why = ""
    try:
        there = urlsplit(urljoin(here.geturl(), location))
        improper = not location or not there.hostname or "@" in there.netloc or IMPROPER.search(there.geturl())
        if there.scheme not in {"http", "https"} or improper:
            why = "an address that is not used"
        elif here.scheme == "https" and there.scheme == "http":
            why = "http, which is not protected"
    except ValueError:
        why = "an address that is not used"
    if why:
        raise Permanent(f"cannot read {target.shown}: the server redirects to {why}")
    return there._replace(fragment="")


def _accepted(answer: HTTPResponse, target: HttpTarget) -> HTTPResponse:
    """Return an answer that can be used; close any other and raise `Permanent` or `Temporary`."""
    if answer.status in {200, 206, 304, 416}:
        return answer
    with answer:
        text = f"cannot read {target.shown}: the server says {answer.status} {(answer.reason or '')[:REASON]}".rstrip()
    retry: type[HoldfastError] = Temporary if answer.status >= 500 or answer.status in {408, 425, 429} else Permanent
    raise retry(text)
