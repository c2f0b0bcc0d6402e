"""Detects agents that manage this host with other states than a one-shot run: each would undo the other's changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.agent.paths import socket_of
from holdfast.agent.settings import Settings
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError
from holdfast.states.source.files import is_there

ANSWER = 5.0
"""Seconds within which an agent must answer."""
PARTS = ("states", "pillar", "environment", "id")
"""The lines of `Settings.tree`, in order."""
PATHS = PARTS[:2]
UNSET = {"pillar": "none", "id": "the name of the host"}
"""Part -> its meaning if it is not set."""


def demand_no_other(settings: Settings, verb: str) -> None:
    """Raise `HoldfastError` if the agent with these settings, or the installed one, manages other states than these.

    An agent that this process may not ask, or that does not answer, is ignored: its states are unknown.
    """
    for socket in dict.fromkeys((settings.socket, *_of_the_system())):
        kept = _kept(socket)
        if kept is not None and (found := list(_differences(kept, settings.tree))):
            raise HoldfastError(
                f"cannot {verb}: the agent at {socket} manages other states on this host ({'; '.join(found)}), "
                "and each would undo the other's changes; "
                f"{verb} the agent's own states, stop the agent, or use --anyway"
            )


def _kept(socket: Path) -> str | None:
    """Return the states that the agent at a socket manages; None if no agent answers."""
    with suppress(OSError):  # a socket that cannot be seen may exist: the client tries it
        if not is_there(socket):
            return None
    from holdfast.agent.control.client import ask  # noqa: PLC0415 - not needed if no agent listens
    from holdfast.agent.control.internal import KeptStates  # noqa: PLC0415
    from holdfast.agent.control.schema import ControlError  # noqa: PLC0415

    try:
        return str(ask(socket, KeptStates(), ANSWER))
    except ControlError:
        return None


def _of_the_system() -> Iterator[Path]:
    """Yield the control socket of the installed agent, if its settings can be read."""
    try:
        yield socket_of(None, {})
    except CompileError:
        return


def _differences(theirs: str, ours: str) -> Iterator[str]:
    """Yield the differences between two values of `Settings.tree`. Two paths to one directory do not differ."""
    for part, their, our in zip(PARTS, theirs.split("\n"), ours.split("\n"), strict=False):
        if their != our and not (part in PATHS and os.path.realpath(their) == os.path.realpath(our)):
            yield f"{part} {_named(part, their)}, not {_named(part, our)}"


def _named(part: str, value: str) -> str:
    return UNSET.get(part, value) if value == "None" else value
