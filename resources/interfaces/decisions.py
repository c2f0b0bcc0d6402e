"""What each function of an interface does with one provider on one host, by the table of `rows.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.resources.interfaces import rows
from holdfast.resources.interfaces.base import marked, matches
from holdfast.resources.interfaces.provider import Functions, Offer
from holdfast.resources.interfaces.signatures import difference, text

Facts = Mapping[str, Any]


def decide(offer: Offer, provided: Functions, facts: Facts) -> dict[str, rows.Described]:
    """Return each function of interface and provider, by name; `facts` are the host's grains."""
    promised = offer.interface.functions()
    entries = [_promised(name, call, offer, provided, facts) for name, call in promised.items()]
    entries += _outside(set(promised), offer.tool, provided)
    return {entry.function: entry for entry in entries}


def _promised(
    name: str, promised: Callable[..., Any], offer: Offer, provided: Functions, facts: Facts
) -> rows.Described:
    supported, spared = marked(promised, "supported"), marked(promised, "not_applicable")
    have, why = _have(name, promised, offer, provided)
    row = rows.promised(
        have,
        None if supported is None else matches(supported, facts),
        None if spared is None else matches(spared, facts),
    )
    declared = {"not supported": supported, "not applicable": spared}.get(row.state)
    why = why or row.note or (_reason(declared, facts) if declared else "")
    return rows.Described(name, row, why, declared or {})


def _outside(promised: set[str], tool: str, provided: Functions) -> Iterator[rows.Described]:
    for name in provided.public.keys() - promised:
        yield rows.Described(name, rows.OUTSIDE["function"], "the interface does not have it")
    for name in provided.physical.keys() - promised:
        yield rows.Described(name, rows.OUTSIDE["physical function"], f"only callers of {tool} itself can use it")


def _have(name: str, promised: Callable[..., Any], offer: Offer, provided: Functions) -> tuple[rows.Have, str]:
    """Return what the provider has of a name that the interface promises, and a remark."""
    function = provided.public.get(name)
    version, added = getattr(promised, "_since", (1, ()))
    newer = version > offer.targets
    if function is None:
        if newer and not added:
            return "nothing", f"{offer.tool} was written for version {offer.targets} of the interface"
        if name in provided.physical:
            return "physical function", ""
        return ("no function" if name in provided.others else "nothing"), ""
    if why := difference(promised, function, added if newer else ()):
        said = f"{why}; the interface says {name}{text(promised)}, the provider {name}{text(function)}"
        return "other signature", said
    return "function", ""


def _reason(declared: Mapping[str, tuple[str, ...]], facts: Facts) -> str:
    """Return the grains that decided, with the host's values."""
    return "; ".join(
        f"{grain} is {facts.get(grain, 'unknown')}, only {', '.join(values)} can have it"
        for grain, values in declared.items()
    )
