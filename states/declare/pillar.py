"""Compiles the pillar: data for one host, from a directory of files in the same form as states.

With a `top.sls`, the files that it assigns to the host apply; without one, all files, in sorted order. Files are merged
recursively (or as the settings say), later files over earlier ones. Included files come before the file that includes
them. Errors never show lines of pillar files, because they contain secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.states.data import CompilerInputs
from holdfast.states.declare.high import Reference
from holdfast.states.declare.include import SlsNames, everything
from holdfast.states.declare.normalise import normalise
from holdfast.states.declare.top import chosen
from holdfast.states.errors import CompileError, Problem
from holdfast.states.parse.marks import Document, Map, Seq, plain
from holdfast.states.source.files import TOP, ReadFile, Tree, exists
from holdfast.states.template.render import Renderer
from holdfast.states.view.host_view import HostView
from holdfast.states.view.match import TargetHost
from holdfast.states.view.values import merge


class Pillar(NamedTuple):
    """The pillar of one host."""

    data: dict[str, Any]
    sources: tuple[ReadFile, ...] = ()
    warnings: tuple[Problem, ...] = ()


class PillarCompiler:
    """Compiles one pillar directory at each change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.renderer = Renderer(root, secret=True)

    def compile(self, inputs: CompilerInputs) -> Pillar:
        """Return the pillar for the host of these inputs, merged into its own `pillar`, which templates see.

        The fields `states` and `sls` of the inputs have no effect. A directory that does not exist is an empty pillar.
        Raises `CompileError` with all problems.
        """
        if not exists(self.root):
            return Pillar(dict(inputs.pillar))
        tree = Tree(self.root, inputs.trusted_uids)
        self.renderer.begin(
            tree, HostView(inputs.grains, inputs.pillar, inputs.options, inputs.minion_id, inputs.env, tree)
        )
        run = _PillarRun(self.renderer, tree, inputs)
        data = run.load()
        self.renderer.end()
        if run.problems:
            raise CompileError(run.problems)
        return Pillar(run.merged(data, dict(inputs.pillar)), tree.sources(), (*run.warnings, *tree.warnings))


def compile_pillar(root: Path, inputs: CompilerInputs) -> Pillar:
    """Return the pillar of a directory, once. Raises `CompileError`."""
    return PillarCompiler(root).compile(inputs)


class _Include(NamedTuple):
    """One file that another includes."""

    sls: str
    key: tuple[str, ...] = ()
    """Keys below which the data of the file is put."""
    defaults: Mapping[str, Any] | None = None
    """Variables for the template of the file."""


class _OpenFile(NamedTuple):
    """A file whose includes are being read."""

    include: _Include
    own: dict[str, Any]
    rest: Iterator[_Include]
    parts: list[dict[str, Any]]
    """Merged data of the files that it has included so far."""


