"""The page of one interface: its functions, results and providers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from holdfast.agent.generators.markdown import fields_table, listed, table, type_text
from holdfast.agent.model.model import ABSENT, Function, InterfaceModel, ProviderModel, Record
from holdfast.agent.model.types import written


def interface_page(interface: InterfaceModel, records: Mapping[str, Record]) -> str:
    """Return the page of an interface."""
    lines = [f"# `{interface.name}`", "", interface.docs.summary, ""]
    for paragraph in interface.docs.text:
        lines += [paragraph, ""]
    chosen = "Each caller names the provider." if interface.chosen_by_name else ""
    lines += [f"Version {interface.version} of the interface. {chosen}".rstrip(), "", "## Functions"]
    for function in interface.functions:
        lines += ["", *_function(function)]
    lines += ["", "## Results"]
    for record in _used(interface, records):
        lines += ["", f"### {record.name}", record.docs.summary, "", *fields_table("field", record.fields)]
    lines += ["", "## Providers", *_providers(interface)]
    return "\n".join(lines)


def _function(function: Function) -> Iterator[str]:
    yield f"### `{function.name}({_signature(function)})`"
    for paragraph in (function.docs.summary, *function.docs.text):
        yield from (paragraph, "")
    for name, grains in (("Only where", function.supported), ("Does nothing where", function.not_applicable)):
        if grains:
            yield from (f"{name} {_grains(grains)}.", "")
    if function.since > 1:
        what = f"{', '.join(f'`{name}`' for name in function.added)} exist" if function.added else "It exists"
        yield from (f"{what} since version {function.since} of the interface.", "")
    if function.replaces:
        yield from (f"Former names: {', '.join(f'`{name}`' for name in function.replaces)}.", "")
    yield from (f"Returns {type_text(function.returns) or 'nothing'}.", "")


def _signature(function: Function) -> str:
    parts, named = [], False
    for field in function.parameters:
        if field.name in function.keyword_only and not named:
            parts.append("*")
            named = True
        default = "" if field.required or field.default is ABSENT else f" = {written(field.default)}"
        parts.append(f"{field.name}: {type_text(field.type, links=False)}{default}")
    return ", ".join([*parts, *(["..."] if function.open else [])])


def _grains(grains: Mapping[str, tuple[str, ...]]) -> str:
    return " or ".join(f"`{grain}` is {', '.join(values)}" for grain, values in grains.items())


def _used(interface: InterfaceModel, records: Mapping[str, Record]) -> Iterable[Record]:
    """Return the records that the functions return or take, sorted by name."""
    types = [function.returns for function in interface.functions]
    types += [field.type for function in interface.functions for field in function.parameters]
    names: dict[str, Record] = {}
    while types:
        type_ = types.pop()
        types += (*type_.members, *filter(None, (type_.items, type_.keys)))
        if type_.record and type_.record not in names:
            names[type_.record] = records[type_.record]
            types += [field.type for field in records[type_.record].fields]
    return [names[name] for name in sorted(names)]


def _providers(interface: InterfaceModel) -> Iterator[str]:
    promised = [function.name for function in interface.functions]
    yield from table(
        [
            {
                "provider": f"`{each.tool}`",
                "works where": _requirements(each),
                "lacks": ", ".join(f"`{name}`" for name in promised if name not in _names(each)),
            }
            for each in interface.providers
        ]
    )
    for each in interface.providers:
        yield from _provider(each, promised)


def _provider(provider: ProviderModel, promised: Collection[str]) -> Iterator[str]:
    yield from (f"### {provider.tool}", provider.docs.summary, "", *provider.docs.text, "")
    own = [function for function in provider.functions if function.name in promised]
    yield from listed("What its functions do in particular", {one.name: one.doc for one in own if one.doc})
    for function in own:
        if function.parameters:
            yield from (f"`{function.name}` has more parameters, which are given by name:", "")
            yield from fields_table("parameter", function.parameters)


def _names(provider: ProviderModel) -> set[str]:
    return {function.name for function in provider.functions}


def _requirements(provider: ProviderModel) -> str:
    parts = [f"`{grain}` is {' or '.join(values)}" for grain, values in provider.grains.items()]
    parts += [f"there is the command `{command}`" for command in provider.commands]
    parts += [f"`{path}` exists" for path in provider.paths]
    parts += [f"`{command}` is not `{other}`" for command, other in provider.unless.items()]
    return ", ".join(parts) or "everywhere"
