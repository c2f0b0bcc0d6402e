"""Measures the agent's costs of an edit of one state file, with 10 000 files declared in 1 000 state files.

The compiler (which keeps its results, as in the daemon) and the engine with its watches run in this process. Each
figure is the median of several edits. `ratio_edit` is relative to the first compilation, and so does not depend on the
machine. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

from harness import median, private_directory, process_figures, settings

from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event
from holdfast.agent.host.host import LocalHost
from holdfast.agent.settings import Settings, load
from holdfast.states.source.files import STEADY

FILES, EACH, REPEAT = 1000, 10, 7


def write(base: Path, number: int, *, mode: str = "0644", each: int = EACH) -> None:
    """Write one state file, with files of its own. All but the first state file require a file of an earlier one."""
    folder = base / "managed" / f"d{number:04}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(each):
        lines += [
            f"{folder}/f{index}:",
            "  file.managed:",
            f"    - mode: '{mode}'",
            f"    - contents: text {number}.{index}",
        ]
        lines += (
            ["    - require:", f"      - file: {base}/managed/d{number // 2:04}/f0"] if number and index < EACH else []
        )
    path = base / "states" / f"g{number % 20:02}" / f"s{number:04}.sls"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


class Agent:
    """The parts of an agent that handle an edit."""

    def __init__(self, config: Settings) -> None:
        self.config, self.compiler = config, ConfigurationCompiler()
        self.host = LocalHost(states=config.states, var_dir=config.state_dir, durable=False)
        self.engine = Engine(self.host, config.engine, Journal(), self._hear)

    def _hear(self, event: Event) -> None:
        """Drop the event."""

    def compile(self) -> tuple[float, Compiled]:
        """Return the seconds of a compilation, and its result."""
        began = time.perf_counter()
        compiled = self.compiler.compile(self.config)
        return time.perf_counter() - began, compiled

    async def take_over(self, compiled: Compiled) -> float:
        """Return the seconds of the swap to these states."""
        began = time.perf_counter()
        self.host.update(facts=compiled.grains, pillar=compiled.pillar, managed=compiled.managed)
        await self.engine.swap(compiled.compilation, options=self.config.engine)
        seconds = time.perf_counter() - began
        await self.engine.settle()
        return seconds

    async def changes(self, change: Callable[[int], None]) -> tuple[float, float]:
        """Return the median seconds of compilations, and of swaps, after several edits."""
        both = []
        for attempt in range(REPEAT):
            change(attempt)
            compiling, compiled = self.compile()
            both.append((compiling, await self.take_over(compiled)))
        return median([compiling for compiling, _ in both]), median([swapping for _, swapping in both])


async def measure(base: Path) -> dict[str, float]:
    """Return all figures."""
    for number in range(FILES):
        write(base, number)
    agent = Agent(load(settings(base), {}))
    before = process_figures()["rss_mib"]
    first, compiled = agent.compile()
    gc.collect()
    states = process_figures()["rss_mib"] - before
    await agent.take_over(compiled)
    gc.collect()
    memory = process_figures()["rss_mib"] - before
    await asyncio.sleep(STEADY / 1e9)
    agent.compile()
    edit = await agent.changes(lambda attempt: write(base, FILES // 2, mode=f"06{attempt}0"))
    grow = await agent.changes(lambda attempt: write(base, FILES // 2, each=EACH + 1 + attempt % 2))
    other = ConfigurationCompiler().compile(agent.config)
    equal = await agent.take_over(other)
    await agent.engine.stop(1)
    return {
        "first_s": round(first, 3),
        "edit_ms": round(1000 * sum(edit), 1),
        "edit_compile_ms": round(1000 * edit[0], 1),
        "edit_swap_ms": round(1000 * edit[1], 1),
        "grow_ms": round(1000 * sum(grow), 1),
        "ratio_edit": round(sum(edit) / first, 3),
        "equal_swap_ms": round(1000 * equal, 1),
        "states_kib": round(states * 1024 / FILES / EACH, 2),
        "engine_kib": round((memory - states) * 1024 / FILES / EACH, 2),
    }


def main() -> None:
    """Measure and print."""
    with private_directory() as base:
        print(json.dumps(asyncio.run(measure(base))))


if __name__ == "__main__":
    main()
