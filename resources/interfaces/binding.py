"""A provider bound to its interface: the object that callers use, and the table that says what each call does.

The interface (C) and the provider (P) each have a function or lack it, and the grains of the host match `supported` and
`not_applicable` of the function or not:

| C | P | not_applicable | supported | a call |
|---|---|---|---|---|
| yes | yes | - | any | runs the provider, its result checked |
| yes | yes | match | any | contradiction: refused when bound (strict), else the declared empty result |
| yes | no | match | any | the declared empty result |
| yes | no | - | no match | `FunctionNotSupported` |
| yes | no | - | match or none | `FunctionNotImplemented` |
| yes | other signature | - | any | refused when bound (strict), else `FunctionNotImplemented` |
| no | yes | | | runs the provider as it is; deprecated, logged once as a warning |
| no | no, or `physical` | | | `FunctionNotFound` |

Only functions that really run count as present (`has`, `dir`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_type_hints

from pydantic import TypeAdapter, ValidationError

from holdfast.resources.interfaces.base import Interface, Provider, ProviderHost, matches
from holdfast.resources.interfaces.errors import (
    FunctionNotFound,
    FunctionNotImplemented,
    FunctionNotSupported,
    InterfaceContradiction,
    InterfaceError,
    ResultViolation,
    SignatureViolation,
)
from holdfast.resources.interfaces.signatures import difference, text
from holdfast.resources.spelling import nearest

Row = Literal["provided", "deprecated", "not applicable", "not supported", "not implemented"]


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """What one function of a bound interface does, and why."""

    function: str
    row: Row
    note: str = ""
    """Remark on a difference of interface and provider."""


class Bound:
    """One virtual module on one host; its attributes are the module's functions.

    Raises `SignatureViolation` or `InterfaceContradiction` if the provider violates the interface and `strict` is set.
    """

    def __init__(self, interface: type[Interface], provider: Provider, *, strict: bool = True) -> None:
        self.interface = interface
        self.provider = provider
        self._strict = strict
        self._host: ProviderHost = provider.host
        self._warned: set[str] = set()
        self._promised = interface.functions()
        self._entries = {entry.function: entry for entry in self._decide_all()}
        for entry in self._entries.values():
            if entry.note:
                self._host.log.info(
                    "interface and provider differ",
                    call=f"{interface.module}.{entry.function}",
                    provider=provider.tool,
                    why=entry.note,
                )

    # -- asking --------------------------------------------------------------------------------------------------

    def has(self, function: str) -> bool:
        """Return whether a function really runs here; a stub does not count."""
        entry = self._entries.get(function)
        return entry is not None and entry.row in ("provided", "deprecated")

    def describe(self) -> tuple[BoundFunction, ...]:
        """Return all functions, sorted by name, with what a call does."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def __dir__(self) -> list[str]:
        """Return the names of the functions that really run."""
        return [name for name in sorted(self._entries) if self.has(name)]

    def __getattr__(self, function: str) -> Any:
        """Return a function of the module. Raises `FunctionNotFound`."""
        if function.startswith("_"):
            raise AttributeError(function)
        entry = self._entries.get(function)
        if entry is None:
            near = nearest(function, self._entries)
            hint = f", did you mean {near}?" if near else ""
            raise FunctionNotFound(f"cannot call {self.interface.module}.{function}: there is no such function{hint}")
        call = self._make(entry)
        self.__dict__[function] = call  # found directly the next time
        return call

    # -- deciding ------------------------------------------------------------------------------------------------

    def _decide_all(self) -> Iterator[BoundFunction]:
        for name in self._promised:
            yield self._decide(name)
        for name, member in inspect.getmembers(type(self.provider), inspect.isfunction):
            public = not name.startswith("_") and not hasattr(Provider, name)
            if public and name not in self._promised and not getattr(member, "_physical", False):
                yield BoundFunction(name, "deprecated")

    def _decide(self, name: str) -> BoundFunction:
        promised, provided = self._promised[name], getattr(self.provider, name, None)
        supported, spared = getattr(promised, "_supported", None), getattr(promised, "_not_applicable", None)
        meant = supported is None or matches(supported, self._host.facts)
        idle = spared is not None and matches(spared, self._host.facts)
        if idle and provided is not None:
            return self._violation(
                InterfaceContradiction,
                BoundFunction(name, "not applicable", "it is provided where the interface says that it does not apply"),
            )
        if idle:
            return BoundFunction(
                name,
                "not applicable",
                "declared both supported and not applicable here" if supported is not None and meant else "",
            )
        if not callable(provided):
            return BoundFunction(name, "not implemented" if meant else "not supported")
        if why := difference(promised, provided):
            note = f"{why}; the interface says {name}{text(promised)}, the provider {name}{text(provided)}"
            return self._violation(SignatureViolation, BoundFunction(name, "not implemented", note))
        return BoundFunction(
            name, "provided", "" if meant else "supported() leaves out this platform, where it is provided"
        )

    def _violation(self, error: type[InterfaceError], entry: BoundFunction) -> BoundFunction:
        if self._strict:
            self._raise(error, entry.function, entry.note)
        return entry

    def _raise(self, error: type[InterfaceError], function: str, why: str) -> NoReturn:
        module, tool = self.interface.module, self.provider.tool
        raise error(f"cannot use {module}.{function} of {tool}: {why}", module=module, function=function, provider=tool)

    # -- calling -------------------------------------------------------------------------------------------------

    def _make(self, entry: BoundFunction) -> Callable[..., Any]:
        name = entry.function
        if entry.row == "not applicable":
            return functools.partial(self._promised[name], self.interface())
        if entry.row == "deprecated":
            return self._deprecated(name)
        if entry.row == "provided":
            return self._checked(name)
        if entry.row == "not supported":
            return self._missing(FunctionNotSupported, name, "it does not exist on this platform")
        return self._missing(FunctionNotImplemented, name, entry.note or f"{self.provider.tool} lacks it")

    def _missing(self, error: type[InterfaceError], name: str, why: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> NoReturn:
            self._raise(error, name, why)

        return call

    def _deprecated(self, name: str) -> Callable[..., Any]:
        provided = getattr(self.provider, name)

        @functools.wraps(provided)
        def run(*arguments: Any, **options: Any) -> Any:
            if name not in self._warned:
                self._warned.add(name)
                call = f"{self.interface.module}.{name}"
                self._host.log.warning(
                    "deprecated call: it belongs to the provider, not to the interface",
                    call=call,
                    provider=self.provider.tool,
                )
            return provided(*arguments, **options)

        return run

    def _checked(self, name: str) -> Callable[..., Any]:
        promised, provided = self._promised[name], getattr(self.provider, name)
        if not inspect.iscoroutinefunction(promised):
            return provided  # type: ignore[no-any-return] # a watch: its items are not checked
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(promised)["return"])

        @functools.wraps(provided)
        async def call(*arguments: Any, **options: Any) -> Any:
            result = (
                provided(*arguments, **options)
                if asynchronous
                else self._host.blocking(functools.partial(provided, *arguments, **options))
            )
            try:
                return adapter.validate_python(await result)
            except ValidationError as error:
                wrong = "; ".join(
                    f"{'.'.join(map(str, e['loc']))}: {e['msg']}"
                    for e in error.errors(include_url=False, include_input=False)
                )
                self._raise(ResultViolation, name, f"its result is not what the interface promises: {wrong}")

        asynchronous = inspect.iscoroutinefunction(provided)
        return call
