"""Counts and logs events of paths that the kernel has lost, because its queue was full."""

from __future__ import annotations

import time

from holdfast.agent.loggers import LazyLogger

SILENCE = 60.0
"""Seconds between two lines of the log: a flood may fill the queue many times."""

log = LazyLogger("holdfast.paths")


class Overflows:
    """The overflows of one watcher."""

    def __init__(self) -> None:
        self.number = 0
        """How often events were lost."""
        self._silent_until = 0.0
        """Time of `time.monotonic`."""

    def count(self, directories: int) -> None:
        """Count an overflow of a queue that serves this number of directories."""
        self.number += 1
        if (now := time.monotonic()) >= self._silent_until:
            self._silent_until = now + SILENCE
            log.warning(
                "events of paths were lost, because there were too many at once; all affected paths are checked",
                directories=directories,
                overflows=self.number,
            )
