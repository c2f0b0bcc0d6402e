"""Checks each call against its kind: whether the kind exists, its arguments and their types, and what the call manages.

All errors of one state are found together, each at the line of the argument, with the most similar valid name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from holdfast.resources import registry
from holdfast.resources.contract import Resource, compact
from holdfast.resources.errors import RAISED
from holdfast.resources.fields import secret_fields
from holdfast.resources.meta import META_FIELDS, WITHOUT_EFFECT, Meta, Receive
from holdfast.resources.refusals import VIOLATION, VIOLATION_OF_TYPE, said
from holdfast.resources.traits import LATER, Edgeable, FromSources, Referring, UsedSource
from holdfast.states.compile.guard_calls import wrong_calls
from holdfast.states.compile.low import CONTROL, Chunk, Verdict
from holdfast.states.declare.high import Target, shown
from holdfast.states.declare.salt_hints import meant_argument, meant_function, no_such_family
from holdfast.states.declare.typo_hints import BOOLEAN
from holdfast.states.errors import Problem
from holdfast.states.parse.marks import Spot, descend, unmarked
from holdfast.states.requisite_kinds import RECV, TABLE
from holdfast.states.source.extensions import instead
from holdfast.states.source.files import Tree

IGNORED: Mapping[str, str] = {
    "provider": "the host's own provider is used",
    "runas_password": "Windows only",
}
"""Arguments that every Salt state accepts and that have no effect here -> the reason."""
CONDITIONAL = frozenset({"onlyif", "unless", "creates"}.union(kind.name for kind in TABLE if kind.conditional))
"""Arguments that make a state conditional. Contradictions of a conditional state are only possible."""
COMMON = CONTROL - {"state", "fun"} - {word for word in CONTROL if word.startswith("__")}
"""Arguments that every state accepts and that do not belong to its kind."""
_NO_META = Meta.model_construct()
"""The defaults, made without validation; most states have none of these arguments."""
GUARDS = ("onlyif", "unless")
"""Guards for which Salt silently ignores entries that are neither commands nor calls."""
_SPELLED_ALONE = frozenset({str, bool, type(None)})
"""Types of values that contain no number."""
TEXTUAL = frozenset({"string_type", "literal_error", "value_error", "assertion_error"})
"""Errors of pydantic for a boolean that may have been meant as text."""


WRONG_VALUES = frozenset({"value_error", "assertion_error", "literal_error", VIOLATION})
"""Errors of pydantic for values of the right type."""


class Shape(NamedTuple):
    """The arguments that one kind accepts; computed once for each kind."""

    cls: type[Resource]
    fields: frozenset[str]
    meta: frozenset[str]
    secrets: frozenset[str]
    ignored: Mapping[str, str]
    closed: bool
    """The kind accepts no other arguments."""


class Checked(NamedTuple):
    """A valid call."""

    chunk: Chunk
    resource: Resource
    meta: Meta


class Checker:
    """Checks the calls of one compilation.

    With `alone`, each argument is checked separately. This is used if earlier stages have found problems: other
    arguments may be missing as a consequence.
    """

    def __init__(self, tree: Tree | None = None, *, alone: bool = False) -> None:
        self.alone, self._tree = alone, tree
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._shapes: dict[str, Shape | None] = {}
        self._broken: set[str] = set()

    def check(self, chunk: Chunk) -> None:
        """Set `chunk.checked` to the resource of the call.

        None if the kind does not exist or an argument is invalid.
        """
        if chunk.state.slipped:
            chunk.checked = None
            return
        low = chunk.low
        kind = f"{low['state']}.{low['fun']}"
        if kind not in self._shapes:
            self._shapes[kind] = self._find(kind, chunk)
        shape = self._shapes[kind]
        if chunk.checked is not None and shape is not None and type(chunk.checked.resource) is shape.cls:
            self.warnings += chunk.checked.warnings
        elif shape is None:
            chunk.checked = None
            self._unknown(kind, chunk)
        else:
            before = len(self.warnings)
            resource, meta = self._make(kind, shape, chunk)
            chunk.checked = chunk.call = None
            if resource is not None and meta is not None:
                chunk.checked = self._verdict(resource, meta, chunk, tuple(self.warnings[before:]))

    def _make(self, kind: str, shape: Shape, chunk: Chunk) -> tuple[Resource | None, Meta | None]:
        """Convert the arguments of a call; None for a model with invalid arguments."""
        low = chunk.low
        arguments: dict[str, Any] = {"name": low["name"]}
        meta: dict[str, Any] = {}
        for key, value in low.items():
            if key in shape.fields:
                arguments[key] = _spelled(chunk, key, value)
            elif key in shape.meta:
                meta[key] = self._meta_value(chunk, key, value)
            elif key not in CONTROL and not key.startswith("__"):
                warning = _without_effect(kind, key, chunk, shape)
                if warning is None:
                    arguments[key] = value
                else:
                    self.warnings.append(warning)
        self.warnings += _deprecations(chunk, shape)
        checked: Meta | None = self._validate(Meta, meta, chunk, shape) if meta else _NO_META
        checked = None if self._wrong_calls(meta, chunk) else checked
        if checked is not None and issubclass(shape.cls, Referring):
            return self._referring(shape.cls, arguments, checked, chunk, shape)
        return self._validate(shape.cls, arguments, chunk, shape), checked

    def _referring(
        self, cls: type[Referring], arguments: dict[str, Any], meta: Meta, chunk: Chunk, shape: Shape
    ) -> tuple[Resource | None, Meta]:
        """Convert the arguments of a kind that refers to other states, which become targets of the chunk."""
        received = dict.fromkeys((each.argument for each in meta.recv if each.argument in shape.fields), LATER)
        arguments = {**received, **arguments}
        resource = self._validate(shape.cls, arguments, chunk, shape)
        return resource, meta if resource is None else _with_references(chunk, meta, cls.references(arguments))

    def _wrong_calls(self, meta: Mapping[str, Any], chunk: Chunk) -> bool:
        """Report calls in guards that guards cannot make; return whether there are any."""
        found = [(key, wrong) for key in GUARDS if key in meta for wrong in wrong_calls(meta[key], self._tree)]
        for key, wrong in found:
            spot = spot_of(chunk, (key, *wrong.path))
            self.problems.append(spot.problem("guard-call", f"{chunk.identity}: {key} {wrong.message}", wrong.hint))
        return bool(found)

    def _meta_value(self, chunk: Chunk, key: str, value: Any) -> Any:
        """Return the value of a meta parameter; records warnings of those without effect."""
        if key in GUARDS and (odd := _odd_guard(key, value, chunk)) and odd.waived:
            self.warnings.append(odd)
            return [entry for entry in value if isinstance(entry, (str, dict))] if isinstance(value, list) else None
        if key in WITHOUT_EFFECT:
            text = f"{key!r} is accepted without effect: {WITHOUT_EFFECT[key]}"
            self.warnings.append(spot_of(chunk, (key,)).problem("argument-ignored", text, "remove it"))
        return _spelled(chunk, key, value)

    def _verdict(self, resource: Resource, meta: Meta, chunk: Chunk, warnings: tuple[Problem, ...]) -> Verdict | None:
        """Return the verdict on a valid call; None if the kind's code fails."""
        try:
            if isinstance(resource, Edgeable):  # later stages call these and `uids`, and expect no exception
                resource.offers(), resource.dependencies()
            resource.uids()
            return Verdict(resource, meta, warnings, *_templates(resource))
        except RAISED as error:  # a kind's own code
            self.problems.append(
                chunk.spot.problem("kind-broken", f"{chunk.identity}: `uids` of its kind failed: {error}")
            )
            return None

    def _find(self, kind: str, chunk: Chunk) -> Shape | None:
        """Return the shape of a kind; None if the kind does not exist."""
        try:
            cls = registry.find(kind)
        except RAISED as error:  # a kind's module is foreign code
            self.problems.append(chunk.spot.problem("kind-broken", f"cannot load the kind {kind}: {error}"))
            self._broken.add(kind)
            return None
        return None if cls is None else shape_of(cls)

    def _unknown(self, kind: str, chunk: Chunk) -> None:
        """Report that a kind does not exist, unless it is known to be broken."""
        if kind in self._broken:
            return
        family, _, function = kind.partition(".")
        functions = registry.functions(family)
        if functions:
            near = meant_function(function, family, functions)
            known = (
                f"did you mean {family}.{near}?"
                if near
                else f"available: {', '.join(f'{family}.{name}' for name in functions)}"
            )
            hint = instead(self._tree, "_states", family) or known
            self.problems.append(
                chunk.spot.problem("unknown-function", f"the state {family!r} has no function {function!r}", hint)
            )
            return
        said, hint = no_such_family(family, registry.families())
        self.problems.append(chunk.spot.problem("unknown-state", said, instead(self._tree, "_states", family) or hint))

    def _validate(self, model: type[Any], arguments: dict[str, Any], chunk: Chunk, shape: Shape) -> Any:
        """Return an instance of the model; None if the arguments are invalid."""
        try:
            made = model.model_validate(arguments)
            compact(made)
            return made  # noqa: TRY300 - the rest handles errors
        except ValidationError as error:
            self.problems += _problems(error, chunk, shape, alone=self.alone)
        except RecursionError:
            self.problems.append(
                chunk.spot.problem("argument-type", f"{chunk.identity}: its arguments are nested too deeply")
            )
        except RAISED as error:  # a kind's own code
            said = type(error).__name__ if shape.secrets else f"{type(error).__name__}: {error}"
            self.problems.append(
                chunk.spot.problem("kind-broken", f"{chunk.identity}: the kind cannot check its arguments: {said}")
            )
        return None


