"""A process that writes to an SQLite database until it is killed; it prints each write that was acknowledged.

`python northbound_writer.py PATH`: each transaction writes the rows `a` and `b` with its number, and another row. After
half of them, the file is replaced, so the process must create it again.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver

WRITES = 6


async def main(path: Path) -> None:
    """Write, and print each acknowledged write."""
    driver = SqliteDriver(path, agent=True)
    await driver.open()
    for number in range(WRITES):
        if number == WRITES // 2:
            shutil.copy(path, path.with_name("other"))
            path.with_name("other").replace(path)
        data = b"%d" % number
        await driver.commit(DbTransaction([Put("t", "a", data), Put("t", "b", data), Put("u", str(number), data)]))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    await driver.close()
    sys.stdout.write("closed\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
