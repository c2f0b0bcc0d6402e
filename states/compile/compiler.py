"""Compiles a directory of state files into checked calls in order of execution: `Compiler`.

Each stage collects all problems of all files, and the next stages process the rest, so that a user sees all errors at
once. The compiler depends neither on time nor on the machine: the same inputs give the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.states.compile.check import Checked, Checker
from holdfast.states.compile.composite import Expander, Opened, Opener
from holdfast.states.compile.contradictions import contradictions
from holdfast.states.compile.hand_on import handed_on, misplaced, unused
from holdfast.states.compile.low import Chunk, Made, compile_high, high_data
from holdfast.states.compile.order import by_number, number
from holdfast.states.compile.ordering_cache import OrderingCache, planned
from holdfast.states.compile.problem_collector import ProblemCollector
from holdfast.states.compile.requisites import ResolvedTarget, Resolver
from holdfast.states.compile.sequences import superseded
from holdfast.states.compile.source_checks import SourceChecker
from holdfast.states.compile.transfer import misfits
from holdfast.states.data import Call, Compilation, CompilerInputs
from holdfast.states.declare.extend import apply_backward, apply_excludes, apply_extends
from holdfast.states.declare.high import Reference
from holdfast.states.declare.include import everything, requested
from holdfast.states.declare.load import Loaded, Loader
from holdfast.states.declare.top import chosen
from holdfast.states.errors import CompileError, Location, Problem, Refused
from holdfast.states.gc_pause import gc_paused
from holdfast.states.source.files import TOP, FileCache, Tree, exists
from holdfast.states.source.hostfiles import is_directory
from holdfast.states.template.render import Renderer
from holdfast.states.view.host_view import HostView
from holdfast.states.view.match import TargetHost


@dataclass(slots=True, eq=False, repr=False)
class CompilerTrace:
    """Results of the stages that one compilation has completed. The lint rules and `holdfast show` read them."""

    tree: Tree | None = None
    loaded: Loaded | None = None
    checked: list[Checked] = field(default_factory=list)
    """The calls, sorted by number; if there are problems, only the valid calls of files without problems."""
    edges: list[list[ResolvedTarget]] = field(default_factory=list)
    """The requisites of each of these calls, resolved; empty lists if there are problems."""
    calls: tuple[Call, ...] = ()
    """The compiled calls in order of execution, including parts of composites; empty if there are problems."""
    warnings: list[Problem] = field(default_factory=list)


class CompilerCache:
    """Results of the last compilation of one directory, stage by stage, which the next one reuses."""

    def __init__(self, root: Path, lenient: tuple[str, ...] = ()) -> None:
        self.lenient = lenient
        self.file_cache = FileCache()
        self.loader = Loader(Renderer(root, lenient=lenient))
        self.made: dict[str, Made] = {}
        self.order: OrderingCache | None = None
        self.opened: dict[str, Opened] = {}
        self.expander = Expander()
        self.source_checker = SourceChecker(root)


class Compiler:
    """Compiles directories of states, repeatedly as they change.

    Each stage repeats only work with a new result, so that a change of one file is cheap. A file is not read, rendered
    or parsed again if neither the file nor anything it depends on has changed. An unchanged state is not checked again.
    States are not ordered again while their order cannot change. The result is always equal to that of a new compiler.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, CompilerCache] = {}

    def compile(self, inputs: CompilerInputs, trace: CompilerTrace | None = None) -> Compilation:
        """Compile the states, and fill the trace.

        Raises `CompileError` with all problems that are not mere consequences.
        """
        kept = self._kept.get(inputs.states)
        if kept is None or kept.lenient != inputs.lenient:
            kept = self._kept[inputs.states] = CompilerCache(inputs.states, inputs.lenient)
        with gc_paused():
            return _CompilerRun(kept, inputs, trace).compile()

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that templates read in the last compilations."""
        return frozenset().union(*(kept.loader.renderer.read for kept in self._kept.values()))

    @property
    def renders(self) -> int:
        """Number of files that were rendered and parsed so far, not counting cached results."""
        return sum(kept.loader.renderer.renders for kept in self._kept.values())


class _CompilerRun:
    """One compilation."""

    def __init__(self, kept: CompilerCache, inputs: CompilerInputs, trace: CompilerTrace | None) -> None:
        self.kept, self.loader, self.inputs = kept, kept.loader, inputs
        self.trace, self.traced = trace or CompilerTrace(), trace is not None
        self.tree = self.trace.tree = Tree(inputs.states, inputs.trusted_uids, file_cache=kept.file_cache)
        self.warnings = self.trace.warnings
        disabled = inputs.options.get("disabled_requisites") or ()
        self.disabled = frozenset([disabled] if isinstance(disabled, str) else disabled)

    def compile(self) -> Compilation:
        """Run all stages, one after the other."""
        inputs, renderer = self.inputs, self.loader.renderer
        renderer.begin(
            self.tree,
            HostView(inputs.grains, inputs.pillar, inputs.options, inputs.minion_id, inputs.env, self.tree),
        )
        references = self._references()
        loaded = self.loader.load(
            self.tree, references, inputs.env, numbered=bool(inputs.options.get("state_auto_order", True))
        )
        self.trace.loaded = loaded
        self.warnings += loaded.warnings
        collector = ProblemCollector(self.warnings)
        collector.add(loaded.problems)
        collector.add(apply_extends(loaded))
        collector.add(apply_backward(loaded, self.disabled))
        apply_excludes(loaded)
        made, problems = compile_high(loaded, {} if collector else self.kept.made)
        collector.add(problems)
        if any(problem.code == "data-size" for problem in problems):  # too much data for the other stages
            collector.raise_any()
        calls = self._calls(made, loaded, collector)
        self.kept.made = made
        renderer.end()
        self.loader.forget(self.tree.read_files)
        self.kept.file_cache.forget(self.tree.read_files)
        self.warnings += self.tree.warnings
        top = {
            inputs.env: list(
                dict.fromkeys(name for reference in references for name in self.tree.match(reference.name))
            )
        }
        return Compilation(
            calls, lambda: high_data(loaded), top, self.tree.sources(), tuple(dict.fromkeys(self.warnings))
        )

    def _references(self) -> list[Reference]:
        """Return the files that apply: those of the inputs, else those of the top file, else all."""
        inputs, root = self.inputs, self.inputs.states
        there = exists(root)
        if not there or not is_directory(root):
            what = "it is not a directory" if there else "there is no such directory"
            hint = "create it, or name another one with --states"
            raise CompileError(
                [Problem(Location(str(root)), "source-unreadable", f"cannot read the states: {what}", hint)]
            )
        if inputs.sls:
            return requested(self.tree, inputs.sls)
        path = root / f"{TOP}.sls"
        if not exists(path):
            return everything(self.tree)
        host = TargetHost(inputs.minion_id, inputs.grains, inputs.pillar, inputs.options)
        references, warnings = chosen(self.loader.renderer, self.tree, inputs.env, host)
        self.warnings += warnings
        return references

    def _calls(self, made: Mapping[str, Made], loaded: Loaded, collector: ProblemCollector) -> tuple[Call, ...]:
        """Order and check the chunks, after each has its number.

        Raises `CompileError` with the problems of these and of all earlier stages.
        """
        chunks = [chunk for one in made.values() for chunk in one.chunks]
        checker, earlier_problems = Checker(self.tree, alone=bool(collector)), bool(collector)
        warnings = number(chunks)
        chunks = by_number(chunks)
        for chunk in chunks:
            checker.check(chunk)
        opened = Opener(checker, self.kept.opened).open(collector.without_problems(chunks))
        everything = [*chunks, *[chunk for parts in opened.values() for chunk in parts.chunks()]] if opened else chunks
        order = self._order(chunks, loaded, reusable=not collector)
        conflicts = contradictions(in_order(order.of(chunks), opened))
        self.warnings += [
            *warnings,
            *checker.warnings,
            *(() if collector else conflicts.warnings),
            *(() if collector.states_missing else order.warnings),
            *(() if collector else unused(everything)),
        ]
        collector.add(
            [*order.problems, *checker.problems, *conflicts.problems, *ambiguous(everything), *misfits(chunks, loaded)]
        )
        collector.add(misplaced(everything))
        collector.add(self.kept.source_checker.check(self.tree.anew(), everything))
        if self.traced:
            self._trace_checked(chunks, loaded, collector)
        if earlier_problems or order.problems:
            collector.raise_any()
        if collector:
            raise Refused(collector.problems, tuple(chunk.low for chunk in chunks), high_data(loaded))
        self.kept.order, self.kept.opened = order, opened
        expanded = handed_on(self.kept.expander.expand(tuple(order.calls(chunks)), opened))
        self.trace.calls = superseded(expanded, conflicts.superseded)
        return self.trace.calls

    def _order(self, chunks: Sequence[Chunk], loaded: Loaded, *, reusable: bool) -> OrderingCache:
        """Return the order of the chunks: that of the last compilation if it is still valid, else a new one."""
        order = self.kept.order
        if reusable and order is not None and order.holds(chunks, loaded.included, self.disabled):
            return order
        return OrderingCache(chunks, loaded, self.disabled)

    def _trace_checked(self, chunks: Sequence[Chunk], loaded: Loaded, collector: ProblemCollector) -> None:
        """Record the valid calls and their requisites in the trace."""
        checked = (chunk for chunk in collector.without_problems(chunks) if chunk.checked)
        self.trace.checked = [Checked(one, one.checked.resource, one.checked.meta) for one in checked if one.checked]
        if collector:
            self.trace.edges = [[] for _ in self.trace.checked]
        else:
            self.trace.edges, _ = planned(chunks, Resolver(chunks, loaded), self.disabled)


def in_order(chunks: Iterable[Chunk], opened: Mapping[str, Opened]) -> Iterator[Chunk]:
    """Yield the chunks in order of execution, the chunks of parts before their composite."""
    for chunk in chunks:
        if parts := opened.get(chunk.identity):
            yield from parts.chunks()
        yield chunk


def ambiguous(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Yield the problems of states that are different but have the same identity."""
    known: dict[str, Chunk] = {}
    for chunk in chunks:
        other = known.setdefault(chunk.identity, chunk)
        if other is not chunk:
            message = f"{chunk.identity} names two states: the other one is at {other.spot.location}"
            yield chunk.spot.problem("identity-repeated", message, "give one of them another ID or name")
