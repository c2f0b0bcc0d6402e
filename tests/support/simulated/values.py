"""Sent and received values: only sent values arrive, the last one arrives everywhere, and new ones count as new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from holdfast.agent.engine.deliver.transfer import digest
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.traits import Sendable
from holdfast.states.requisite_kinds import RECV
from simulated.active import Active
from simulated.world import World


class Values:
    """Checks the values of one engine."""

    def __init__(self, engine: Engine, world: World, wrong: Callable[[Vertex | None, str], None]) -> None:
        self._engine, self._world, self._wrong = engine, world, wrong
        self._published: dict[str, list[str | None]] = {
            identity: [sent["said"]] for identity, sent in engine._parts.journal._sent.items() if "said" in sent
        }
        """Identity -> values that its successful runs sent, in order; None where a value was forgotten.

        Earlier values are in the journal of the previous agent.
        """
        self._used = dict(engine._parts.journal._received)
        """(identity, argument) -> digest of the value in its last successful run."""

    def adopted(self, identities: Collection[str]) -> None:
        """Forget the values of undeclared states."""
        for identity in self._published.keys() - identities:
            self._published[identity].append(None)
        self._used = {key: value for key, value in self._used.items() if key[0] in identities}

    def starts(self, active: Active) -> None:
        """Note what was sent before the start of a run."""
        for sender in active.vertex.links.requisites.get(RECV, ()):
            active.said_before[sender.identity] = len(self._published.get(sender.identity, ()))

    def hears(self, active: Active | None, name: str, argument: str, value: str, new: str) -> None:
        """Check the value with which a vertex runs or is probed."""
        vertex = (
            active.vertex
            if active
            else next((each for each in self._engine.view.graph if each.resource.name == name), None)
        )
        senders = vertex.links.requisites.get(RECV, ()) if vertex else ()
        if vertex is None or not senders or vertex.queue.removed:
            return  # the sender has been removed
        since = {sender.identity: 0 for sender in senders} | (
            active.said_before if active else {}
        )  # a swap may have changed the sender
        said = [
            word for sender, count in since.items() for word in self._published.get(sender, [])[max(0, count - 1) :]
        ]
        if value not in said:
            self._wrong(vertex, f"hears {value!r}, which {', '.join(since)} has not said: {said[-3:]}")
        if (self._used.get((vertex.identity, argument)) != digest(value)) is not (new == "new"):
            self._wrong(vertex, f"hears {value!r} as {new}")
        if active:
            active.heard[argument] = value

    def came(self, active: Active, outcome: Outcome) -> None:
        """Check the received values at the end of a run."""
        vertex = active.vertex
        if outcome.result and vertex.run.applying:
            self._used |= {(vertex.identity, argument): digest(value) for argument, value in active.heard.items()}
        if outcome.result and isinstance(vertex.resource, Sendable) and vertex.resource.name in self._world.said:
            self._published.setdefault(vertex.identity, []).append(self._world.said[vertex.resource.name])

    def wanted(self, vertex: Vertex) -> str | None:
        """Return the value that the vertex should have received: the last one sent; None if it receives none."""
        return next((self.said(sender) for sender in vertex.links.requisites.get(RECV, ())), None)

    def said(self, vertex: Vertex) -> str | None:
        """Return the value sent last."""
        return self._published.get(vertex.identity, [None])[-1]

    def unheard(self, vertex: Vertex) -> Iterator[str]:
        """Yield values that were sent last and did not arrive."""
        for received in vertex.call.meta.recv:
            wanted = self.wanted(vertex)
            if wanted is not None and self._used.get((vertex.identity, received.argument)) != digest(wanted):
                yield f"{vertex.identity} has not heard {wanted!r}"
