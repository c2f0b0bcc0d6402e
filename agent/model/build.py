"""Builds the model from the classes of kinds, interfaces and providers, and from the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from inspect import Parameter, isasyncgenfunction
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.agent.model.annotations import AnnotationReader
from holdfast.agent.model.docstrings import docs_of, field_docs
from holdfast.agent.model.model import (
    ABSENT,
    Field,
    Function,
    InterfaceModel,
    KindModel,
    ProviderFunction,
    ProviderModel,
    Record,
    Requisite,
    SystemModel,
    argument,
)
from holdfast.agent.model.types import Type
from holdfast.resources import traits
from holdfast.resources.composite import Composite
from holdfast.resources.contract import Resource
from holdfast.resources.interfaces import base, provider
from holdfast.resources.interfaces import registry as interfaces
from holdfast.resources.interfaces.arguments import is_secret
from holdfast.resources.interfaces.results import SECRET
from holdfast.resources.interfaces.signatures import parameters
from holdfast.resources.meta import Meta
from holdfast.resources.registry import REMOTE
from holdfast.states.requisite_kinds import TABLE


def build(
    kinds: Iterable[type[Resource]] = (), names: Iterable[str] = (), settings: type[BaseModel] | None = None
) -> SystemModel:
    """Return the model of these kinds, of the interfaces with these names, and of these settings."""
    return _ModelBuilder().model(kinds, names, settings)


class _ModelBuilder:
    def __init__(self) -> None:
        self.types = AnnotationReader()
        self.remote: dict[str, Record] = {}
        """Records of packages."""

    def model(
        self, kinds: Iterable[type[Resource]], names: Iterable[str], settings: type[BaseModel] | None
    ) -> SystemModel:
        made = SystemModel(
            kinds=tuple(map(self.kind, kinds)),
            meta=self.fields(Meta),
            requisites=tuple(Requisite(row.name, row.documentation, row.reversed_form) for row in TABLE if row.written),
            interfaces=tuple(map(self.interface, names)),
            settings=() if settings is None else self.fields(settings),
        )
        return SystemModel(**{**vars(made), "records": self.records()})

    def records(self) -> Mapping[str, Record]:
        """Return the records that types name, and those that these name."""
        found: dict[str, Record] = {}
        while missing := self.types.records.keys() - found.keys():
            for name in sorted(missing):
                cls = self.types.records[name]
                found[name] = Record(name, docs_of(cls), self.fields(cls))
        return dict(sorted({**found, **self.remote}.items()))

    def fields(self, model: type[BaseModel]) -> tuple[Field, ...]:
        """Return the fields of a class of pydantic, by the names that users write."""
        docs = field_docs(model)
        return tuple(
            self.field(info.alias or name, info, docs.get(name, "")) for name, info in model.model_fields.items()
        )

    def field(self, name: str, info: FieldInfo, doc: str) -> Field:
        extra = info.json_schema_extra
        marks: Mapping[str, Any] = extra if isinstance(extra, dict) else {}
        return Field(
            name=name,
            type=self.types.of_field(info),
            doc=doc,
            required=info.is_required(),
            default=_default(info),
            unit=marks.get("unit", ""),
            secret=marks.get("secret", False) or SECRET in info.metadata,
        )

    # -- kinds -------------------------------------------------------------------------------------------------

    def kind(self, cls: type[Resource]) -> KindModel:
        if cls.__module__.startswith(REMOTE):
            return self.remote_kind(cls)
        return KindModel(
            name=cls.kind,
            docs=docs_of(cls),
            fields=tuple(map(argument, self.fields(cls))),
            ignored=dict(cls.ignored),
            refused=dict(cls.refused),
            former=dict(cls.former_names),
            open=cls.model_config.get("extra") != "forbid",
            variables=cls.variables_with,
            effects=tuple(cls.effect_verbs),
            watch=_behaviour(cls, Resource.watch),
            refresh=_behaviour(cls, traits.Refreshable.refresh),
            sends=_sends(cls, self.types),
            receives=issubclass(cls, traits.Recvable),
            reversible=issubclass(cls, traits.Reversible),
            grouped=issubclass(cls, traits.Groupable),
            automatic_edges=issubclass(cls, traits.Edgeable),
            composite=issubclass(cls, Composite),
        )

    def remote_kind(self, cls: Any) -> KindModel:
        from holdfast.agent.remote.described import described  # noqa: PLC0415 - most models have no remote kinds

        made, records = described(cls)
        self.remote.update(records)
        return made

    # -- interfaces --------------------------------------------------------------------------------------------

    def interface(self, name: str) -> InterfaceModel:
        cls = interfaces.demand(name)
        functions = cls.functions()
        return InterfaceModel(
            name=name,
            version=cls.version,
            docs=docs_of(cls),
            functions=tuple(self.function(each, functions[each], cls) for each in sorted(functions)),
            providers=tuple(self.provider(offer) for _, offer in sorted(interfaces.offers(cls).items())),
            chosen_by_name=cls.chosen_by_name,
        )

    def function(self, name: str, call: Any, interface: type[base.Interface]) -> Function:
        hints, every = get_type_hints(call, include_extras=True), parameters(call)
        known = {name: each for name, each in every.items() if each.kind is not Parameter.VAR_KEYWORD}
        since, added = getattr(call, "_since", (1, ()))
        return Function(
            name=name,
            docs=docs_of(call),
            parameters=tuple(self.parameter(each, hints) for each in known.values()),
            keyword_only=tuple(each.name for each in known.values() if each.kind is Parameter.KEYWORD_ONLY),
            returns=self.types.read(AsyncIterator if isasyncgenfunction(call) else hints.get("return", object)),
            changes=base.changes(call, promised=not interface.generated),
            open=len(known) < len(every),
            supported=base.marked(call, "supported") or {},
            not_applicable=base.marked(call, "not_applicable") or {},
            since=since,
            added=tuple(added),
            replaces=tuple(getattr(call, "_replaces", ())),
        )

    def parameter(self, each: Parameter, hints: Mapping[str, Any]) -> Field:
        type_ = self.types.read(hints.get(each.name, object))
        default = ABSENT if (required := each.default is Parameter.empty) else _plain(each.default)
        secret = is_secret(hints.get(each.name))
        return Field(each.name, type_, required=required, default=default, secret=secret)

    def provider(self, offer: provider.Offer) -> ProviderModel:
        promised = offer.interface.functions()
        return ProviderModel(
            tool=offer.tool,
            docs=docs_of(offer.source),
            priority=offer.priority,
            targets=offer.targets,
            functions=tuple(
                self.provider_function(name, call, promised.get(name))
                for name, call in sorted(_functions_of(offer.source).items())
            ),
            grains=offer.confine.grains,
            commands=offer.confine.commands,
            paths=offer.confine.paths,
            unless=offer.confine.unless,
        )

    def provider_function(self, name: str, call: Any, promised: Any) -> ProviderFunction:
        doc = " ".join((call.__doc__ or "").split())
        own = {} if promised is None else {k: v for k, v in parameters(call).items() if k not in parameters(promised)}
        hints = get_type_hints(call, include_extras=True) if own else {}
        return ProviderFunction(
            name=name,
            doc="" if promised is not None and doc == " ".join((promised.__doc__ or "").split()) else doc,
            parameters=tuple(self.parameter(each, hints) for each in own.values()),
        )


def _functions_of(source: type[provider.Provider] | ModuleType) -> Mapping[str, Any]:
    """Return the functions of a provider (a class or a module) without instantiating it."""
    if isinstance(source, ModuleType):
        return provider.functions(source).public
    names = [name for name in dir(source) if not name.startswith("_") and not hasattr(provider.Provider, name)]
    return {name: call for name in names if callable(call := getattr(source, name)) and not isinstance(call, type)}


def _sends(cls: type[Resource], types: AnnotationReader) -> Mapping[str, Type]:
    sends = cls.sends if issubclass(cls, traits.Sendable) else {}
    return {key: types.read(value) for key, value in sends.items()}


def _behaviour(cls: type, default: Callable[..., Any]) -> str:
    """Return the documentation of a method that the kind has; empty if it only has the default."""
    own = getattr(cls, default.__name__, None)
    if own is None or own is default:
        return ""
    return " ".join((own.__doc__ or "").split())


def _default(info: FieldInfo) -> Any:
    if info.is_required():
        return ABSENT
    if info.default_factory is not None:
        return info.default_factory() if info.default_factory in (dict, list, tuple) else ABSENT
    return _plain(info.default)


def _plain(value: Any) -> Any:
    """Return a default as data for JSON; ABSENT if it cannot be represented."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool, dict)):
        return value
    return str(value) if isinstance(value, Path) else ABSENT
