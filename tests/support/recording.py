"""A process that records repairs until it is killed; it prints the number of each repair that is durable.

`python recording.py DIRECTORY`: an agent's recorder over the database in this directory. It is told of a repair every
millisecond. The number of a repair is printed once it is written.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.agent.engine.model.events import Ran
from record_desk import Desk, outcome

TOLD = 20
"""Repairs between two lines."""


async def main(directory: Path) -> None:
    """Record, and say what was written."""
    desk = Desk(directory)
    writing = asyncio.create_task(desk.recorder.run())
    number = 0
    while not writing.done():
        for _ in range(TOLD):
            number += 1
            desk.recorder.tell(Ran(1, outcome(comment=str(number))))
            await asyncio.sleep(0.001)
        if await desk.recorder.queue.flush():
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
