"""Compares a package with an older schema of it, to find changes that would break its users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.agent.idl.fields import numbers
from holdfast.agent.model.model import ABSENT, Field
from holdfast.agent.model.package import Package
from holdfast.agent.model.types import Type, members

RAISED: Final = ("minimum", "above", "shortest")
"""Restrictions that become narrower when their value grows; all others become narrower when it falls."""
LOWERED: Final = ("maximum", "below", "longest")


class BreakingChange(NamedTuple):
    """A change that breaks users."""

    place: str
    """The changed declaration: `module:Name` or `module:Name.field`."""
    message: str


def breaking(old: Package, new: Package) -> list[BreakingChange]:
    """Return all changes that break users of the old package, sorted."""
    return sorted(_changes(old, new))


def allowed(old: str, new: str) -> bool:
    """Return whether the versions permit changes that break users: another major, or before 1.0.0 another minor."""
    before, after = numbers(old), numbers(new)
    return after[0] > before[0] or (before[0] == after[0] == 0 and after[1] > before[1])


def _changes(old: Package, new: Package) -> Iterator[BreakingChange]:
    for kind, members_of in TABLE.items():
        before, after = members_of(old), members_of(new)
        for name, each in before.items():
            if name not in after:
                yield BreakingChange(name, f"the {kind} {name} has been removed")
            else:
                yield from COMPARED[kind](name, each, after[name])


def _by_name(part: str) -> Callable[[Package], Mapping[str, Any]]:
    def of(package: Package) -> Mapping[str, Any]:
        return {f"{module.name}:{each.name}": each for module in package.modules for each in getattr(module, part)}

    return of


def _resources(package: Package) -> Mapping[str, Any]:
    return {
        each.remote.token.partition(":")[2]: each
        for module in package.modules
        for each in module.resources
        if each.remote is not None
    }


def _fields(name: str, old: Iterable[Field], new: Iterable[Field]) -> Iterator[BreakingChange]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    for each in before.values():
        if each.name not in after:
            yield BreakingChange(name, f"the field {name}.{each.name} has been removed")
        else:
            yield from _field(f"{name}.{each.name}", each, after[each.name])
    for each in after.values():
        if each.name not in before and each.required and not each.out:
            yield BreakingChange(f"{name}.{each.name}", f"the field {name}.{each.name} is new and a required input")


def _field(place: str, old: Field, new: Field) -> Iterator[BreakingChange]:
    if told := _direction(place, old, new):
        yield BreakingChange(place, told)
    if (old.wire or old.name) != (new.wire or new.name):
        yield BreakingChange(place, f"{place} has another name on the wire")
    if old.default is not ABSENT and new.default is not ABSENT and old.default != new.default:
        yield BreakingChange(place, f"the default of {place} has changed from {old.default!r} to {new.default!r}")
    if new.replaces and not old.replaces:
        yield BreakingChange(place, f"a change of {place} now replaces the resource")
    if told := _narrowed(old.type, new.type, out=new.out):
        yield BreakingChange(place, f"{place}: {told}")


def _direction(place: str, old: Field, new: Field) -> str:
    """Return the change in who sets the field (users or the provider), and in whether it is required."""
    if old.out != new.out:
        return f"the output {place} has become an input" if old.out else f"the input {place} has become an output"
    if new.out:
        return f"the output {place} may now stay unset" if old.required and not new.required else ""
    return f"the input {place} has become required" if new.required and not old.required else ""


def _narrowed(old: Type, new: Type, *, out: bool) -> str:
    """Return how a type excludes values that it allowed before; for an output: how it allows new values."""
    if out:
        old, new = new, old
    before = {each.type: each for each in members(old)}
    after = {each.type: each for each in members(new)}
    if "any" in after:
        return ""
    if lost := [word for word in before if word not in after and not (word == "integer" and "number" in after)]:
        return f"its type was {' or '.join(before)}, and is {' or '.join(after)}" if not out else _widened(lost)
    return next(filter(None, (_part(before[word], after[word]) for word in before if word in after)), "")


def _widened(words: Sequence[str]) -> str:
    return f"its value may now be {' or '.join(words)}"


def _part(old: Type, new: Type) -> str:
    if gone := [each for each in old.choices if each not in new.choices]:
        return f"the value {gone[0]!r} has been removed"
    if (old.record, old.target) != (new.record, new.target):
        return f"it was {old.record or old.target}, and is {new.record or new.target}"
    if lost := {each.record for each in old.members} - {each.record for each in new.members}:
        return f"{min(lost)} is no longer one of its structs"
    return _tighter(old, new) or _inner(old, new)


def _tighter(old: Type, new: Type) -> str:
    for name in (*RAISED, *LOWERED):
        before, after = getattr(old, name), getattr(new, name)
        if after is not None and (before is None or (after > before if name in RAISED else after < before)):
            return f"the restriction {name!r} was {before}, and is {after}"
    return "it has a new pattern" if set(new.patterns) - set(old.patterns) else ""


def _inner(old: Type, new: Type) -> str:
    for first, second in ((old.items, new.items), (old.keys, new.keys)):
        if first is not None and second is not None and (told := _narrowed(first, second, out=False)):
            return told
    return ""


def _enumeration(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    values = {each.value for each in new.values}
    for each in old.values:
        if each.value not in values:
            yield BreakingChange(name, f"the enumeration {name} has lost the value {each.value!r}")


def _constant(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    if old.type.type != new.type.type:
        yield BreakingChange(name, f"the constant {name} has another type")


def _record(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    yield from _fields(name, old.fields, new.fields)
    if old.tag != new.tag:
        yield BreakingChange(name, f"the tag of {name} has changed from {old.tag!r} to {new.tag!r}")
    yield from _rules(name, old.rules, new.rules)


def _resource(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    yield from _fields(name, old.fields, new.fields)
    yield from _rules(name, old.remote.rules, new.remote.rules)
    if old.remote.named and not new.remote.named:
        yield BreakingChange(name, f"the resource {name} no longer has a name of its own")


def _function(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    yield from _fields(name, (*old.parameters, *old.results), (*new.parameters, *new.results))
    yield from _rules(name, old.rules, new.rules)


def _rules(name: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> Iterator[BreakingChange]:
    for each in new:
        if each not in old:
            yield BreakingChange(name, f"{name} has a new rule: {each.rule} of {', '.join(each.fields)}")


def _alias(name: str, old: Any, new: Any) -> Iterator[BreakingChange]:
    if told := _narrowed(old.type, new.type, out=False):
        yield BreakingChange(name, f"the alias {name}: {told}")


TABLE: Final[Mapping[str, Callable[[Package], Mapping[str, Any]]]] = {
    "resource": _resources,
    "struct": _by_name("records"),
    "function": _by_name("functions"),
    "enumeration": _by_name("enumerations"),
    "alias": _by_name("aliases"),
    "constant": _by_name("constants"),
}
COMPARED: Final[Mapping[str, Callable[[str, Any, Any], Iterator[BreakingChange]]]] = {
    "resource": _resource,
    "struct": _record,
    "function": _function,
    "enumeration": _enumeration,
    "alias": _alias,
    "constant": _constant,
}
"""Kind of declaration -> function that compares two versions of it."""
