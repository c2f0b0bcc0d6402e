"""Throw strange trees at the compiler for a while: `scripts/fuzz --minutes 10`.

Prints each find, as small as it could be made, once for each place that it comes from; its files are kept below
`--keep`, one directory each. Exit code 1 when something was found. A find belongs into
tests/states/test_fuzz_finds.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tree_fuzz import Bench, TooSlow, Tree, corpus, mutate, shrink

KINDS = Path(__file__).parents[1] / "states" / "conftest.py"
MEMORY = 2 << 30
"""Bytes that the whole may use: what needs more is a find."""
EDIT = 0.6
"""How often a tree is an edit of the one before."""
STRANGE = 200
"""Mutated trees that are mutated again."""


class Fuzzer:
    """One run: trees by chance from a seed."""

    def __init__(self, seed: int, directory: Path, keep: Path) -> None:
        self.random, self.seed, self.keep = random.Random(seed), seed, keep
        self.bench = Bench(directory)
        self.good, self.strange = corpus(), []
        self.finds: dict[str, Tree] = {}
        self.count = 0

    def once(self) -> None:
        """One tree: an edit of the one before, or of any other."""
        before = self.bench.tree
        base = before if before and self.random.random() < EDIT else self.random.choice([*self.good, *self.strange])
        tree = mutate(base, self.good, self.random)
        self.count += 1
        found = self.verdict(tree)
        if found and found not in self.finds:
            self.finds[found] = shrink(tree, lambda less: self.verdict(less) == found)
            self.tell(found, before)
        elif not found and self.random.random() < 0.02:
            self.strange = [*self.strange, tree][-STRANGE:]

    def verdict(self, tree: Tree) -> str:
        """What is wrong with the answer to a tree, and where that comes from; empty when nothing is."""
        try:
            self.bench.examine(tree)
        except (Exception, TooSlow) as error:  # noqa: BLE001 - whatever it is, it is a find
            ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "holdfast" in frame.filename]
            where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours and not isinstance(error, TooSlow) else ""
            said = str(error).split("\n")[0] if isinstance(error, AssertionError) else ""
            return f"{type(error).__name__} {where} {said[-40:]}".strip()
        return ""

    def tell(self, found: str, before: Tree) -> None:
        """Print a find, and write it down, with the tree that the compiler had seen before it."""
        directory = self.keep / f"{self.seed}-{len(self.finds)}"
        print(f"{found}\n    {self.finds[found]!r}\n    kept in {directory}", flush=True)
        for part, tree in (("tree", self.finds[found]), ("before", before)):
            for name, content in tree.items():
                path = directory / part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def load_kinds() -> None:
    """The small kinds of the tests, which the corpus uses."""
    spec = importlib.util.spec_from_file_location("small_kinds", KINDS)
    module = importlib.util.module_from_spec(spec)
    sys.modules["small_kinds"] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description="Throw strange trees at the compiler.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "holdfast-fuzz"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    load_kinds()
    end = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as directory:
        fuzzer = Fuzzer(options.seed, Path(directory, "states"), options.keep)
        while time.monotonic() < end:
            fuzzer.once()
    print(f"{fuzzer.count} trees, {len(fuzzer.finds)} finds (seed {options.seed})")
    return int(bool(fuzzer.finds))


if __name__ == "__main__":
    sys.exit(main())
