"""Measures the compiler, relative to PyYAML's C loader on the same text, and relative to Salt's compiler.

    python bench/compile.py [--states 5000] [--repeat 5]

prints one line of JSON. Times are the seconds of the fastest repetition:

- `yaml_s`: PyYAML loads the text;
- `compile_s`: the compiler compiles it; `unchanged_s`: compiles it again, unchanged;
- `double_s`: compiles twice as many states; `short_s`: compiles 10 000 states of one line each;
- `salt_double_s`: Salt compiles twice as many states; only if the environment variable `SALT` names the directory of
  Salt's programs.

The ratios divide by the time of PyYAML (`ratio`, `unchanged_ratio`, `short_ratio`), by `compile_s` (`growth`, about 2)
or by Salt's time (`ratio_to_salt`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs

SHORT = 10_000
"""The number of states that have one line each."""


def tree(count: int, state: str) -> str:
    """Return a state file that manages `count` files, all but the first with a requisite."""
    return "".join(
        f"/srv/data/file-{number}.conf:\n  {state}:\n    - contents: setting number {number}\n"
        f"    - user: root\n    - group: root\n    - mode: '0644'\n"
        + (f"    - require:\n      - {state.partition('.')[0]}: /srv/data/file-{number // 2}.conf\n" if number else "")
        for number in range(count)
    )


def best(repeat: int, call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of `repeat` calls."""
    seconds = []
    gc.collect()
    gc.freeze()  # objects of earlier measurements must not slow this one down
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def salts(file: Path, repeat: int) -> float:
    """Return the seconds in which Salt compiles a state file."""
    argv = [
        f"{os.environ['SALT']}/python",
        "-W",
        "ignore",
        Path(__file__).with_name("salt_compile.py"),
        file,
        str(repeat),
    ]
    return float(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long states take to compile.")
    parser.add_argument("--states", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--state", default="file.managed", help="a kind that takes the arguments of file.managed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        text, double = tree(options.states, options.state), tree(2 * options.states, options.state)
        short = "".join(f"s{number}: test.nop\n" for number in range(SHORT))
        one, two, three = Path(directory, "one"), Path(directory, "two"), Path(directory, "three")
        for path, content in ((one, text), (two, double), (three, short)):
            path.mkdir(mode=0o755)
            path.joinpath("site.sls").write_text(content)
        trusted = frozenset({os.getuid()})
        kept = Compiler()
        kept.compile(CompilerInputs(one, trusted_uids=trusted))
        load = best(options.repeat, lambda: yaml.load(text, yaml.CSafeLoader))
        fresh = best(options.repeat, lambda: Compiler().compile(CompilerInputs(one, trusted_uids=trusted)))
        again = best(options.repeat, lambda: kept.compile(CompilerInputs(one, trusted_uids=trusted)))
        large = best(options.repeat, lambda: Compiler().compile(CompilerInputs(two, trusted_uids=trusted)))
        brief_load = best(options.repeat, lambda: yaml.load(short, yaml.CSafeLoader))
        brief = best(options.repeat, lambda: Compiler().compile(CompilerInputs(three, trusted_uids=trusted)))
        salt = salts(two / "site.sls", options.repeat) if "SALT" in os.environ else None
    figures = {
        "states": options.states,
        "yaml_s": load,
        "compile_s": fresh,
        "unchanged_s": again,
        "double_s": large,
        "short_s": brief,
    }
    ratios = {
        "short_ratio": brief / brief_load,
        "ratio": fresh / load,
        "unchanged_ratio": again / load,
        "growth": large / fresh,
    }
    if salt is not None:
        figures["salt_double_s"], ratios["ratio_to_salt"] = salt, large / salt
    print(json.dumps({key: round(value, 4) for key, value in (figures | ratios).items()}))


if __name__ == "__main__":
    main()
