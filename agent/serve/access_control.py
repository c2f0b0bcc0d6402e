"""Access control for TCP: admits requests that have the token and are for a name of this server.

Every user of the host can connect to a port; the token keeps these users out. The check of the name keeps out web pages
whose own name was made to resolve to this host (DNS rebinding).
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.agent.serve.http import HttpError, Request
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.source.hostfiles import absolute

LOCAL = ("localhost", "127.0.0.1", "[::1]")
BYTES = 32
"""Random bytes of a token."""


class AccessControl:
    """Refuses requests without the token, and those for other names. If no token is set, all requests are admitted."""

    def __init__(self, token: str = "", names: Collection[str] = ()) -> None:
        self._token = f"Bearer {token}" if token else ""
        self._names = frozenset(name.lower() for name in names)

    def demand(self, request: Request) -> None:
        """Raise `HttpError` if the request is refused."""
        if not self._token:
            return
        if request.headers.get("host", "").lower() not in self._names:
            raise HttpError(421, "this server does not have that name; --name adds one")
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, self._token.encode("latin-1")):
            raise HttpError(401, "the header `Authorization: Bearer TOKEN` is missing or wrong", CHALLENGE)


CHALLENGE = {"WWW-Authenticate": "Bearer"}


def names_at(port: int, further: Collection[str]) -> list[str]:
    """Return the values of `Host` for a port of the loopback, and for the names that a proxy in front of it has."""
    return [f"{name}:{port}" for name in LOCAL] + (list(LOCAL) if port == 80 else []) + list(further)


@contextlib.contextmanager
def token_file(path: Path) -> Iterator[str]:
    """Write a new token to a file that only this user can read; yield the token. The file is removed at the end.

    Raises `HoldfastError` and `OSError`.
    """
    token = secrets.token_urlsafe(BYTES)
    place = paths.at(absolute(path))
    if place.directory.holders - {os.geteuid()}:
        raise HoldfastError(f"cannot write the token to {path}: {place.directory.reason}; name another --token-file")
    seen = place.look()
    if seen is not None and seen.st_uid != os.geteuid():
        raise HoldfastError(f"cannot write the token to {path}: the file there belongs to another user")
    fresh = place.beside(f".{place.name}.{secrets.token_hex(4)}")
    handle = fresh.create(0o600)
    try:
        handle.write(f"{token}\n".encode())
        fresh.rename(place)
    except BaseException:
        fresh.unlink()
        raise
    try:
        yield token
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
