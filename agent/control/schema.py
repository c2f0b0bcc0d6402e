"""The protocol of the control socket: one request, then one or more responses, each a JSON object in a line of its own.

    -> {"verb": "trigger", "identity": "cmd.run[hello]"}
    <- {"ok": true, "data": {}}
    -> {"verb": "log", "follow": true}
    <- {"entry": {...}}
    <- {"entry": {...}}

A response with `ok` is the last one of its connection. For what follows the requests `apply` and `plan`, see
`journal_session`.
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
"""Answer to `apply` and `plan`: this agent manages other states than the run."""
LIMIT = 64 * 1024
"""Most bytes of a request."""
FOREVER = 1e9
"""Seconds; a longer time counts as unlimited."""
SOCKET_PATH_LIMIT = 107
"""Most bytes of the address of a unix socket."""


Refusal = Literal["", "no-agent", "not-permitted", "not-understood"]
"""Machine-readable reason why there is no answer. Empty: the agent has understood and refuses."""
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)


class ControlError(HoldfastError):
    """The agent could not be asked, or has refused."""

    def __init__(self, text: str, code: Refusal = "") -> None:
        super().__init__(text)
        self.code: Refusal = code


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A client's request."""

    verb: Verb
    identity: str = ""
    """`trigger`, `why`: the resource, as `kind[id]`."""
    lines: int = 50
    """`log`: how many past entries to send first."""
    follow: bool = False
    """`log`: whether to send new entries as they come."""
    number: int | None = None
    """`trace`: number of the pass, None for the last. `status`: most rows, with counts by state; None for all rows."""
    tree: str = ""
    """`apply`, `plan`: the run's states, in the form of `Settings.tree`."""
    patterns: Sequence[str] = ()
    """`pause`, `resume`: resources or patterns; empty means everything."""
    reason: str = ""
    """`pause`: text for people."""
    seconds: float | None = None
    """`pause`: duration; None means until `resume`. `log`: how far back; None means as far as entries are kept."""
    failed: bool = False
    """`log`: whether to send failures only."""
    cause: str = ""
    """`log`: send only entries with this cause (and with `identity`, only of this resource)."""


@dataclass(frozen=True, slots=True)
class ControlResponse:
    """The last message of an answer."""

    ok: bool
    error: str = ""
    """The reason if `ok` is false."""
    code: Refusal = ""
    """The same reason for programs."""
    data: Any = None
    """The result. It comes last, because long data is sent in slices."""


def encode(message: Any) -> bytes:
    """The line of one message, or of a part of one."""
    return json.dumps(plain(message), default=str).encode() + b"\n"


def plain(message: Any) -> Any:
    """A request or response as a mapping, its data not copied; other values unchanged.

    Fields of a request that have their default are left out, so that an older agent, before an upgrade, understands the
    request.
    """
    if isinstance(message, ControlRequest):
        return {each.name: value for each in fields(message) if (value := getattr(message, each.name)) != each.default}
    return (
        {each.name: getattr(message, each.name) for each in fields(message)}
        if isinstance(message, ControlResponse)
        else message
    )


def decode_request(line: bytes) -> ControlRequest:
    """The request in a line. Raises `ControlError` for anything else."""
    try:
        values = json.loads(line)
    except ValueError as error:
        raise _unreadable(f"it is not JSON: {error}") from error
    except RecursionError:
        raise _unreadable("it is nested too deeply") from None
    if not isinstance(values, dict) or "verb" not in values:
        raise _unreadable("it must be a JSON object with a verb")
    if unknown := sorted(values.keys() - {each.name for each in fields(ControlRequest)}):
        raise _unreadable(f"unknown {', '.join(map(repr, unknown))}")
    request = ControlRequest(**values)
    if not isinstance(request.verb, str) or request.verb not in VERBS:
        raise ControlError(f"cannot do {request.verb!r}: known verbs are {', '.join(sorted(VERBS))}", "not-understood")
    if wrong := list(_mistyped(request)):
        raise _unreadable(f"wrong type of {', '.join(wrong)}")
    return request


def _mistyped(request: ControlRequest) -> Iterator[str]:
    """The names of fields whose value has a wrong type."""
    expected = (
        ("identity", str),
        ("lines", int),
        ("follow", bool),
        ("number", int | None),
        ("tree", str),
        ("failed", bool),
        ("cause", str),
    )
    yield from (name for name, kind in expected if not isinstance(getattr(request, name), kind))
    if not isinstance(request.patterns, (list, tuple)) or not all(isinstance(each, str) for each in request.patterns):
        yield "patterns"
    if not isinstance(request.reason, str):
        yield "reason"
    if request.seconds is not None and not (type(request.seconds) in (int, float) and 0 < request.seconds < FOREVER):
        yield "seconds"


def _unreadable(why: str) -> ControlError:
    return ControlError(f"cannot read the request: {why}", "not-understood")


@contextmanager
def address(path: Path) -> Iterator[str]:
    """An address for `bind` or `connect`.

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
    """A stream socket, for either end."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
