"""How many files the agent and its commands may have open.

The agent takes as many as it can get, for a graph may need more than the usual 1024. A command is given the limit that the agent was started
with: programs that use select(2), or that close every possible descriptor, do not work well with a large one (`man 2 getrlimit`; systemd keeps its default low for
this reason).
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
