"""Send and receive: values that one resource has found or made become arguments of others.

What a resource sends is published as one snapshot when its run has ended well, and remembered, for a command that is done need not
run again after a restart only to say the same. A receiver pulls when it is about to run, from whoever has the identity then. A value
counts as changed until a run with it has come to a good end. Nothing of this is logged here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources.context import Received
from holdfast.resources.meta import Receive
from holdfast.resources.traits import Sendable
from holdfast.states.check import names
from holdfast.states.data import RECV, Call
from holdfast.states.transfer import OWN_CHECKS

Values = Mapping[str, Received]
"""Argument -> what was sent for it."""
NONE: Values = {}


class Prepared(NamedTuple):
    """A call that may run."""

    call: Call
    values: Values = NONE
    """What it has received; it is in the call already."""


class Transfers:
    """Values on their way, for one engine."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def publish(self, vertex: Vertex) -> list[Vertex]:
        """The run of a sender has come to a good end: keep what it has sent. Those for whom that is another value than before.

        That they had this one before does not count: they may be at work with the one between. A sender that has left speaks for the one
        that has its place.
        """
        sent, before, receivers = vertex.ctx.report.sent, self._journal.sent(vertex.key), list(_receivers(vertex))
        if not sent or not receivers or before == sent:
            return []
        self._journal.send(vertex.key, sent)
        new = {key for key, value in sent.items() if key not in before or before[key] != value}
        return [
            below
            for below in receivers
            if any(who.key == vertex.key and wanted.key in new for wanted, who in _senders(below))
        ]

    def owes(self, vertex: Vertex) -> bool:
        """Somebody receives what it has never sent: what nobody receives is not kept."""
        sent = self._journal.sent(vertex.key)
        return any(
            who is vertex and wanted.key not in sent for below in _receivers(vertex) for wanted, who in _senders(below)
        )

    def _pull(self, vertex: Vertex) -> Iterator[tuple[Receive, Vertex, Received | None]]:
        """What it wants, from whom, and what that has sent; None for nothing."""
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
        """The call with all that it receives; or what comes of it without.

        In noop nobody knows yet what a sender that would run will send; nor in a look ahead, where `later` says whose turn comes after it.
        """
        if not vertex.call.meta.recv:
            return Prepared(vertex.call)
        values: dict[str, Received] = {}
        for wanted, sender, got in self._pull(vertex):
            outcome = sender.outcome
            if not real and outcome is not None and outcome.result is None:
                return _outcome(
                    vertex, None, f"cannot be told before {sender.identity} would be changed, which sends {wanted.key}"
                )
            if got is None and later(sender):
                return _outcome(
                    vertex, None, f"cannot be told before {sender.identity} has run, which sends {wanted.key}"
                )
            if got is None:
                return _outcome(vertex, False, f"{sender.identity} has sent no {wanted.key}{_why_not(outcome)}")
            values[wanted.argument] = got
        try:
            call = applied(vertex.call, values)
        except ValueError as error:
            return _outcome(vertex, False, str(error))
        return Prepared(_hidden(call) if _secret(vertex) else call, values)

    def changed(self, vertex: Vertex) -> bool:
        """Something that it receives has changed since it last ran well."""
        return bool(vertex.call.meta.recv) and any(got.changed for _, _, got in self._pull(vertex) if got)

    def used(self, vertex: Vertex, values: Values) -> None:
        """Its run with these values has come to a good end."""
        new = {argument: digest(value.value) for argument, value in values.items() if value.changed}
        if new:
            self._journal.receive(vertex.key, new)


def _why_not(outcome: Outcome | None) -> str:
    """Why a sender has sent nothing, as far as that is known."""
    if outcome and outcome.result is None:
        return ": it is in noop, and would be changed first"
    return f": {outcome.comment}" if outcome and not outcome.ran and outcome.comment else ""


def _outcome(vertex: Vertex, result: bool | None, comment: str) -> Outcome:
    """What comes of a receiver that has not got what it needs."""
    return Outcome(
        vertex.identity,
        vertex.position,
        result=result,
        comment=comment,
        ran=False,
        unknown=result is None,
        cause=vertex.cause,
        started=time.time(),
    )


def applied(call: Call, values: Values) -> Call:
    """The call with what it has received. Raises `ValueError` where a value does not fit, without saying the value."""
    cls = type(call.resource)
    known = set(names(cls))
    arguments = {key: value for key, value in call.low.items() if key in known}
    try:
        resource = cls.model_validate({**arguments, **{argument: got.value for argument, got in values.items()}})
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = wrong["loc"][0] if wrong["loc"] else "arguments"
        why = "it does not fit, and saying why would show it" if wrong["type"] in OWN_CHECKS else wrong["msg"]
        raise ValueError(f"cannot use what it receives as {where}: {why}") from None
    return replace(call, resource=resource)


def _secret(vertex: Vertex) -> bool:
    """Whether its state, or one whose values reach it, says that nothing of it is shown."""
    return vertex.call.meta.no_log or any(_secret(sender) for _, sender in _senders(vertex))


def _hidden(call: Call) -> Call:
    return replace(call, meta=call.meta.model_copy(update={"no_log": True}))


def digest(value: Any) -> str:
    """Tells one value from another, and says nothing of it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def wanted_from(vertex: Vertex) -> Collection[str]:
    """The keys that others receive from a vertex. A tuple, for the report of the last run is kept, and all empty tuples are one."""
    if not isinstance(vertex.resource, Sendable):
        return ()  # most are not, and this is asked before each run
    return tuple(wanted.key for below in _receivers(vertex) for wanted, sender in _senders(below) if sender is vertex)


def _receivers(vertex: Vertex) -> Iterator[Vertex]:
    """Who receives from it, perhaps."""
    if isinstance(vertex.resource, Sendable):
        yield from (below for below in vertex.downstream if below.call.meta.recv)


def _senders(vertex: Vertex) -> Iterator[tuple[Receive, Vertex]]:
    """Who sends what it receives."""
    related = vertex.requisites.get(RECV, ())
    for wanted in vertex.call.meta.recv:
        for sender in related:
            low = sender.call.low
            if wanted.type in ("id", low["state"]) and wanted.sender in (low["__id__"], low["name"]):
                yield wanted, sender
                break
