"""Remote kinds in the model of all kinds, from which documents, completion and schemas for editors are generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.agent.model.model import Field, KindModel, Record, argument
from holdfast.agent.model.package import Package
from holdfast.agent.model.packages import kinds_of, records_of
from holdfast.agent.model.types import TEXT, Type
from holdfast.agent.remote.kind import IDENTIFIER
from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources import registry
from holdfast.resources.contract import DECLARED

ENSURE = Field(
    "ensure",
    Type("choice", choices=("present", "absent")),
    "Whether the resource should exist; `absent` deletes it.",
    default="present",
)
NAME = argument(Field("name", TEXT, "What messages call the resource."))


def packages() -> list[Package]:
    """Return the packages whose kinds are declared."""
    found = (DECLARED[kind] for kind in registry.remote())
    known = {each.remote.package: each.remote.schema.package for each in found if issubclass(each, RemoteResource)}
    return list(known.values())


def described(cls: type[RemoteResource]) -> tuple[KindModel, Mapping[str, Record]]:
    """Return the model of a remote kind as state files use it, and the records of its package."""
    kind, package = cls.remote, cls.remote.schema.package
    model = next(each for each in kinds_of(package) if each.name == kind.model.name)
    made = replace(
        model,
        fields=(
            *(() if "name" in kind.inputs else (NAME,)),
            *(each for each in model.fields if not each.out),
            ENSURE,
        ),
        refused=dict(cls.refused),
        effects=tuple(cls.effect_verbs),
        watch=f"checked every {kind.remote.poll:g} s" if kind.remote.poll else "events of the plugin",
        sends={IDENTIFIER: TEXT, **{each.name: each.type for each in model.fields if each.name in kind.sends}},
        receives=True,
        reversible=True,
    )
    return made, records_of(package)
