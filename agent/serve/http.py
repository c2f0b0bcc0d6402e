"""The part of HTTP/1.1 (RFC 9112) that this server uses: one request without a body in each connection.

Request smuggling is impossible: a request with a body, a second one in a connection, and every deviation from the
grammar are refused, and the connection ends with the response.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from holdfast.resources.errors import HoldfastError

LIMIT = 16 * 1024
"""Most bytes of a request."""
TIMEOUT = 10.0
"""Seconds that a client may take to send its request, or to read a part of the response."""
HEADERS = 100
"""Most header fields of a request."""
JSON = "application/json"
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the grammar's word for a name
_REQUEST = re.compile(rf"({_TOKEN}) (/[!-~]*) HTTP/(\d)\.(\d)")
"""Method, target in origin form, version."""
_NAME = re.compile(_TOKEN)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class HttpError(HoldfastError):
    """A request that is answered with an error."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers or {}


@dataclass(frozen=True)
class Request:
    """A request that was read."""

    method: str
    path: tuple[str, ...]
    """The segments of the path, decoded. A slash in a segment was escaped."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str] = field(repr=False)
    """Lower-case name -> value."""


async def read_request(reader: asyncio.StreamReader) -> Request | HttpError:
    """Return the request that a client sends, or the error in place of an invalid one."""
    try:
        async with asyncio.timeout(TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
        return parsed(head)
    except HttpError as error:
        return error
    except asyncio.LimitOverrunError:
        return HttpError(431, f"the request is longer than {LIMIT} bytes")
    except asyncio.IncompleteReadError:
        return HttpError(400, "the request is not complete")
    except TimeoutError:
        return HttpError(408, f"the request did not arrive within {TIMEOUT:g} s")


def parsed(head: bytes) -> Request:
    """Return the request of a whole head. Raises `HttpError`."""
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _REQUEST.fullmatch(line)
    if found is None:
        raise HttpError(400, "the first line is not a request for a path")
    method, target, major, minor = found.groups()
    if major != "1":
        raise HttpError(505, "this server speaks HTTP/1.1")
    headers = _headers(lines)
    if minor != "0" and "host" not in headers:
        raise HttpError(400, "there is no Host")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise HttpError(413, "a request has no body here")
    if method not in {"GET", "HEAD"}:
        raise HttpError(405, "only GET and HEAD are possible: this server changes nothing", {"Allow": "GET, HEAD"})
    path, _, query = target.partition("?")
    return Request(method, tuple(_decoded(each) for each in path[1:].split("/")), _parameters(query), headers)


def _headers(lines: list[str]) -> dict[str, str]:
    """Return the header fields. Raises `HttpError`, also for a repeated field."""
    if len(lines) > HEADERS:
        raise HttpError(431, f"there are more than {HEADERS} header fields")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not (colon and _NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise HttpError(400, "a header field is not valid")
        name = name.lower()
        if name in headers and name in {"host", "content-length", "transfer-encoding", "authorization"}:
            raise HttpError(400, f"the header field {name} is repeated")
        headers[name] = value.strip(" \t")
    return headers


def _parameters(query: str) -> dict[str, list[str]]:
    """Return the parameters of a query: name -> its values. Raises `HttpError`."""
    parameters: dict[str, list[str]] = {}
    for each in query.split("&") if query else ():
        name, _, value = each.partition("=")
        parameters.setdefault(_decoded(name, plus=True), []).append(_decoded(value, plus=True))
    return parameters


def _decoded(text: str, *, plus: bool = False) -> str:
    """Return a text without its escapes. Raises `HttpError`."""
    if _ESCAPE.search(text):
        raise HttpError(400, "there is a % without two hexadecimal digits")
    try:
        return unquote(text.replace("+", " ") if plus else text, errors="strict")
    except UnicodeDecodeError:
        raise HttpError(400, "an escape in the path or the query is not UTF-8") from None


def head_of(status: int, kind: str, headers: Mapping[str, str], length: int | None = None) -> bytes:
    """Return the head of a response; without a length, the response ends with the connection."""
    fields = {
        "Content-Type": kind,
        **({} if length is None else {"Content-Length": str(length)}),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        **headers,
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def response(status: int, body: Any, headers: Mapping[str, str] | None = None, *, head_only: bool = False) -> bytes:
    """Return a response with a JSON document; bytes are a finished document."""
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    head = head_of(status, JSON, headers or {}, len(data))
    return head if head_only else head + data


def refusal(error: HttpError, *, head_only: bool = False) -> bytes:
    """Return the response for an error."""
    return response(error.status, {"error": str(error)}, error.headers, head_only=head_only)
