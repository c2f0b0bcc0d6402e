"""The language of the control socket: one request, then one or more responses, each a JSON object in a line of its own.

    -> {"verb": "trigger", "identity": "cmd.run[hello]"}
    <- {"ok": true, "data": {}}
    -> {"verb": "log", "follow": true}
    <- {"entry": {...}}
    <- {"entry": {...}}

A response with `ok` is the last one of its connection. What follows the requests `apply` and `plan` is told in `account`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.resources.errors import HoldfastError

Verb = Literal[
    "status",
    "log",
    "pause",
    "resume",
    "reload",
    "recheck",
    "trigger",
    "why",
    "graph",
    "trace",
    "metrics",
    "watch",
    "apply",
    "plan",
    "keeps",
]
VERBS: frozenset[str] = frozenset(get_args(Verb))
OTHER = "other states"
"""Answer to `apply` and `plan`: this agent keeps other states than the run works on."""
LIMIT = 64 * 1024
"""Bytes that a request may have."""
FOREVER = 1e9
"""Seconds; what lasts longer has no end."""
SOCKET_PATH_LIMIT = 107
"""Bytes that the address of a unix socket may have."""


Refusal = Literal["", "no-agent", "not-permitted", "not-understood"]
"""Why there is no answer, for programs; empty: the agent has understood, and says no."""
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)


class ControlError(HoldfastError):
    """The agent could not be asked, or said no."""

    def __init__(self, text: str, code: Refusal = "") -> None:
        super().__init__(text)
        self.code: Refusal = code


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for."""

    verb: Verb
    identity: str = ""
    """`trigger`, `why`: the resource, as `kind[id]`."""
    lines: int = 50
    """`log`: how many past entries to send first."""
    follow: bool = False
    """`log`: go on with each new entry."""
    number: int | None = None
    """`trace`: of the pass; None: the last. `status`: at most so many rows, and how many there are of each state; None: all."""
    tree: str = ""
    """`apply`, `plan`: what the run applies, as `Settings.tree` says it."""
    patterns: Sequence[str] = ()
    """`pause`, `resume`: resources, or patterns; none: everything."""
    reason: str = ""
    """`pause`: for people."""
    seconds: float | None = None
    """`pause`: how long; None: until `resume`. `log`: how far back; None: as far as it is kept."""
    failed: bool = False
    """`log`: only what has failed."""
    cause: str = ""
    """`log`: only what has this cause; `identity`: only of this resource."""


@dataclass(frozen=True, slots=True)
class Response:
    """The end of an answer."""

    ok: bool
    error: str = ""
    """Why not, when it is not ok."""
    code: Refusal = ""
    """Likewise, for programs."""
    data: Any = None
    """What was asked for; it comes last, for what is long is sent in slices."""


def encode(message: Any) -> bytes:
    """One message, or a part of one, as its line."""
    return json.dumps(plain(message), default=str).encode() + b"\n"


def plain(message: Any) -> Any:
    """A request or response as a mapping, its data not copied; anything else as it is.

    What a request leaves at its default is left out: an agent of before an upgrade understands all that it knows.
    """
    if isinstance(message, Request):
        return {each.name: value for each in fields(message) if (value := getattr(message, each.name)) != each.default}
    return (
        {each.name: getattr(message, each.name) for each in fields(message)}
        if isinstance(message, Response)
        else message
    )


def decode_request(line: bytes) -> Request:
    """A request from its line. Raises `ControlError` for anything that is none."""
    try:
        values = json.loads(line)
    except ValueError as error:
        raise _unreadable(f"it is no JSON: {error}") from error
    except RecursionError:
        raise _unreadable("it is nested too deeply") from None
    if not isinstance(values, dict) or "verb" not in values:
        raise _unreadable("it must be a JSON object with a verb")
    if unknown := sorted(values.keys() - {each.name for each in fields(Request)}):
        raise _unreadable(f"it takes no {', '.join(map(repr, unknown))}")
    request = Request(**values)
    if not isinstance(request.verb, str) or request.verb not in VERBS:
        raise ControlError(f"cannot do {request.verb!r}: known verbs are {', '.join(sorted(VERBS))}", "not-understood")
    expected = (
        ("identity", str),
        ("lines", int),
        ("follow", bool),
        ("number", int | None),
        ("tree", str),
        ("failed", bool),
        ("cause", str),
    )
    wrong = [name for name, kind in expected if not isinstance(getattr(request, name), kind)]
    if not isinstance(request.patterns, (list, tuple)) or not all(isinstance(each, str) for each in request.patterns):
        wrong.append("patterns")
    if not isinstance(request.reason, str):
        wrong.append("reason")
    if request.seconds is not None and not (type(request.seconds) in (int, float) and 0 < request.seconds < FOREVER):
        wrong.append("seconds")
    if wrong:
        raise _unreadable(f"wrong type of {', '.join(wrong)}")
    return request


def _unreadable(why: str) -> ControlError:
    return ControlError(f"cannot read the request: {why}", "not-understood")


@contextmanager
def address(path: Path) -> Iterator[str]:
    """An address for `bind` or `connect`: a path too long for a socket is reached through its directory's descriptor."""
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def unix_socket() -> socket.socket:
    """A stream socket for either end."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
