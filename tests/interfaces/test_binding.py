"""Calls of virtual modules, for every combination of interface, provider and host."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import StrictBool

from holdfast.resources.errors import DeclarationError
from holdfast.resources.interfaces.base import Interface, Provider, not_applicable, physical, supported
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.errors import (
    FunctionNotFound,
    FunctionNotImplemented,
    FunctionNotSupported,
    InterfaceContradiction,
    ResultViolation,
    SignatureViolation,
)
from holdfast.resources.interfaces.results import ChangeSet, Result

pytestmark = pytest.mark.usefixtures("providers")


class Thing(Result):
    """A small result."""

    name: str
    ready: StrictBool


class Things(Interface, name="things"):
    """An interface with one function of every sort."""

    async def look(self, name: str, deep: bool = False) -> Thing:
        """Return one thing."""
        return Thing(name="", ready=False)

    async def all(self) -> dict[str, Thing]:
        """Return all things."""
        return {}

    @supported(os_family=("Debian", "RedHat"))
    async def hold(self) -> ChangeSet:
        """A function that only some systems support."""
        return ChangeSet()

    @not_applicable(os_family="Windows")
    async def chown(self) -> ChangeSet:
        """A function that does nothing on some systems."""
        return ChangeSet(comment="nothing to do")

    @supported(kernel="Linux")
    @not_applicable(os="Debian")
    async def odd(self) -> ChangeSet:
        """A function that is declared both ways."""
        return ChangeSet()


def make(**functions: Any) -> type[Provider]:
    """Return a provider of things with these functions, and correct functions `look` and `all`."""

    async def look(self, name: str, deep: bool = False) -> Thing:
        return Thing(name=name, ready=deep)

    async def everything(self) -> dict[str, Thing]:
        return {}

    return type(
        "Tool", (Provider,), {"implements": Things, "tool": "tool", "look": look, "all": everything, **functions}
    )


async def act(self: Any) -> ChangeSet:
    """A function of the provider that changes something."""
    return ChangeSet(changes={"it": {"old": None, "new": 1}})


async def test_a_provided_function_runs_and_exists(host):
    """Rows 1 and 12: interface and provider have the function, and its result is returned."""
    bound = Bound(Things, make(chown=act)(host))

    assert (await bound.look("a", deep=True)).ready is True
    assert (await bound.chown()).changes
    assert bound.has("look")
    assert "look" in dir(bound)


@pytest.mark.parametrize(
    ("function", "family", "error", "row"),
    [
        ("look", "Debian", FunctionNotImplemented, "not implemented"),
        ("hold", "Debian", FunctionNotImplemented, "not implemented"),
        ("hold", "Arch", FunctionNotSupported, "not supported"),
        ("chown", "Debian", FunctionNotImplemented, "not implemented"),
    ],
    ids=["undecorated", "supported here", "supported elsewhere", "applicable here"],
)
async def test_a_missing_function_reports_whether_it_is_a_gap(host, function, family, error, row):
    """Rows 2, 5, 6, 10: the interface has the function, and the provider does not."""
    host.facts = {"os_family": family}
    bound = Bound(Things, make(look=None)(host))

    with pytest.raises(error, match=rf"cannot use things\.{function} of tool"):
        getattr(bound, function)()
    assert not bound.has(function)
    assert function not in dir(bound)
    assert {entry.function: entry.row for entry in bound.describe()}[function] == row


async def test_a_function_that_does_not_apply_returns_the_declared_result(host):
    """Row 9: the function can be called, does nothing, and does not count as existing."""
    host.facts = {"os_family": ["windows"]}
    bound = Bound(Things, make()(host))

    assert (await bound.chown()).comment == "nothing to do"
    assert not bound.has("chown")


async def test_a_provided_function_that_does_not_apply_is_a_contradiction(host):
    """Row 11: the provider is refused. If lenient, the declared result is returned, and the provider is not called."""
    host.facts = {"os_family": "Windows"}
    with pytest.raises(InterfaceContradiction, match="does not apply"):
        Bound(Things, make(chown=act)(host))

    bound = Bound(Things, make(chown=act)(host), strict=False)

    assert not (await bound.chown()).changes
    assert not bound.has("chown")


async def test_not_applicable_overrides_supported(host):
    """Row 13: a function that is declared both ways for this host does nothing, with a warning."""
    bound = Bound(Things, make()(host))

    assert await bound.odd() == ChangeSet()
    assert any("both" in str(fields.get("why")) for _, _, fields in host.log.lines)


async def test_a_stale_declaration_is_reported(host):
    """Row 8: a function that the interface declares as impossible runs, with a warning."""
    host.facts = {"os_family": "Arch"}
    bound = Bound(Things, make(hold=act)(host))

    assert (await bound.hold()).changes
    assert any("leaves out" in str(fields.get("why")) for _, _, fields in host.log.lines)


async def test_a_function_outside_the_interface_is_deprecated(host):
    """Row 3: the function runs unchanged, with one warning."""
    bound = Bound(Things, make(extra=act)(host))
    await bound.extra()
    await bound.extra()

    assert bound.has("extra")
    assert [level for level, event, _ in host.log.lines if "deprecated" in event] == ["warning"]


async def test_unknown_and_physical_functions_are_not_found(host):
    """Rows 4 and 19: the error has the nearest name, `hasattr` works, and the provider still has the function."""
    bound = Bound(Things, make(own=physical(act))(host))

    with pytest.raises(
        FunctionNotFound, match=r"cannot call things\.lok: there is no such function, did you mean look\?"
    ):
        _ = bound.lok
    assert not hasattr(bound, "own")
    assert (await bound.provider.own()).changes


WRONG = {
    "another name": "async def look(self, title: str, deep: bool = False) -> Thing: ...",
    "another order": "async def look(self, deep: bool = False, name: str = '') -> Thing: ...",
    "another default": "async def look(self, name: str, deep: bool = True) -> Thing: ...",
    "no default": "async def look(self, name: str, deep: bool) -> Thing: ...",
    "another kind": "async def look(self, name: str, *, deep: bool = False) -> Thing: ...",
    "one more": "async def look(self, name: str, deep: bool = False, more: int = 1) -> Thing: ...",
    "swallows": "async def look(self, *args, **kwargs) -> Thing: ...",
    "another type": "async def look(self, name: bytes, deep: bool = False) -> Thing: ...",
    "another result": "async def look(self, name: str, deep: bool = False) -> dict: ...",
    "unknown type": "async def look(self, name: 'Unheard', deep: bool = False) -> Thing: ...",
}


@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
async def test_a_wrong_signature_is_refused(host, source):
    """Row 17: every call that the interface allows must mean the same. If lenient, the function does not exist."""
    scope = {"Thing": Thing}
    exec(source, scope)
    with pytest.raises(SignatureViolation, match=r"the interface says look\(name: 'str', deep: 'bool' = False\)"):
        Bound(Things, make(look=scope["look"])(host))

    bound = Bound(Things, make(look=scope["look"])(host), strict=False)

    assert not bound.has("look")


async def test_additional_keyword_only_parameters_are_allowed(host):
    """A provider may have options of its own; parameters without annotation are accepted."""

    async def look(self, name, deep=False, *, colour: str = "red") -> Thing:
        return Thing(name=colour, ready=deep)

    bound = Bound(Things, make(look=look)(host))

    assert (await bound.look("a", colour="blue")).name == "blue"


async def test_an_attribute_that_is_not_a_function_does_not_count(host):
    """Row 18: a constant with the right name is not a function."""
    with pytest.raises(FunctionNotImplemented):
        Bound(Things, make(look=42)(host)).look("a")


async def test_a_result_may_be_a_mapping(host):
    """Keys that are not fields of the result go into `extra`."""

    async def everything(self):
        return {"a": {"name": "a", "ready": True, "colour": "red"}}

    bound = Bound(Things, make(all=everything)(host))

    assert await bound.all() == {"a": Thing(name="a", ready=True, extra={"colour": "red"})}


@pytest.mark.parametrize("wrong", [{"a": {"name": "a"}}, {"a": {"name": "a", "ready": "yes"}}, None, ["a"]], ids=repr)
async def test_a_wrong_result_is_a_violation(host, wrong):
    """A missing field, a text instead of a boolean, or None is neither converted nor returned."""

    async def everything(self):
        return wrong

    with pytest.raises(
        ResultViolation, match=r"cannot use things\.all of tool: its result is not what the interface promises"
    ):
        await Bound(Things, make(all=everything)(host)).all()


async def test_a_plain_function_runs_in_a_thread(host):
    """A function of a provider that is not async runs in `blocking` of the host."""

    def look(self, name: str, deep: bool = False) -> Thing:
        return Thing(name=name, ready=True)

    assert (await Bound(Things, make(look=look)(host)).look("a")).ready


def test_an_unknown_grain_is_an_error_at_the_declaration():
    """A misspelt grain in a decorator is refused at once."""
    with pytest.raises(DeclarationError, match="there is no grain 'osfamily', did you mean 'os_family'"):
        supported(osfamily="Debian")


def test_interfaces_and_providers_need_a_name():
    """An interface without a name and a provider without an interface are refused."""
    with pytest.raises(DeclarationError, match="it has no name"):
        type("Nameless", (Interface,), {})
    with pytest.raises(DeclarationError, match="it does not say what it implements"):
        type("Idle", (Provider,), {})


def test_an_interface_inherits_functions():
    """A derived interface has the functions of its base and its own."""

    class More(Things, version=2):
        async def more(self) -> None: ...

    assert {"look", "more"} <= set(More.functions())
    assert (More.module, More.version) == ("things", 2)
