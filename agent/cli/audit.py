"""A plan as an HTML page for an audit: collects the data for `page` and writes the file."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.cli.page import Row, page
from holdfast.agent.configuration import Compiled
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.outcome import Outcome, result_of
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.files import Replacement, replace
from holdfast.agent.narrate import is_told, verb
from holdfast.agent.settings import Settings
from holdfast.agent.version import version
from holdfast.resources.contract import Concern
from holdfast.resources.secrets import Redactor

MODE = 0o600
"""Mode of a report, which may contain data of files that others may not read."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan."""

    outcomes: Sequence[Outcome]
    owed: Sequence[Notice]
    """Pending deliveries of earlier changes."""
    said: str
    """The result in one sentence."""
    only: Sequence[str]
    """The patterns of `--only`."""


def report(settings: Settings, compiled: Compiled, run: PlanResult) -> str:
    """Return the page as HTML."""
    redactor, grains, now = compiled.redactor, compiled.grains, time.time()
    system = f"{grains.get('osfullname', grains.get('os', '?'))} {grains.get('osrelease', '')}"
    local = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    facts = {
        "Host": f"{grains['id']} ({system}, Linux {grains.get('kernelrelease', '?')})",
        "Time": f"{local} ({time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(now))})",
        "States": f"{settings.states}, environment {settings.environment}",
        **({"Restricted to": ", ".join(run.only)} if run.only else {}),
        "Result": run.said,
        "Made by": f"holdfast {version()} plan",
    }
    found = list(rows_of(compiled, run.outcomes, redactor))
    notes = [redactor(f"Pending after an earlier change: {each.identity} {each.text}") for each in run.owed]
    return "".join(page(f"Plan for {grains['id']}", redactor(facts), found, notes))


def rows_of(compiled: Compiled, outcomes: Sequence[Outcome], redactor: Redactor) -> Iterator[Row]:
    """Yield the rows of the page, one for each outcome. Changes that only repeat its sentence are left out."""
    calls = {call.identity: call for call in compiled.compilation.calls}
    for outcome in outcomes:
        call, told = calls[outcome.identity], outcome.comment or verb(outcome)
        changes = {name: each for name, each in outcome.changes.items() if not is_told(name, each, outcome)}
        said, changes, diff = redactor((told, changes, outcome.diff))
        concern: Concern = call.resource.concern(outcome.changes)
        result = result_of(outcome)
        state = "would-change" if result == "changed" else "failed" if outcome.blocked else result
        yield Row(
            redactor(outcome.identity),
            state,
            concern,
            said,
            f"{call.location.file}:{call.location.line}",
            changes,
            diff,
        )


def write(text: str, path: Path | None) -> None:
    """Write a text atomically to a file that only its owner may read, or to stdout.

    Raises `OSError` and `HoldfastError`.
    """
    data = text.encode("utf-8", "backslashreplace")
    if path is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return

    async def put() -> None:
        await replace(Replacement(str(path.absolute()), data, MODE, -1, -1, durable=True), Blocking(1))

    asyncio.run(put())
