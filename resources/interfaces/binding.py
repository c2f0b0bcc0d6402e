"""A provider bound to its interface: the object that callers use. `rows.py` says what each call does, and why."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, get_type_hints

from pydantic import TypeAdapter, ValidationError

from holdfast.resources.interfaces import rows
from holdfast.resources.interfaces.base import changes
from holdfast.resources.interfaces.decisions import decide
from holdfast.resources.interfaces.errors import (
    ArgumentError,
    FunctionNotFound,
    FunctionNotImplemented,
    FunctionNotSupported,
    InterfaceContradiction,
    InterfaceError,
    ResultViolation,
    SignatureViolation,
    VersionViolation,
)
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Functions, Offer
from holdfast.resources.interfaces.results import LENIENT, PkgSpec, strict
from holdfast.resources.interfaces.signatures import parameters
from holdfast.resources.spelling import nearest

VIOLATIONS: Mapping[int, type[InterfaceError]] = {11: InterfaceContradiction, 17: SignatureViolation}
"""Row of the table -> the error of a strict binding."""


class Bound:
    """One virtual module on one host; its attributes are the module's functions.

    Raises `VersionViolation` if the provider was written for another version of the interface, and, if `strict`,
    `SignatureViolation` or `InterfaceContradiction` if the provider violates the interface.
    """

    def __init__(self, offer: Offer, host: ProviderHost, *, strict: bool = True) -> None:
        self.interface = offer.interface
        self.tool = offer.tool
        self.provider = offer.make(host)
        self.deprecated_calls: dict[str, int] = {}
        """Deprecated function -> number of its calls, for metrics."""
        self.offer = offer
        self._strict = strict
        self._host = host
        self._sites: set[tuple[str, str]] = set()
        """Deprecated function and caller of each call that has caused a warning."""
        self._promised = offer.interface.functions()
        self._former = {
            name: function for function, call in self._promised.items() for name in getattr(call, "_replaces", ())
        }
        self._entries: Mapping[str, rows.Described] = {}
        self._provided = Functions({}, {}, frozenset())
        self._made: set[str] = set()
        """Names of the functions that are kept as attributes."""
        if not offer.interface.version - 1 <= offer.targets <= offer.interface.version:
            raise VersionViolation(
                f"cannot use {offer.tool} for {self.interface.module}: it was written for version {offer.targets} of "
                f"the interface, which is at version {offer.interface.version}",
                module=self.interface.module, function="", provider=offer.tool,
            )  # fmt: skip
        self.decide()

    @property
    def _name(self) -> str:
        """The name by which callers call the functions: that of the interface, or of the tool that they choose."""
        return self.tool if self.interface.chosen_by_name else self.interface.module

    # -- asking --------------------------------------------------------------------------------------------------

    def has(self, function: str) -> bool:
        """Return whether a function really runs here; a stub does not count."""
        entry = self._entries.get(function)
        return entry is not None and entry.row.has

    def describe(self) -> tuple[rows.Described, ...]:
        """Return all functions, sorted by name, with what a call does."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def entry(self, function: str) -> rows.Described | None:
        """Return what a call of one function does; None if nothing has this name. A former name has no entry."""
        return self._entries.get(function)

    def declaration(self, function: str) -> Callable[..., Any] | None:
        """Return the function that declares the parameters, also by a former name; None if there is none.

        It is the interface's, or the provider's own if the interface does not have it.
        """
        name = self._former.get(function, function)
        return self._promised.get(name) or self._provided.public.get(name)

    def promises(self, function: str) -> bool:
        """Return whether the interface says what a function does, also by a former name."""
        return not self.interface.generated and self._former.get(function, function) in self._promised

    def changes(self, function: str) -> bool:
        """Return whether a function may change something, also by a former name."""
        name = self._former.get(function, function)
        if name in self._promised:
            return changes(self._promised[name], promised=not self.interface.generated)
        return changes(self._provided.public[name], promised=False)

    def __dir__(self) -> list[str]:
        """Return the names of the functions that really run."""
        return [name for name in sorted(self._entries) if self.has(name)]

    def __getattr__(self, function: str) -> Any:
        """Return a function of the module. Raises `FunctionNotFound`."""
        if function.startswith("_"):
            raise AttributeError(function)
        call = self.function(function)
        self.__dict__[function] = call  # later accesses find the attribute directly
        self._made.add(function)
        return call

    # -- deciding ------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Decide what each function does, by the present grains; called again when they have changed.

        Raises `SignatureViolation` or `InterfaceContradiction` if the provider violates the interface and the binding
        is strict.
        """
        before = self._entries
        for made in self._made:
            del self.__dict__[made]
        self._made.clear()
        self._provided = self.offer.functions(self.provider, self._host)
        self._entries = decide(self.offer, self._provided, self._host.facts)
        for entry in self._entries.values():
            if self._strict and entry.row.number in VIOLATIONS:
                self._raise(VIOLATIONS[entry.row.number], entry.function, entry.why)
            if entry.row.level and entry != before.get(entry.function):
                log = {"error": self._host.log.error, "warning": self._host.log.warning, "info": self._host.log.info}
                log[entry.row.level](
                    "interface and provider differ",
                    call=f"{self._name}.{entry.function}",
                    provider=self.tool,
                    state=entry.row.state,
                    why=entry.why or f"{self.tool} lacks it",
                )

    def _raise(self, error: type[InterfaceError], function: str, why: str) -> NoReturn:
        of, known = "" if self.interface.chosen_by_name else f" of {self.tool}", self._entries.get(function)
        raise error(
            f"cannot use {self._name}.{function}{of}: {why}",
            module=self.interface.module,
            function=function,
            provider=self.tool,
            needed=known.needed if known else None,
        )

    # -- calling -------------------------------------------------------------------------------------------------

    def function(self, name: str, caller: str = "") -> Callable[..., Any]:
        """Return the call of a function. Raises `FunctionNotFound`.

        `caller` is for the warning about a deprecated call; by default, it is the place of the call.
        """
        entry = self._entries.get(name)
        if entry is None and name in self._former:
            return self._deprecated(name, getattr(self, self._former[name]), f"call {self._former[name]}", caller)
        if entry is None or entry.row.state == "physical":
            near = nearest(name, self._entries)
            more = f"; {entry.why}" if entry else f"; did you mean {near}?" if near else ""
            raise FunctionNotFound(f"cannot call {self._name}.{name}: there is no such function{more}", hint=near or "")
        if entry.row.state == "not applicable":
            return self._idle(entry)
        if entry.row.state == "deprecated":
            return self._deprecated(name, self._provided.public[name], f"it belongs to {self.tool} alone", caller)
        if entry.row.state == "provided":
            return self._checked(name)
        if entry.row.state == "not supported":
            return self._missing(FunctionNotSupported, name, "platforms like this one do not have it", entry.why)
        return self._missing(FunctionNotImplemented, name, f"{self.tool} lacks it", entry.why)

    def _missing(self, error: type[InterfaceError], name: str, why: str, more: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> NoReturn:
            self._raise(error, name, f"{why} ({more})" if more else why)

        return call

    def _idle(self, entry: rows.Described) -> Callable[..., Any]:
        """Return a call that does nothing."""
        smallest = functools.partial(self._promised[entry.function], self.interface())

        def call(*arguments: Any, **options: Any) -> Any:
            self._host.log.debug("nothing to do on this platform", call=f"{self._name}.{entry.function}", why=entry.why)
            return smallest(*arguments, **options)

        return call

    def _deprecated(self, name: str, function: Callable[..., Any], instead: str, caller: str) -> Callable[..., Any]:
        """Return a call that warns, once for each place that calls it."""

        @functools.wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            site = (name, caller or _place())
            self.deprecated_calls[name] = self.deprecated_calls.get(name, 0) + 1
            if site not in self._sites:
                self._sites.add(site)
                self._host.log.warning(
                    "deprecated call",
                    call=f"{self._name}.{name}",
                    provider=self.tool,
                    interface=f"{self._name} version {self.interface.version}",
                    ends_with_version=self.interface.version + 1,
                    instead=instead,
                    caller=site[1],
                )
            return function(*arguments, **options)

        return run

    def _checked(self, name: str) -> Callable[..., Any]:
        promised, provided = self._promised[name], self._provided.public[name]
        if not inspect.iscoroutinefunction(promised):
            return provided  # a watch, whose items are not checked, or a function that must answer at once
        adapter: TypeAdapter[Any] = TypeAdapter(strict(get_type_hints(promised)["return"]))
        asynchronous = inspect.iscoroutinefunction(provided)
        absent = parameters(promised).keys() - parameters(provided).keys()
        context = None if self._strict else {LENIENT: functools.partial(self._filled, name)}
        words = [(at, each) for at, each in enumerate(parameters(promised)) if each in self.interface.words]

        @functools.wraps(provided)
        async def call(*arguments: Any, **options: Any) -> Any:
            for at, parameter in words:
                self._demand_words(name, arguments[at] if at < len(arguments) else options.get(parameter))
            if absent:
                options = self._without(name, absent, options)
            result = (
                provided(*arguments, **options)
                if asynchronous
                else self._host.blocking(functools.partial(provided, *arguments, **options))
            )
            try:
                return adapter.validate_python(await result, context=context)
            except ValidationError as error:
                wrong = "; ".join(
                    ": ".join(filter(None, [".".join(map(str, e["loc"])), e["msg"]]))
                    for e in error.errors(include_url=False, include_input=False)
                )
                self._raise(ResultViolation, name, f"its result is not what the interface promises: {wrong}")

        return call

    def _demand_words(self, function: str, value: Any) -> None:
        """Raise `ArgumentError` for a text that a command would read as an option, or that no command accepts."""
        for each in [value] if isinstance(value, str) else value or ():
            for text in (each.name, each.version, each.source) if isinstance(each, PkgSpec) else (each,):
                if isinstance(text, str) and text.startswith("-"):
                    why = f"{text!r} begins with '-', so that {self.tool} would read it as an option"
                    raise ArgumentError(f"cannot call {self._name}.{function}: {why}")
                if isinstance(text, str) and "\0" in text:
                    raise ArgumentError(f"cannot call {self._name}.{function}: {text!r} has a NUL character")

    def _without(self, name: str, absent: set[str], options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call for a provider of the version before, which lacks some parameters."""
        promised = parameters(self._promised[name])
        for parameter in absent & options.keys():
            if options[parameter] != promised[parameter].default:
                self._raise(
                    FunctionNotImplemented,
                    name,
                    f"{self.tool} has no parameter {parameter!r}: "
                    f"it was written for version {self.offer.targets} of the interface",
                )
        return {name: value for name, value in options.items() if name not in absent}

    def _filled(self, function: str, field: str) -> None:
        self._host.log.warning(
            "a result lacks a field that the interface promises",
            call=f"{self._name}.{function}",
            provider=self.tool,
            field=field,
        )


def _place() -> str:
    """Return file and line of the caller of the function that calls this one."""
    caller = sys._getframe(2)  # noqa: SLF001 - the fastest way to the place of the call
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"