@cache
def shape_of(cls: type[Resource]) -> Shape:
    """Return the arguments that a kind accepts."""
    fields = frozenset(names(cls))
    ignored = {key: why for key, why in {**IGNORED, **cls.ignored}.items() if key not in fields}
    return Shape(
        cls,
        fields,
        META_FIELDS - fields - cls.ignored.keys(),
        frozenset(secret_fields(cls)),
        ignored,
        cls.model_config.get("extra") == "forbid",
    )


def _templates(resource: Resource) -> tuple[tuple[UsedSource, ...], tuple[tuple[str, str], ...]]:
    """Return the sources of a resource, if any is in the states directory, and the templates in its arguments."""
    if not isinstance(resource, FromSources):
        return (), ()
    drawn = tuple(resource.used_sources())
    return drawn if any(each.url.startswith(("salt://", "tree://")) for each in drawn) else (), resource.inline()


def names(model: type[BaseModel]) -> Iterator[str]:
    """Yield the names of the arguments of a model, as users write them."""
    for name, info in model.model_fields.items():
        yield info.alias or name


def _spelled(chunk: Chunk, key: str, value: Any) -> Any:
    """Return the value of an argument; each number in it knows its spelling."""
    item = None if value.__class__ in _SPELLED_ALONE else chunk.item(key)
    return value if item is None else unmarked(item.value)


