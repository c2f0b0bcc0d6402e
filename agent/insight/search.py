"""Finds the resources that an operator names.

Graphs may be large: each search examines a slice of resources at a time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.inspect.status import View, gone
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.phrases import first_of
from holdfast.resources.spelling import nearest
from holdfast.states.data import Low

SLICE = 1000
"""Resources that are examined before other tasks run."""
CANDIDATES = 5000
"""Most identities with which a mistyped one is compared, because comparisons take long."""


async def select(vertices: Iterable[Vertex], wanted: Callable[[Vertex], bool]) -> list[Vertex]:
    """Return the vertices for which `wanted` is true. Other tasks run after each slice."""
    every, found = tuple(vertices), []
    for start in range(0, len(every), SLICE):
        found += [vertex for vertex in every[start : start + SLICE] if wanted(vertex)]
        await asyncio.sleep(0)
    return found


async def find(given: str, view: View, verb: str) -> Vertex:
    """Return the one resource that `given` names. Raises `ControlError`, also if `given` names several."""
    found = await matching(given, view, verb)
    if len(found) > 1:
        raise ControlError(
            f"cannot {verb} {given}: which one? available: {first_of([each.identity for each in found])}"
        )
    return found[0]


async def matching(given: str, view: View, verb: str) -> list[Vertex]:
    """Return the resources by identity; else by ID; else by name; else by the end of a path that is an ID or a name.

    Raises `ControlError` with likely names if nothing matches. `verb` completes the message "cannot ...".
    """
    vertex = view.graph.by_identity.get(given)
    if vertex is not None and not gone(vertex):
        return [vertex]
    near = await select(view.graph, lambda each: any(given in name for name in _names(each.call.low)))
    for meant in (_has("__id__", given), _has("name", given), _ends(given)):
        if found := [each for each in near if meant(each.call.low) and not gone(each)]:
            return found
    raise ControlError(f"cannot {verb} {given}: there is no such resource{await _hint(given, view)}")


async def _hint(given: str, view: View) -> str:
    """Return the most similar identity or ID, as a question; else how to list all."""
    known = [*itertools.islice(view.present, CANDIDATES)]
    words = [each.identity for each in known]
    if "[" not in given:
        words += [str(each.call.low["__id__"]) for each in known]
    nearly = await Blocking(1)(nearest, given, words)
    return f"; did you mean {nearly}?" if nearly else "; `holdfast status` lists them"


def _names(low: Low) -> tuple[str, str]:
    return str(low["__id__"]), str(low["name"])


def _has(key: str, given: str) -> Callable[[Low], bool]:
    return lambda low: low[key] == given


def _ends(given: str) -> Callable[[Low], bool]:
    """Return a filter for IDs and names that are paths with this end: `app.conf` is the end of `/etc/app.conf`."""
    return lambda low: any(path.startswith("/") and path.endswith(f"/{given}") for path in _names(low))
