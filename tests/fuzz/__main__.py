"""Compile random, odd states directories for a while: `scripts/fuzz --minutes 10`.

Each failure is reduced and printed once for each place in the code that causes it. `--keep` names a directory for its
files. The exit code is 1 if there was a failure. Add a test for each to tests/states/test_fuzz_finds.py.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tree_fuzz import Bench, TooSlow, shrink
from tree_mutations import Tree, corpus, mutate

KINDS = Path(__file__).parents[1] / "states" / "conftest.py"
MEMORY = 2 << 30
"""The limit of memory in bytes; exceeding it is a failure."""
EDIT = 0.6
"""The probability that a tree is an edit of the previous one."""
COLLECTED = 500
"""The number of trees after which garbage among frozen objects is collected, as the agent does from time to time."""
STRANGE = 200
"""The number of mutated trees that are kept, to be mutated again."""


class Fuzzer:
    """Random trees from one seed."""

    def __init__(self, seed: int, directory: Path, keep: Path) -> None:
        self.random, self.seed, self.keep = random.Random(seed), seed, keep
        self.bench = Bench(directory)
        self.good, self.strange = corpus(), []
        self.finds: dict[str, Tree] = {}
        self.count = 0

    def once(self) -> None:
        """Try one tree, an edit of the previous one or of any other."""
        if self.count % COLLECTED == 0:
            gc.unfreeze()  # the compiler freezes its objects, also those that are garbage by now
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
        """Return what is wrong with the result for a tree, and which code causes it; empty strings if it is correct."""
        try:
            self.bench.examine(tree)
        except (Exception, TooSlow) as error:  # noqa: BLE001 - every exception is a failure
            ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "holdfast" in frame.filename]
            where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours and not isinstance(error, TooSlow) else ""
            said = str(error).split("\n")[0] if isinstance(error, AssertionError) else ""
            return f"{type(error).__name__} {where} {said[-40:]}".strip()
        return ""

    def tell(self, found: str, before: Tree) -> None:
        """Print a failure and write its files, with the tree that was compiled before."""
        directory = self.keep / f"{self.seed}-{len(self.finds)}"
        print(f"{found}\n    {self.finds[found]!r}\n    kept in {directory}", flush=True)
        for part, tree in (("tree", self.finds[found]), ("before", before)):
            for name, content in tree.items():
                path = directory / part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def load_kinds() -> None:
    """Load the small kinds of the tests, which the initial trees use."""
    spec = importlib.util.spec_from_file_location("small_kinds", KINDS)
    module = importlib.util.module_from_spec(spec)
    sys.modules["small_kinds"] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Run until the time has run out."""
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
