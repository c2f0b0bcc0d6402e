"""Reversals: when a state with `reverse: true` is removed, the machine is restored to its state from before.

Before its first repair, the resource describes the present state of the machine as a declaration, which the journal
keeps. Once the state has left the graph, even while no agent ran, this declaration joins the new graph as one more
resource, after all others. When the resource is as declared, the reversal is forgotten, and the resource is no longer
maintained. If another state manages the same thing at that time, nothing is restored.

If no declaration can describe the previous state, the journal records that as well. Otherwise the result of our own
repair would later be taken for the previous state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from holdfast.agent.engine import kinds
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.tables import Reversal
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources import registry
from holdfast.resources.contract import Resource
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Declaration, Reversible
from holdfast.states.data import Call
from holdfast.states.parse.marks import Document, Spot

ONCE = Meta.model_construct(poll=-1.0)
"""Options of a call that undoes: no watch and no poll, as the resource is not maintained afterwards."""
NOTHING = Declaration("", {})
"""Stands for a previous state that no declaration describes."""


class Reversals:
    """All that one engine undoes, now or later."""

    def __init__(self, journal: Journal, emit: Callable[[Notice], None]) -> None:
        self._journal = journal
        self._emit = emit
        self._under_way: dict[str, Reversal] = {}
        """Identity of the call that undoes -> its reversal, for the present graph."""
        self._next: dict[str, Reversal] = {}
        """Reversals of the next graph, until the swap has succeeded."""
        self._forgotten: list[Reversal] = []
        """Reversals that were forgotten in memory, but not on the disk yet."""
        self._tidying = asyncio.Lock()

    def wanted(self, vertex: Vertex) -> bool:
        """Return whether the previous state must be recorded before the vertex is repaired."""
        resource = vertex.resource
        wants = vertex.call.meta.reverse and isinstance(resource, Reversible)
        return wants and (vertex.identity, resource.name) not in self._journal.reversals

    async def remember(self, vertex: Vertex, resource: Reversible) -> None:
        """Record the previous state in the journal, durably; only the first attempt does so.

        Emits a warning if the previous state cannot be restored. Raises `Unwritable` if the
        journal cannot be written. Raises `CancelledError` if the vertex is being removed: it has
        changed nothing yet, and the new graph has already determined what to undo.
        """
        if not self.wanted(vertex):
            return
        await self.tidy()  # first: a late removal of an old copy would also remove the new copy
        declaration = await resource.inverse(vertex.ctx)
        if vertex.queue.removed:
            raise asyncio.CancelledError
        if declaration is None:
            self._emit(
                Notice(
                    "warning",
                    "not-reversible",
                    vertex.identity,
                    "the present state cannot be restored when this state is removed",
                )
            )
        await self._journal.keep(Reversal(vertex.identity, vertex.resource.name, declaration or NOTHING))

    def calls(self, calls: Sequence[Call]) -> list[Call]:
        """Return calls that undo what `calls` no longer declare, to run after `calls`; the last change comes first."""
        self._next = {}
        if not self._journal.reversals:
            return []
        removed = list(self._removed({(call.identity, call.resource.name): call for call in calls}))
        managers = {uid: call for call in calls for uid in kinds.uids(call.resource)} if removed else {}
        undoing: list[Call] = []
        for reversal in reversed(removed):
            resource = self._resource(reversal)
            if resource is None:
                continue
            manager = next((managers[uid] for uid in kinds.uids(resource) if uid in managers), None)
            if manager is not None:
                self._hand_over(reversal, manager)
                continue
            call = undo(reversal, resource, len(calls) + len(undoing))
            self._next[call.identity] = reversal
            undoing.append(call)
        return undoing

    def begin(self) -> None:
        """Note that the graph now contains the calls that the last `calls` returned."""
        self._under_way = self._next

    @property
    def under_way(self) -> set[str]:
        """Return the identities of the states that are being undone."""
        return {reversal.identity for reversal in self._under_way.values()}

    def undone_by(self, vertex: Vertex) -> str | None:
        """Return the identity of the state that this vertex undoes; None if it undoes none."""
        reversal = self._under_way.get(vertex.identity)
        return reversal and reversal.identity

    def holds(self, vertex: Vertex) -> bool:
        """Note that the vertex is as declared. Returns whether this completes a reversal, which is then forgotten."""
        reversal = self._under_way.get(vertex.identity)
        if reversal is None:
            return False
        self._forget(reversal)  # first: if this raises, it is tried again
        del self._under_way[vertex.identity]
        self._emit(Notice("info", "undone", reversal.identity, "is undone"))
        return True

    def _removed(self, declared: dict[tuple[str, str], Call]) -> Iterator[Reversal]:
        """Yield reversals of states that are no longer declared; forget those of declared states without `reverse`."""
        for key, reversal in list(self._journal.reversals.items()):
            call = declared.get(key)
            if call is None:
                yield reversal
            elif not call.meta.reverse:
                self._forget(reversal)

    def _resource(self, reversal: Reversal) -> Resource | None:
        """Return the resource that restores the previous state, or None if that is impossible.

        An impossible reversal is forgotten, unless its kind is missing or refuses the declaration: another version of
        the kind may accept it.
        """
        kind, arguments, kept = reversal.declaration
        if reversal.declaration == NOTHING:
            self._forget(reversal)
            return None
        if kept and not Path(kept).exists():
            self._emit(
                Notice(
                    "error",
                    "not-reversible",
                    reversal.identity,
                    f"cannot be undone: {kept}, the copy of the previous state, is missing",
                )
            )
            self._forget(reversal)
            return None
        cls = registry.find(kind)
        try:
            if cls is not None:
                return kinds.declare(cls, arguments)
            why = f"there is no longer a kind {kind}"
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        self._emit(Notice("error", "not-reversible", reversal.identity, f"cannot be undone: {why}"))
        return None

    def _hand_over(self, reversal: Reversal, manager: Call) -> None:
        """Leave the reversal to the state that manages the thing now: with `reverse`, this state undoes it later."""
        self._emit(Notice("info", "not-undone", reversal.identity, f"is not undone: {manager.identity} manages it now"))
        key = (manager.identity, manager.resource.name)
        if manager.meta.reverse and key not in self._journal.reversals:
            self._journal.remember(Reversal(*key, reversal.declaration))
            self._journal.forget(reversal)  # last: after a crash at any moment, one of the two states has it
        else:
            self._forget(reversal)

    def _forget(self, reversal: Reversal) -> None:
        self._journal.forget(reversal)
        self._forgotten.append(reversal)

    async def tidy(self) -> None:
        """Write to the disk that reversals were forgotten, then remove their copies of previous states.

        Without this, an agent that starts after a loss of power would undo them again, and destroy later changes.
        """
        if not self._forgotten:
            return
        async with self._tidying:
            forgotten = [*self._forgotten]
            with suppress(OSError):  # if the disk fails, the next call tries again
                await self._journal.secure()
                for reversal in forgotten:
                    if reversal.declaration.kept:
                        Path(reversal.declaration.kept).unlink(missing_ok=True)
                del self._forgotten[: len(forgotten)]


def undo(reversal: Reversal, resource: Resource, position: int) -> Call:
    """Return the call that restores the previous state."""
    kind, identity = resource.kind, f"undo {reversal.identity}"
    if not reversal.identity.endswith(f"[{reversal.name}]"):
        identity += f" ({reversal.name})"  # one state may have managed several things in turn
    family, _, function = kind.partition(".")
    low = {
        "state": family,
        "fun": function,
        "name": resource.name,
        "__id__": identity,
        "__sls__": "",
        "__env__": "base",
        "order": position,
    }
    return Call(
        position,
        f"{kind}[{identity}]",
        low,
        Spot(Document("", "")),
        resource,
        ONCE,
        {},
        f"undoes {reversal.identity}, which is no longer declared",
    )
