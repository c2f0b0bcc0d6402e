"""Answers for a tree with Holdfast, in the format of `worker`, which answers with Salt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stage import GRAINS, Job, Stage

from holdfast.agent import once
from holdfast.agent.cli.oneshot import results
from holdfast.agent.cli.stages import numbered
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.settings import Settings
from holdfast.states.compile.order import rank
from holdfast.states.errors import CompileError, Refused


def answer(base: Path, job: Job) -> dict[str, Any]:
    """Return the whole answer about one tree."""
    stage = Stage(base, job)
    found: dict[str, Any] = {}
    try:
        for mode in job["modes"] or [None]:
            stage.set()
            compiled = _compile(stage, job, mode)
            found["low"] = numbered(compiled.compilation.calls)
            if mode is not None:
                found[mode] = list(_rows(_settings(stage, job, mode), compiled))
                found[f"{mode} disk"] = stage.found()
    except CompileError as error:
        problems = [{"code": problem.code, "message": problem.message} for problem in error.problems]
        found = {"errors": [f"{problem.code}: {problem}" for problem in error.problems], "problems": problems}
        if isinstance(refused := error.__context__, Refused):  # the error before its secrets were redacted
            found["low"] = sorted(refused.low, key=rank)
    finally:
        shutil.rmtree(base)
    return dict(stage.placeless(found))


def _settings(stage: Stage, job: Job, mode: str | None) -> Settings:
    options = dict(stage.here(job["options"]))
    engine = EngineOptions(noop=mode != "real", failhard=options.pop("failhard", False))
    return Settings(
        states=stage.states,
        pillar=stage.pillar,
        state_dir=stage.memory,
        durable=False,
        salt_names=True,
        resources=stage.memory,
        engine=engine,
        **options,
    )


def _compile(stage: Stage, job: Job, mode: str | None) -> Compiled:
    return ConfigurationCompiler().compile(
        _settings(stage, job, mode), sls=tuple(job["sls"]), grains=json.loads(json.dumps({**GRAINS, **job["grains"]}))
    )


def _rows(settings: Settings, compiled: Compiled) -> Iterator[dict[str, Any]]:
    record = once.converge(settings, compiled, lambda _: None, timeout=60)
    assert record is not None
    for row in results(compiled, record.outcomes):
        known = {key: row[key] for key in ("id", "state", "fun", "name", "result", "ran", "comment")}
        yield known | {"why": row.get("reason", ""), "changes": sorted(row["changes"])}
