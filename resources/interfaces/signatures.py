"""Comparison of signatures: a provider must accept every call that its interface allows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from inspect import Parameter
from typing import Any, get_type_hints

QUOTED = re.compile(r"(: )'([^']*)'")
"""An annotation that is kept as text, in the text of a signature."""
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def difference(promised: Callable[..., Any], provided: Callable[..., Any], without: Collection[str] = ()) -> str | None:
    """Return why the provider's function does not match that of the interface, or None. `self` is left out.

    The provider need not have the parameters named in `without`.
    """
    have = parameters(provided)
    want = {name: parameter for name, parameter in parameters(promised).items() if name in have or name not in without}
    wanted, had = (
        [name for name, parameter in side.items() if parameter.kind in POSITIONAL] for side in (want, have)
    )  # fmt: skip
    if had[: len(wanted)] != wanted:
        return f"its positional parameters are ({', '.join(had)}), not ({', '.join(wanted)})"
    for name, parameter in want.items():
        if name not in have:
            return f"it has no parameter {name!r}"
        if why := _parameter(parameter, have[name]):
            return f"parameter {name!r} {why}"
    for name in have.keys() - want.keys():
        if have[name].kind is not Parameter.KEYWORD_ONLY or have[name].default is Parameter.empty:
            return f"its own parameter {name!r} must be keyword-only with a default"
    return _annotations(promised, provided, set(want))


def parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a function or a bound method, without `self`."""
    found = inspect.signature(function).parameters
    return {name: parameter for name, parameter in found.items() if name != "self"}


def text(function: Callable[..., Any]) -> str:
    """Return a signature for a message, without `self`."""
    signature = str(inspect.Signature(list(parameters(function).values())))
    return QUOTED.sub(r"\1\2", signature)


def returned(function: Callable[..., Any]) -> str:
    """Return the annotation of the result for a message; empty if there is none."""
    found = inspect.signature(function).return_annotation
    if found is inspect.Signature.empty:
        return ""
    return found if isinstance(found, str) else inspect.formatannotation(found)


def _parameter(want: Parameter, have: Parameter) -> str | None:
    if want.kind is not have.kind:
        return f"is {have.kind.description}, not {want.kind.description}"
    if want.default != have.default:
        return f"has the default {have.default!r}, not {want.default!r}"
    return None


def _annotations(promised: Callable[..., Any], provided: Callable[..., Any], names: set[str]) -> str | None:
    try:
        want, have = get_type_hints(promised), get_type_hints(provided)
    except NameError as error:
        return f"its annotations cannot be resolved: {error}"
    for name in sorted(names & want.keys() & have.keys()):
        if want[name] != have[name]:
            return f"{name!r} is annotated {have[name]}, not {want[name]}"
    if "return" in want and "return" in have and not _is_at_least(have["return"], want["return"]):
        return f"'return' is annotated {have['return']}, not {want['return']}"
    return None


def _is_at_least(have: Any, want: Any) -> bool:
    """Return whether the type `have` is the type `want`, or a subclass of it with more fields."""
    return bool(have == want or (inspect.isclass(have) and inspect.isclass(want) and issubclass(have, want)))
