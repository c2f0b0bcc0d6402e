"""Measures how long Salt takes to compile a state file. Salt's interpreter runs this script.

    python bench/salt_compile.py FILE REPEAT

prints the seconds of the fastest repetition: rendering, high data, requisites, low data and order, without Salt's
start. No state is run.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

logging.disable(logging.CRITICAL)

import salt.config  # noqa: E402 - its loggers must find logging disabled
import salt.state  # noqa: E402 - the same


class Compiled(Exception):
    """Ends a run before its first state."""


def minion(base: Path) -> Any:
    """Return the compiler of a minion without a master, with all directories below `base`."""
    directories = {"root_dir": "root", "pki_dir": "pki", "cachedir": "cache", "sock_dir": "sock", "log_file": "log"}
    config = {"id": "bench", "file_client": "local", "file_roots": {"base": [str(base / "states")]}}
    (base / "minion").write_text(json.dumps(config | {key: str(base / name) for key, name in directories.items()}))
    highstate = salt.state.HighState(salt.config.minion_config(str(base / "minion")))

    def stop(*_: Any, **__: Any) -> None:
        raise Compiled

    highstate.state.call_chunks = stop
    return highstate


def compile_once(highstate: Any, sls: str) -> None:
    """Compile one SLS, as `state.apply` does before it runs states."""
    high, errors = highstate.render_highstate({"base": [sls]})
    try:
        problems: list[str] = errors or highstate.state.call_high(high)
    except Compiled:
        return
    raise SystemExit(f"Salt cannot compile this: {problems[0]}")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "states").mkdir()
        (base / "states/big.sls").write_text(Path(sys.argv[1]).read_text())
        (base / "states/small.sls").write_text("/small:\n  file.absent: []\n")
        seconds = []
        for _ in range(int(sys.argv[2])):
            highstate = minion(base)  # the same minion would refuse the same IDs the second time
            compile_once(highstate, "small")
            began = time.perf_counter()
            compile_once(highstate, "big")
            seconds.append(time.perf_counter() - began)
    print(min(seconds))


if __name__ == "__main__":
    main()
