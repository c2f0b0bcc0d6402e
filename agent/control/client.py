"""The command line's side of the control socket; blocking, and light to import."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import REFUSALS, ControlError, Refusal, address, encode, unix_socket
from holdfast.resources import paths
from holdfast.resources.paths.trust import called, trusted_uids
from holdfast.states.source.hostfiles import absolute

ENDING = 30.0
"""Seconds to wait for the end of a request that was told to stop, or that has exceeded its time."""
TIMEOUT = 30.0
"""Seconds to wait for a response."""
LONG = 300.0
"""Seconds to wait for a response that needs work: many states, or a slow command."""


class NotListening(ControlError):
    """No agent listens at the socket, so no agent has received the request."""


def ask(path: Path, request: ControlRequest, timeout: float = TIMEOUT) -> Any:
    """Return the data of the response to one request. `timeout` is in seconds. Raises `ControlError`."""
    return _last(converse(path, request, timeout))


def follow(
    path: Path, request: ControlRequest, what: str = "entry", until: float | None = None
) -> Iterator[dict[str, Any]]:
    """Yield entries of the log or frames of the live view as the agent sends them, until `until` (monotonic time).

    Raises `ControlError`.
    """
    for message in converse(path, request, None, until):
        if what in message:
            yield message[what]


def converse(
    path: Path, request: ControlRequest, timeout: float | None, until: float | None = None
) -> Iterator[dict[str, Any]]:
    """Yield every response to a request. Raises `ControlError` if no agent listens or the agent refuses.

    `timeout` is for each response, in seconds. At time `until` the conversation ends without an error.
    """
    with unix_socket() as connection:
        connection.settimeout(timeout)
        _begin(connection, path, request)
        with connection.makefile("rb") as stream:
            responses = _responses(path, stream)
            while until is None or (left := until - time.monotonic()) > 0:
                if until is not None:
                    connection.settimeout(left)
                try:
                    message = next(responses, None)
                except ControlError as error:
                    if until is not None and isinstance(error.__cause__, TimeoutError):
                        return
                    raise
                if message is None:
                    return
                yield message


def ask_until_stopped(path: Path, request: ControlRequest, timeout: float | None) -> Any:
    """Return the data of the response to a request that may take any time; `timeout`, if any, bounds it.

    After Ctrl-C, the agent is told to stop, and its response is awaited. Raises `ControlError`.
    """
    with unix_socket() as connection:
        connection.settimeout(None if timeout is None else timeout + ENDING)
        _begin(connection, path, request)
        with connection.makefile("rb") as stream:
            try:
                return _last(_responses(path, stream))
            except KeyboardInterrupt:
                connection.settimeout(ENDING)
                connection.sendall(b"\n")
                return _last(_responses(path, stream))


def _begin(connection: socket.socket, path: Path, request: ControlRequest) -> None:
    """Connect to the agent and send a request. Raises `ControlError`."""
    with reached(path) as name:
        connection.connect(name)
        with suppress(BrokenPipeError, ConnectionResetError):  # the agent has already sent the reason of its refusal
            connection.sendall(encode(request.message()))


def _last(responses: Iterator[dict[str, Any]]) -> Any:
    data = None
    for message in responses:
        data = message.get("data", data)
    return data


@contextmanager
def reached(path: Path) -> Iterator[str]:
    """Yield an address to connect to, valid in the body.

    Raises `ControlError`, also in place of an `OSError` of the body.
    """
    try:
        with address(_trusted(path)) as name:
            yield name
    except OSError as error:
        raise _why(path, error) from error


def _trusted(path: Path) -> Path:
    """Return the path of the socket with links followed.

    Raises `OSError`, and `ControlError` if an untrusted user could have placed it.
    """
    try:
        place = paths.at(absolute(path), follow=True)
        info = place.look()
    except paths.Unsafe as error:
        raise ControlError(f"cannot ask the agent at {path}: {error}", "no-agent") from error
    if info is None:
        raise FileNotFoundError(path)
    if place.directory.holders:
        raise ControlError(
            f"cannot ask the agent at {path}: {place.directory.reason}, who could answer in its place", "no-agent"
        )
    if info.st_uid not in trusted_uids():
        raise ControlError(f"cannot ask the agent at {path}: the socket belongs to {called(info.st_uid)}", "no-agent")
    return Path(place.real)


def _responses(path: Path, stream: Any) -> Iterator[dict[str, Any]]:
    try:
        for line in stream:
            message = _message(path, line)
            if message.get("ok") is False:
                code = next((each for each in REFUSALS if each == message.get("code")), REFUSALS[0])
                raise ControlError(message.get("error") or "the agent has refused the request", code)
            yield message
            if "ok" in message:
                return
    except TimeoutError as error:
        raise silent(path) from error
    except OSError as error:
        raise ControlError(f"cannot read from the agent at {path}: {error.strerror or error}", "no-agent") from error
    raise ControlError(f"the agent at {path} has stopped", "no-agent")


def silent(path: Path) -> ControlError:
    """Return the error for a response that does not arrive in time."""
    return ControlError(
        f"the agent at {path} has not answered in time: it hangs, is stopped or is very busy; try again",
        "no-agent",
    )


def _message(path: Path, line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ControlError(
            f"cannot understand the answer at {path}: no agent listens there, or it is of another version",
            "not-understood",
        )
    return message


def _why(path: Path, error: OSError) -> ControlError:
    """Return why no agent answered, with the likely fix."""
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)):
        return NotListening(
            f"cannot ask the agent: none listens at {path}; is it running, with this --config and --state-dir?",
            "no-agent",
        )
    if isinstance(error, PermissionError):
        return ControlError(
            f"cannot ask the agent at {path}: permission denied; only root and the agent's own user may, "
            "and members of the group holdfast may look (`viewers` in agent.yaml)",
            "not-permitted",
        )
    code: Refusal = "busy" if isinstance(error, BlockingIOError) else "no-agent"  # busy: its backlog is full
    return ControlError(f"cannot ask the agent at {path}: {error.strerror or error}", code)
