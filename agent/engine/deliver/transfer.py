"""Send and receive: values that the run of one resource has produced become arguments of other resources.

When the run of a sender succeeds, all its values are published as one snapshot. The journal keeps the snapshot, so that
a finished command need not run again after a restart to send the same values. A receiver reads the values just before
it runs, from the vertex that is the sender in the present graph. A value counts as changed until a run with this value
has succeeded. Values are not logged here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from holdfast.agent.engine import kinds
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.assignment import Received
from holdfast.resources.meta import Receive
from holdfast.resources.traits import Referring, Sendable
from holdfast.states.compile.check import names
from holdfast.states.compile.transfer import OWN_CHECKS
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import RECV

Values = Mapping[str, Received]
"""Argument -> the value sent for it."""
NONE: Values = {}


class Prepared(NamedTuple):
    """A call that is ready to run."""

    call: Call
    values: Values = NONE
    """The received values; the call already contains them."""


class Transfers:
    """The values that resources of one engine send to each other."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def publish(self, vertex: Vertex) -> list[Vertex]:
        """Store the values of a successful run of a sender; return the receivers of values that differ from before.

        A receiver is returned even if it last ran with the same value: it may now be running with another one. Values
        of a removed sender count for the vertex that took over its key.
        """
        sent = vertex.ctx.report.sent
        if not sent:
            return []
        before, receivers = self._journal.sent(vertex.key), list(_receivers(vertex))
        if not receivers or before == sent:
            return []
        self._journal.send(vertex.key, sent)
        new = {key for key, value in sent.items() if key not in before or before[key] != value}
        return [
            below
            for below in receivers
            if any(sender.key == vertex.key and wanted.key in new for wanted, sender in _senders(below))
        ]

    def lacks_values(self, vertex: Vertex) -> bool:
        """Return whether a receiver wants a key that this sender never published; only received keys are kept."""
        sent = self._journal.sent(vertex.key)
        return any(
            sender is vertex and wanted.key not in sent
            for below in _receivers(vertex)
            for wanted, sender in _senders(below)
        )

    def _pull(self, vertex: Vertex) -> Iterator[tuple[Receive, Vertex, Received | None]]:
        """Yield each wanted value, its sender, and the value that was sent; None if none was sent."""
        for wanted, sender in _senders(vertex):
            sent = self._journal.sent(sender.key)
            if wanted.key in sent:
                value = sent[wanted.key]
                changed = self._journal.received(vertex.key, wanted.argument) != digest(value)
                yield wanted, sender, Received(value, changed)
            else:
                yield wanted, sender, None

    def prepare(
        self, vertex: Vertex, *, real: bool, later: Callable[[Vertex], bool] = lambda _: False
    ) -> Prepared | Outcome:
        """Return the call with the received values, or the outcome of the vertex if a value is missing or invalid.

        The outcome is unknown if the value is not available yet: in noop, if the sender would change; in a probe, if
        `later` returns that the sender runs afterwards.
        """
        if not vertex.call.meta.recv:
            return Prepared(vertex.call)
        values: dict[str, Received] = {}
        for wanted, sender, got in self._pull(vertex):
            outcome = sender.last.outcome
            would_change = not real and outcome is not None and outcome.result is None
            if would_change and outcome is not None and wanted.key not in outcome.known:
                return _unsent(vertex, sender, wanted)
            if got is not None:
                values[wanted.argument] = got
            elif later(sender):
                return _unsent(vertex, sender, wanted)
            elif (missing := _missing(vertex, wanted, sender)) is not None:
                return missing
        try:
            call = applied(vertex.call, values)
        except ValueError as error:
            return Outcome.failed(vertex, str(error), vertex.queue.cause)
        return Prepared(_hidden(call) if _secret(vertex) else call, values)

    def changed(self, vertex: Vertex) -> bool:
        """Return whether a received value has changed since the last successful run."""
        return bool(vertex.call.meta.recv) and any(got.changed for _, _, got in self._pull(vertex) if got)

    def used(self, vertex: Vertex, values: Values) -> None:
        """Record that a run with these values has succeeded."""
        if values and (new := {name: digest(value.value) for name, value in values.items() if value.changed}):
            self._journal.receive(vertex.key, new)


