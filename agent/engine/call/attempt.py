"""One attempt to run a resource: its guards, then its `check_apply` or its refresh, as an `Outcome`.

Exceptions of guards, `check_apply` and `refresh` end here: they fail the resource, never the engine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.agent.engine import kinds
from holdfast.agent.engine.call import guards
from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.failure import Failure, describe_os_error
from holdfast.agent.engine.model.outcome import NO_CHANGES, Cause, Outcome, Reason, line_of
from holdfast.agent.engine.model.waits import RetryWait
from holdfast.resources.assignment import UNASSIGNED, Assignment, Received, Users, announces, no_users
from holdfast.resources.context import Context
from holdfast.resources.effects import Effect
from holdfast.resources.errors import (
    RAISED,
    TRANSIENT,
    ChangedMeanwhile,
    Final,
    HoldfastError,
    Overdue,
    Permanent,
    StillDiffers,
    Temporary,
    WrongArguments,
)
from holdfast.resources.meta import Meta
from holdfast.resources.replaced import ReplacedFile
from holdfast.resources.report import IDLE, Report
from holdfast.resources.secrets import MASK
from holdfast.resources.traits import Refreshable, Reversible, Sendable
from holdfast.states.data import Call

_NOTHING: Mapping[str, type] = MappingProxyType({})
ACCOUNT_LIMIT = 10.0
"""Seconds within which a kind must report what a failed attempt has changed."""


class Job(NamedTuple):
    """The job of one attempt."""

    call: Call
    ctx: Context
    apply: bool
    """False: check only, change nothing."""
    refresh: bool = False
    """A resource that this one watches has changed: refresh, unless the run itself changes something."""
    cause: Cause = "start"
    only_refresh: bool = False
    """The run of a listener: refresh without a check."""
    received: Mapping[str, Received] = {}
    """Argument -> value received from another resource; `call` already contains these values."""
    wanted: Collection[str] = ()
    """Keys that other resources receive from this one."""
    unsure: tuple[str, ...] = ()
    """In noop: identities of upstream resources that would change; an error may be due to these missing changes."""
    disabled: str = ""
    """The pattern in the settings that disables the resource; empty if none does."""
    before: RetryWait | None = None
    """The wait after the previous attempt of the same run; None: this is the first attempt."""
    batch: Batch | None = None
    """Resources that are repaired together with this one in one operation."""
    remember: Callable[[Reversible], Awaitable[None]] | None = None
    """Records, before the first change, how to restore the present state; None if no reversal is needed."""
    announce: Callable[[], Awaitable[None]] | None = None
    """Records, before the first change, that subscribers must be notified; None if there are none."""
    leaf: bool = False
    """No other resource depends on this one, and the journal records nothing about it."""
    release_worker: Callable[[], None] | None = None
    """Lets another resource run, before a call that takes long; None if the job occupies no worker."""
    users: Callable[[], Users] = no_users
    """See `Assignment`."""


class Clock(NamedTuple):
    """When the first attempt began, and the number of this one."""

    now: Callable[[], float]
    """Returns the loop time."""
    began: float
    """Loop time."""
    started: float
    """Unix time."""
    attempt: int
    """Number of this attempt; the first is 1."""


_Acted = tuple[bool, bool, Failure | None]
"""(was as declared, the changes are those of the refresh, failure).

