"""Guards: `onlyif`, `unless`, `creates` before a run, `check_cmd` after it. Salt's rules: docs/language.md, Guards.

A guard answers yes or no. A guard that was killed or cannot be evaluated raises an error: the run fails, and nothing is
decided.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, Literal

from holdfast.resources import paths
from holdfast.resources.context import Completed, Context
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.fields import parse_umask
from holdfast.states.data import Call

NOWHERE = frozenset({errno.ELOOP, errno.ENAMETOOLONG})
"""Errors that mean that nothing can exist at a path."""
SHOWN = 80
"""Longest part of a command, in characters, that a message shows."""

Refusal = tuple[Literal["onlyif", "unless", "creates"], str]
"""The guard that keeps a state from running, and a comment."""


async def refusal(call: Call, ctx: Context) -> Refusal | None:
    """Return the guard that keeps the state from running, or None if the state may run.

    Raises `HoldfastError` or `OSError` if a guard cannot be evaluated.
    """
    meta = call.meta
    for condition in meta.onlyif or ():
        holds, note = await _holds(call, ctx, condition)
        if not holds:
            return "onlyif", f"onlyif condition is false{note}"
    if meta.unless is not None and all([(await _holds(call, ctx, condition))[0] for condition in meta.unless]):
        return "unless", "unless condition is true"
    if meta.creates and all(map(_created, meta.creates)):
        return "creates", f"{', '.join(meta.creates)} exists"
    return None


async def check_commands(call: Call, ctx: Context) -> None:
    """Run the commands of `check_cmd`. Raises `Permanent` for the first command that fails."""
    for command in call.meta.check_cmd or ():
        status = (await _shell(call, ctx, command)).retcode
        if status != 0:
            raise Permanent(f"check_cmd failed with status {status}: {command}")


async def _holds(call: Call, ctx: Context, condition: str | dict[str, Any]) -> tuple[bool, str]:
    """Return whether a guard holds, and a note for the comment.

    A command that the shell cannot find or run counts as false, as in Salt; the note is then the message of the shell.
    """
    if isinstance(condition, dict):
        return bool(await ctx.blocking(ctx.call, condition)), ""
    done = await _shell(call, ctx, condition)
    if killed := _signal(done.retcode):
        shown = condition if len(condition) <= SHOWN else f"{condition[: SHOWN - 1]}…"
        # Temporary, as nothing has run yet: the guard can be evaluated again.
        raise Temporary(f"cannot tell whether to run: the guard {shown!r} was killed by {killed}")
    errors = done.stderr.strip().splitlines()
    return done.retcode == 0, f": {errors[-1]}" if done.retcode in (126, 127) and errors else ""


def _signal(status: int) -> str:
    """Return the name of the signal that killed a command, or an empty string.

    The shell reports a signal that killed its last command as status 128 + number.
    """
    number = -status if status < 0 else status - 128
    if number not in signal.valid_signals():
        return ""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _created(path: str) -> bool:
    """Return whether something exists at a path of `creates`.

    Raises `Unsafe` for an unsafe symbolic link of a user, and `OSError` if the path cannot be checked.
    """
    try:
        whole = path if path.startswith("/") else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - strings
        return path != "" and paths.exists(whole)
    except ValueError:
        return False
    except OSError as error:
        if error.errno in NOWHERE:
            return False
        raise


async def _shell(call: Call, ctx: Context, command: str) -> Completed:
    """Run a command in the shell, with the directory, user, environment and umask of the state.

    Raises `Permanent` if the command cannot be run like that.
    """
    low = call.low
    umask = low.get("umask")
    return await ctx.run(
        str(low.get("shell") or "/bin/sh"),
        "-c",
        command,
        cwd=low.get("cwd"),
        user=low.get("runas"),
        env=_environment((call.handed or low).get("env", low.get("env"))),
        umask=parse_umask(umask) if umask is not None else None,
        check=False,
    )


def _environment(env: object) -> dict[str, str]:
    """Return the `env` of a state, read like that of `cmd.run`.

    `env` is a mapping, or a list of mappings and `NAME=VALUE` strings. None and false mean an empty value.
    """
    found: dict[str, str] = {}
    for part in env if isinstance(env, list) else [env]:
        pairs = (
            part.items()
            if isinstance(part, dict)
            else [part.split("=", 1)]
            if isinstance(part, str) and "=" in part
            else ()
        )
        found |= {str(name): "" if value is None or value is False else str(value) for name, value in pairs}
    return found
