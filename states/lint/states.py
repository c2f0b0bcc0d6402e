"""Rules on single states: two for one thing, arguments without effect, commands without a guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.resources.composite import Composite
from holdfast.resources.contract import Uid, acts
from holdfast.resources.traits import Reversible
from holdfast.states.compile.check import CONDITIONAL, Checked, conditional, shape_of, spot_of
from holdfast.states.compile.low import CONTROL
from holdfast.states.declare.salt_hints import meant_argument
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule

NEEDS: Mapping[str, Mapping[str, str]] = {
    "file.managed": {
        "context": "template",
        "defaults": "template",
        "dir_mode": "makedirs",
        "source_hash_name": "source_hash",
        "encoding_errors": "encoding",
    },
    "cmd.script": {"context": "template", "defaults": "template"},
}
"""Kind -> argument -> another argument, without which it has no effect."""


@rule
def managed_twice(subject: Subject) -> Iterator[Problem]:
    """Yield unconditional states of one kind for one thing: a later change may be made in only one of them."""
    owners: dict[tuple[str, Uid], Checked] = {}
    for call in subject.calls:
        if not call.resource.exclusive or conditional(call.chunk):
            continue
        for uid in call.resource.uids():
            owner = owners.setdefault((call.resource.kind, uid), call)
            if owner is not call:
                other = f"{owner.chunk.identity} ({owner.chunk.spot.location})"
                text = f"{call.chunk.identity} and {other} both manage the {uid[0]} {uid[1]}"
                yield call.chunk.spot.problem("managed-twice", text, "keep one of the two, and let others require it")
                break


@rule
def idle_arguments(subject: Subject) -> Iterator[Problem]:
    """Yield arguments that have no effect without another one."""
    for call in subject.calls:
        for key, other in NEEDS.get(call.resource.kind, {}).items():
            if key in call.chunk.low and not call.chunk.low.get(other):
                text = f"{key!r} has no effect without {other!r}"
                yield spot_of(call.chunk, (key,)).problem("argument-needs", text, f"add '- {other}: ...', or remove it")


@rule
def no_reversal(subject: Subject) -> Iterator[Problem]:
    """Yield states with `reverse`, of kinds that do not support it."""
    for call in subject.calls:
        if call.meta.reverse and not isinstance(call.resource, (Reversible, Composite)):
            text = f"{call.resource.kind} cannot be undone: nothing is restored when this state is removed"
            yield spot_of(call.chunk, ("reverse",)).problem("reverse-missing", text, "remove 'reverse'")


@rule
def swallowed_arguments(subject: Subject) -> Iterator[Problem]:
    """Yield arguments of kinds that accept any argument and ignore it."""
    for call in subject.calls:
        cls = type(call.resource)
        if cls.model_config.get("extra") != "ignore":
            continue
        shape = shape_of(cls)
        for key in call.chunk.low.keys() - shape.fields - shape.meta - shape.ignored.keys() - CONTROL:
            problem = spot_of(call.chunk, (key,)).problem(
                "argument-ignored", f"{cls.kind} accepts {key!r} without effect", "remove it"
            )
            yield problem._replace(text="")  # it may be a password


@rule
def variables(subject: Subject) -> Iterator[Problem]:
    """Yield unknown arguments of a managed file, which its template gets as variables.

    Salt's formulas do this on purpose; otherwise it is a typing error.
    """
    for call in subject.calls:
        shape, low = shape_of(type(call.resource)), call.chunk.low
        if call.resource.kind != "file.managed" or not low.get("template"):
            continue
        for key in low.keys() - shape.fields - shape.meta - shape.ignored.keys() - CONTROL - {"show_diff"}:
            if key.startswith("__"):
                continue
            near = meant_argument(key, call.resource.kind, shape.fields)
            hint = f"did you mean {near!r}?" if near else "if that is intended, put it below 'context'"
            text = f"file.managed has no argument {key!r}: its template gets it as a variable"
            yield (
                spot_of(call.chunk, (key,)).problem("argument-variable", text, hint)._replace(text="")
            )  # it may be a password


@rule
def unguarded(subject: Subject) -> Iterator[Problem]:
    """Yield commands without a guard."""
    for call in subject.calls:
        family = call.chunk.low["state"]
        if family == "test" or not acts(call.resource) or getattr(call.resource, "stateful", False):
            continue
        if CONDITIONAL.isdisjoint(call.chunk.low) and call.meta.rerun is None:
            text = f"nothing says when {call.chunk.identity} is needed: each 'holdfast apply' runs it"
            yield call.chunk.spot.problem(
                "action-unguarded", text, "add creates, unless or onlyif; or onchanges, to run it after a change"
            )
