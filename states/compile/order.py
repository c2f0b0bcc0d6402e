"""The order of execution: numbers first, then requisites. The order is total, and fixed when states are compiled.

Chunks are sorted by number. Then each chunk in turn is visited. Before it, depth first, come all chunks that it
requires and that have not been visited: kinds in the order of RELATIONS, items as listed, chunks of one item by
number. `listen` does not affect the order.

`prereq` (S has a prereq T) requires a check of T before S. So everything that T requires comes before S, and S comes
before T. A chunk therefore has two nodes in the walk: its run, and its check. If S is a prereq of two states and one of
them requires the other, the check of the one requires only a check of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.states.compile.low import Chunk
from holdfast.states.compile.requisites import ResolvedTarget
from holdfast.states.data import Low
from holdfast.states.declare.high import Target
from holdfast.states.errors import Problem
from holdfast.states.parse.marks import or_lenient
from holdfast.states.requisite_kinds import KINDS, LISTENING, PROBED

CAP_STEP, LAST = 100, 1_000_000
"""First number for chunks without one, after the highest; and the distance of `last` and negative numbers from it."""
HUGE = 10**11
"""Maximum of an `order`; larger numbers would leave no room for the fractions of `names`."""
LOOPS = 20
"""Maximum number of cycles that are reported.

More of them have the same cause, and would take unbounded time and space.
"""


def number(chunks: Sequence[Chunk]) -> list[Problem]:
    """Assign numbers to the chunks with Salt's arithmetic; return warnings for orders without a meaning."""
    cap = _cap(chunks)
    warnings: list[Problem] = []
    for chunk in chunks:
        given = chunk.given
        if chunk.order is given and given is not None:
            continue  # the number is known from the last compilation
        order = _number(given, cap)
        if chunk.name_index and given is not None:  # without definition order, names are sorted like all other states
            order += chunk.name_index / 10000
        order = order + cap + LAST if order < 0 else order
        if chunk.order != order:
            chunk.at(order)
        if not isinstance(given, (int, float)) and given not in ("first", "last"):
            warnings += _invalid(chunk)
    return warnings


def _invalid(chunk: Chunk) -> Iterator[Problem]:
    """Yield the warning about an `order` without a meaning; none if the chunk has no `order`."""
    if item := chunk.item("order"):
        message = f"the order {chunk.given!r} is not valid: the state runs after the numbered states"
        yield item.spot.problem("order-word", message, "write a number, 'first' or 'last'")


def _cap(chunks: Sequence[Chunk]) -> int:
    """Return the number for chunks without one: greater than all that are given."""
    cap = 1
    for chunk in chunks:
        given = chunk.given
        if isinstance(given, int) and given >= cap:
            cap = min(given, HUGE) + CAP_STEP
    return cap


