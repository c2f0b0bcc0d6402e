"""The virtual modules of this host, each bound to its provider when it is first used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.resources.context import I
from holdfast.resources.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.resources.interfaces.base import Interface
    from holdfast.resources.interfaces.binding import Bound
    from holdfast.resources.interfaces.host import ProviderHost

Key = tuple[str, str | None]
"""Virtual module, and the tool that the caller named."""


class Interfaces:
    """Binds interfaces, and decides again when grains have changed.

    `context` returns the services for a provider, given a name for its log lines. `overrides` is the operator's choice
    of tools, by virtual module; `strict` says whether a provider that violates its interface is refused.
    """

    def __init__(
        self, context: Callable[[str], ProviderHost], overrides: Mapping[str, str], *, strict: bool = True
    ) -> None:
        self._context, self._overrides, self._strict = context, overrides, strict
        self._bound: dict[Key, Bound] = {}
        self._deprecated_calls: Counter[tuple[str, str]] = Counter()
        """Deprecated calls through bindings that were replaced, by module and function."""
        self._users: dict[str, set[Key]] = {}
        """Identity of a resource -> the interfaces that it uses."""

    def get(self, interface: type[I], tool: str | None = None, *, identity: str = "") -> I:
        """Return the functions of an interface on this host, for the resource `identity`.

        Raises `Permanent` if no provider fits, and `InterfaceError` if the one that fits violates the interface.
        """
        key: Key = (interface.module, tool)  # type: ignore[attr-defined]
        if identity:
            self._users.setdefault(identity, set()).add(key)
        if key not in self._bound:
            from holdfast.resources.interfaces.registry import bind  # noqa: PLC0415 - few states use one

            host, override = self._context(f"interface[{tool or key[0]}]"), self._overrides.get(key[0])
            wanted: Any = interface
            self._bound[key] = bind(wanted, host, override, tool=tool, strict=self._strict)
        found: Any = self._bound[key]
        return found  # type: ignore[no-any-return]

    def deprecated_calls(self) -> Counter[tuple[str, str]]:
        """Return the number of deprecated calls so far, by module and function."""
        found = Counter(self._deprecated_calls)
        for bound in self:
            found.update(_deprecated(bound))
        return found

    def __iter__(self) -> Iterator[Bound]:
        """Yield all bound interfaces."""
        return iter(self._bound.values())

    def grains_changed(self) -> set[str]:
        """Decide again; return the identities of the resources for which a provider or a function has changed."""
        different = {key for key in list(self._bound) if self._decide(key)}
        return {identity for identity, keys in self._users.items() if keys & different}

    def _decide(self, key: Key) -> bool:
        """Decide one interface again; return whether its provider or a function has changed."""
        from holdfast.resources.interfaces.registry import choose  # noqa: PLC0415 - as above

        bound, before = self._bound[key], self._bound[key].describe()
        interface: type[Interface] = bound.interface
        try:
            if not interface.chosen_by_name:
                offer = choose(interface, self._context(f"interface[{key[0]}]"), self._overrides.get(key[0])).offer
                if offer is None or offer.tool != bound.tool:
                    self._unbind(key)
                    return True
            bound.decide()
        except HoldfastError:  # the next call of `get` raises the error
            self._unbind(key)
            return True
        return bound.describe() != before

    def _unbind(self, key: Key) -> None:
        """Remove a binding; the next call of `get` binds the interface again."""
        bound = self._bound.pop(key)
        self._deprecated_calls.update(_deprecated(bound))

    def forget_all_but(self, identities: Collection[str]) -> None:
        """Forget which interfaces all other resources use."""
        for gone in self._users.keys() - identities:
            del self._users[gone]


def _deprecated(bound: Bound) -> dict[tuple[str, str], int]:
    """Return the number of deprecated calls through one binding."""
    module = bound.tool if bound.interface.chosen_by_name else bound.interface.module
    return {(module, function): number for function, number in bound.deprecated_calls.items()}