def _missing(vertex: Vertex, wanted: Receive, sender: Vertex) -> Outcome | None:
    """Return the outcome of a receiver whose sender has sent nothing; None if an absent resource needs no value.

    If the thing to which an absent resource refers does not exist, the resource does not exist either, unless its other
    arguments identify it.
    """
    resource, outcome = vertex.resource, sender.last.outcome
    if wanted.kind and isinstance(resource, Referring) and resource.is_absent() and outcome and outcome.result:
        if not resource.is_known_by(str(wanted.steps[0])):
            return None
        comment = f"is absent, because {sender.identity} is"
        return Outcome.skipped(vertex, "absent", comment, vertex.queue.cause)
    comment = f"{sender.identity} has sent no {wanted.key}{_why_not(outcome)}"
    return Outcome.failed(vertex, comment, vertex.queue.cause)


def _why_not(outcome: Outcome | None) -> str:
    """Return the reason why a sender has sent nothing, as far as it is known."""
    if outcome and outcome.result is None:
        return ": it is in noop, and would be changed first"
    return f": {outcome.comment}" if outcome and not outcome.ran and outcome.comment else ""


def _unsent(vertex: Vertex, sender: Vertex, wanted: Receive) -> Outcome:
    """Return the outcome of a receiver whose value is not available yet. Users did not write the key of a reference."""
    sent = "" if wanted.kind else f" and sent {wanted.key}"
    return Outcome.unknown(vertex, f"unknown until {sender.identity} has run{sent}", vertex.queue.cause)


def applied(call: Call, values: Values) -> Call:
    """Return the call with its received values. Raises `ValueError` for an invalid value, without naming the value."""
    cls = type(call.resource)
    known = set(names(cls))
    arguments = {key: value for key, value in call.low.items() if key in known} | dict(call.handed or {})
    for wanted in (each for each in call.meta.recv if each.argument in values):
        _put(arguments, wanted.steps or (wanted.argument,), values[wanted.argument].value)
    try:
        resource = kinds.declare(cls, arguments)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = wrong["loc"][0] if wrong["loc"] else "arguments"
        why = (
            "the value is invalid; the reason would reveal it"
            if wrong["type"] in {*OWN_CHECKS, kinds.FAILED}
            else wrong["msg"]
        )
        raise ValueError(f"cannot use the value received as {where}: {why}") from None
    return replace(call, resource=resource)


def _put(data: Any, steps: Sequence[str | int], value: Any) -> None:
    """Put a value into arguments. The containers that lead to it are copied, because low data never change."""
    for step in steps[:-1]:
        data[step] = data[step].copy()
        data = data[step]
    data[steps[-1]] = value


def _secret(vertex: Vertex) -> bool:
    """Return whether the state, or a direct or indirect sender of its values, has `no_log`."""
    return vertex.call.meta.no_log or any(_secret(sender) for _, sender in _senders(vertex))


def _hidden(call: Call) -> Call:
    return replace(call, meta=call.meta.model_copy(update={"no_log": True}))


def digest(value: Any) -> str:
    """Return a hash that identifies a value without revealing it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def wanted_from(vertex: Vertex) -> Collection[str]:
    """Return the keys that other vertices receive from this one.

    A tuple, as reports are kept and all empty tuples are one object.
    """
    if not isinstance(vertex.resource, Sendable):
        return ()  # fast path for most vertices: this is called before each run
    return tuple(wanted.key for below in _receivers(vertex) for wanted, sender in _senders(below) if sender is vertex)


def _receivers(vertex: Vertex) -> Iterator[Vertex]:
    """Yield the vertices that may receive values from this one."""
    if isinstance(vertex.resource, Sendable):
        yield from (below for below in vertex.links.downstream if below.call.meta.recv)


def _senders(vertex: Vertex) -> Iterator[tuple[Receive, Vertex]]:
    """Yield each wanted value with its sender."""
    related = vertex.links.requisites.get(RECV, ())
    for wanted in vertex.call.meta.recv:
        for sender in related:
            low = sender.call.low
            if wanted.type in ("id", low["state"]) and wanted.sender in (low["__id__"], low["name"]):
                yield wanted, sender
                break
