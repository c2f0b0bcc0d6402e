"""One run of one resource: its guards, its `check_apply` or refresh, its retries; it always ends in an `Outcome`.

This is the one place where code of kinds is called, and so the one that catches whatever they raise.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.agent.engine.batch import Batch
from holdfast.agent.engine.report import Cause, Notice, Outcome, Reason, Rest
from holdfast.resources import paths
from holdfast.resources.context import Completed, Context, Received, Report, announces
from holdfast.resources.errors import PASSING, Final, HoldfastError, Overdue, Permanent, Temporary
from holdfast.resources.fields import MASK, parse_umask
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Refreshable, Reversible, Sendable
from holdfast.states.data import Call

BACKOFF_LIMIT = 60.0
"""Seconds: waits between retries grow up to this."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one run is to do."""

    call: Call
    ctx: Context
    apply: bool
    """False: look only."""
    refresh: bool = False
    """Something it watches has changed: act on that if the run itself changes nothing."""
    cause: Cause = "start"
    only_refresh: bool = False
    """A listener's turn: the refresh alone."""
    received: Mapping[str, Received] = field(default_factory=dict)
    """What it has received; `call` has it already."""
    unsure: tuple[str, ...] = ()
    """Noop: what comes before it and would be changed, so that it cannot be said yet how this comes out."""
    disabled: str = ""
    """The pattern in the settings that says to leave it alone."""
    one_shot: bool = False
    """Endless retries happen within this run: nobody wakes it later."""
    batch: Batch | None = None
    """Those that run with it, to put things right in one go."""
    remember: Callable[[Reversible], Awaitable[None]] | None = None
    """What is now has to be remembered first, to be put back some day."""
    announce: Callable[[], Awaitable[None]] | None = None
    """Somebody is told of its changes: to be awaited before the first."""


@dataclass(slots=True)
class Clock:
    """When the run began, and which attempt this is."""

    began: float
    """Loop time."""
    started: float
    """Unix time."""
    attempt: int = 0
    touched: bool = False
    """An earlier attempt had begun to change something when it failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, for whoever decides when to try again. With a good result: a refresh took the place of a failed run."""

    temporary: bool
    delay: float | None


async def run(
    job: Job, emit: Callable[[Notice], None], rest: Callable[[Rest], Awaitable[None]] | None = None
) -> tuple[Outcome, Failure | None]:
    """Run with as many attempts as the state asks for, and a `rest` after each but the last; without it there is but one."""
    retry, loop = job.call.meta.retry, asyncio.get_running_loop()
    clock = Clock(loop.time(), time.time())
    last = retry.attempts if retry and job.apply and rest else 1
    if last < 0:
        last = sys.maxsize if job.one_shot else 1
    while True:
        clock.attempt += 1
        outcome, failure = await _once(job, clock, emit)
        if job.batch:
            job.batch.leave(job.call.identity)
        if retry is None or rest is None or clock.attempt >= last or outcome.result is retry.until:
            return outcome, failure
        clock.touched = clock.touched or job.ctx.report.touched
        delay = backoff(job.call.meta, clock.attempt, failure)
        emit(
            Notice(
                "warning",
                "attempt-failed",
                job.call.identity,
                f"attempt {clock.attempt} of {last}: {outcome.comment}; again in {delay:.3g} s",
            )
        )
        await rest(Rest(clock.attempt, last, outcome.comment, loop.time() + delay))


def backoff(meta: Meta | None, attempt: int, failure: Failure | None = None) -> float:
    """Seconds until the next attempt: what the failure asks for, else the state's interval, or its `delay` doubled with jitter."""
    if failure is not None and failure.delay is not None:
        return failure.delay
    retry = meta.retry if meta else None
    if retry is None or retry.backoff:
        base = meta.delay if meta else 1.0
        return float(min(BACKOFF_LIMIT, base * 2 ** min(attempt - 1, 16) * random.uniform(0.8, 1.2)))  # noqa: S311 - spreads load
    return retry.interval + random.uniform(0, retry.splay)  # noqa: S311 - spreads load


