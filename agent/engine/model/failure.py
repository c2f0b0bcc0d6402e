"""Failed attempts: when to try again, and how to describe a failed system call."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.resources.meta import Meta

BACKOFF_LIMIT = 60.0
"""Seconds: waits between retries grow up to this."""


class Failure(NamedTuple):
    """Why an attempt failed, which decides when the next one starts.

    With a successful outcome: the run failed, and its refresh succeeded instead.
    """

    temporary: bool
    """The next attempt may succeed without a change of the states."""
    delay: float | None = None
    """Seconds until the next attempt, if the error sets them."""
    differs: bool = False
    """The resource was still not as declared after its repair, perhaps because of another change meanwhile."""


def backoff(meta: Meta | None, attempt: int, failure: Failure | None = None) -> float:
    """Return the seconds until the next attempt.

    The first of these applies: the delay of the failure, the interval of the state, its `delay` doubled each time. The
    last two are varied at random, so that many resources or hosts do not retry at the same time.
    """
    if failure is not None and failure.delay is not None:
        return failure.delay
    retry = meta.retry if meta else None
    if retry is None or retry.backoff:
        base = meta.delay if meta else 1.0
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - it spreads load
        return float(min(BACKOFF_LIMIT, base * 2 ** min(attempt - 1, 16) * spread))
    return retry.interval + random.uniform(0, retry.splay)  # noqa: S311 - spreads load


def describe_os_error(error: OSError) -> str:
    """Return one line about a failed system call: the paths and the error."""
    where = " -> ".join(str(path) for path in (error.filename, error.filename2) if path is not None)
    why = error.strerror or str(error)
    return f"{where}: {why}" if where else why
