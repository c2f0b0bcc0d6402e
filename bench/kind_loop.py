"""A second baseline for drift repair: the kind `file.managed`, with its watch and its safe paths, without an engine.

    python bench/kind_loop.py DIRECTORY

declares the files in `DIRECTORY`/managed/*, and repairs each file that changes in a task of its own. The difference to
the agent is the cost of its engine: states, requisites, journal, records and log.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from harness import CONTENT

from holdfast.agent.host.context import HostContext
from holdfast.agent.host.host import LocalHost
from holdfast.resources.assignment import UNASSIGNED
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.report import Report
from holdfast.states.gc_pause import GcPolicy


async def repair(file: Managed, ctx: HostContext) -> None:
    """Repair a file, as one run of the engine does."""
    ctx.assignment, ctx.report = UNASSIGNED, Report()
    with ctx.keeping(private=False):
        await file.check_apply(ctx, apply=True)


def repairs(path: Path, host: LocalHost) -> Callable[[], object]:
    """Return a callback that repairs a file in a new task."""
    file = Managed.declare(str(path), contents=CONTENT.strip(), mode="0644")
    ctx = host.context(f"file.managed[{path}]")
    return lambda: asyncio.get_running_loop().create_task(repair(file, ctx))


async def main(base: Path) -> None:
    """Watch and repair until killed."""
    state = base / "kind_loop"
    state.mkdir(mode=0o700)
    async with LocalHost(states=base / "states", var_dir=state, durable=False) as host:
        for path in sorted((base / "managed").glob("*/*")):
            host.paths.subscribe([str(path)], repairs(path, host))
        with GcPolicy().installed():
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
