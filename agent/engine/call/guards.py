"""Guards: `onlyif`, `unless`, `creates` before a run, `check_cmd` after it. Salt's rules: docs/language.md, Guards.

A guard answers yes or no. One that cannot answer, because it was killed or cannot even be asked, raises: that is a failure of the run, never a decision.
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
"""Errors of a path at which nothing can be."""
SHOWN = 80
"""Characters of a command that name it."""

Refusal = tuple[Literal["onlyif", "unless", "creates"], str]
"""The guard that says no, and what there is to say of it."""


async def refusal(call: Call, ctx: Context) -> Refusal | None:
    """Why a state is not to run now; None when it may. Raises `HoldfastError` or `OSError` when a guard cannot answer."""
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
    """Run the commands of `check_cmd`. Raises `Permanent` for the first that fails."""
    for command in call.meta.check_cmd or ():
        status = (await _shell(call, ctx, command)).retcode
        if status != 0:
            raise Permanent(f"check_cmd failed with status {status}: {command}")


async def _holds(call: Call, ctx: Context, condition: str | dict[str, Any]) -> tuple[bool, str]:
    """Whether a guard holds; and what the shell says of one that it could not find or run, which is an answer, as in Salt."""
    if isinstance(condition, dict):
        return bool(await ctx.blocking(ctx.call, condition)), ""
    done = await _shell(call, ctx, condition)
    if killed := _signal(done.retcode):
        shown = condition if len(condition) <= SHOWN else f"{condition[: SHOWN - 1]}…"
        raise Temporary(
            f"cannot tell whether to run: the guard {shown!r} was killed by {killed}"
        )  # nothing was run: ask again
    said = done.stderr.strip().splitlines()
    return done.retcode == 0, f": {said[-1]}" if done.retcode in (126, 127) and said else ""


def _signal(status: int) -> str:
    """The signal that killed a command, or, as the shell reports it (128 + number), the last command in it; empty for none."""
    number = -status if status < 0 else status - 128
    if number not in signal.valid_signals():
        return ""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _created(path: str) -> bool:
    """Whether something is at a path of `creates`. Raises `Unsafe` for a user's unsafe link, and `OSError` when it cannot be looked at."""
    try:
        return path != "" and paths.exists(path if path.startswith("/") else os.path.join(os.getcwd(), path))  # noqa: PTH109, PTH118 - strings
    except ValueError:
        return False
    except OSError as error:
        if error.errno in NOWHERE:
            return False
        raise


async def _shell(call: Call, ctx: Context, command: str) -> Completed:
    """Run a command in the shell, with the state's own directory, user, environment and umask. Raises `Permanent` when that cannot be done."""
    low = call.low
    umask = low.get("umask")
    return await ctx.run(
        str(low.get("shell") or "/bin/sh"),
        "-c",
        command,
        cwd=low.get("cwd"),
        user=low.get("runas"),
        env=_environment(low.get("env")),
        umask=parse_umask(umask) if umask is not None else None,
        check=False,
    )


def _environment(env: object) -> dict[str, str]:
    """The `env` of a state, as `cmd.run` reads it: a mapping, or a list of mappings and of `NAME=VALUE`; false is an empty value."""
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
