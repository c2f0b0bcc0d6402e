"""Removes cycles of requisites on state files, in lenient files.

A requisite on a state file means all of its states and, as in Salt, those of the files that it includes. In public
formulas, some of these states often require the state in turn, because a file includes what comes after it. Salt fails
such a state when it runs ("Recursive requisite found"), and all that depend on it. Here, the states that require the
state in turn are left out of the requisite, first those of included files, then those of the file itself.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.states.compile.low import Chunk
from holdfast.states.compile.requisites import ResolvedTarget
from holdfast.states.errors import Problem
from holdfast.states.requisite_kinds import LISTENING, PROBED

Edges = Sequence[Sequence[ResolvedTarget]]
"""The requisites of each chunk."""
SHOWN = 3
"""Maximum number of states that a warning names."""


def without_cycles(chunks: Sequence[Chunk], edges: Edges) -> tuple[list[list[ResolvedTarget]], list[Problem]]:
    """Return the requisites without those states of files that form a cycle, and a warning for each requisite."""
    warnings: dict[tuple[object, ...], Problem] = {}
    for own in (False, True):
        components = _components([*_successors(edges)])
        edges = [
            [_reduced(edge, position, chunks, components, warnings, own=own) for edge in edges[position]]
            for position in range(len(chunks))
        ]
    return [[edge for edge in each if edge.group] for each in edges], list(warnings.values())


def _reduced(
    edge: ResolvedTarget,
    holder: int,
    chunks: Sequence[Chunk],
    components: Mapping[int, int],
    warnings: dict[tuple[object, ...], Problem],
    *,
    own: bool,
) -> ResolvedTarget:
    """Return a requisite without the chunks of its file (`own`), or of included files, that form a cycle with it."""
    target = edge.target
    if target.type != "sls" or target.value is None or not target.spot.document.lenient or edge.kind in LISTENING:
        return edge
    out = {
        member
        for member in edge.group
        if components[member] == components[holder]
        and fnmatch.fnmatchcase(chunks[member].low["__sls__"], target.value) is own
    }
    if not out:
        return edge
    what, names = chunks[holder].declared, [chunks[member].identity for member in sorted(out - {holder})]
    several = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    why = f"and some of its states wait for {what} in turn ({several})" if names else "which contains it"
    message = f"requisites form a cycle: {edge.kind} of {what} names the state file {target.value!r}, {why}"
    effect = "it means the other states of the file"
    warnings.setdefault(
        (target.spot.location, edge.kind, what, own), target.spot.accepted("requisite-loop", message, effect)
    )
    return edge._replace(group=tuple(member for member in edge.group if member not in out))


def _successors(edges: Edges) -> Iterator[Sequence[int]]:
    """Yield, for each chunk, the chunks that must come before it."""
    before: dict[int, list[int]] = {}
    for holder, own in enumerate(edges):
        for edge in own:
            for member in edge.group if edge.kind in PROBED else ():
                before.setdefault(member, []).append(holder)
    for holder, own in enumerate(edges):
        ordinary = [edge.group for edge in own if edge.kind not in PROBED and edge.kind not in LISTENING]
        yield [*before.get(holder, ()), *(member for group in ordinary for member in group)]


def _components(before: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return chunk -> one chunk of its strongly connected component, which stands for all of them (Kosaraju)."""
    after: list[list[int]] = [[] for _ in before]
    for node, others in enumerate(before):
        for other in others:
            after[other].append(node)
    seen: set[int] = set()
    component: dict[int, int] = {}
    for root in reversed(list(_in_postorder(range(len(before)), before, set()))):
        component |= dict.fromkeys(_in_postorder((root,), after, seen), root)
    return component


def _in_postorder(roots: Iterable[int], neighbours: Sequence[Sequence[int]], seen: set[int]) -> Iterator[int]:
    """Yield the nodes that can be reached and are not in `seen`, depth first, and add them to it."""
    for root in roots:
        stack = [] if root in seen else [(root, iter(neighbours[root]))]
        seen.add(root)
        while stack:
            child = next((each for each in stack[-1][1] if each not in seen), None)
            if child is None:
                yield stack.pop()[0]
            else:
                seen.add(child)
                stack.append((child, iter(neighbours[child])))
