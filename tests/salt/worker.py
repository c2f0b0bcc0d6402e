"""Answers for trees with Salt. Salt's interpreter runs this script, one process for all trees.

    python worker.py DIRECTORY < jobs

reads one JSON job a line and prints one JSON answer a line; see `trees.Tree` and `compare.Answer`. All directories of
Salt are below DIRECTORY. This script does not import Holdfast.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

logging.disable(logging.CRITICAL)

import salt.config  # noqa: E402 - its loggers must find logging disabled
import salt.state  # noqa: E402 - the same
from stage import GRAINS, Job, Stage, plain_umask  # noqa: E402 - the same

REASONS = {
    "requisite_failed": re.compile("^One or more requisite failed"),
    "onfail": re.compile("^State was not run because onfail req"),
    "onchanges": re.compile("^State was not run because none of the onchanges"),
    "prereq": re.compile("^No changes detected$"),
    "onlyif": re.compile("^onlyif condition is false$", re.MULTILINE),
    "unless": re.compile("^unless condition is true$", re.MULTILINE),
    "creates": re.compile("^(All files in creates exist|/\\S+ exists)$", re.MULTILINE),
}
"""Why a state was not run, in Holdfast's words -> Salt's comment, the only place where Salt says so."""
GUARDS = ("onlyif", "unless", "creates")


class CompiledOnly(Exception):
    """Ends a run before its first state."""


class Host:
    """One Salt minion without a master, configured below a directory.

    Loading modules at their first use takes most of the time of a run. Therefore two minions, one for each mode, load
    all of them once, and each run is a forked child, which leaves nothing behind.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        base.mkdir(parents=True, exist_ok=True)
        config = {
            "id": GRAINS["id"],
            "file_client": "local",
            "root_dir": str(base / "root"),
            "conf_file": str(base / "minion"),
            "pki_dir": str(base / "pki"),
            "cachedir": str(base / "cache"),
            "sock_dir": str(base / "sock"),
            "log_file": str(base / "log"),
            "autoload_dynamic_modules": False,
            "fileserver_list_cache_time": 0,
        }
        (base / "minion").write_text(json.dumps(config))
        self._opts = salt.config.minion_config(str(base / "minion"))
        self._opts.update(
            file_roots={"base": [str(base / "tree/states")]}, pillar_roots={"base": [str(base / "tree/pillar")]}
        )
        self._opts.update(cachedir=str(base / "tree/memory"), grains=GRAINS)
        self._loaded = {mode: self._new(mode) for mode in ("real", "test")}
        for highstate in self._loaded.values():
            for loader in (
                highstate.state.functions,
                highstate.state.states,
                highstate.state.utils,
                highstate.state.rend,
            ):
                list(loader)
        shutil.rmtree(base / "tree")

    def answer(self, job: Job) -> dict[str, Any]:
        """Return the whole answer about one tree."""
        base = self._base / "tree"
        stage = Stage(base, job)
        try:
            answer: dict[str, Any] = {}
            for mode in job["modes"] or [None]:
                stage.set()
                answer.update(in_a_child(lambda mode=mode: self._ran(stage, job, mode)))
                if "errors" in answer:
                    break
        finally:
            shutil.rmtree(base)
        return dict(stage.placeless(answer))

    def _ran(self, stage: Stage, job: Job, mode: str | None) -> dict[str, Any]:
        """Return the errors, or low data and rows of one run; without a mode the run ends before the first state."""
        plain = not (job["pillar"] or job["grains"] or job["options"])
        highstate = self._loaded[mode or "test"] if plain else self._new(mode or "test", stage, job)
        low: list[Any] = []
        call = highstate.state.call_chunks

        def call_chunks(chunks: list[Any], *args: Any, **more: Any) -> Any:
            low.extend(copy.deepcopy(chunks) if not low else ())  # the second call runs the listeners
            if mode is None:
                raise CompiledOnly
            return call(chunks, *args, **more)

        highstate.state.call_chunks = call_chunks
        try:
            found = self._apply(highstate, job)
        except CompiledOnly:
            return {"low": low}
        except Exception as error:  # noqa: BLE001 - every exception of Salt is its answer
            if not low:
                return {"errors": [f"raised {type(error).__name__}: {error}"]}
            rows = [{"raised": f"{type(error).__name__}: {error}"}]
        else:
            if isinstance(found, list):
                return {"errors": found}
            ordered = sorted(found.items(), key=lambda item: item[1].get("__run_num__", len(found)))
            rows = [row(tag, value, mode) for tag, value in ordered]
        return {"low": low, mode: rows, f"{mode} disk": stage.found()}

    def _new(self, mode: str, stage: Stage | None = None, job: Job | None = None) -> Any:
        """Return a minion in this mode, for one job or for all jobs without options."""
        opts = copy.deepcopy(self._opts) | {"test": mode == "test"}
        if stage is not None and job is not None:
            opts["grains"].update(job["grains"])
            opts.update(stage.here(job["options"]))
        return salt.state.HighState(opts)

    @staticmethod
    def _apply(highstate: Any, job: Job) -> Any:
        """Apply the given names, or the top file, as `state.apply` does.

        Return a list of errors, or a dictionary of rows.
        """
        errors = highstate.state.opts["pillar"].get("_errors")
        if errors:
            return list(errors)
        highstate.push_active()
        try:
            if not job["sls"]:
                return highstate.call_highstate()
            high, errors = highstate.render_highstate({"base": list(job["sls"])})
            return errors or highstate.state.call_high(high)
        finally:
            highstate.pop_active()


def row(tag: str, value: Mapping[str, Any], mode: str | None) -> dict[str, Any]:
    """Return Salt's result for one state as `compare.Row`."""
    state, id_, name, function = tag.split("_|-")
    comment = str(value.get("comment"))
    known = [word for word in REASONS if word not in GUARDS or value.get("skip_watch")]
    why = next((word for word in known if REASONS[word].search(comment)), "")
    if mode == "real" and value["result"] is None:
        why = "prereq"  # only the failed test run is reported: the prereq has failed
    return {
        "id": id_,
        "state": state,
        "fun": function,
        "name": name,
        "result": value["result"],
        "ran": not why and value.get("__state_ran__", True),
        "why": why,
        "changes": sorted(map(str, value.get("changes") or {})),
        "comment": comment,
    }


def in_a_child(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a call (as JSON) in a forked child."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(sending, "w") as pipe:
            pipe.write(json.dumps(call(), default=str))
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(said))


def main() -> None:
    """Answer all jobs."""
    plain_umask()
    host = Host(Path(sys.argv[1]))
    for line in sys.stdin:
        answer = host.answer(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
