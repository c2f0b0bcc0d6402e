"""One attempt at one resource: its guards, its `check_apply` or refresh; it always ends in an `Outcome`.

This is the one place where code of kinds is called, and so the one that catches whatever they raise.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import NamedTuple

from holdfast.agent.engine.call import guards
from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.events import NO_CHANGES, Cause, Notice, Outcome, Reason, Rest
from holdfast.agent.engine.model.failure import Failure, describe_os_error
from holdfast.resources.context import Context, Received, Report, announces
from holdfast.resources.errors import TRANSIENT, Final, HoldfastError, Overdue, Permanent, Temporary
from holdfast.resources.meta import Meta
from holdfast.resources.secrets import MASK
from holdfast.resources.traits import Refreshable, Reversible, Sendable
from holdfast.states.data import Call

_NOTHING: Mapping[str, type] = MappingProxyType({})
ACCOUNT_LIMIT = 10.0
"""Seconds for finding out what an attempt that has failed has changed."""


class Job(NamedTuple):
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
    received: Mapping[str, Received] = {}
    """What it has received; `call` has it already."""
    wanted: Collection[str] = ()
    """Keys that others receive from it."""
    unsure: tuple[str, ...] = ()
    """Noop: what comes before it and would be changed, so that it cannot be said yet how this comes out."""
    disabled: str = ""
    """The pattern in the settings that says to leave it alone."""
    before: Rest | None = None
    """The wait after the attempt before, which was for the same reason; None: this is the first."""
    batch: Batch | None = None
    """Those that run with it, to put things right in one go."""
    remember: Callable[[Reversible], Awaitable[None]] | None = None
    """What is now has to be remembered first, to be put back some day."""
    announce: Callable[[], Awaitable[None]] | None = None
    """Somebody is told of its changes: to be awaited before the first."""
    leaf: bool = False
    """No other resource depends on it, and the journal tells nothing of it."""


class Clock(NamedTuple):
    """When the first attempt began, and which this is."""

    began: float
    """Loop time."""
    started: float
    """Unix time."""
    attempt: int


async def run(job: Job, emit: Callable[[Notice], None]) -> tuple[Outcome, Failure | None]:
    """Make it, within its deadline; whatever the kind raises becomes the outcome, with what was changed before."""
    before = job.before
    clock = (
        Clock(before.began, before.started, before.attempt + 1)
        if before
        else Clock(asyncio.get_running_loop().time(), time.time(), 1)
    )
    job.ctx.report = Report(
        batch=job.batch, intent=job.announce, leaf=job.leaf, sends=_sends(job), wanted=job.wanted, received=job.received
    )
    meta = job.call.meta
    try:
        async with nullcontext() if meta.timeout is None else asyncio.timeout(meta.timeout):
            if job.disabled:
                return _skip(job, clock, "disabled", f"disabled by {job.disabled!r} in the settings"), None
            refusal = await guards.refusal(job.call, job.ctx)
            if refusal is not None:
                return _skip(job, clock, *refusal), None
            right, refreshed, failure = await _act(job)
            if job.apply:
                await guards.check_commands(job.call, job.ctx)
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        await _account(job)
        text = "timed out" if meta.timeout is None else f"did not finish within {meta.timeout:g} s"
        return _failed(job, clock, Overdue(text))
    except (HoldfastError, OSError) as error:
        await _account(job)
        return _failed(job, clock, error)
    except Exception as error:  # noqa: BLE001 - the code of a kind may raise anything; it fails that resource only
        await _account(job)
        if not meta.no_log:
            emit(Notice("debug", "traceback", job.call.identity, f"{job.call.kind} raised", error))
        text = f"internal error in {job.call.kind}: {type(error).__name__}: {error}"
        return _outcome(job, clock, result=False, comment=text), Failure(temporary=False, delay=None)
    return _outcome(job, clock, result=True if right or job.apply else None, refreshed=refreshed), failure


def rest(meta: Meta, outcome: Outcome, began: float, *, endless: bool) -> Rest | None:
    """What there is to be said of the wait before the next attempt; None: there is none. `endless`: for ever means for ever, else the first is the last."""
    retry = meta.retry
    if retry is None or outcome.result is retry.until:
        return None
    last = retry.attempts if retry.attempts >= 0 else sys.maxsize if endless else 1
    return Rest(outcome.attempts, last, outcome.comment, began, outcome.started) if outcome.attempts < last else None


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
    job.ctx.report = Report(
        touched=before.touched,
        account=before.account,
        sends=before.sends,
        wanted=before.wanted,
        sent=before.sent,
        received=before.received,
    )
    return await refreshable.refresh(job.ctx, job.apply), True, failure


async def _account(job: Job) -> None:
    """After an error: have the kind find out what was changed all the same. When that fails in turn, nobody knows."""
    report = job.ctx.report
    if report.account is None or report.changes:
        return
    try:
        async with asyncio.timeout(ACCOUNT_LIMIT):
            await report.account()
    except Exception:  # noqa: BLE001 - the code of a kind may raise anything, and what there is to be told is the first error
        report.changes, report.comment = {}, ""


def _sends(job: Job) -> Mapping[str, type]:
    resource = job.call.resource
    return resource.sends if isinstance(resource, Sendable) else _NOTHING


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


def _outcome(
    job: Job, clock: Clock, *, result: bool | None, comment: str | None = None, refreshed: bool = False
) -> Outcome:
    report = job.ctx.report
    changes, text, diff = report.changes, comment or report.comment, report.diff
    if comment and report.comment and comment != report.comment:
        text = f"{comment}; {report.comment}" if report.changes else comment
    if job.call.meta.no_log:
        changes, text, diff = dict.fromkeys(changes, MASK), MASK, ""
    elif changes or diff or result is not True:
        changes, text, diff = job.ctx.redacted((changes, text, diff))
    return Outcome(
        job.call.identity,
        job.call.position,
        result=result,
        changes=changes or NO_CHANGES,
        comment=text,
        diff=diff,
        duration=_since(clock),
        cause=job.cause,
        attempts=clock.attempt,
        refreshed=refreshed,
        touched=report.touched and result is False,
        started=clock.started,
    )


def _failed(job: Job, clock: Clock, error: HoldfastError | OSError) -> tuple[Outcome, Failure | None]:
    """What is to be said of an error. A look may have failed only because nothing was really changed before it."""
    why = describe_os_error(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, Temporary):
        command = (
            isinstance(error, Overdue) and job.call.resource.action()
        )  # only `retry` runs a command again that ran out of time
        return _outcome(job, clock, result=False, comment=why), Failure(temporary=not command, delay=error.delay)
    if job.unsure and not isinstance(error, Final):
        job.ctx.report = Report()
        comment = f"cannot be told before {', '.join(job.unsure)} would be changed ({why})"
        return _outcome(job, clock, result=None, comment=comment)._replace(unknown=True), None
    passes = isinstance(error, OSError) and error.errno in TRANSIENT
    return _outcome(job, clock, result=False, comment=why), Failure(temporary=passes, delay=None)
