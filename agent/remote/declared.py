"""The remote kinds of the packages that the settings name, in the registry of all kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.agent.plugins.declared import problem
from holdfast.agent.remote.classes import declare, module
from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources import registry
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.contract import DECLARED
from holdfast.states.compile.low import CONTROL
from holdfast.states.errors import CompileError
from holdfast.states.requisite_kinds import REQUISITES, REVERSED

if TYPE_CHECKING:
    from holdfast.agent.model.model import KindModel
    from holdfast.agent.plugins.declared import DeclaredPlugin

TAKEN = (CONTROL | {"ensure", "names", *REQUISITES, *REVERSED}) - {"name"}
"""Names that have another meaning in every state."""
FAMILIES = {kind.partition(".")[0] for kind in KIND_MODULES}


def declare_kinds(plugins: Mapping[str, DeclaredPlugin]) -> None:
    """Declare the kinds of these packages, those of changed schemas anew, and remove the kinds of all other packages.

    Raises `CompileError` with all problems; then the declared kinds are as before.
    """
    problems = [
        problem(plugin, ("schema",), why, "rename it in the package")
        for plugin in plugins.values()
        for model in plugin.schema.kinds.values()
        for why in _refusals(plugin.name, model)
    ]
    if problems:
        raise CompileError(problems)
    wanted = {name: plugin for plugin in plugins.values() for name in plugin.schema.kinds}
    for kind in registry.remote():
        if kind not in wanted:
            registry.forget(kind)
    for name, plugin in wanted.items():
        known = DECLARED.get(name)
        if known is None or not issubclass(known, RemoteResource) or known.remote.schema.digest != plugin.schema.digest:
            declare(plugin.schema, plugin.schema.kinds[name])


def _refusals(package: str, model: KindModel) -> Iterator[str]:
    """Yield the reasons why a resource of a package cannot be a kind."""
    family, dot, function = model.name.partition(".")
    if not dot or not all(word.isidentifier() for word in (*family.split("-"), function)):
        yield f"the resource {model.name!r} has a name that no state can have"
    elif family in FAMILIES:
        yield f"the states of {family!r} are built in, so a package cannot add {model.name!r}"
    elif (known := DECLARED.get(model.name)) is not None and known.__module__ != module(package):
        yield f"{known.__module__} has declared {model.name} already"
    for field in model.fields:
        if field.name in TAKEN and not field.out:
            yield f"{model.name} has an argument {field.name!r}, which means something else in every state"