async def _once(job: Job, clock: Clock, emit: Callable[[Notice], None]) -> tuple[Outcome, Failure | None]:
    """One attempt, within its deadline; whatever the kind raises becomes the outcome."""
    job.ctx.report = Report(batch=job.batch, intent=job.announce, sends=_sends(job), received=job.received)
    meta = job.call.meta
    try:
        async with asyncio.timeout(meta.timeout):
            skipped = await _guarded(job, clock)
            if skipped is not None:
                return skipped, None
            right, refreshed, failure = await _act(job)
            if job.apply and meta.check_cmd:
                await _check_commands(job)
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        text = "timed out" if meta.timeout is None else f"did not finish within {meta.timeout:g} s"
        return _failed(job, clock, Overdue(text))
    except (HoldfastError, OSError) as error:
        return _failed(job, clock, error)
    except Exception as error:  # noqa: BLE001 - the code of a kind may raise anything; it fails that resource only
        if not meta.no_log:
            emit(Notice("debug", "traceback", job.call.identity, f"{job.call.kind} raised", error))
        text = f"internal error in {job.call.kind}: {type(error).__name__}: {error}"
        return _outcome(job, clock, result=False, comment=text), Failure(temporary=False, delay=None)
    return _outcome(job, clock, result=True if right or job.apply else None, refreshed=refreshed), failure


async def _act(job: Job) -> tuple[bool, bool, Failure | None]:
    """(was right, the changes are those of the refresh, why the run failed). A refresh may mend what the run itself could not."""
    resource = job.call.resource
    refreshable = resource if isinstance(resource, Refreshable) and (job.refresh or job.only_refresh) else None
    right, failure = True, None
    if not job.only_refresh:
        if job.remember and isinstance(resource, Reversible):
            await job.remember(resource)
        if not announces(resource.check_apply):
            await job.ctx.report.announce()
        try:
            right = await resource.check_apply(job.ctx, job.apply)
        except Permanent:
            if refreshable is None or job.ctx.report.changes:
                raise
            failure = Failure(temporary=True, delay=None)
    if refreshable is None or job.ctx.report.changes:
        return right, False, None
    await job.ctx.report.announce()
    before = job.ctx.report
    job.ctx.report = Report(touched=before.touched, sends=before.sends, sent=before.sent, received=before.received)
    return await refreshable.refresh(job.ctx, job.apply), True, failure


def _sends(job: Job) -> Mapping[str, type]:
    resource = job.call.resource
    return resource.sends if isinstance(resource, Sendable) else {}


async def _guarded(job: Job, clock: Clock) -> Outcome | None:
    """The outcome of a run that its guards forbid; None when it may go on. Salt's rules: docs/language.md, Guards."""
    meta = job.call.meta
    if job.disabled:
        return _skip(job, clock, "disabled", f"disabled by {job.disabled!r} in the settings")
    for condition in meta.onlyif or ():
        holds, note = await _holds(job, condition)
        if not holds:
            return _skip(job, clock, "onlyif", f"onlyif condition is false{note}")
    if meta.unless is not None and all([(await _holds(job, condition))[0] for condition in meta.unless]):
        return _skip(job, clock, "unless", "unless condition is true")
    if meta.creates and all(map(_created, meta.creates)):
        return _skip(job, clock, "creates", f"{', '.join(meta.creates)} exists")
    return None


def _created(path: str) -> bool:
    """Whether something is at a path of `creates`; nothing is at one that cannot be looked at. Raises `Unsafe` for a user's unsafe link."""
    try:
        return path != "" and paths.exists(path if path.startswith("/") else os.path.join(os.getcwd(), path))  # noqa: PTH109, PTH118 - strings
    except (OSError, ValueError):
        return False


