"""Calls of virtual modules: every row of the table of interface, provider and host, and the checks of a call."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import StrictBool

from holdfast.resources.errors import DeclarationError, Permanent
from holdfast.resources.interfaces import rows
from holdfast.resources.interfaces.base import RESERVED, Interface, not_applicable, replaces, since, supported
from holdfast.resources.interfaces.binding import Bound
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
from holdfast.resources.interfaces.provider import Provider, physical
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec, Result

pytestmark = pytest.mark.usefixtures("providers")


class Thing(Result):
    """A small result."""

    name: str
    ready: StrictBool


class Bigger(Thing):
    """A result with one more field."""

    size: int = 1


class Things(Interface, name="things", version=3):
    """An interface with functions that are declared in every way."""

    async def look(self, name: str, deep: bool = False) -> Thing:
        """Return one thing."""
        return Thing(name="", ready=False)

    @replaces("list_things")
    async def all(self) -> dict[str, Thing]:
        """Return all things."""
        return {}

    async def plain(self) -> ChangeSet:
        """Do nothing; this function has no declarations."""
        return ChangeSet()

    @supported(os_family=("Debian", "RedHat"))
    async def some(self) -> ChangeSet:
        """Do what only some systems support."""
        return ChangeSet()

    @not_applicable(kernel="Windows")
    async def spared(self) -> ChangeSet:
        """Do nothing on some systems."""
        return ChangeSet(comment="nothing to do")

    @supported(os_family=("Debian", "RedHat"))
    @not_applicable(kernel="Windows")
    async def both(self) -> ChangeSet:
        """Do what is declared both ways."""
        return ChangeSet(comment="nothing to do")


def make(**members: Any) -> type[Provider]:
    """Return a provider of things with these members, and correct functions `look` and `all`."""

    async def look(self, name: str, deep: bool = False) -> Thing:
        return Thing(name=name, ready=deep)

    async def everything(self) -> dict[str, Thing]:
        return {}

    known = {"implements": Things, "tool": "tool", "look": look, "all": everything}
    return type("Tool", (Provider,), known | members)


def bind(host: Any, *, strict: bool = True, **members: Any) -> Bound:
    """Return things bound to a provider with these members."""
    make(**members)
    return Bound(Provider.registered[-1], host, strict=strict)


async def act(self: Any) -> ChangeSet:
    """Change something, as a function of the provider."""
    return ChangeSet(changes={"it": {"old": None, "new": 1}})


async def wrong(self: Any, more: int) -> ChangeSet:
    """Take other arguments than the function of the interface."""
    return ChangeSet()


HERE, ELSEWHERE, WINDOWS, BOTH = (
    {"os_family": "Debian", "kernel": "Linux"},
    {"os_family": "Arch", "kernel": "Linux"},
    {"os_family": "Arch", "kernel": "Windows"},
    {"os_family": "Debian", "kernel": "Windows"},
)
RUNS, SMALLEST = "it", "nothing to do"
ROWS = [
    # row, function, grains, member of the provider, what a call does, level of the message when it is bound
    (1, "plain", HERE, act, RUNS, ""),
    (2, "plain", HERE, None, FunctionNotImplemented, "info"),
    (3, "outside", HERE, act, RUNS, ""),
    (4, "nowhere", HERE, None, FunctionNotFound, ""),
    (5, "some", HERE, None, FunctionNotImplemented, "info"),
    (6, "some", ELSEWHERE, None, FunctionNotSupported, ""),
    (7, "some", HERE, act, RUNS, ""),
    (8, "some", ELSEWHERE, act, RUNS, "warning"),
    (9, "spared", WINDOWS, None, SMALLEST, ""),
    (10, "spared", HERE, None, FunctionNotImplemented, "info"),
    (11, "spared", WINDOWS, act, InterfaceContradiction, ""),
    (12, "spared", HERE, act, RUNS, ""),
    (13, "both", BOTH, None, SMALLEST, "error"),
    (14, "both", WINDOWS, None, SMALLEST, ""),
    (15, "both", HERE, None, FunctionNotImplemented, "info"),
    (16, "both", ELSEWHERE, None, FunctionNotSupported, ""),
    (17, "plain", HERE, wrong, SignatureViolation, ""),
    (18, "plain", HERE, 42, FunctionNotImplemented, "info"),
    (19, "outside", HERE, physical(lambda self: None), FunctionNotFound, ""),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"row {row[0]}" for row in ROWS])
async def test_every_row_of_the_table(host, row):
    """A call runs, does nothing or raises. `has`, `dir` and `describe` agree, and the binding logs violations."""
    number, function, facts, member, effect, level = row
    host.facts = facts
    members = {} if member is None else {function: member}

    async def call() -> tuple[Bound, ChangeSet]:
        bound = bind(host, **members)
        bound_level = [at for at, _, fields in host.log.lines if fields.get("call") == f"things.{function}"]
        assert bound_level == ([level] if level else [])
        assert all(fields["why"] for _, event, fields in host.log.lines if "differ" in event)
        entry = {entry.function: entry for entry in bound.describe()}.get(function)
        assert (entry.row.number if entry else 4) == number
        assert bound.has(function) is (function in dir(bound)) is (effect == RUNS)
        return bound, await getattr(bound, function)()

    if isinstance(effect, type):
        with pytest.raises(effect, match=rf"cannot (use|call) things\.{function}"):
            await call()
        assert issubclass(effect, InterfaceError) is (effect is not FunctionNotFound)
        return
    _, result = await call()
    assert (RUNS in result.changes, result.comment) == (effect == RUNS, SMALLEST if effect == SMALLEST else "")
    if effect == SMALLEST:
        assert host.log.lines[-1][0] == "debug"


async def test_a_lenient_binding_goes_on_without_what_violates_the_interface(host):
    """Rows 11 and 17: the smallest result and a warning; an error of a missing function, with both signatures."""
    host.facts = WINDOWS
    bound = bind(host, strict=False, spared=act, plain=wrong)

    assert (await bound.spared()).comment == "nothing to do"
    assert not bound.has("spared")
    with pytest.raises(FunctionNotImplemented, match=r"its own parameter 'more' .* the provider plain\(more: int\)"):
        bound.plain()
    assert [level for level, _, _ in host.log.lines if level != "info"] == ["error", "warning", "debug"]


def test_every_combination_has_exactly_one_row():
    """Each of the 45 combinations of a promised function has a row, and all rows but 3, 4 and 19 are reached."""
    combinations = [
        (have, supports, spares)
        for have in ("function", "nothing", "no function", "other signature", "physical function")
        for supports in rows.ANY
        for spares in rows.ANY
    ]

    reached = {rows.promised(*each).number for each in combinations}

    assert reached == set(range(1, 20)) - {3, 4, 19}
    assert {row.number for row in rows.OUTSIDE.values()} == {3, 4, 19}


async def test_the_error_of_a_missing_function_says_which_grains_decided(host):
    """The reason names the grain, its value here, and the values that would do; the fields are for programs."""
    host.facts = ELSEWHERE

    with pytest.raises(FunctionNotSupported) as refusal:
        bind(host).some()

    assert str(refusal.value) == (
        "cannot use things.some of tool: platforms like this one do not have it "
        "(os_family is Arch, only Debian, RedHat can have it)"
    )
    assert (refusal.value.module, refusal.value.function, refusal.value.provider) == ("things", "some", "tool")
    assert refusal.value.needed == {"os_family": ("Debian", "RedHat")}


async def test_an_unknown_function_has_the_nearest_name_as_a_hint(host):
    """`hasattr` and `getattr` with a default work on a bound interface."""

    async def own(self):
        return "done"

    bound = bind(host, own=physical(own))

    with pytest.raises(
        FunctionNotFound, match=r"cannot call things\.lok: there is no such function; did you mean look"
    ) as refusal:
        _ = bound.lok
    assert refusal.value.hint == "look"
    assert not hasattr(bound, "own")
    assert await bound.provider.own() == "done"


async def test_a_function_outside_the_interface_warns_once_for_each_place_that_calls_it(host):
    """The warning names function, provider, interface, caller and the version that ends it; calls are counted."""
    bound = bind(host, outside=act)
    for _ in range(3):
        await bound.outside()
    await bound.outside()

    warnings = [fields for level, event, fields in host.log.lines if event == "deprecated call"]
    assert len(warnings) == 2
    assert warnings[0]["caller"].startswith(f"{__file__}:")
    assert {**warnings[0], "caller": ""} == {
        "call": "things.outside",
        "provider": "tool",
        "interface": "things version 3",
        "ends_with_version": 4,
        "instead": "it belongs to tool alone",
        "caller": "",
    }
    assert bound.deprecated_calls == {"outside": 4}


async def test_a_former_name_calls_the_function_that_replaces_it(host):
    """It is deprecated, and not listed."""
    bound = bind(host)

    assert await bound.list_things() == {}
    assert host.log.lines[-1][2]["instead"] == "call all"
    assert bound.deprecated_calls == {"list_things": 1}
    assert "list_things" not in dir(bound)


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
    """Every call that the interface allows must mean the same. In a lenient binding, the function does not exist."""
    scope = {"Thing": Thing}
    exec(source, scope)
    with pytest.raises(SignatureViolation, match=r"the interface says look\(name: str, deep: bool = False\)"):
        bind(host, look=scope["look"])

    assert not bind(host, look=scope["look"], strict=False).has("look")


async def test_additional_keyword_only_parameters_are_allowed(host):
    """A provider may have options of its own; parameters without annotation are accepted."""

    async def look(self, name, deep=False, *, colour: str = "red") -> Thing:
        return Thing(name=colour, ready=deep)

    assert (await bind(host, look=look).look("a", colour="blue")).name == "blue"


async def test_a_result_with_more_fields_is_allowed(host):
    """A provider may return a subclass of the promised type."""

    async def look(self, name: str, deep: bool = False) -> Bigger:
        return Bigger(name=name, ready=deep)

    assert (await bind(host, look=look).look("a")).size == 1


@pytest.mark.parametrize("names", ["-rf", ["a", "--root=/"], [PkgSpec(name="a", source="-o")]], ids=str)
async def test_a_text_that_a_tool_would_read_as_an_option_is_refused(host, monkeypatch, names):
    """Arguments by position and by name are checked, if their parameters are words of a command in the interface."""
    monkeypatch.setattr(Things, "words", frozenset({"name"}))
    bound = bind(host)

    for call in (lambda: bound.look(names), lambda: bound.look(name=names)):
        with pytest.raises(ArgumentError, match=r"cannot call things\.look: '-.*' begins with '-', so that tool would"):
            await call()
    assert (await bound.look("a-b")).name == "a-b"


async def test_a_text_that_no_command_can_be_given_is_refused(host, monkeypatch):
    """A NUL character would end the argument."""
    monkeypatch.setattr(Things, "words", frozenset({"name"}))

    with pytest.raises(ArgumentError, match=r"cannot call things\.look: 'a\\x00b' has a NUL character"):
        await bind(host).look(["x", "a\0b"])


async def test_a_result_may_be_a_mapping(host):
    """Keys that are not fields of the result go into `extra`."""

    async def everything(self):
        return {"a": {"name": "a", "ready": True, "colour": "red"}}

    assert await bind(host, all=everything).all() == {"a": Thing(name="a", ready=True, extra={"colour": "red"})}


@pytest.mark.parametrize("wrong", [{"a": {"name": "a"}}, {"a": {"name": "a", "ready": "yes"}}, None, ["a"]], ids=repr)
async def test_a_wrong_result_is_a_violation(host, wrong):
    """A missing field, a text instead of a boolean, and None are errors."""

    async def everything(self):
        return wrong

    with pytest.raises(ResultViolation, match=r"cannot use things\.all of tool: its result is not what"):
        await bind(host, all=everything).all()


@pytest.mark.parametrize(
    ("promised", "good", "wrong"),
    [
        (bool, [True], ["yes", 1]),
        (dict[str, int], [{"a": 1}], [{"a": "1"}, {"a": True}, {"a": 1.0}, {b"a": 1}]),
        (dict[str, str | None], [{"a": "b"}, {"a": None}], [{"a": b"b"}, {"a": 1}]),
        (dict[str, list[str]], [{"a": ["b"]}], [{"a": "b"}, {"a": [1]}]),
        (tuple[str, ...], [("a",)], [(b"a",), "a"]),
        (Literal[-1, 0, 1], [0], ["1", 2]),
    ],
    ids=str,
)
async def test_no_value_of_a_result_is_converted(host, promised, good, wrong):
    """Even a value that looks like the promised type is an error; only a list is accepted as a tuple."""

    async def answer(self: Any) -> Any: ...

    answer.__annotations__["return"] = promised
    answers = type("Answers", (Interface,), {"answer": answer}, name="answers")

    given: list[Any] = []

    async def give(self):
        return given[-1]

    give.__annotations__.clear()
    type("Giver", (Provider,), {"implements": answers, "tool": "giver", "answer": give})
    bound = Bound(Provider.registered[-1], host)
    for value in good:
        given.append(value)
        assert await bound.answer() == value
    for value in wrong:
        given.append(value)
        with pytest.raises(ResultViolation):
            await bound.answer()


async def test_a_lenient_binding_fills_missing_fields_of_a_result(host):
    """A missing field gets the smallest value, with a warning; a value of a wrong type is still a violation."""

    async def everything(self):
        return {"a": {"name": "a"}}

    async def look(self, name: str, deep: bool = False) -> Thing:
        return {"name": "a", "ready": "yes"}

    bound = bind(host, strict=False, all=everything, look=look)

    assert await bound.all() == {"a": Thing(name="a", ready=False)}
    assert host.log.lines[-1][::2] == ("warning", {"call": "things.all", "provider": "tool", "field": "ready"})
    with pytest.raises(ResultViolation):
        await bound.look("a")


async def test_a_plain_function_runs_in_a_thread(host):
    """A function of a provider that is not async runs in `blocking` of the host."""

    def look(self, name: str, deep: bool = False) -> Thing:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return Thing(name=name, ready=True)

    async def blocking(call, /, *args):
        return await asyncio.to_thread(call, *args)

    host.blocking = blocking

    assert (await bind(host, look=look).look("a")).ready


class Later(Interface, name="later", version=2):
    """The second version of an interface."""

    async def old(self) -> int:
        """Return a number, as in the first version."""
        return 0

    @since(2, "deep")
    async def wider(self, name: str, deep: bool = False) -> int:
        """Take one parameter more than in the first version."""
        return 0

    @since(2)
    async def new(self) -> int:
        """Return a number; a function since the second version."""
        return 0


def earlier(targets: int) -> Any:
    """Return a provider of `Later` that was written for the first version."""

    async def old(self) -> int:
        return 1

    async def wider(self, name: str) -> int:
        return 1

    members = {"implements": Later, "tool": f"for{targets}", "targets": targets, "old": old, "wider": wider}
    type("Tool", (Provider,), members)
    return Provider.registered[-1]


async def test_a_provider_for_the_version_before_is_adapted(host):
    """It lacks what the new version has added, and need not take new parameters unless a caller uses them."""
    bound = Bound(earlier(1), host)

    assert (await bound.old(), await bound.wider("a"), await bound.wider("a", deep=False)) == (1, 1, 1)
    with pytest.raises(FunctionNotImplemented, match="has no parameter 'deep': it was written for version 1"):
        await bound.wider("a", deep=True)
    with pytest.raises(FunctionNotImplemented, match=r"lacks it \(for1 was written for version 1 of the interface\)"):
        bound.new()


@pytest.mark.parametrize("targets", [-1, 3])
async def test_a_provider_for_a_distant_version_is_refused(host, targets):
    """A provider is refused if it is older than the version before, or newer than the interface."""
    with pytest.raises(
        VersionViolation, match=rf"written for version {targets} of the interface, which is at version 2"
    ):
        Bound(earlier(targets), host)


async def test_grains_that_change_are_decided_again(host):
    """A function that was not supported becomes supported, and callers find the new one."""
    host.facts = ELSEWHERE
    bound = bind(host, both=act)
    with pytest.raises(FunctionNotSupported):
        bound.some()

    host.facts = HERE
    bound.decide()

    with pytest.raises(FunctionNotImplemented):
        bound.some()


def test_an_unknown_grain_is_an_error_at_the_declaration():
    """A misspelt grain in a decorator is refused at once."""
    with pytest.raises(DeclarationError, match="there is no grain 'osfamily'; did you mean 'os_family'"):
        supported(osfamily="Debian")


def test_a_function_cannot_be_declared_both_ways_for_one_value():
    """`supported` and `not_applicable` that name the same value of a grain are refused at once."""

    @supported(os=("Debian", "Arch"))
    @not_applicable(os="debian")
    async def odd(self) -> None: ...

    with pytest.raises(
        DeclarationError, match=r"declare odd\.odd: both supported and not applicable where os is Debian"
    ):
        type("Odd", (Interface,), {"odd": odd}, name="odd")


@pytest.mark.parametrize("error", [RuntimeError("odd"), SystemExit("odd")])
def test_a_constructor_that_fails_is_an_error_of_the_provider(host, error):
    """The error names the provider for any exception."""

    def init(self: Any, host: Any) -> None:
        raise error

    with pytest.raises(Permanent, match=f"cannot use tool for things: its constructor failed: {type(error).__name__}"):
        bind(host, __init__=init)


def test_interfaces_and_providers_need_a_name():
    """An interface without a name and a provider without an interface are refused."""
    with pytest.raises(DeclarationError, match="it has no name"):
        type("Nameless", (Interface,), {})
    with pytest.raises(DeclarationError, match="it does not say what it implements"):
        type("Idle", (Provider,), {})


def test_functions_cannot_have_the_names_of_what_every_interface_has(host):
    """Callers would get the attribute instead of the function, so the names of `Interface` and `Bound` are reserved."""
    bound = bind(host)
    public = {name for name in {*dir(Interface), *dir(Bound), *vars(bound)} if not name.startswith("_")}

    assert public == RESERVED
    for name in RESERVED:
        with pytest.raises(DeclarationError, match=f"things.{name}: all interfaces have an attribute '{name}'"):
            type("Wrong", (Interface,), {name: less()}, name="things")


def test_an_interface_inherits_functions():
    """A derived interface has the functions of its base and its own."""

    class More(Things, version=2):
        async def more(self) -> None: ...

    assert {"look", "more"} <= set(More.functions())
    assert (More.module, More.version) == ("things", 2)


async def look_less(self, name: str) -> Thing:
    """Look with one parameter less."""
    return Thing(name=name, ready=True)


def less() -> Any:
    """Return a new function without declarations."""

    async def function(self) -> ChangeSet: ...

    return function


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ({"look": look_less}, r"its positional parameters are \(name\), not \(name, deep\)"),
        ({"look": None}, "it is not a function"),
        ({"some": supported(os_family="Debian")(less())}, "fewer platforms support it"),
        ({"plain": supported(os_family="Debian")(less())}, "fewer platforms support it"),
        ({"plain": not_applicable(kernel="Windows")(less())}, "it applies to fewer platforms"),
    ],
    ids=["parameter", "function", "platform", "all platforms", "not applicable"],
)
def test_a_derived_interface_cannot_narrow(member, why):
    """Callers of the base must be able to use the derived interface."""
    with pytest.raises(DeclarationError, match=f"{why}; Things promises more"):
        type("Less", (Things,), member)


def test_a_derived_interface_can_widen():
    """Optional parameters and platforms may be added."""

    async def look(self, name: str, deep: bool = False, *, colour: str = "") -> Thing: ...

    more = supported(os_family=("Debian", "RedHat", "Arch"))(less())
    wide = type("Wide", (Things,), {"look": look, "some": more})

    assert wide.functions()["some"] is more