def spot_of(chunk: Chunk, path: tuple[object, ...]) -> Spot:
    """Return the position of an argument, or of a value inside of it."""
    item = chunk.item(str(path[0])) if path else None
    if item is None:
        return chunk.spot
    return Spot(item.document, descend(item.value, path[1:]) or item.mark)


def _problems(error: ValidationError, chunk: Chunk, shape: Shape, *, alone: bool) -> Iterable[Problem]:
    """Yield one problem for each invalid argument; with `alone`, no problems of several arguments together."""
    found: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        alike: tuple[object, ...] = detail["loc"][:1]
        if detail["type"] in (VIOLATION, VIOLATION_OF_TYPE):
            alike = (*alike, len(found))
        found.setdefault(alike, []).append(dict(detail))
    if (name := chunk.items.get("name")) and not isinstance(name.value, str) and not name.document.lenient:
        found.pop(("name",), None)  # the name is not text, which was reported before; this is the ID instead
    for path, details in found.items():
        if path or not alone:
            yield _problem(path, details, chunk, shape)


def _with_references(chunk: Chunk, meta: Meta, references: tuple[Receive, ...]) -> Meta:
    """Return the meta parameters with the states that the arguments name; these states become targets of the chunk."""
    own = chunk.requisites.get(RECV, ())[: len(meta.recv)]
    named = tuple(Target(each.type, each.sender, each.argument, spot_of(chunk, each.steps)) for each in references)
    rest = {kind: targets for kind, targets in chunk.requisites.items() if kind != RECV}
    chunk.requisites = {**rest, RECV: own + named} if own + named else rest
    return meta.model_copy(update={RECV: meta.recv + references}) if references else meta


def _deprecations(chunk: Chunk, shape: Shape) -> Iterator[Problem]:
    """Yield a warning for each deprecated argument that a state gives, or part of one, and for a deprecated kind."""
    cls = shape.cls
    found = [(chunk.spot, f"the kind {cls.kind}", cls.deprecated[""])] if "" in cls.deprecated else []
    for path, better in cls.deprecations(chunk.low):
        name = ".".join(map(str, path))
        found.append((spot_of(chunk, path), f"the argument {name!r} of {cls.kind}", better))
    for spot, what, better in found:
        yield spot.problem("deprecated", f"{chunk.identity}: {what} is deprecated", better)._replace(text="")


