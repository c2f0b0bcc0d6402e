"""Requests that are read, and those that are refused: everything that two servers could understand differently."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.serve import http
from holdfast.agent.serve.http import HEADERS, LIMIT, HttpError, Request, parsed, read_request, response


def head(*lines: str) -> bytes:
    """Return the bytes of a head."""
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def test_a_request_is_read() -> None:
    """Segments of the path and parameters are decoded; names of headers are in lower case."""
    found = parsed(head("GET /v1/changes/a%2Fb%20c?limit=5&x=a+b%2B&x= HTTP/1.1", "HOST: a", "X-Odd:\t value \t"))

    assert found.method == "GET"
    assert found.path == ("v1", "changes", "a/b c")
    assert found.query == {"limit": ["5"], "x": ["a b+", ""]}
    assert found.headers == {"host": "a", "x-odd": "value"}


def test_an_old_client_needs_no_host() -> None:
    """HTTP/1.0 has none; by TCP the access control refuses the request then."""
    assert parsed(head("GET / HTTP/1.0")) == Request("GET", ("",), {}, {})


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        (400, ["GET / HTTP/1.1"]),
        (400, ["GET  / HTTP/1.1", "Host: a"]),
        (400, ["GET / HTTP/1.1 ", "Host: a"]),
        (400, ["GET /\t HTTP/1.1", "Host: a"]),
        (400, ["GET http://a/ HTTP/1.1", "Host: a"]),
        (400, ["GET * HTTP/1.1", "Host: a"]),
        (400, ["GET / http/1.1", "Host: a"]),
        (400, ["GET /\u00e9 HTTP/1.1", "Host: a"]),
        (400, ["GET /\n/ HTTP/1.1", "Host: a"]),
        (400, ["GET /%zz HTTP/1.1", "Host: a"]),
        (400, ["GET /%ff HTTP/1.1", "Host: a"]),
        (400, ["GET /?%f HTTP/1.1", "Host: a"]),
        (400, ["", "GET / HTTP/1.1", "Host: a"]),
        (400, ["GET / HTTP/1.1", "Host: a", "Host: b"]),
        (400, ["GET / HTTP/1.1", "Host: a", "Host : b"]),
        (400, ["GET / HTTP/1.1", "Host: a", " folded"]),
        (400, ["GET / HTTP/1.1", "Host: a", "X: a\rHost: b"]),
        (400, ["GET / HTTP/1.1", "Host: a", "X: a\nHost: b"]),
        (400, ["GET / HTTP/1.1", "Host: a", "X: \0"]),
        (400, ["GET / HTTP/1.1", "Host: a", "no colon"]),
        (400, ["GET / HTTP/1.1", "Host: a", ": no name"]),
        (400, ["GET / HTTP/1.1", "Host: a", "Content-Length: 0", "Content-Length: 0"]),
        (400, ["GET / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "transfer-encoding: identity"]),
        (400, ["GET / HTTP/1.1", "Host: a", "Authorization: a", "Authorization: b"]),
        (413, ["GET / HTTP/1.1", "Host: a", "Content-Length: 5"]),
        (413, ["GET / HTTP/1.1", "Host: a", "Content-Length: -0"]),
        (413, ["GET / HTTP/1.1", "Host: a", "Content-Length: 00"]),
        (413, ["GET / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked"]),
        (413, ["GET / HTTP/1.1", "Host: a", "Transfer-Encoding:"]),
        (405, ["POST / HTTP/1.1", "Host: a"]),
        (405, ["get / HTTP/1.1", "Host: a"]),
        (405, ["OPTIONS / HTTP/1.1", "Host: a"]),
        (505, ["GET / HTTP/2.0", "Host: a"]),
        (505, ["GET / HTTP/0.9", "Host: a"]),
        (431, ["GET / HTTP/1.1", *(f"X{number}: a" for number in range(HEADERS)), "Host: a"]),
    ],
)
def test_everything_else_is_refused(status: int, lines: list[str]) -> None:
    """Bodies, repeated fields, other forms of the target, and every deviation from the grammar."""
    with pytest.raises(HttpError) as refused:
        parsed(head(*lines))

    assert refused.value.status == status


def test_a_refused_method_names_those_that_are_possible() -> None:
    """RFC 9110 demands this header."""
    with pytest.raises(HttpError) as refused:
        parsed(head("DELETE / HTTP/1.1", "Host: a"))

    assert b"Allow: GET, HEAD\r\n" in http.refusal(refused.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    """No other exception, whatever the head."""
    with suppress(HttpError):
        assert parsed(data).method in {"GET", "HEAD"}


@pytest.mark.parametrize("text", ["X: " + " " * 15_000 + "\0", "X:" + "\t " * 7_000 + "\x7f", "X" * 15_000 + " :"])
def test_no_head_takes_long_to_refuse(text: str) -> None:
    """The time grows with the length, not with its square."""
    began = time.process_time()
    with pytest.raises(HttpError):
        parsed(head("GET / HTTP/1.1", "Host: a", text))

    assert time.process_time() - began < 0.5


async def read(data: bytes, *, end: bool = True) -> Request | HttpError:
    """Return the request that is read from these bytes."""
    reader = asyncio.StreamReader(limit=LIMIT)
    reader.feed_data(data)
    if end:
        reader.feed_eof()
    return await read_request(reader)


async def test_heads_that_do_not_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too long, cut off, or too slow."""
    monkeypatch.setattr(http, "TIMEOUT", 0.01)
    long, cut, slow = await read(b"G" * 2 * LIMIT), await read(b"GET /"), await read(b"GET /", end=False)

    assert [each.status for each in (long, cut, slow) if isinstance(each, HttpError)] == [431, 400, 408]


async def test_bare_line_feeds_end_no_head() -> None:
    """Other servers take them for the end, so a proxy might see two requests here."""
    found = await read(b"GET / HTTP/1.1\nHost: a\n\n")

    assert isinstance(found, HttpError)


def test_a_response_is_not_kept_and_not_guessed() -> None:
    """Headers tell caches and browsers so."""
    data = response(200, {"a": "é"})

    assert data.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n")
    assert b"Cache-Control: no-store\r\n" in data
    assert b"X-Content-Type-Options: nosniff\r\n" in data
    assert data.endswith('Connection: close\r\n\r\n{"a": "é"}'.encode())
    assert response(200, {"a": "é"}, head_only=True) == data.removesuffix('{"a": "é"}'.encode())