A failure is given if the repair failed and a refresh succeeded: the refresh may have fixed the cause.
"""


async def run(job: Job, emit: Callable[[Notice], None]) -> Outcome:
    """Run the job within its deadline.

    An exception of the kind becomes a failed outcome, which includes the changes made before the exception.
    """
    before, now = job.before, asyncio.get_running_loop().time
    clock = (
        Clock(now, before.began, before.started, before.attempt + 1) if before else Clock(now, now(), time.time(), 1)
    )
    job.ctx.assignment = Assignment(
        job.batch, job.announce, job.leaf, _sends(job), job.wanted, job.received, job.release_worker, job.users
    )
    job.ctx.report = Report()
    meta = job.call.meta
    try:
        if meta.timeout is None:
            ran = await _run(job, clock)
        else:
            async with asyncio.timeout(meta.timeout):
                ran = await _run(job, clock)
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        await _account(job)
        text = "timed out" if meta.timeout is None else f"did not finish within {meta.timeout:g} s"
        return _failed(job, clock, Overdue(text))
    except (HoldfastError, OSError) as error:
        await _account(job)
        return _failed(job, clock, error)
    except RAISED as error:  # the code of a kind may raise anything; it fails that resource only
        await _account(job)
        if not meta.no_log:
            emit(Notice("debug", "traceback", job.call.identity, f"{job.call.kind} raised", error))
        text = f"internal error in {job.call.kind}: {type(error).__name__}: {error}"
        return _outcome(job, clock, result=False, comment=text, failure=Failure(temporary=False), at=line_of(job.call))
    if isinstance(ran, Outcome):
        return ran
    right, refreshed, failure = ran
    result = True if right or job.apply else None
    return _outcome(job, clock, result=result, refreshed=refreshed, failure=failure)


async def _run(job: Job, clock: Clock) -> Outcome | _Acted:
    """Run the job unless a guard or the settings prevent this: then the outcome says so."""
    meta = job.call.meta
    if job.disabled:
        return _skip(job, clock, "disabled", f"disabled by {job.disabled!r} in the settings")
    refusal = await guards.refusal(job.call, job.ctx)
    if refusal is not None:
        return _skip(job, clock, *refusal)
    with job.ctx.keeping(private=meta.no_log or kinds.hides(job.call.resource)):
        acted = await _act(job)
    if job.apply and meta.check_cmd:
        await guards.check_commands(job.call, job.ctx)
    return acted


def interrupted(call: Call, ctx: Context, cause: Cause) -> Outcome:
    """Return the outcome of a run that was cancelled: what it had reported by then."""
    now = asyncio.get_running_loop().time
    clock, job = Clock(now, now(), time.time(), 1), Job(call, ctx, apply=True, cause=cause)
    unknown = "" if ctx.report.changes else "; it may have changed the resource"
    return _outcome(job, clock, result=False, comment=f"its run was interrupted{unknown}")


def clear(ctx: Context) -> None:
    """Free what the engine has given to a run, and what the run has reported."""
    ctx.assignment, ctx.report = UNASSIGNED, IDLE


def retry_wait(meta: Meta, outcome: Outcome, began: float, *, endless: bool) -> RetryWait | None:
    """Return the wait before the next attempt, or None if no other attempt follows.

    A negative number of attempts means no limit with `endless`, and one attempt without.
    """
    retry = meta.retry
    if retry is None or outcome.result is retry.until:
        return None
    last = retry.attempts if retry.attempts >= 0 else sys.maxsize if endless else 1
    if outcome.attempts >= last:
        return None
    return RetryWait(outcome.attempts, last, outcome.comment, began, outcome.started)


async def _act(job: Job) -> _Acted:
    """Check or repair, then refresh if needed."""
    resource = job.call.resource
    refreshable = resource if isinstance(resource, Refreshable) and (job.refresh or job.only_refresh) else None
    right, failure = True, None
    if not job.only_refresh:
        if job.remember and isinstance(resource, Reversible):
            await job.remember(resource)
        if not announces(resource.check_apply):
            await job.ctx.assignment.announce()
        try:
            right = await resource.check_apply(job.ctx, job.apply)
        except Permanent:
            if refreshable is None or job.ctx.report.changes:
                raise
            failure = Failure(temporary=True)
    if refreshable is None or job.ctx.report.changes:
        return right, False, None
    await job.ctx.assignment.announce()
    before = job.ctx.report
    job.ctx.assignment = job.ctx.assignment._replace(batch=None, intent=None, leaf=False)
    job.ctx.report = Report(touched=before.touched, account=before.account, sent=before.sent, replaced=before.replaced)
    return await refreshable.refresh(job.ctx, job.apply), True, failure


async def _account(job: Job) -> None:
    """After an error, let the kind report what was changed. If that fails too, report no changes."""
    report = job.ctx.report
    if report.account is None or report.changes:
        return
    try:
        async with asyncio.timeout(ACCOUNT_LIMIT):
            await report.account()
    except RAISED:  # the code of a kind may raise anything; the first error is reported
        report.changes, report.comment = {}, ""


def _sends(job: Job) -> Mapping[str, type]:
    resource = job.call.resource
    return resource.sends if isinstance(resource, Sendable) else _NOTHING


def _skip(job: Job, clock: Clock, reason: Reason, comment: str) -> Outcome:
    skipped = Outcome.skipped(job.call, reason, comment, job.cause)
    return skipped._replace(duration=_since(clock), attempts=clock.attempt, started=clock.started)


def _since(clock: Clock) -> float:
    return clock.now() - clock.began


def _outcome(
    job: Job,
    clock: Clock,
    *,
    result: bool | None,
    comment: str | None = None,
    refreshed: bool = False,
    failure: Failure | None = None,
    at: str = "",
) -> Outcome:
    report, said = job.ctx.report, _without_secrets(job, result, comment)
    return Outcome(
        job.call.identity,
        job.call.position,
        result=result,
        changes=said.changes or NO_CHANGES,
        comment=said.comment,
        diff=said.diff,
        effect=said.effect,
        duration=_since(clock),
        cause=job.cause,
        attempts=clock.attempt,
        refreshed=refreshed,
        touched=report.touched and result is False,
        started=clock.started,
        public=result is not False and _is_public(job),
        failure=failure,
        at=at,
        ended=_ended(job, said.effect),
        replaced=_replaced(job),
        before=_before(job),
        deletes_later=report.deletes_later,
        known=tuple(report.known) if result is None else (),
    )


def _is_public(job: Job) -> bool:
    """Return whether every user of this host could read what a successful run reports."""
    return not job.call.meta.no_log and (job.ctx.report.public or job.call.resource.public_results)


def _ended(job: Job, effect: Effect | None) -> str:
    """Return how a service had ended that this run has started again."""
    started = bool(effect and "start" in effect.verbs)
    return str(job.ctx.redacted(job.ctx.report.ended)) if started and not job.call.meta.no_log else ""


def _before(job: Job) -> Mapping[str, Any]:
    """Return the values before the change, with their secrets masked."""
    found = job.ctx.report.before
    return NO_CHANGES if job.call.meta.no_log or not found else job.ctx.redacted(found)


def _replaced(job: Job) -> tuple[ReplacedFile, ...]:
    """Return the files that the run replaced, with the secrets in their names masked."""
    found = job.ctx.report.replaced
    if not found:
        return ()
    if job.call.meta.no_log:
        return tuple([each._replace(path=MASK, link="") for each in found])
    return tuple([ReplacedFile(*job.ctx.redacted(tuple(each))) for each in found])


class _Said(NamedTuple):
    """The texts and changes of an outcome, without secrets."""

    changes: Mapping[str, Any]
    comment: str
    diff: str = ""
    effect: Effect | None = None


def _without_secrets(job: Job, result: bool | None, comment: str | None) -> _Said:
    """Return the texts and changes that the run reports; `comment` is the error, if there is one."""
    report = job.ctx.report
    changes, text, effect = report.changes, comment or report.comment, report.effect
    if comment and changes and report.comment not in ("", comment):
        text = f"{comment}; {report.comment}"
    if job.call.meta.no_log:
        return _Said(dict.fromkeys(changes, MASK), MASK, effect=effect and Effect(effect.verbs, MASK))
    if not changes and not report.diff and result is True:
        return _Said(NO_CHANGES, text)  # nothing was done
    changes, text, diff, about = job.ctx.redacted((changes, text, report.diff, effect[1:] if effect else ()))
    return _Said(changes, text, diff, effect and Effect(effect.verbs, *about))


def _said(call: Call, error: HoldfastError | OSError) -> tuple[str, str]:
    """Return the text of an error, and the line of the state unless the text has the lines of refused arguments."""
    find = call.place
    if find is not None and isinstance(error, WrongArguments):
        return error.told(lambda path: f" ({find(path).location})"), ""
    why = describe_os_error(error) if isinstance(error, OSError) else str(error)
    return why, line_of(call)


def _failed(job: Job, clock: Clock, error: HoldfastError | OSError) -> Outcome:
    """Return the outcome of an error.

    In noop, a check may fail only because upstream changes were not made; the outcome is unknown then.
    """
    why, at = _said(job.call, error)
    if isinstance(error, Temporary):
        # A command that timed out is run again only by `retry`.
        command = isinstance(error, Overdue) and kinds.action(job.call.resource)
        failure = Failure(not command, error.delay, differs=isinstance(error, ChangedMeanwhile))
        return _outcome(job, clock, result=False, comment=why, failure=failure, at=at)
    if job.unsure and not isinstance(error, Final):
        job.ctx.report = Report()
        comment = f"unknown until {', '.join(job.unsure)} has run ({why})"
        return _outcome(job, clock, result=None, comment=comment)._replace(undecided=True)
    transient = isinstance(error, OSError) and error.errno in TRANSIENT
    failure = Failure(transient, differs=isinstance(error, StillDiffers))
    return _outcome(job, clock, result=False, comment=why, failure=failure, at=at)
