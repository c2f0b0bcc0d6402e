"""The whole way from a directory of state files to checked calls in order: `Compiler`.

Each stage collects what is wrong with the whole tree, and all go on as far as what is left allows: whoever mends one mistake shall
not be shown the next only then. Nothing here knows of time or of the machine, so that compiling twice gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.states.arrange import Order, edges_of
from holdfast.states.check import Checked, Checker
from holdfast.states.composite import Expander, Opened, Opener
from holdfast.states.contradictions import contradictions
from holdfast.states.data import Call, Compilation, Request
from holdfast.states.errors import CompileError, Place, Problem, Refused
from holdfast.states.extend import apply_backward, apply_excludes, apply_extends
from holdfast.states.high import Reference
from holdfast.states.hostfiles import is_directory
from holdfast.states.include import everything, requested
from holdfast.states.load import Loaded, Loader
from holdfast.states.low import Chunk, Made, compile_high, high_data
from holdfast.states.match import Host
from holdfast.states.memory import collector_at_rest
from holdfast.states.order import by_number, number
from holdfast.states.render import Renderer
from holdfast.states.requisites import Edge, Resolver
from holdfast.states.sequences import superseded
from holdfast.states.source import TOP, Shelf, Tree, exists
from holdfast.states.sources import Judge
from holdfast.states.top import chosen
from holdfast.states.transfer import misfits
from holdfast.states.world import World
from holdfast.states.wrong import Wrong


@dataclass(slots=True)
class Trace:
    """What the stages of one compilation have made, as far as it came: for those who look at a tree closer than they run it."""

    tree: Tree | None = None
    loaded: Loaded | None = None
    checked: list[Checked] = field(default_factory=list)
    """The calls, sorted by number; when something is wrong, the right ones of the files in which nothing is."""
    edges: list[list[Edge]] = field(default_factory=list)
    """What each of them requires; nothing when something is wrong."""
    calls: tuple[Call, ...] = ()
    """What came out, parts of composites included, in order of execution; none unless all is right."""
    warnings: list[Problem] = field(default_factory=list)


class Kept:
    """What is kept of the compilations of one directory, stage by stage, for the next."""

    def __init__(self, root: Path, lenient: tuple[str, ...] = ()) -> None:
        self.lenient = lenient
        self.shelf = Shelf()
        self.loader = Loader(Renderer(root, lenient=lenient))
        self.made: dict[str, Made] = {}
        self.order: Order | None = None
        self.opened: dict[str, Opened] = {}
        self.expander = Expander()
        self.judge = Judge(root)


class Compiler:
    """Compiles trees of states, again and again as they change.

    Each stage does again only what would come out differently, so that the change of one file of many costs little. A file
    that is the same, and depends only on what is the same, is neither read, rendered nor parsed again; a state that is the
    same is not checked again; states that stand to each other as before are not ordered again. What comes out is always what
    a new compiler would make.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, Kept] = {}

    def compile(self, request: Request, trace: Trace | None = None) -> Compilation:
        """Compile what a request asks for, and fill the trace. Raises `CompileError` with every mistake that is certain."""
        kept = self._kept.get(request.states)
        if kept is None or kept.lenient != request.lenient:
            kept = self._kept[request.states] = Kept(request.states, request.lenient)
        with collector_at_rest():
            return _Run(kept, request, trace).compile()

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that templates of the last compilations have read."""
        return frozenset().union(*(kept.loader.renderer.read for kept in self._kept.values()))

    @property
    def renders(self) -> int:
        """How many files were rendered and parsed so far; what was kept does not count."""
        return sum(kept.loader.renderer.renders for kept in self._kept.values())


class _Run:
    """One compilation."""

    def __init__(self, kept: Kept, request: Request, trace: Trace | None) -> None:
        self.kept, self.loader, self.request = kept, kept.loader, request
        self.trace, self.traced = trace or Trace(), trace is not None
        self.tree = self.trace.tree = Tree(request.states, request.trusted_uids, shelf=kept.shelf)
        self.warnings = self.trace.warnings
        disabled = request.options.get("disabled_requisites") or ()
        self.disabled = frozenset([disabled] if isinstance(disabled, str) else disabled)

    def compile(self) -> Compilation:
        """All stages, one after the other."""
        request, renderer = self.request, self.loader.renderer
        renderer.begin(
            self.tree, World(request.grains, request.pillar, request.options, request.minion_id, request.env, self.tree)
        )
        references = self._references()
        loaded = self.loader.load(
            self.tree, references, request.env, numbered=bool(request.options.get("state_auto_order", True))
        )
        self.trace.loaded = loaded
        self.warnings += loaded.warnings
        wrong = Wrong(self.warnings)
        wrong.add(loaded.problems)
        wrong.add(apply_extends(loaded))
        wrong.add(apply_backward(loaded, self.disabled))
        apply_excludes(loaded)
        made, problems = compile_high(loaded, {} if wrong else self.kept.made)
        wrong.add(problems)
        if any(problem.code == "data-size" for problem in problems):  # it is too much to be looked at any closer
            wrong.demand_none()
        calls = self._calls(made, loaded, wrong)
        self.kept.made = made
        renderer.end()
        self.loader.forget(self.tree.read_files)
        self.kept.shelf.forget(self.tree.read_files)
        self.warnings += self.tree.warnings
        top = {
            request.env: list(
                dict.fromkeys(name for reference in references for name in self.tree.match(reference.name))
            )
        }
        return Compilation(
            calls, lambda: high_data(loaded), top, self.tree.sources(), tuple(dict.fromkeys(self.warnings))
        )

    def _references(self) -> list[Reference]:
        """What applies: the names asked for, else what the top file says, else everything."""
        request, root = self.request, self.request.states
        there = exists(root)
        if not there or not is_directory(root):
            what = "it is not a directory" if there else "there is no such directory"
            hint = "make it, or name another with --states"
            raise CompileError(
                [Problem(Place(str(root)), "source-unreadable", f"cannot read the states: {what}", hint)]
            )
        if request.sls:
            return requested(self.tree, request.sls)
        path = root / f"{TOP}.sls"
        if not exists(path):
            return everything(self.tree)
        host = Host(request.minion_id, request.grains, request.pillar, request.options)
        references, warnings = chosen(self.loader.renderer, self.tree, request.env, host)
        self.warnings += warnings
        return references

    def _calls(self, made: Mapping[str, Made], loaded: Loaded, wrong: Wrong) -> tuple[Call, ...]:
        """Number, order and check the chunks; mistakes of all three are reported together, and with those of the stages before."""
        chunks, checker, before = (
            [chunk for one in made.values() for chunk in one.chunks],
            Checker(self.tree, alone=bool(wrong)),
            bool(wrong),
        )
        warnings = number(chunks)
        chunks = by_number(chunks)
        for chunk in chunks:
            checker.check(chunk)
        opened = Opener(checker, self.kept.opened).open(wrong.apart(chunks))
        everything = [*chunks, *[chunk for parts in opened.values() for chunk in parts.chunks()]] if opened else chunks
        order = self.kept.order
        if wrong or order is None or not order.holds(chunks, loaded.included, self.disabled):
            order = Order(chunks, loaded, self.disabled)
        found = contradictions(in_order(order.of(chunks), opened))
        self.warnings += [
            *warnings,
            *checker.warnings,
            *(() if wrong else found.warnings),
            *(() if wrong.lost else order.warnings),
        ]
        wrong.add(
            [*order.problems, *checker.problems, *found.problems, *ambiguous(everything), *misfits(chunks, loaded)]
        )
        wrong.add(self.kept.judge.judge(self.tree.anew(), everything))
        if self.traced:
            self.trace.checked = [
                Checked(one, one.checked.resource, one.checked.meta) for one in wrong.apart(chunks) if one.checked
            ]
            self.trace.edges = (
                [[] for _ in self.trace.checked] if wrong else edges_of(chunks, Resolver(chunks, loaded), self.disabled)
            )
        if before or order.problems:
            wrong.demand_none()
        if wrong:
            raise Refused(wrong.problems, tuple(chunk.low for chunk in chunks), high_data(loaded))
        self.kept.order, self.kept.opened = order, opened
        self.trace.calls = superseded(self.kept.expander.expand(tuple(order.calls(chunks)), opened), found.superseded)
        return self.trace.calls


def in_order(chunks: Iterable[Chunk], opened: Mapping[str, Opened]) -> Iterator[Chunk]:
    """Chunks in order of execution, those of parts before their composites."""
    for chunk in chunks:
        if parts := opened.get(chunk.identity):
            yield from parts.chunks()
        yield chunk


def ambiguous(chunks: Sequence[Chunk]) -> Iterator[Problem]:
    """Two different states whose identities are spelled the same."""
    known: dict[str, Chunk] = {}
    for chunk in chunks:
        other = known.setdefault(chunk.identity, chunk)
        if other is not chunk:
            message = f"{chunk.identity} means two states: the other is in {other.spot.place}"
            yield chunk.spot.problem("identity-repeated", message, "give one of them another ID or name")
