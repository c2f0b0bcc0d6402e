"""The providers of a host's interfaces are bound once, and chosen again when grains change."""

from __future__ import annotations

import types
from typing import Any

import pytest

from holdfast.agent.host.host import LocalHost
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces import registry
from holdfast.resources.interfaces.base import Interface, supported
from holdfast.resources.interfaces.errors import FunctionNotSupported
from holdfast.resources.interfaces.provider import Confine, Offer, Provider, register_module


class Pots(Interface, name="pots"):
    """An interface with a function that one system lacks."""

    async def wash(self) -> int:
        """Wash all pots."""
        return 0

    @supported(os="Debian")
    async def polish(self) -> int:
        """Polish all pots."""
        return 0


class Brushes(Interface, name="brushes", chosen_by_name=True):
    """An interface whose provider each caller names."""

    async def colour(self) -> str:
        """Return the colour."""
        return ""


@pytest.fixture(autouse=True)
def providers(monkeypatch: pytest.MonkeyPatch) -> list[Offer]:
    """Declare providers, and forget them at the end."""
    for name in registry.names():
        registry.offers(registry.demand(name))
    declared: list[Offer] = []
    monkeypatch.setattr(Provider, "registered", declared)

    async def wash(self: Any) -> int:
        return 1

    for tool, system in (("steel", "Debian"), ("copper", "Arch")):
        members = {"implements": Pots, "tool": tool, "confine": Confine(grains={"os": (system, "Any")}), "wash": wash}
        type(tool.title(), (Provider,), members)

    for tool in ("red", "blue"):

        async def colour(self: Any) -> str:
            return str(self.tool)

        type(tool.title(), (Provider,), {"implements": Brushes, "tool": tool, "colour": colour})
    return declared


@pytest.fixture
def host(tmp_path):
    """Return a Debian host."""
    return LocalHost(states=tmp_path, var_dir=tmp_path, facts={"os": "Debian"})


def changed(host: LocalHost, **grains: Any) -> set[str]:
    """Change the grains. Returns the resources that are notified."""
    return {identity for identity in host.update(facts=grains) if not identity.startswith("interface[")}


async def test_an_interface_is_bound_once(host):
    """All resources share the provider."""
    assert host.context("a").interface(Pots) is host.context("b").interface(Pots)
    assert [bound.tool for bound in host.interfaces] == ["steel"]


async def test_users_are_notified_when_grains_change_the_provider(host):
    """The next use binds the provider that fits now. Other resources are not notified."""
    ctx = host.context("a")
    host.context("b")
    ctx.interface(Pots)

    assert changed(host, os="Arch") == {"a"}
    assert ctx.interface(Pots).describe() == host.interfaces.get(Pots).describe()
    assert [bound.tool for bound in host.interfaces] == ["copper"]


async def test_deprecated_calls_are_counted_across_bindings(host, providers):
    """They are counted by module and function. If each caller names the provider, the module is the tool."""

    async def scour(self: Any) -> int:
        return 1

    for offer in providers:
        offer.source.scour = scour
    for system in ("Debian", "Arch"):
        changed(host, os=system)
        await host.interfaces.get(Pots).scour()
    await host.interfaces.get(Brushes, "red").scour()

    assert host.interfaces.deprecated_calls() == {("pots", "scour"): 2, ("red", "scour"): 1}


@pytest.mark.parametrize(("interface", "tool"), [(Pots, None), (Brushes, "red")], ids=["chosen", "named"])
async def test_a_provider_that_is_declared_again_replaces_the_one_before(host, providers, interface, tool):
    """An edit of the operator's file declares it again, without a change of grains. Users are notified once."""
    host.context("a").interface(interface, tool)
    host.update()
    old = next(iter(host.interfaces))

    async def wash(self: Any) -> int:
        return 2

    async def colour(self: Any) -> str:
        return "crimson"

    members = {"implements": interface, "tool": old.tool, "wash": wash, "colour": colour}
    type("Edited", (Provider,), members)

    assert host.update() == {"a"}
    assert host.update() == set()
    new = host.context("a").interface(interface, tool)
    assert await (new.wash() if tool is None else new.colour()) == (2 if tool is None else "crimson")


async def test_a_lenient_host_keeps_a_module_that_declares_no_interface(tmp_path, providers):
    """It is chosen by the same rule when grains change, so its users are not notified."""
    providers.clear()
    module = types.ModuleType("tin")
    exec("__virtualname__ = 'pots'\nasync def wash() -> int: return 3\n", module.__dict__)
    register_module(module, lambda _: Pots)
    host = LocalHost(states=tmp_path, var_dir=tmp_path, facts={"os": "Debian"}, strict=False)
    host.context("a").interface(Pots)

    assert changed(host, os="Debian", ipv4=[]) == set()


async def test_users_are_notified_when_grains_change_a_function(host, providers):
    """The provider stays the same object; a function that was a gap is now not supported."""
    del providers[1]
    pots = host.context("a").interface(Pots)
    provider = pots.provider

    assert changed(host, os="Any") == {"a"}
    with pytest.raises(FunctionNotSupported):
        await pots.polish()
    assert host.context("a").interface(Pots).provider is provider


async def test_no_user_is_notified_of_grains_that_decide_nothing(host):
    """A new address concerns no provider."""
    host.context("a").interface(Pots)

    assert changed(host, os="Debian", ipv4=["10.0.0.1"]) == set()


async def test_a_provider_that_no_longer_fits_is_an_error_at_the_next_use(host):
    """The error has the reasons. Users of the provider are notified at the change."""
    ctx = host.context("a")
    ctx.interface(Pots)

    assert changed(host, os="Plan9") == {"a"}
    with pytest.raises(Permanent, match=r"cannot manage pots: .*copper: os is Plan9, not Arch or Any"):
        ctx.interface(Pots)


async def test_removed_resources_are_not_notified(host):
    """Their use of the interface is forgotten."""
    host.context("a").interface(Pots)
    host.forget_all_but([])

    assert changed(host, os="Arch") == set()


async def test_a_caller_names_the_tool_of_an_interface_that_is_chosen_by_name(host):
    """Two tools of one interface are in use side by side; another name is an error."""
    ctx = host.context("a")

    assert [await ctx.interface(Brushes, tool).colour() for tool in ("red", "blue")] == ["red", "blue"]
    for tool in (None, "green"):
        with pytest.raises(Permanent, match=f"cannot bind brushes to {tool}: .* available: blue, red"):
            ctx.interface(Brushes, tool)
