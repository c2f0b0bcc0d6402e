"""The protocol of the control socket: one request, then one or more responses, each a JSON object in a line of its own.

    -> {"verb": "trigger", "identity": "cmd.run[hello]"}
    <- {"ok": true, "data": {}}
    -> {"verb": "log", "follow": true}
    <- {"entry": {...}}
    <- {"entry": {...}}

A response with `ok` is the last one of its connection. `request` has the base of requests; the module of each verb in
`agent/verbs` has its own request. `journal_session` describes the messages after the requests `apply` and `plan`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.resources.errors import HoldfastError

OTHER = "other states"
"""Answer to `apply` and `plan`: this agent manages other states than the run."""
LIMIT = 64 * 1024
"""Most bytes of a request."""
FOREVER = 1e9
"""Seconds; a longer time counts as unlimited."""
SOCKET_PATH_LIMIT = 107
"""Most bytes of the address of a unix socket."""


Refusal = Literal["", "no-agent", "not-permitted", "not-understood", "busy", "gone", "bug"]
"""Reason for programs why a request has failed. Empty: the agent has understood the request and refuses it.

`gone`: the requested data is no longer kept. `busy`: the agent has done nothing, and may accept the same request later.
`bug`: the handler of the request has failed.
"""
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)


class ControlError(HoldfastError):
    """The agent could not be reached, or has refused the request."""

    def __init__(self, text: str, code: Refusal = "") -> None:
        super().__init__(text)
        self.code: Refusal = code


@dataclass(frozen=True, slots=True)
class ControlResponse:
    """The last message of an answer."""

    ok: bool
    error: str = ""
    """The reason if `ok` is false."""
    code: Refusal = ""
    """The reason for programs."""
    data: Any = None
    """The result. It comes last, because long data is sent in slices."""


def encode(message: Any) -> bytes:
    """Return the line of one message, or of a part of one."""
    return json.dumps(plain(message), default=str).encode() + b"\n"


def plain(message: Any) -> Any:
    """Return a response as a mapping, its data not copied; other values unchanged."""
    if not isinstance(message, ControlResponse):
        return message
    return {each.name: getattr(message, each.name) for each in fields(message)}


@contextmanager
def address(path: Path) -> Iterator[str]:
    """Yield an address for `bind` or `connect`.

    A path too long for a socket address is reached through a directory descriptor.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def unix_socket() -> socket.socket:
    """Return a stream socket, for either end."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
