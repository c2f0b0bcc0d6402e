"""Measures `archive.extracted` with an archive of many members, beside `tar -x` of the same archive.

`extract` is the first run, `again` a run in which everything is as declared, and `repair` a run that extracts one
member, which was removed. `callback` is the longest CPU time of one callback of the event loop in these runs. The files
are on a tmpfs and are not flushed. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from harness import CONTENT, private_directory

from holdfast.agent.host.host import LocalHost
from holdfast.resources.kinds.archive.extracted import Extracted

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from loop_time import callbacks

MEMBERS, EACH = 10_000, 20
"""Members of the archive, and of each of its directories."""


def pack(path: Path) -> None:
    """Write the archive."""
    with tarfile.open(path, "w:gz") as archive:
        for number in range(MEMBERS):
            info = tarfile.TarInfo(f"app/{number // EACH}/{number}")
            info.size, info.mtime = len(CONTENT.encode()), 1_700_000_000
            archive.addfile(info, io.BytesIO(CONTENT.encode()))


async def measured(base: Path) -> dict[str, float]:
    """Return the seconds of each run."""
    figures: dict[str, float] = {}
    state = Extracted.declare(str(base / "out"), source=f"{base}/archive")
    async with LocalHost(states=base / "states", var_dir=base / "var", durable=False) as host:
        with callbacks() as taken:
            for name in ("extract", "again", "repair"):
                if name == "repair":
                    (base / "out/app/1" / str(EACH)).unlink()
                began = time.perf_counter()
                right = await state.check_apply(host.context("archive.extracted[bench]"), apply=True)
                figures[f"{name}_s"] = time.perf_counter() - began
                if right != (name == "again"):
                    raise SystemExit(f"the run {name} found something else than expected")
    return {**figures, "callback_ms": max(taken) * 1000}


def main() -> None:
    """Measure and print."""
    with private_directory() as base:
        pack(base / "archive")
        (base / "tar").mkdir()
        began = time.perf_counter()
        subprocess.run(["tar", "-xzf", base / "archive", "-C", base / "tar"], check=True)
        seconds = time.perf_counter() - began
        figures = asyncio.run(measured(base))
    figures |= {"tar_s": seconds, "ratio": figures["extract_s"] / seconds}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
