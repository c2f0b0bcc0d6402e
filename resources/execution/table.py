"""The table of Salt's execution functions: `pkg.install`, `service.restart`.

Each function is a coroutine in the module of this package that has the name of Salt's module. Its first parameter is
the `ExecutionHost`, the others are those of Salt's function. A function that changes something returns a `ChangeSet`,
or the value of Salt's function if no interface describes the change. A function that only queries is registered with
`looks=True`, and returns its value in Salt's shape.

`module.run` calls all of them, and the functions of templates. docs/calls.md is generated from this table.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.resources.context import Completed, I
from holdfast.resources.execution.refused import REFUSED
from holdfast.resources.spelling import nearest

MODULES = ("cmd", "group", "pkg", "service", "shadow", "user")
"""Modules of Salt with functions in this package; each is imported when one of its functions is first looked up."""


class ExecutionHost(Protocol):
    """What execution functions use of the host: a part of `Context`."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The host's grains."""
        ...

    def interface(self, interface: type[I], tool: str | None = None) -> I:
        """Return the functions of an interface. Raises `Permanent` if no provider fits."""
        ...

    async def run(self, *argv: str, **options: Any) -> Completed:
        """Run a command. Raises `Permanent` and `Temporary`."""
        ...


class ExecutionFunction(NamedTuple):
    """One execution function."""

    name: str
    call: Callable[..., Awaitable[Any]]
    interface: type[Any] | None
    """The interface that it uses; None: it uses none."""
    uses: tuple[str, ...]
    """The functions of the interface that it uses."""
    looks: bool
    """Whether it changes nothing."""

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the function does not accept these arguments."""
        try:
            inspect.signature(self.call).bind(None, *args, **kwargs)
        except TypeError as error:
            raise ValueError(f"{self.name}: {error}; it takes {self.parameters() or 'no arguments'}") from None

    def parameters(self) -> str:
        """Return the parameters as they are written: `name, timeout=None`."""
        parameters = list(inspect.signature(self.call).parameters.values())[1:]
        return ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)


_registered: dict[str, ExecutionFunction] = {}
F = TypeVar("F", bound=Callable[..., Any])


def execution(name: str, interface: type[Any] | None = None, *uses: str, looks: bool = False) -> Callable[[F], F]:
    """Register the function of this name, which uses these functions of an interface."""

    def register(call: F) -> F:
        _registered[name] = ExecutionFunction(name, call, interface, uses, looks)
        return call

    return register


def find(name: str) -> ExecutionFunction | None:
    """Return the function of this name; None if there is none."""
    module = name.partition(".")[0]
    if module in MODULES:
        importlib.import_module(f"holdfast.resources.execution.{module}")
    return _registered.get(name)


def functions() -> dict[str, ExecutionFunction]:
    """Return all functions by name, sorted, after loading all modules."""
    for module in MODULES:
        find(f"{module}.")
    return dict(sorted(_registered.items()))


def why_not(name: str, others: Mapping[str, object]) -> str:
    """Return why there is no such function, with the reason or the most similar name; `others` are further functions.

    A reason belongs to one function or to a whole module of Salt. For a function of `holdfast call`, the message names
    the functions of Salt that call it.
    """
    known = sorted({*functions(), *others})
    reason = REFUSED.get(name) or REFUSED.get(name.partition(".")[0])
    if reason:
        return f"there is no function {name}: {reason}"
    if callers := _calling(name):
        return f"there is no function {name} in Salt: write {' or '.join(callers)}"
    near = nearest(name, [each for each in known if each.partition(".")[0] == name.partition(".")[0]] or known)
    modules = ", ".join(sorted({each.partition(".")[0] for each in known}))
    return f"there is no function {name}; " + (
        f"did you mean {near}?" if near else f"available: functions of {modules}"
    )


def _calling(name: str) -> list[str]:
    """Return the functions that mainly call one function of an interface (`pkg.list_installed`)."""
    module, _, function = name.partition(".")
    return [
        each.name
        for each in functions().values()
        if each.interface is not None and each.interface.module == module and each.uses[:1] == (function,)
    ]
