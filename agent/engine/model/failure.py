"""Failed attempts: when to try again, and how to describe a failed system call."""

from __future__ import annotations

import random
from typing import NamedTuple

from holdfast.resources.meta import Meta

BACKOFF_LIMIT = 60.0
"""Seconds: waits between retries grow up to this."""


class Failure(NamedTuple):
    """Why an attempt failed, for whoever decides when to try again. With a good result: a refresh took the place of a failed run."""

    temporary: bool
    delay: float | None


def backoff(meta: Meta | None, attempt: int, failure: Failure | None = None) -> float:
    """Seconds until the next attempt: what the failure asks for, else the state's interval, or its `delay` doubled with jitter."""
    if failure is not None and failure.delay is not None:
        return failure.delay
    retry = meta.retry if meta else None
    if retry is None or retry.backoff:
        base = meta.delay if meta else 1.0
        return float(min(BACKOFF_LIMIT, base * 2 ** min(attempt - 1, 16) * random.uniform(0.8, 1.2)))  # noqa: S311 - spreads load
    return retry.interval + random.uniform(0, retry.splay)  # noqa: S311 - spreads load


def describe_os_error(error: OSError) -> str:
    """One line for a failed system call: what, on which path, why."""
    where = " -> ".join(str(path) for path in (error.filename, error.filename2) if path is not None)
    why = error.strerror or str(error)
    return f"{where}: {why}" if where else why
