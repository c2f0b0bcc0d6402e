"""The engine follows each cell of the decision table of requisites, which `requisite_tables.txt` explains."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import once
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.settings import Settings

Table = Mapping[str, Mapping[str, str]]
"""Row (requisites) -> column (what the targets did) -> what the state does."""

SETTLED: Mapping[str, tuple[tuple[str, str, Mapping[str, Any]], ...]] = {
    "quiet": (("t", "test.nop", {}),),
    "changed": (("t", "test.succeed_with_changes", {}),),
    "failed": (("t", "test.fail_without_changes", {}),),
    "half": (("t", "test.fail_with_changes", {}),),
    "guarded": (("t", "test.succeed_with_changes", {"onlyif": "false"}),),
    "no-onchanges": (("q", "test.nop", {}), ("t", "test.succeed_with_changes", {"onchanges": "q"})),
    "no-onfail": (("q", "test.nop", {}), ("t", "test.succeed_with_changes", {"onfail": "q"})),
    "no-prereq": (("t", "test.succeed_with_changes", {"prereq": "q"}), ("q", "test.nop", {})),
    "blocked": (("q", "test.fail_without_changes", {}), ("t", "test.succeed_with_changes", {"require": "q"})),
}
"""What a target did -> the states that make it do so; it is `t` itself."""


def read_tables() -> dict[str, Table]:
    """Return the tables by title."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for line in Path(__file__).with_name("requisite_tables.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            rows = tables[line[3:]] = {}
            columns: list[str] = []
        elif line.strip() and not line.startswith("#"):
            if columns:
                row, *words = line.split()
                rows[row] = {column: word.rstrip("*") for column, word in zip(columns, words, strict=True)}
            else:
                columns = line.split()
    return tables


TABLES = read_tables()


def declared(cell: str, requisites: str, column: str) -> dict[str, Any]:
    """Return the high data of a cell: targets with separate IDs, and the state `cell`."""
    high: dict[str, Any] = {}
    targets = []
    for number, what in enumerate(column.split("+")):
        name = {short: f"{cell} {number}{short}" for short in "qt"}
        for short, function, arguments in SETTLED[what]:
            given = [{word: [{"test": name[value]}] if value == "q" else value} for word, value in arguments.items()]
            high[name[short]] = {function: given}
        targets.append({"test": name["t"]})
    kinds = requisites.split("+")
    split = (
        {kinds[0]: targets}
        if len(kinds) == 1
        else {kind: [target] for kind, target in zip(kinds, targets, strict=True)}
    )
    high[cell] = {"test.nop": [{kind: listed} for kind, listed in split.items()]}
    return high


def word_for(outcomes: list[Outcome]) -> str:
    """Return what a state did, as a word of the tables."""
    if any(outcome.listener for outcome in outcomes):
        return "heard"
    (outcome,) = outcomes
    if outcome.ran:
        return "refreshed" if outcome.refreshed else "ran"
    return "blocked" if outcome.result is False else "skipped"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    """Run a whole table at once: each cell is a state with its own targets."""
    known: dict[str, Table] = {}

    def play(title: str) -> Table:
        if title not in known:
            known[title] = run(title, tmp_path_factory.mktemp("table"))
        return known[title]

    return play


def run(title: str, directory: Path) -> Table:
    """Run all cells of a table once."""
    cells = {(row, column): f"{row} {column}" for row, columns in TABLES[title].items() for column in columns}
    high: dict[str, Any] = {}
    for (row, column), cell in cells.items():
        high |= declared(cell, row, column)
    states = directory / "states"
    states.mkdir()
    (states / "cells.sls").write_text(json.dumps(high), encoding="utf-8")
    settings = Settings(
        states=states, state_dir=directory / "memory", durable=False, engine=EngineOptions(noop="noop" in title)
    )
    compiled = ConfigurationCompiler().compile(settings, grains={"id": "here"})
    record = once.converge(settings, compiled, lambda _: None, timeout=60)
    assert record is not None
    by_identity: dict[str, list[Outcome]] = {}
    for outcome in record.outcomes:
        by_identity.setdefault(outcome.identity, []).append(outcome)
    return {
        row: {column: word_for(by_identity[f"test.nop[{cells[row, column]}]"]) for column in columns}
        for row, columns in TABLES[title].items()
    }


@pytest.mark.parametrize(("title", "row"), [(title, row) for title, table in TABLES.items() for row in table])
def test_a_state_does_what_the_table_says(title: str, row: str, played: Callable[[str], Table]) -> None:
    """Each row has the requisites and the results of their targets."""
    assert played(title)[row] == TABLES[title][row]
