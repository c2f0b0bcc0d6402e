"""The whole way from a directory of state files to checked calls in order: `Compiler`.

Each stage collects what is wrong with the whole tree; the next one begins only when nothing is. Nothing here knows of time or of
the machine, so that compiling twice gives the same.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.traits import Refreshable
from holdfast.states.check import Checked, Checker, contradictions
from holdfast.states.data import Call, Compilation, Request
from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.extend import apply_backward, apply_excludes, apply_extends
from holdfast.states.high import Reference
from holdfast.states.include import everything, requested
from holdfast.states.load import Loaded, Loader
from holdfast.states.low import Chunk, compile_high, high_data
from holdfast.states.match import Host
from holdfast.states.order import Plan, number
from holdfast.states.render import Renderer
from holdfast.states.requisites import Edge, Resolver
from holdfast.states.source import TOP, Tree
from holdfast.states.top import chosen
from holdfast.states.world import World


@dataclass(slots=True)
class Trace:
    """What the stages of one compilation have made, as far as it came: for those who look at a tree closer than they run it."""

    tree: Tree | None = None
    loaded: Loaded | None = None
    checked: list[Checked] = field(default_factory=list)
    """The calls, sorted by number; none unless all of them are right."""
    edges: list[list[Edge]] = field(default_factory=list)
    """What each of them requires."""
    warnings: list[Problem] = field(default_factory=list)


class Compiler:
    """Compiles trees of states, again and again as they change.

    A file that is the same, and depends only on what is the same, is neither rendered nor parsed again.
    """

    def __init__(self) -> None:
        self._loaders: dict[Path, Loader] = {}

    def compile(self, request: Request, trace: Trace | None = None) -> Compilation:
        """Compile what a request asks for, and fill the trace. Raises `CompileError` with every mistake of the first stage that has any."""
        with collector_at_rest():
            return _Run(self._loader(request.states), request, Trace() if trace is None else trace).compile()

    @property
    def renders(self) -> int:
        """How many files were rendered and parsed so far; what was kept does not count."""
        return sum(loader.renderer.renders for loader in self._loaders.values())

    def _loader(self, root: Path) -> Loader:
        if root not in self._loaders:
            self._loaders[root] = Loader(Renderer(root))
        return self._loaders[root]


class _Run:
    """One compilation."""

    def __init__(self, loader: Loader, request: Request, trace: Trace) -> None:
        self.loader, self.request, self.trace = loader, request, trace
        self.tree = trace.tree = Tree(request.states, request.trusted_uids)
        self.warnings = trace.warnings
        disabled = request.options.get("disabled_requisites") or ()
        self.disabled = frozenset([disabled] if isinstance(disabled, str) else disabled)

    def compile(self) -> Compilation:
        """All stages, one after the other."""
        request, renderer = self.request, self.loader.renderer
        renderer.begin(self.tree, World(request.grains, request.pillar, request.options, request.minion_id, request.env, request.states))
        references = self._references()
        loaded = self.loader.load(self.tree, references, request.env, numbered=bool(request.options.get("state_auto_order", True)))
        self.trace.loaded = loaded
        self._stage(loaded.problems, loaded.warnings)
        self._stage(apply_extends(loaded))
        self._stage(apply_backward(loaded, self.disabled))
        apply_excludes(loaded)
        chunks, problems = compile_high(loaded)
        self._stage(problems)
        calls = self._calls(chunks, loaded)
        renderer.end()
        self.loader.forget(self.tree.read_files)
        self.warnings += self.tree.warnings
        top = {request.env: list(dict.fromkeys(name for reference in references for name in self.tree.match(reference.name)))}
        return Compilation(calls, high_data(loaded), top, self.tree.sources(), tuple(dict.fromkeys(self.warnings)))

    def _stage(self, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> None:
        """End a stage: raise what is wrong, keep what is only strange."""
        self.warnings += warnings
        if problems:
            raise CompileError(problems)

    def _references(self) -> list[Reference]:
        """What applies: the names asked for, else what the top file says, else everything."""
        request, root = self.request, self.request.states
        if not root.is_dir():
            what = "it is not a directory" if root.exists() else "there is no such directory"
            hint = "make it, or name another with --states"
            raise CompileError([Problem(Place(str(root)), "source-unreadable", f"cannot read the states: {what}", hint)])
        if request.sls:
            return requested(self.tree, request.sls)
        path = root / f"{TOP}.sls"
        if not path.exists():
            return everything(self.tree)
        rendered = self.loader.renderer.render(path, TOP)
        host = Host(request.minion_id, request.grains, request.pillar, request.options)
        references, warnings = chosen(rendered.document, rendered.data, request.env, host)
        self.warnings += warnings
        return references

    def _calls(self, chunks: list[Chunk], loaded: Loaded) -> tuple[Call, ...]:
        """Order and check the chunks; mistakes of both are reported together."""
        chunks, warnings = number(chunks)
        resolver, checker = Resolver(chunks, loaded), Checker()
        checked = [checker.check(chunk) for chunk in chunks]
        edges = [
            resolver.resolve(chunk, self.disabled, refreshes=call is None or isinstance(call.resource, Refreshable))
            for chunk, call in zip(chunks, checked, strict=True)
        ]
        plan = Plan(chunks, edges)
        doubles, sometimes = contradictions(call for call in checked if call is not None)
        self._stage(
            [*resolver.problems, *plan.problems, *checker.problems, *doubles, *ambiguous(chunks)],
            [*warnings, *resolver.warnings, *checker.warnings, *sometimes],
        )
        self.trace.checked, self.trace.edges = [call for call in checked if call is not None], edges
        return tuple(_assemble(plan, self.trace.checked, edges))


def _assemble(plan: Plan, checked: Sequence[Checked], edges: Sequence[Sequence[Edge]]) -> Iterator[Call]:
    """The calls in order of execution."""
    positions = [0] * len(checked)
    for position, index in enumerate(plan.sequence):
        positions[index] = position
    groups: dict[int, tuple[int, ...]] = {}
    for position, index in enumerate(plan.sequence):
        call = checked[index]
        chunk = call.chunk
        requisites = _requisites(edges[index], positions, groups)
        yield Call(position, chunk.identity, chunk.low, chunk.spot.place, call.resource, call.meta, requisites, plan.reasons[index])


def _requisites(edges: Sequence[Edge], positions: Sequence[int], groups: dict[int, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    """Kind -> positions in the order of execution. `groups` keeps what a group of targets was translated to."""
    found: dict[str, tuple[int, ...]] = {}
    for edge in edges:
        group = groups.get(id(edge.group))
        if group is None:
            group = groups[id(edge.group)] = tuple(positions[target] for target in edge.group)
        known = found.get(edge.kind)
        found[edge.kind] = group if known is None else tuple(dict.fromkeys((*known, *group)))
    return found


def ambiguous(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Two different states whose identities are spelled the same."""
    known: dict[str, Chunk] = {}
    for chunk in chunks:
        other = known.setdefault(chunk.identity, chunk)
        if other is not chunk:
            message = f"{chunk.identity} means two states: the other is in {other.spot.place}"
            yield chunk.spot.problem("identity-repeated", message, "give one of them another ID or name")


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No garbage collection while a tree is built: it would walk all of the new data again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
