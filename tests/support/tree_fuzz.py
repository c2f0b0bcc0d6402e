"""Properties that hold for every tree of state files. `Bench` examines a tree, `shrink` reduces one that fails.

A tree is a mapping of file names to bytes; `tree_mutations.py` makes trees. The compiler must return a compilation, or
problems of its own, each at an existing line. A compiler that has seen other trees must return the same as a new one.
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
from holdfast.states.data import Call, CompilerInputs
from holdfast.states.declare.pillar import PillarCompiler
from holdfast.states.errors import CompileError, Problem
from holdfast.states.lint.inspect import inspect
from holdfast.states.parse.line_masking import mask_line
from tree_mutations import Tree

SECONDS = 10
"""Greatest CPU time for one tree."""

GRAINS = {"os": "Debian", "id": "web1", "os_family": "Debian", "ipv4": ["127.0.0.1", "10.0.0.7"]}
PILLAR = {"k": "v", "users": {"joe": {"uid": 1000}}, "list": ["a", "b"]}


class Bench:
    """A directory, and compilers of states and pillar that compile one tree after the other in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept, self.pillars = root, Compiler(), PillarCompiler(root)
        self.tree: Tree = {}
        """The present content of the directory."""

    def examine(self, tree: Tree) -> None:
        """Compile a tree as states and as pillar, with new and with used compilers.

        Raises any violation of a property.
        """
        self._write(tree)
        asked = CompilerInputs(
            self.root, grains=GRAINS, pillar=PILLAR, minion_id="web1", trusted_uids=frozenset({self.root.stat().st_uid})
        )
        with in_time(SECONDS):
            fresh = self._states(Compiler(), asked)
            assert self._states(self.kept, asked) == fresh, (
                "a compiler that has seen other trees returns another result"
            )
            assert self._states(self.kept, asked) == fresh, "compiling again returns another result"
            pillar = self._pillar(PillarCompiler(self.root), asked)
            assert self._pillar(self.pillars, asked) == pillar, (
                "a compiler that has seen other pillars returns another result"
            )
            self._lint(asked, bad=isinstance(fresh, list))

    def _write(self, tree: Tree) -> None:
        """Write this tree to the directory; unchanged files are not written."""
        if {name.partition("/")[0] for name in tree} & {name for name in self.tree if "/" not in name} - tree.keys():
            shutil.rmtree(self.root)  # for example, a file became a directory
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

    def _states(self, compiler: Compiler, asked: CompilerInputs) -> Any:
        """Return the result of compiling states, in a form that can be compared; its properties are checked."""
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

    def _pillar(self, compiler: PillarCompiler, asked: CompilerInputs) -> Any:
        """Return the result of compiling a pillar; no problem may show a value."""
        try:
            made = compiler.compile(asked)
        except CompileError as error:
            return [told(problem, veil=problem.code != "renderer-unknown") for problem in error.problems]
        json.dumps(made.data, default=str)
        return repr(made.data), [told(warning, veil=True) for warning in made.warnings]

    def _lint(self, asked: CompilerInputs, *, bad: bool) -> None:
        """Check that `holdfast check` finds the errors of the compiler, and that all its formats can be printed."""
        report = inspect(asked)
        assert bool(report.errors) == bad, "check and the compiler do not agree"
        found = [*report.errors, *report.warnings]
        assert len(set(map(told, found))) == len(found), "check reports a problem twice"
        assert all(problem.code in CODES for problem in found), "the code is not documented"
        lines = [
            *findings.text(report, self.root, width=60),
            *findings.github(report, self.root),
            json.dumps(findings.sarif(report, self.root)),
        ]
        "\n".join(lines).encode("utf-8", "backslashreplace")


def told(problem: Problem, *, veil: bool = False) -> tuple[Any, ...]:
    """Return one problem as text. Its line must exist and be the quoted one; with `veil`, it must show no value."""
    place = problem.location
    assert problem.code, "a problem without a code"
    assert problem.message, "a problem without a message"
    str(problem).encode("utf-8", "backslashreplace")
    json.dumps(problem.as_dict())
    path = Path(place.file)
    if place.line and path.is_file():
        lines = re.sub("\r(?!\n)", "\n", path.read_bytes().decode("utf-8-sig", "replace")).split("\n")
        assert place.line <= len(lines), f"{place} is after the end of the file"
        line = lines[place.line - 1].rstrip("\r")
        assert problem.text in ("", (mask_line(line[:500]) if veil else line)[:500]), (
            f"{place} shows another line: {problem.text!r}"
        )
        assert place.column <= len(line) + 1, f"{place} is after the end of the line"
    return place, problem.code, problem.message, problem.hint, problem.text


def in_order(calls: tuple[Call, ...]) -> None:
    """Check that the order respects every requisite."""
    assert [call.position for call in calls] == list(range(len(calls)))
    assert len({call.identity for call in calls}) == len(calls)
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind not in ("prereq", "listen"):
                assert all(target < call.position for target in targets), (
                    f"{call.identity} runs before its target ({kind})"
                )
            elif kind == "prereq":
                assert all(target > call.position for target in targets), (
                    f"{call.identity} runs after its target (prereq)"
                )


def show(calls: tuple[Call, ...], high: Any) -> None:
    """Check that all views of `holdfast show` can be printed."""
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
    """A tree takes too long. This is not an `Exception`, so that no code handles it as a mistake in the tree."""


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in code that computes for longer than this. Waiting does not count. For the main thread only."""

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
    """Return the smallest tree that still fails: without files, then ranges of lines, then ranges of characters."""
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
