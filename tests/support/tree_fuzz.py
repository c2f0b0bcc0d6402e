"""What must hold for each tree of state files, however strange: `Bench` examines it, `shrink` reduces one that fails.

A tree is a mapping of file names to bytes; `tree_mutations.py` makes them.
The answer of the compiler to any of them must be a compilation or its own problems, each at a line that exists; and a
compiler that has seen other trees before must answer like a new one.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from holdfast.agent.cli import findings
from holdfast.agent.cli.stages import _plain, dot, edges, mermaid
from holdfast.agent.pictures.drawing import Drawing, DrawnEdge, DrawnNode
from holdfast.states.codes import CODES
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Call, Request
from holdfast.states.declare.pillar import PillarCompiler
from holdfast.states.errors import CompileError, Problem
from holdfast.states.lint.inspect import inspect
from holdfast.states.parse.line_masking import mask_line
from tree_mutations import Tree

SECONDS = 10
"""Processor time that one tree may take."""

GRAINS = {"os": "Debian", "id": "web1", "os_family": "Debian", "ipv4": ["127.0.0.1", "10.0.0.7"]}
PILLAR = {"k": "v", "users": {"joe": {"uid": 1000}}, "list": ["a", "b"]}


class Bench:
    """One directory, and compilers of states and of pillar that see tree after tree in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept, self.pillars = root, Compiler(), PillarCompiler(root)
        self.tree: Tree = {}
        """What lies there now."""

    def examine(self, tree: Tree) -> None:
        """Compile a tree as states and as pillar, anew and again. Raises whatever breaks a promise: that is a find."""
        self._write(tree)
        asked = Request(
            self.root, grains=GRAINS, pillar=PILLAR, minion_id="web1", trusted_uids=frozenset({self.root.stat().st_uid})
        )
        with in_time(SECONDS):
            fresh = self._states(Compiler(), asked)
            assert self._states(self.kept, asked) == fresh, "a compiler that has seen other trees gives another answer"
            assert self._states(self.kept, asked) == fresh, "compiling again gives another answer"
            pillar = self._pillar(PillarCompiler(self.root), asked)
            assert self._pillar(self.pillars, asked) == pillar, (
                "a compiler that has seen other pillars gives another answer"
            )
            self._lint(asked, bad=isinstance(fresh, list))

    def _write(self, tree: Tree) -> None:
        """Make the directory hold this tree; files that stay the same are not touched."""
        if {name.partition("/")[0] for name in tree} & {name for name in self.tree if "/" not in name} - tree.keys():
            shutil.rmtree(self.root)  # a file became a directory, or so
            self.tree = {}
        for name in self.tree.keys() - tree.keys():
            (self.root / name).unlink(missing_ok=True)
        for name, content in tree.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            if self.tree.get(name) != content and not path.is_dir():
                path.write_bytes(content)
                path.chmod(0o644)
        self.tree = dict(tree)

    def _states(self, compiler: Compiler, asked: Request) -> Any:
        """What comes of it, in a form that can be compared; checked by the way."""
        try:
            made = compiler.compile(asked)
        except CompileError as error:
            return [told(problem) for problem in error.problems] or "an error without a problem"
        in_order(made.calls)
        show(made.calls, made.high)
        warnings = [told(warning) for warning in made.warnings]
        return (
            [(call.identity, repr(call.low), call.location, dict(call.requisites), call.reason) for call in made.calls],
            warnings,
            dict(made.top),
        )

    def _pillar(self, compiler: PillarCompiler, asked: Request) -> Any:
        """The same for pillar, of which no value is shown."""
        try:
            made = compiler.compile(asked)
        except CompileError as error:
            return [told(problem, veil=problem.code != "renderer-unknown") for problem in error.problems]
        json.dumps(made.data, default=str)
        return repr(made.data), [told(warning, veil=True) for warning in made.warnings]

    def _lint(self, asked: Request, *, bad: bool) -> None:
        """`holdfast check` finds errors exactly where the compiler does, and all its forms can be printed."""
        report = inspect(asked)
        assert bool(report.errors) == bad, "check and the compiler do not agree"
        found = [*report.errors, *report.warnings]
        assert len(set(map(told, found))) == len(found), "check tells something twice"
        assert all(problem.code in CODES for problem in found), "nobody knows the code"
        lines = [
            *findings.text(report, self.root, width=60),
            *findings.github(report, self.root),
            json.dumps(findings.sarif(report, self.root)),
        ]
        "\n".join(lines).encode("utf-8", "backslashreplace")


