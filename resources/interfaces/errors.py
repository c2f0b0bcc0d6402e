"""Errors between a caller, an interface and a provider."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.resources.errors import Permanent


class InterfaceError(Permanent):
    """A function of a virtual module is missing on this host, or violates its interface.

    `module` is the virtual name, `function` the function, and `provider` the tool that serves it here. `needed` has the
    grains that decided: grain -> the values that it may have.
    """

    def __init__(
        self,
        message: str,
        *,
        module: str,
        function: str,
        provider: str,
        needed: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(message)
        self.module = module
        self.function = function
        self.provider = provider
        self.needed = dict(needed or {})


class FunctionNotImplemented(InterfaceError):
    """The interface promises the function but the provider lacks it: a gap."""


class FunctionNotSupported(InterfaceError):
    """The interface says that the function does not exist on platforms like this one."""


class ResultViolation(InterfaceError):
    """The provider returned another type than the interface promises."""


class SignatureViolation(InterfaceError):
    """The provider's function cannot be called as the interface says."""


class VersionViolation(InterfaceError):
    """The provider was written for another version of the interface, older than the one before or newer."""


class InterfaceContradiction(InterfaceError):
    """Interface and provider, or two declarations of the interface, contradict each other."""


class ArgumentError(Permanent):
    """A call has arguments that the function does not take."""


class FunctionNotFound(Permanent, AttributeError):
    """Neither the interface nor the provider has a function of this name.

    An `AttributeError`, so that `hasattr` and `getattr` with a default work on a bound interface. `hint` is the most
    similar name; empty if none is similar.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
