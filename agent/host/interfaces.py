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
    from holdfast.resources.interfaces.provider import Offer

Key = tuple[str, str | None]
"""Virtual module, and the tool that the caller named."""


class Interfaces:
    """Binds interfaces, and decides again when grains or the declared providers have changed.

    `context` returns the services for a provider, given a name for its log lines. `overrides` is the operator's choice
    of tools, by virtual module; `strict` says whether a provider that violates its interface is refused.
    """

    def __init__(
        self, context: Callable[[str], ProviderHost], overrides: Mapping[str, str], *, strict: bool = True
    ) -> None:
        self._context, self._overrides, self._strict = context, overrides, strict
        self._bound: dict[Key, Bound] = {}
        self._decided_for: list[Offer] = []
        """The declared providers of the last decision."""
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

    def decide(self, *, grains_changed: bool) -> set[str]:
        """Decide again if grains or the declared providers have changed.

        Returns the identities of the resources for which a provider or a function has changed. When a file of the
        operator is read again, its providers are declared again.
        """
        if not self._bound:
            return set()
        declared = self._declared()
        if not grains_changed and declared == self._decided_for:
            return set()
        self._decided_for = declared
        different = {key for key in list(self._bound) if self._decide(key)}
        return {identity for identity, keys in self._users.items() if keys & different}

    @staticmethod
    def _declared() -> list[Offer]:
        from holdfast.resources.interfaces.provider import Provider  # noqa: PLC0415 - few states use one

        return list(Provider.registered)

    def _decide(self, key: Key) -> bool:
        """Decide one interface again; return whether its provider or a function has changed."""
        bound, before = self._bound[key], self._bound[key].describe()
        try:
            if self._chosen(key, bound.interface) is not bound.offer:
                self._unbind(key)
                return True
            bound.decide()
        except HoldfastError:  # the next call of `get` raises the error
            self._unbind(key)
            return True
        return bound.describe() != before

    def _chosen(self, key: Key, interface: type[Interface]) -> Offer | None:
        """Return the provider that fits now. Raises `Permanent`."""
        from holdfast.resources.interfaces.registry import choose, offers  # noqa: PLC0415 - few states use one

        module, tool = key
        if interface.chosen_by_name:
            return offers(interface).get(tool or "")
        host, override = self._context(f"interface[{module}]"), self._overrides.get(module)
        return choose(interface, host, override, strict=self._strict).offer

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