def told(problem: Problem, *, veil: bool = False) -> tuple[Any, ...]:
    """One problem, whole; its line must be there and be the one that it shows, with `veil` without any value."""
    place = problem.location
    assert problem.code, "a problem without a code"
    assert problem.message, "a problem without words"
    str(problem).encode("utf-8", "backslashreplace")
    json.dumps(problem.as_dict())
    path = Path(place.file)
    if place.line and path.is_file():
        lines = re.sub("\r(?!\n)", "\n", path.read_bytes().decode("utf-8-sig", "replace")).split("\n")
        assert place.line <= len(lines), f"{place} is behind the end of the file"
        line = lines[place.line - 1].rstrip("\r")
        assert problem.text in ("", (mask_line(line[:500]) if veil else line)[:500]), (
            f"{place} shows another line: {problem.text!r}"
        )
        assert place.column <= len(line) + 1, f"{place} is behind the end of the line"
    return place, problem.code, problem.message, problem.hint, problem.text


def in_order(calls: tuple[Call, ...]) -> None:
    """Every requisite is honoured by the order."""
    assert [call.position for call in calls] == list(range(len(calls)))
    assert len({call.identity for call in calls}) == len(calls)
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind not in ("prereq", "listen"):
                assert all(target < call.position for target in targets), (
                    f"{call.identity} runs before what it has {kind} on"
                )
            elif kind == "prereq":
                assert all(target > call.position for target in targets), (
                    f"{call.identity} runs after what it has prereq on"
                )


def show(calls: tuple[Call, ...], high: Any) -> None:
    """All that `holdfast show` prints can be printed."""
    drawing = Drawing(
        [DrawnNode(call.identity, call.kind, call.low["__sls__"]) for call in calls],
        [DrawnEdge(*edge) for edge in edges(calls)],
    )
    low = [call.low for call in calls]
    for text in (
        *dot(drawing),
        *mermaid(drawing),
        json.dumps([low, high], default=str),
        yaml.safe_dump(_plain([low, high]), allow_unicode=True),
    ):
        text.encode("utf-8", "backslashreplace")


class TooSlow(BaseException):
    """A tree takes too long. Not an `Exception`, so that nobody in between takes it for a mistake of the tree."""


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` right where it computes for so long; to wait for others is free. Only in the main thread."""

    def ring(*_: object) -> None:
        raise TooSlow(f"takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def shrink(tree: Tree, fails: Callable[[Tree], bool]) -> Tree:
    """A minimal tree that still fails: without whole files, then ranges of lines, then ranges of characters."""
    for name in sorted(tree):
        smaller = {other: content for other, content in tree.items() if other != name}
        if fails(smaller):
            tree = smaller
    for name in sorted(tree):
        for unit in (b"\n", b""):
            parts = tree[name].split(unit) if unit else [tree[name][i : i + 1] for i in range(len(tree[name]))]

            if len(parts) < 5000:
                rebuild = partial(_with, tree, name, unit)
                tree = rebuild(_fewer(parts, lambda some, rebuild=rebuild: fails(rebuild(some))))
    return tree


def _with(tree: Tree, name: str, unit: bytes, parts: list[bytes]) -> Tree:
    return {**tree, name: unit.join(parts)}


def _fewer(parts: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    size = max(1, len(parts) // 2)
    while size:
        at = 0
        while at < len(parts):
            without = parts[:at] + parts[at + size :]
            if fails(without):
                parts = without
            else:
                at += size
        size //= 2
    return parts
