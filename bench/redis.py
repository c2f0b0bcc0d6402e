"""Measures the package redis: the time until a damaged key of a real server is repaired.

    python bench/redis.py [--keys 100] [--repairs 200]

prints one line of JSON: the median (`repair_ms`) and the slowest of the repairs (`slowest_ms`), from the damage to the
declared value, as a client sees it. Without redis-server, or Node.js with its packages, it prints `{}` and says why.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

# ruff: noqa: E402 - the modules of the tests are found from here on
from harness import agent, private_directory

import redis_server
import typescript
from redis_server import RedisServer, asking

PROVIDER = Path(__file__).resolve().parent.parent / "resources/remote/redis/provider"
GIVE_UP = 10.0
LOOK = 0.0005
"""Seconds between two reads of a damaged key, so that the agent need not share its CPU."""
PAUSE = 0.02
"""Seconds between two damages, within which the agent completes the previous repair."""


def missing() -> str:
    """Return the missing programs; empty if the benchmark can run."""
    modules = [each for each in ("typescript", "@grpc") if not (typescript.MODULES / each).exists()]
    programs = [each for each in ("redis-server", "redis-cli", "node") if shutil.which(each) is None]
    return ", ".join([*programs, *(f"npm's {each}" for each in modules)])


def settings(base: Path, server: RedisServer) -> str:
    """Compile the provider; return the settings of its plugin."""
    shutil.copytree(PROVIDER, base / "provider/src", ignore=shutil.ignore_patterns("*.json", "node_modules"))
    plugin = {
        "schema": str(PROVIDER / "schema.json"),
        "command": [typescript.node(), str(typescript.compiled(base / "provider") / "main.js")],
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "config": {"socket": str(server.socket)},
    }
    return json.dumps({"plugins": {"redis": plugin}})[1:-1] + "\n"


def repaired(ask: Callable[..., str], key: str) -> float:
    """Damage a key; return the seconds until it is repaired."""
    began = time.perf_counter()
    ask("SET", key, "damaged")
    while ask("GET", key) != "hello":
        time.sleep(LOOK)
        if time.perf_counter() > began + GIVE_UP:
            raise SystemExit(f"the key {key} was not repaired within {GIVE_UP} s")
    return time.perf_counter() - began


def measure(base: Path, server: RedisServer, keys: int, repairs: int) -> dict[str, float]:
    """Measure repairs of an agent that has converged."""
    states = "".join(f"k{number}:\n  redis.key:\n    - text: hello\n" for number in range(keys))
    (base / "states/keys.sls").write_text(states)
    times = []
    with agent(base, extra=settings(base, server)), asking(server) as ask:
        for number in range(repairs):
            times.append(repaired(ask, f"k{number % keys}"))
            time.sleep(PAUSE)
    return {"repair_ms": statistics.median(times) * 1e3, "slowest_ms": max(times) * 1e3}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--repairs", type=int, default=200)
    options = parser.parse_args()
    if lacks := missing():
        print(f"not measured: {lacks} missing", file=sys.stderr)
        print("{}")
        return
    with private_directory() as base, redis_server.serving() as server:
        base.chmod(0o755)
        figures = measure(base, server, options.keys, options.repairs)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
