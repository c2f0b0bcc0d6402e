"""What a call of a virtual module does, for every combination of interface, provider and host."""

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
        """Look at one."""
        return Thing(name="", ready=False)

    async def all(self) -> dict[str, Thing]:
        """Look at all."""
        return {}

    @supported(os_family=("Debian", "RedHat"))
    async def hold(self) -> ChangeSet:
        """Only some systems can."""
        return ChangeSet()

    @not_applicable(os_family="Windows")
    async def chown(self) -> ChangeSet:
        """Some systems have nothing to do."""
        return ChangeSet(comment="nothing to do")

    @supported(kernel="Linux")
    @not_applicable(os="Debian")
    async def odd(self) -> ChangeSet:
        """Declared both ways."""
        return ChangeSet()


def make(**functions: Any) -> type[Provider]:
    """A provider of things with these functions beside a right `look` and `all`."""

    async def look(self, name: str, deep: bool = False) -> Thing:
        return Thing(name=name, ready=deep)

    async def everything(self) -> dict[str, Thing]:
        return {}

    return type(
        "Tool", (Provider,), {"implements": Things, "tool": "tool", "look": look, "all": everything, **functions}
    )


async def act(self: Any) -> ChangeSet:
    """A provider's function that changes something."""
    return ChangeSet(changes={"it": {"old": None, "new": 1}})


async def test_provided_function_runs_and_is_there(host):
    """Rows 1 and 12: both have it, and what it returns comes through."""
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
async def test_missing_function_says_whether_it_is_a_gap(host, function, family, error, row):
    """Rows 2, 5, 6, 10: the interface has it and the provider has not."""
    host.facts = {"os_family": family}
    bound = Bound(Things, make(look=None)(host))

    with pytest.raises(error, match=rf"cannot use things\.{function} of tool"):
        getattr(bound, function)()
    assert not bound.has(function)
    assert function not in dir(bound)
    assert {entry.function: entry.row for entry in bound.describe()}[function] == row


async def test_function_that_does_not_apply_returns_the_declared_result(host):
    """Row 9: it can be called, does nothing, and does not count as there."""
    host.facts = {"os_family": ["windows"]}
    bound = Bound(Things, make()(host))

    assert (await bound.chown()).comment == "nothing to do"
    assert not bound.has("chown")


async def test_providing_what_does_not_apply_is_a_contradiction(host):
    """Row 11: refused; leniently the declared result is given and the provider not called."""
    host.facts = {"os_family": "Windows"}
    with pytest.raises(InterfaceContradiction, match="does not apply"):
        Bound(Things, make(chown=act)(host))

    bound = Bound(Things, make(chown=act)(host), strict=False)

    assert not (await bound.chown()).changes
    assert not bound.has("chown")


async def test_not_applicable_wins_over_supported(host):
    """Row 13: declared both ways for this host, it does nothing, and that is said."""
    bound = Bound(Things, make()(host))

    assert await bound.odd() == ChangeSet()
    assert any("both" in str(fields.get("why")) for _, _, fields in host.log.lines)


async def test_stale_declaration_is_said(host):
    """Row 8: provided where the interface says it cannot be: it runs, and the declaration is called stale."""
    host.facts = {"os_family": "Arch"}
    bound = Bound(Things, make(hold=act)(host))

    assert (await bound.hold()).changes
    assert any("leaves out" in str(fields.get("why")) for _, _, fields in host.log.lines)


async def test_function_outside_the_interface_is_deprecated(host):
    """Row 3: it runs unchanged, and is warned of once."""
    bound = Bound(Things, make(extra=act)(host))
    await bound.extra()
    await bound.extra()

    assert bound.has("extra")
    assert [level for level, event, _ in host.log.lines if "deprecated" in event] == ["warning"]


async def test_unknown_and_physical_functions_are_not_found(host):
    """Rows 4 and 19: with the nearest name; `hasattr` works; the provider itself still has its own."""
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
async def test_wrong_signature_is_refused(host, source):
    """Row 17: whatever call the interface admits must mean the same; leniently the function is not there."""
    scope = {"Thing": Thing}
    exec(source, scope)
    with pytest.raises(SignatureViolation, match=r"the interface says look\(name: 'str', deep: 'bool' = False\)"):
        Bound(Things, make(look=scope["look"])(host))

    bound = Bound(Things, make(look=scope["look"])(host), strict=False)

    assert not bound.has("look")


async def test_keyword_only_extras_are_fine(host):
    """A provider may have options of its own; unannotated parameters are taken at their word."""

    async def look(self, name, deep=False, *, colour: str = "red") -> Thing:
        return Thing(name=colour, ready=deep)

    bound = Bound(Things, make(look=look)(host))

    assert (await bound.look("a", colour="blue")).name == "blue"


async def test_attribute_that_is_no_function_does_not_count(host):
    """Row 18: a constant of the right name is no function."""
    with pytest.raises(FunctionNotImplemented):
        Bound(Things, make(look=42)(host)).look("a")


async def test_result_may_be_a_mapping_and_is_sorted(host):
    """What is no field of the result goes into `extra`."""

    async def everything(self):
        return {"a": {"name": "a", "ready": True, "colour": "red"}}

    bound = Bound(Things, make(all=everything)(host))

    assert await bound.all() == {"a": Thing(name="a", ready=True, extra={"colour": "red"})}


@pytest.mark.parametrize("wrong", [{"a": {"name": "a"}}, {"a": {"name": "a", "ready": "yes"}}, None, ["a"]], ids=repr)
async def test_wrong_result_is_a_violation(host, wrong):
    """A missing field, a text for a truth, nothing at all: never converted, never let through."""

    async def everything(self):
        return wrong

    with pytest.raises(ResultViolation, match=r"cannot use things\.all of tool: it returned something else"):
        await Bound(Things, make(all=everything)(host)).all()


async def test_plain_function_runs_in_a_thread(host):
    """A provider's function that is not async is run by the host's `blocking`."""

    def look(self, name: str, deep: bool = False) -> Thing:
        return Thing(name=name, ready=True)

    assert (await Bound(Things, make(look=look)(host)).look("a")).ready


def test_unknown_grain_is_an_error_when_declared():
    """A slip of the pen in a decorator is found at once."""
    with pytest.raises(DeclarationError, match="there is no grain 'osfamily', did you mean 'os_family'"):
        supported(osfamily="Debian")


def test_interfaces_and_providers_must_say_what_they_are():
    """An interface without a name and a provider without an interface are refused."""
    with pytest.raises(DeclarationError, match="it has no name"):
        type("Nameless", (Interface,), {})
    with pytest.raises(DeclarationError, match="it does not say what it implements"):
        type("Idle", (Provider,), {})


def test_interface_inherits_functions():
    """A child has its parent's functions and its own."""

    class More(Things, version=2):
        async def more(self) -> None: ...

    assert {"look", "more"} <= set(More.functions())
    assert (More.module, More.version) == ("things", 2)
