"""The models that exist. A class statement registers its model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.agent.northbound.ref import target_name
from holdfast.resources.spelling import nearest

ModelClass = type[Any]
"""A class that is derived from `Model`, which this module cannot name: each model registers itself here."""
GROUP = "holdfast.models"
"""Entry points of packages that provide models: each names a module whose import defines them."""


class Registry:
    """Models by class name and by table."""

    def __init__(self) -> None:
        self._names: dict[str, ModelClass] = {}
        self._tables: dict[str, ModelClass] = {}

    def add(self, model: ModelClass) -> None:
        """Register a model. Raises `Invalid` if its class name or its table is taken."""
        for what, key, known in (("class", model.__name__, self._names), ("table", model.table, self._tables)):
            if key and key in known:
                raise Invalid(f"cannot define {_place(model)}: the {what} {key!r} is that of {_place(known[key])}")
        self._names[model.__name__] = model
        if model.table:
            self._tables[model.table] = model

    def find(self, name: str | ModelClass) -> ModelClass:
        """Return the model with this class name or table; a class is returned as it is. Raises `Invalid`."""
        if not isinstance(name, str):
            return name
        found = self._names.get(name) or self._tables.get(name)
        if found is None:
            near = nearest(name, [*self._names, *self._tables])
            raise Invalid(f"there is no model or table {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        return found

    def tables(self) -> dict[str, ModelClass]:
        """Return table -> model, in the order of definition."""
        return dict(self._tables)

    def in_order(self) -> list[ModelClass]:
        """Return the models with tables so that each follows those that it refers to, directly or in embedded models.

        Raises `Invalid` for a reference to a model without a table, and for cycles, with the names of all classes.
        """
        done: dict[ModelClass, None] = {}
        for model in self._tables.values():
            self._visit(model, done, [])
        return list(done)

    def dependencies(self, model: ModelClass) -> list[ModelClass]:
        """Return the models that a model refers to. Raises `Invalid` if one of them has no table."""
        found = []
        for use in model.references():
            name = target_name(use.ref)
            target = self._names.get(name)
            if target is None or not target.table:
                why = "has no table" if target else "is not defined"
                raise Invalid(f"{_place(model)} refers to {name} in {use.path}, which {why}")
            found.append(target)
        return found

    def load_extensions(self) -> None:
        """Import the models of installed packages. Raises `NorthboundError` that names the package."""
        for each in entry_points(group=GROUP):
            try:
                each.load()
            except Exception as error:
                package = each.dist.name if each.dist else "an unknown package"
                raise NorthboundError(f"cannot load the models {each.value} of {package}: {error}") from error

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Forget the models that the block registers when it ends; for tests."""
        names, tables = dict(self._names), dict(self._tables)
        try:
            yield
        finally:
            self._names, self._tables = names, tables

    def _visit(self, model: ModelClass, done: dict[ModelClass, None], above: list[ModelClass]) -> None:
        if model in above:
            cycle = [*above[above.index(model) :], model]
            raise Invalid(f"models refer to each other in a cycle: {' -> '.join(each.__name__ for each in cycle)}")
        if model in done:
            return
        for target in self.dependencies(model):
            self._visit(target, done, [*above, model])
        done[model] = None


def _place(model: ModelClass) -> str:
    return f"{model.__module__}.{model.__qualname__}"


registry = Registry()
"""All models of this process."""