class _PillarRun:
    """State of one compilation."""

    def __init__(self, renderer: Renderer, tree: Tree, inputs: CompilerInputs) -> None:
        self.renderer, self.tree, self.inputs = renderer, tree, inputs
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.names = SlsNames(tree, inputs.env, self.problems)
        self.known: dict[str, dict[str, Any]] = {}
        """Data of the files that were read, without their includes.

        A file that is included again counts again, without its includes.
        """
        self.strategy = str(inputs.options.get("pillar_source_merging_strategy", "smart"))
        self.lists = self.strategy != "none" and bool(inputs.options.get("pillar_merge_lists", False))

    def load(self) -> dict[str, Any]:
        """Return the merged data of all files that apply."""
        data: dict[str, Any] = {}
        for reference in self._chosen():
            for name in self.names.of(reference):
                data = self.merged(data, self._data(_Include(name)))
        return data

    def merged(self, base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
        """Merge the data of one file into other data, as the settings say."""
        result: dict[str, Any] = merge(base, over, lists=self.lists, strategy=self.strategy)
        return {**over, **result} if self.strategy == "list" else result

    def _chosen(self) -> Iterable[Reference]:
        if not exists(self.tree.root / f"{TOP}.sls"):
            return everything(self.tree)
        host = TargetHost(self.inputs.minion_id, self.inputs.grains, self.inputs.pillar, self.inputs.options)
        try:
            found, self.warnings = chosen(self.renderer, self.tree, self.inputs.env, host)
        except CompileError as error:
            self.problems += error.problems
            return ()
        return found

    def _data(self, include: _Include) -> dict[str, Any]:
        """Return the data of a file, merged into that of its includes.

        An explicit stack allows chains of any length.
        """
        stack = [self._open(include)]
        while True:
            current = stack[-1]
            child = next(current.rest, None)
            if child is None:
                stack.pop()
                data: dict[str, Any] = {}
                for part in (*current.parts, current.own):
                    data = self.merged(data, part)
                if not stack:
                    return data
                stack[-1].parts.append(_below(current.include.key, data))
            elif child.sls in self.known:
                current.parts.append(_below(child.key, self.known[child.sls]))
            else:
                stack.append(self._open(child))

    def _open(self, include: _Include) -> _OpenFile:
        includes, own = self._file(include)
        self.known[include.sls] = own
        return _OpenFile(include, own, iter(includes), [])

    def _file(self, include: _Include) -> tuple[list[_Include], dict[str, Any]]:
        """Return the includes of one file, and its data."""
        path = self.tree.find(include.sls)
        if path is None:
            return [], {}
        try:
            if include.defaults:
                rendered = self.renderer.render_with(path, include.sls, include.defaults)
            else:
                rendered = self.renderer.render(path, include.sls)
        except CompileError as error:
            self.problems += error.problems
            return [], {}
        data = rendered.data
        if not isinstance(data, Map):
            if data is not None:
                mark, message = rendered.document.beginning(data), "a pillar file must be a mapping of keys to values"
                self.problems.append(rendered.document.problem(mark, "sls-shape", message, "write 'key: value'"))
            return [], {}
        includes = [*self._includes(rendered.document, data["include"], include.sls, path)] if "include" in data else []
        return includes, {key: plain(value) for key, value in data.items() if key != "include"}

    def _includes(self, document: Document, items: Any, sls: str, path: Path) -> Iterator[_Include]:
        """Yield the includes of one file: names, or `name: {key: a:b, defaults: {...}}`."""
        for written, options in _with_options(items) if isinstance(items, Seq) else ((items, Map()),):
            if not self._allowed(options, document):
                continue
            unit = normalise(document, Map({"include": written}), sls, self.inputs.env)
            self.problems += unit.problems
            for found in self.names.included(unit.includes, path):
                key = options.get("key")
                yield _Include(found, tuple(key.split(":")) if key else (), plain(options.get("defaults")))

    def _allowed(self, options: Map, document: Document) -> bool:
        """Return whether the options of an include are valid; adds a problem if they are not."""
        wrong = next(
            (
                name
                for name, kind in (("key", str), ("defaults", Map))
                if not isinstance(options.get(name), (kind, type(None)))
            ),
            None,
        )
        wrong = wrong or next((str(name) for name in options if name not in ("key", "defaults")), None)
        if wrong is not None:
            message = "an include takes a key, which is text, and defaults, a mapping"
            self.problems.append(
                document.problem(options.marks.get(wrong), "include-shape", message, "write 'key: a:b', 'defaults:'")
            )
        return wrong is None


def _with_options(items: Seq) -> Iterator[tuple[Seq, Map]]:
    """Yield each item of an include, as a list without its options; and the options."""
    for item, mark in zip(items, items.marks or [None] * len(items), strict=True):
        name, asked = next(iter(item.items())) if isinstance(item, Map) and len(item) == 1 else (item, None)
        written = item if isinstance(asked, str) else name
        yield Seq([written], [] if mark is None else [mark]), asked if isinstance(asked, Map) else Map()


def _below(key: tuple[str, ...], data: dict[str, Any]) -> dict[str, Any]:
    """Return the data, nested below keys."""
    for part in reversed(key if data else ()):
        data = {part: data}
    return data
