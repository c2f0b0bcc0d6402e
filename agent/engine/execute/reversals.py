"""Reversals: a state that said `reverse: true` and is taken away is undone.

What was on the machine before is asked of the resource when it is about to be put right for the first time, and written down as a
declaration. When the state has left the graph, also while no agent ran, that declaration joins the new graph as one more resource, behind all others;
when it holds, it is forgotten, and nobody looks at it again. A thing that another state manages now is not touched. That something cannot be put back
is written down likewise, or what we have made of it would pass for what was before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import unwritable
from holdfast.agent.engine.deliver.store import WAITS, Unwritable
from holdfast.agent.engine.deliver.tables import Reversal
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources import registry
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Temporary
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Declaration, Reversible
from holdfast.states.data import Call
from holdfast.states.marks import Document, Spot

ONCE = Meta.model_construct(poll=-1.0)
"""It is not watched: once it holds it is nobody's business."""
NOTHING = Declaration("", {})
"""What was cannot be put into words."""


class Reversals:
    """What one engine has to undo, now or later."""

    def __init__(self, journal: Journal, emit: Callable[[Notice], None]) -> None:
        self._journal = journal
        self._emit = emit
        self._under_way: dict[str, Reversal] = {}
        """Identity of the call that undoes -> what it undoes."""
        self._next: dict[str, Reversal] = {}
        """The same of the graph that is to come, if nothing goes wrong."""
        self._forgotten: list[Reversal] = []
        """What was forgotten, and that is not on the disk yet."""
        self._tidying = asyncio.Lock()

    def wanted(self, vertex: Vertex) -> bool:
        """Whether what is now has to be remembered before the vertex is put right."""
        resource = vertex.resource
        wants = vertex.call.meta.reverse and isinstance(resource, Reversible)
        return wants and (vertex.identity, resource.name) not in self._journal.reversals

    async def remember(self, vertex: Vertex, resource: Reversible) -> None:
        """What the resource says that was before, on record when this returns. Where it cannot be undone, that is said.

        A second attempt has nothing to add. Raises `Temporary` when it cannot be written down, which is an obstacle, and `CancelledError` when
        it is leaving: what is not changed yet need not be undone, and the states that follow have looked already for what must be.
        """
        if not self.wanted(vertex):
            return
        await self.tidy()  # a copy of before would be removed only now, and with it the next one
        declaration = await resource.inverse(vertex.ctx)
        if vertex.removed:
            raise asyncio.CancelledError
        if declaration is None:
            self._emit(
                Notice(
                    "warning",
                    "not-reversible",
                    vertex.identity,
                    "what is there now cannot be put back when this state leaves",
                )
            )
        reversal = Reversal(vertex.identity, vertex.resource.name, declaration or NOTHING)
        try:
            await self._journal.keep(reversal)
        except Unwritable as error:
            vertex.obstacle = unwritable(self._journal, error)
            raise Temporary(f"{WAITS}: {error}") from error

    def calls(self, calls: Sequence[Call]) -> list[Call]:
        """The calls that undo what these do not declare any more, to follow them, those that came last first."""
        self._next = {}
        if not self._journal.reversals:
            return []
        left = list(self._left({(call.identity, call.resource.name): call for call in calls}))
        managers = {uid: call for call in calls for uid in call.resource.uids()} if left else {}
        undoing: list[Call] = []
        for reversal in reversed(left):
            resource = self._resource(reversal)
            if resource is None:
                continue
            manager = next((managers[uid] for uid in resource.uids() if uid in managers), None)
            if manager is not None:
                self._hand_over(reversal, manager)
                continue
            call = undo(reversal, resource, len(calls) + len(undoing))
            self._next[call.identity] = reversal
            undoing.append(call)
        return undoing

    def begin(self) -> None:
        """The calls that undo are in the graph, and no others any more."""
        self._under_way = self._next

    @property
    def under_way(self) -> set[str]:
        """Identities of what is being undone."""
        return {reversal.identity for reversal in self._under_way.values()}

    def undone_by(self, vertex: Vertex) -> str | None:
        """Identity of the state that this one is there to undo; None for any other."""
        reversal = self._under_way.get(vertex.identity)
        return reversal and reversal.identity

    def holds(self, vertex: Vertex) -> None:
        """It is as declared now. If it was there to undo something, that is undone: it is forgotten, and nobody looks at the vertex again."""
        reversal = self._under_way.get(vertex.identity)
        if reversal is not None:
            self._forget(reversal)  # first: where that cannot be written, it is tried again
            del self._under_way[vertex.identity]
            vertex.removed = True
            self._emit(Notice("info", "undone", reversal.identity, "is undone"))

    def _left(self, declared: dict[tuple[str, str], Call]) -> Iterator[Reversal]:
        """What is to be undone; what does not want to be any more is forgotten."""
        for key, reversal in list(self._journal.reversals.items()):
            call = declared.get(key)
            if call is None:
                yield reversal
            elif not call.meta.reverse:
                self._forget(reversal)

    def _resource(self, reversal: Reversal) -> Resource | None:
        """Its declaration; None where it cannot be undone. Only a kind may come back: what lacks anything else is forgotten."""
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
                    f"cannot be undone: {kept} is gone, the copy of what was before",
                )
            )
            self._forget(reversal)
            return None
        cls = registry.find(kind)
        try:
            if cls is not None:
                return cls.model_validate(arguments)
            why = f"there is no kind {kind} any more"
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        self._emit(Notice("error", "not-reversible", reversal.identity, f"cannot be undone: {why}"))
        return None

    def _hand_over(self, reversal: Reversal, manager: Call) -> None:
        """Another state manages the thing now, and if it wants so, undoes it some day."""
        self._emit(Notice("info", "not-undone", reversal.identity, f"is not undone: {manager.identity} manages it now"))
        key = (manager.identity, manager.resource.name)
        if manager.meta.reverse and key not in self._journal.reversals:
            self._journal.remember(Reversal(*key, reversal.declaration))
            self._journal.forget(reversal)  # last: whenever a crash comes, one of the two has it
        else:
            self._forget(reversal)

    def _forget(self, reversal: Reversal) -> None:
        self._journal.forget(reversal)
        self._forgotten.append(reversal)

    async def tidy(self) -> None:
        """Have on the disk what was forgotten, or after a loss of power it would be undone again, whatever is there by then; remove copies."""
        if not self._forgotten:
            return
        async with self._tidying:
            forgotten = [*self._forgotten]
            with suppress(OSError):  # the disk fails: some other time
                await self._journal.secure()
                for reversal in forgotten:
                    if reversal.declaration.kept:
                        Path(reversal.declaration.kept).unlink(missing_ok=True)
                del self._forgotten[: len(forgotten)]


def undo(reversal: Reversal, resource: Resource, position: int) -> Call:
    """The call that puts back what was."""
    kind, identity = resource.kind, f"undo {reversal.identity}"
    if not reversal.identity.endswith(f"[{reversal.name}]"):
        identity += f" ({reversal.name})"  # one state may have managed several things, one after the other
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
        f"undoes {reversal.identity}, which is declared no more",
    )