async def _holds(job: Job, condition: str | dict[str, Any]) -> tuple[bool, str]:
    """Whether a guard holds; and what is to be said of one that could not even run."""
    if isinstance(condition, dict):
        return bool(await job.ctx.blocking(job.ctx.call, condition)), ""
    done = await _shell(job, condition)
    said = done.stderr.strip().splitlines()
    return done.retcode == 0, f": {said[-1]}" if done.retcode in (126, 127) and said else ""


async def _check_commands(job: Job) -> None:
    for command in job.call.meta.check_cmd or ():
        status = (await _shell(job, command)).retcode
        if status != 0:
            raise Permanent(f"check_cmd failed with status {status}: {command}")


async def _shell(job: Job, command: str) -> Completed:
    """A guard, run in the shell with the state's own directory, user, environment and umask."""
    low = job.call.low
    umask = low.get("umask")
    return await job.ctx.run(
        str(low.get("shell") or "/bin/sh"),
        "-c",
        command,
        cwd=low.get("cwd"),
        user=low.get("runas"),
        env=environment(low.get("env")),
        umask=parse_umask(umask) if umask is not None else None,
        check=False,
    )


def environment(env: object) -> dict[str, str] | None:
    """The `env` of a state: a mapping, or a list of mappings."""
    if isinstance(env, list):
        env = {key: value for part in env if isinstance(part, dict) for key, value in part.items()}
    return {str(key): str(value) for key, value in env.items()} if isinstance(env, dict) else None


def _skip(job: Job, clock: Clock, reason: Reason, comment: str) -> Outcome:
    return Outcome(
        job.call.identity,
        job.call.position,
        result=True,
        comment=comment,
        duration=_since(clock),
        ran=False,
        reason=reason,
        cause=job.cause,
        attempts=clock.attempt,
        started=clock.started,
    )


def _since(clock: Clock) -> float:
    return asyncio.get_running_loop().time() - clock.began


def _outcome(job: Job, clock: Clock, *, result: bool | None, comment: str | None = None, refreshed: bool = False) -> Outcome:
    report = job.ctx.report
    changes, text, diff = report.changes, comment or report.comment, report.diff
    if comment and report.comment and comment != report.comment:
        text = f"{comment}; {report.comment}" if report.changes else comment
    if job.call.meta.no_log:
        changes, text, diff = dict.fromkeys(changes, MASK), MASK, ""
    elif changes or diff or result is not True:
        changes, text, diff = job.ctx.covered((changes, text, diff))
    return Outcome(
        job.call.identity,
        job.call.position,
        result=result,
        changes=changes,
        comment=text,
        diff=diff,
        duration=_since(clock),
        cause=job.cause,
        attempts=clock.attempt,
        refreshed=refreshed,
        touched=clock.touched or (report.touched and result is False),
        started=clock.started,
    )


def _failed(job: Job, clock: Clock, error: HoldfastError | OSError) -> tuple[Outcome, Failure | None]:
    """What is to be said of an error. A look may have failed only because nothing was really changed before it."""
    why = describe_os_error(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, Temporary):
        command = isinstance(error, Overdue) and job.call.resource.action()  # only `retry` runs a command again that ran out of time
        return _outcome(job, clock, result=False, comment=why), Failure(temporary=not command, delay=error.delay)
    if job.unsure and not isinstance(error, Final):
        job.ctx.report = Report()
        comment = f"cannot be told before {', '.join(job.unsure)} would be changed ({why})"
        return replace(_outcome(job, clock, result=None, comment=comment), unknown=True), None
    passes = isinstance(error, OSError) and error.errno in PASSING
    return _outcome(job, clock, result=False, comment=why), Failure(temporary=passes, delay=None)


def describe_os_error(error: OSError) -> str:
    """One line for a failed system call: what, on which path, why."""
    where = " -> ".join(str(path) for path in (error.filename, error.filename2) if path is not None)
    why = error.strerror or str(error)
    return f"{where}: {why}" if where else why
