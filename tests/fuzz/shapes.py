"""Try documents of every shape: `python tests/fuzz/shapes.py --cases 200000`.

Prints each failure once, with the documents that caused it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from shape_examiner import Examiner
from shape_fuzz import PARTS, Shapes
from tree_fuzz import TooSlow


def main() -> int:
    """Try this number of documents."""
    parser = argparse.ArgumentParser(description="Examine documents of every shape.")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    finds: dict[str, int] = {}
    rng = random.Random(options.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        examiner = Examiner(Path(directory, "x"), Shapes(rng))
        for number in range(options.cases):
            part = rng.choice(PARTS)
            try:
                examiner.once(part)
            except (Exception, TooSlow) as error:  # noqa: BLE001 - every exception is a failure
                ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "holdfast" in frame.filename]
                where = (
                    f"{part}: {type(error).__name__} in {Path(ours[-1].filename).name}:{ours[-1].name}"
                    if ours
                    else f"{part}: {error!r:.200}"
                )
                if where not in finds:
                    print(f"{number}: {where}: {error!s:.200}\n    {str(examiner.written)[:3000]}", flush=True)
                finds[where] = finds.get(where, 0) + 1
    print(
        f"{options.cases} documents in {time.monotonic() - began:.0f} s, "
        f"{len(finds)} finds (seed {options.seed}): {finds}"
    )
    return int(bool(finds))


if __name__ == "__main__":
    sys.exit(main())