def _odd_guard(key: str, value: Any, chunk: Chunk) -> Problem | None:
    """Return the problem of a guard with entries that are neither commands nor calls, which Salt ignores.

    None if all are valid.
    """
    odd = [
        entry
        for entry in (value if isinstance(value, list) else [value])
        if not isinstance(entry, (str, dict, type(None)))
    ]
    if not odd:
        return None
    message = f"{chunk.identity}: {key} must be a command, but this is {shown(odd[0])}"
    return spot_of(chunk, (key,)).accepted(
        "argument-type", message, "it is ignored", BOOLEAN if isinstance(odd[0], bool) else ""
    )


def _problem(path: tuple[object, ...], details: list[dict[str, Any]], chunk: Chunk, shape: Shape) -> Problem:
    """Return the problem of one argument."""
    name, first = str(path[0]) if path else "", details[0]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return chunk.spot.problem(
            "argument-missing", f"{chunk.identity} lacks the argument {name!r}", f"add '- {name}: ...'"
        )
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return _unknown_argument(name, chunk, shape)
    if name in GUARDS and (odd := _odd_guard(name, chunk.low[name], chunk)):
        return odd
    if not path:
        why = "; or ".join(dict.fromkeys(said(detail) for detail in details))
        return chunk.spot.problem("argument-value", f"{chunk.identity}: {why}")
    return _invalid_value(name, details, chunk, shape)


def _invalid_value(name: str, details: list[dict[str, Any]], chunk: Chunk, shape: Shape) -> Problem:
    """Return the problem of an argument with an invalid value."""
    first = details[0]
    why = "; or ".join(dict.fromkeys(said(detail) for detail in details))
    several = isinstance(chunk.low.get(name), (list, Mapping))  # the model may have put a single value into a list
    inner = ".".join(str(step) for step in first["loc"]) if several and len(details) == 1 else name
    code = "argument-value" if first["type"] in WRONG_VALUES else "argument-type"
    value = _at(chunk.low, first["loc"])
    text = isinstance(value, bool) and any(detail["type"] in TEXTUAL for detail in details)
    made = (
        f", and YAML made the boolean {str(value).lower()} from this" if text and first["type"] == "string_type" else ""
    )
    message = f"{chunk.identity}: the argument {inner!r} is wrong: {why}{made}"
    problem = spot_of(chunk, first["loc"]).problem(code, message, BOOLEAN if text else "")
    return problem._replace(text="") if name in shape.secrets else problem


def _at(value: Any, path: Iterable[Any]) -> Any:
    """Return the value to which an error refers, or the last existing value on the path to it."""
    for step in path:
        if not isinstance(value, Mapping) and not (isinstance(value, list) and isinstance(step, int)):
            continue
        try:
            value = value[step]
        except LookupError:
            break
    return value


def _without_effect(kind: str, key: str, chunk: Chunk, shape: Shape) -> Problem | None:
    """Return the warning for an argument that is not one of the kind but is accepted; None for any other argument."""
    if (why := shape.ignored.get(key)) is not None:
        message = f"{kind} accepts {key!r} without effect: {why}"
        problem = spot_of(chunk, (key,)).problem("argument-ignored", message, "remove it")
        return problem._replace(text="")  # it may be a password
    waives = chunk.spot.document.lenient and shape.closed and not chunk.low.get(shape.cls.variables_with)
    if waives and (unknown := _unknown_argument(key, chunk, shape)).waived:
        return unknown
    return None


def _unknown_argument(name: str, chunk: Chunk, shape: Shape) -> Problem:
    """Return the problem for an unknown argument."""
    if why := shape.cls.refused.get(name):
        return spot_of(chunk, (name,)).problem("unknown-argument", f"{shape.cls.kind} refuses {name!r}: {why}")
    near = meant_argument(name, shape.cls.kind, shape.fields, shape.meta | COMMON)
    spot, message = spot_of(chunk, (name,)), f"{shape.cls.kind} has no argument {name!r}"
    hint = (
        f"did you mean {near!r}?"
        if near
        else f"it takes: {', '.join(sorted(shape.fields - {'name'})) or 'only a name'}"
    )
    problem = spot.accepted("unknown-argument", message, "it is ignored", hint)
    return problem._replace(text="") if near in shape.secrets else problem


def conditional(*chunks: Chunk) -> bool:
    """Return whether one of the chunks applies only under a condition."""
    return any(not CONDITIONAL.isdisjoint(chunk.low) for chunk in chunks)
