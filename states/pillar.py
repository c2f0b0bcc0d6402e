"""The pillar: data for one host, from a directory of files in the same form as states.

With a `top.sls` it is what that gives this host; without one every file counts, in sorted order. Files are merged, mapping by mapping, later
ones over earlier ones; what a file includes comes before it. Lines of pillar files are never shown: they hold secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.states.data import Request, Source
from holdfast.states.errors import CompileError, Problem
from holdfast.states.high import Reference
from holdfast.states.include import Names, everything
from holdfast.states.marks import Document, Map, plain
from holdfast.states.match import Host
from holdfast.states.normalise import normalise
from holdfast.states.render import Renderer
from holdfast.states.source import TOP, Tree, exists
from holdfast.states.top import chosen
from holdfast.states.world import World, merge


@dataclass(frozen=True, slots=True)
class Pillar:
    """The pillar of one host."""

    data: dict[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    warnings: tuple[Problem, ...] = ()


class PillarCompiler:
    """Compiles one pillar directory, again and again as it changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.renderer = Renderer(root, secret=True)

    def compile(self, request: Request) -> Pillar:
        """The pillar for the host of a request, upon its own `pillar`, which templates see. `states` and `sls` have no effect.

        A directory that does not exist is an empty pillar. Raises `CompileError` with everything that is wrong.
        """
        if not exists(self.root):
            return Pillar(dict(request.pillar))
        tree = Tree(self.root, request.trusted_uids)
        self.renderer.begin(tree, World(request.grains, request.pillar, request.options, request.minion_id, request.env, tree))
        run = _Run(self.renderer, tree, request)
        data = run.load()
        self.renderer.end()
        if run.problems:
            raise CompileError(run.problems)
        return Pillar(merge(data, dict(request.pillar)), tree.sources(), (*run.warnings, *tree.warnings))


def compile_pillar(root: Path, request: Request) -> Pillar:
    """The pillar of a directory, once. Raises `CompileError`."""
    return PillarCompiler(root).compile(request)


class _Run:
    """One compilation, with what it collects."""

    def __init__(self, renderer: Renderer, tree: Tree, request: Request) -> None:
        self.renderer, self.tree, self.request = renderer, tree, request
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.names = Names(tree, request.env, self.problems)
        self.seen: set[str] = set()

    def load(self) -> dict[str, Any]:
        """All that applies, merged."""
        data: dict[str, Any] = {}
        for reference in self._chosen():
            for name in self.names.of(reference):
                for part in self._parts(name):
                    data = merge(data, part)
        return data

    def _chosen(self) -> Iterable[Reference]:
        path = self.tree.root / f"{TOP}.sls"
        if not path.exists():
            return everything(self.tree)
        host = Host(self.request.minion_id, self.request.grains, self.request.pillar, self.request.options)
        try:
            rendered = self.renderer.render(path, TOP)
            found, self.warnings = chosen(rendered.document, rendered.data, self.request.env, host)
        except CompileError as error:
            self.problems += error.problems
            return ()
        return found

    def _parts(self, sls: str) -> list[dict[str, Any]]:
        """The data of a file and of what it includes, in the order in which they are merged; each file once."""
        parts: list[dict[str, Any]] = []
        stack: list[tuple[Iterator[str], dict[str, Any]]] = [(iter([sls]), {})] if sls not in self.seen else []
        while stack:
            names, own = stack[-1]
            name = next((name for name in names if name not in self.seen), None)
            if name is None:
                parts.append(own)
                stack.pop()
                continue
            self.seen.add(name)
            included, data = self._file(name)
            stack.append((iter(included), data))
        return parts

    def _file(self, sls: str) -> tuple[list[str], dict[str, Any]]:
        """The names that one file includes, and its data."""
        path = self.tree.find(sls)
        if path is None:
            return [], {}
        try:
            rendered = self.renderer.render(path, sls)
        except CompileError as error:
            self.problems += error.problems
            return [], {}
        data = rendered.data
        if not isinstance(data, Map):
            if data is not None:
                self.problems.append(
                    rendered.document.problem(None, "sls-shape", "a pillar file must be a mapping of keys to values", "write 'key: value'")
                )
            return [], {}
        return self._includes(rendered.document, data, sls, path), {key: plain(value) for key, value in data.items() if key != "include"}

    def _includes(self, document: Document, data: Map, sls: str, path: Path) -> list[str]:
        if "include" not in data:
            return []
        only = Map({"include": data["include"]}, {"include": data.marks["include"]} if data.marks else {})
        unit = normalise(document, only, sls, self.request.env)
        self.problems += unit.problems
        return [*self.names.included(unit.includes, path)]
