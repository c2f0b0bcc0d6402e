"""Processes that record repairs until they are killed; each prints the number of each repair that is durable.

`python recording.py DIRECTORY`: for each line of standard input, a process with an agent's recorder over the database
in this directory. It prints its PID, receives a repair every millisecond, and prints the number of each repair that is
written. After it was killed, its parent prints `killed`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from holdfast.agent.engine.model.events import Ran
from record_desk import Desk, outcome

TOLD = 20
"""Repairs between two lines."""


async def main(directory: Path) -> None:
    """Record, and print what was written."""
    desk = Desk(directory)
    writing = asyncio.create_task(desk.recorder.run())
    number = 0
    while not writing.done():
        for _ in range(TOLD):
            number += 1
            desk.recorder.tell(Ran(1, outcome(comment=str(number))))
            await asyncio.sleep(0.001)
        if await desk.recorder.queue.flush():
            print(number, flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:  # a fork: the modules are imported already
            print(os.getpid(), flush=True)  # noqa: T201
            asyncio.run(main(Path(sys.argv[1])))
            os._exit(1)
        os.waitpid(pid, 0)
        print("killed", flush=True)  # noqa: T201
