"""How many files the agent and its commands may have open.

The agent raises its limit as far as it can, because a graph may need more than the usual 1024. Commands get the limit
that the agent was started with: programs that use select(2), or that close every possible descriptor, do not work well
with a large one (getrlimit(2); systemd keeps its default low for this reason).
"""

from __future__ import annotations

import contextlib
import resource

original: tuple[int, int] | None = None
"""The limit (soft, hard) that the agent was started with, once it has raised its own."""


def raise_limit() -> None:
    """Raise the soft limit of this process to the hard one."""
    global original  # noqa: PLW0603 - the limit is the process's, and so is this
    if original is None:
        original = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):  # the system may allow less than the limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (original[1], original[1]))