def by_number(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks sorted by number; equal numbers by state, name and function, joined, then by ID."""
    numbers = [chunk.low["order"] for chunk in chunks]
    if len({*numbers}) == len(numbers):
        return sorted(chunks, key=lambda chunk: chunk.low["order"])
    return sorted(chunks, key=lambda chunk: rank(chunk.low))


def rank(low: Low) -> tuple[float, str, str]:
    """Return the sort key of low data."""
    return low["order"], f"{low['state']}{low['name']}{low['fun']}", low["__id__"]


def _number(order: object, cap: int) -> float:
    """Return the number for an `order` as written."""
    if isinstance(order, (int, float)) and order == order:  # noqa: PLR0124 - NaN is not a valid number
        return max(-HUGE, min(order, HUGE))
    return {"first": 0, "last": cap + LAST}.get(order, cap) if isinstance(order, str) else cap


class Step(NamedTuple):
    """The requisite by which the walk goes from one chunk to another."""

    kind: str
    target: Target
    position: int
    probe: bool
    """Only a check of the other chunk is required."""
    holder: int
    """The chunk that has the requisite."""


class ExecutionOrder:
    """The order of execution: `sequence` of positions in number order, `pulled`, and the problems of cycles."""

    def __init__(self, chunks: Sequence[Chunk], edges: Sequence[Sequence[ResolvedTarget]]) -> None:
        self.chunks, self.edges = chunks, edges
        self.sequence: list[int] = []
        self.pulled: dict[int, str] = {}
        """Chunk -> why it was pulled forward. Chunks at the position of their number are missing."""
        self.problems: list[Problem] = []
        self._before: dict[int, list[tuple[int, ResolvedTarget]]] = {}
        """Chunk -> chunks that have it as a prereq, and so run before it."""
        self._state: dict[tuple[int, bool], bool] = {}
        """Node -> whether it is finished; nodes that were not visited are missing."""
        self._done: set[tuple[int, bool]] = set()
        """Groups whose members have all been visited."""
        for position, own in enumerate(edges):
            for edge in own:
                if edge.kind in PROBED:
                    for target in edge.group:
                        self._before.setdefault(target, []).append((position, edge))
        for position in range(len(chunks)):
            if (position, False) not in self._state:
                if self._nothing_before(position):
                    self._state[position, False] = True
                    self.sequence.append(position)
                else:
                    self._walk(position)

    def _nothing_before(self, position: int) -> bool:
        """Return whether everything that must come before a chunk has been visited.

        Usually it has, and no walk is needed.
        """
        if position in self._before:
            return False
        state, done = self._state, self._done
        for kind, _, group in self.edges[position]:
            if kind in LISTENING or (id(group), False) in done:
                continue
            if kind in PROBED or not all(state.get((target, False)) for target in group):
                return False
            done.add((id(group), False))
        return True

    def _steps(self, node: tuple[int, bool]) -> Iterator[Step]:
        """Yield the nodes that must come before a node, in order. Each is visited before the next is requested."""
        position, probe = node
        for edge in self.edges[position]:
            look = edge.kind in PROBED
            if edge.kind in LISTENING or (id(edge.group), look) in self._done:
                continue
            for target in edge.group:
                yield Step(edge.kind, edge.target, target, look or (probe and self._waits(target)), position)
            if not probe:
                self._done.add((id(edge.group), look))
        if not probe:
            for other, edge in self._before.get(position, ()):
                yield Step(edge.kind, edge.target, other, False, other)

    def _waits(self, position: int) -> bool:
        """Return whether a chunk has a prereq that is being visited.

        The chunk then comes later, so a check of it suffices.
        """
        return any(self._state.get((other, False)) is False for other, _ in self._before.get(position, ()))

    def _walk(self, start: int) -> None:
        """Visit one chunk. An explicit stack allows chains of any length."""
        root = (start, False)
        self._state[root] = False
        stack: list[tuple[tuple[int, bool], Iterator[Step], Step | None]] = [(root, self._steps(root), None)]
        while stack:
            node, steps, _ = stack[-1]
            step = next(steps, None)
            if step is None:
                self._state[node] = True
                if not node[1]:
                    self.sequence.append(node[0])
                stack.pop()
                continue
            child = (step.position, step.probe)
            finished = self._state.get(child)
            if finished is None:
                self._state[child] = False
                if not step.probe:
                    self.pulled[step.position] = f"pulled forward by {self.chunks[node[0]].identity} ({step.kind})"
                stack.append((child, self._steps(child), step))
            elif not finished and len(self.problems) < LOOPS:
                at = next(index for index, frame in enumerate(stack) if frame[0] == child)
                self._loop([frame[2] for frame in stack[at + 1 :] if frame[2] is not None] + [step])

    def _loop(self, steps: list[Step]) -> None:
        """Record a cycle: all of its edges, each with its location."""
        parts = []
        for index, step in enumerate(steps):
            origin = steps[index - 1].position
            other = step.position if step.holder == origin else origin
            verb = KINDS[step.kind].verb or f"has {step.kind}"
            names = self.chunks[step.holder].identity, self.chunks[other].identity
            parts.append(f"{names[0]} {verb} {names[1]} ({step.target.spot.location})")
        message = f"requisites form a cycle: {'; '.join(parts)}"
        hint = (
            "a state cannot require itself: remove it from the list"
            if len(parts) == 1
            else "remove one of these requisites"
        )
        if any(step.target.type == "sls" for step in steps):
            hint = or_lenient(hint)
        self.problems.append(steps[0].target.spot.problem("requisite-loop", message, hint))
