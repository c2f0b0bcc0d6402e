"""Arguments of calls: words and JSON become values of the declared types, or an error that names the mistake."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resources.interfaces.arguments import Signature, brief, shown, things
from holdfast.resources.interfaces.base import Interface, Options
from holdfast.resources.interfaces.errors import ArgumentError
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec, Secret, User
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.interfaces.user import UserInterface
from holdfast.resources.secrets import MASK


async def one(  # noqa: PLR0917 - an argument of each type
    name: str,
    number: int = 0,
    half: float | None = None,
    sure: bool = False,
    way: Literal["up", "down"] = "up",
    ages: dict[str, int] | None = None,
    options: Options = None,
) -> ChangeSet:
    """Accept an argument of each simple type."""
    return ChangeSet()


async def many(first: str, names: Sequence[str], deep: bool = False) -> ChangeSet:
    """Accept several values."""
    return ChangeSet()


async def records(pkgs: Sequence[PkgSpec]) -> ChangeSet:
    """Accept records."""
    return ChangeSet()


async def record(pkg: PkgSpec) -> ChangeSet:
    """Accept one record."""
    return ChangeSet()


async def fields(name: str, **more: Any) -> ChangeSet:
    """Accept arguments of any name."""
    return ChangeSet()


async def secret(name: str, value: Secret) -> ChangeSet:
    """Accept a secret argument."""
    return ChangeSet()


async def secrets(name: str, maybe: Secret | None = None, several: Sequence[Secret] = ()) -> ChangeSet:
    """Accept secrets as parts of values."""
    return ChangeSet()


def bound(function: Any, *words: str, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call."""
    return Signature("mod.f", function).bind(words, given)


@pytest.mark.parametrize(
    ("function", "words", "arguments"),
    [
        (one, ["5"], {"name": "5"}),
        (one, ["a", "5", "0.5", "yes"], {"name": "a", "number": 5, "half": 0.5, "sure": True}),
        (one, ["sure=false", "a", "7"], {"name": "a", "number": 7, "sure": False}),
        (one, ["a", "half=null", "way=down"], {"name": "a", "half": None, "way": "down"}),
        (one, ["name=null"], {"name": "null"}),
        (one, ["[a]"], {"name": "[a]"}),
        (one, ["/a=b"], {"name": "/a=b"}),
        (one, ["a", 'ages={"x": 1}'], {"name": "a", "ages": {"x": 1}}),
        (one, ["a", 'options={"no_block": true}'], {"name": "a", "options": {"no_block": True}}),
        (many, ["a", "b", "c"], {"first": "a", "names": ["b", "c"]}),
        (many, ["a", "b", "deep=on", "c"], {"first": "a", "names": ["b", "c"], "deep": True}),
        (many, ["a", "names=b,c"], {"first": "a", "names": ["b", "c"]}),
        (many, ["a", '["b", "c"]', "true"], {"first": "a", "names": ["b", "c"], "deep": True}),
        (many, ["a", "names="], {"first": "a", "names": []}),
        (fields, ["bob", "uid=1000", "home=/srv", 'groups=["a"]'],
         {"name": "bob", "uid": 1000, "home": "/srv", "groups": ["a"]}),
        (records, ["a", '{"name": "b", "version": "1"}'],
         {"pkgs": [PkgSpec(name="a"), PkgSpec(name="b", version="1")]}),
        (records, ['[{"name": "a"}, "b"]'], {"pkgs": [PkgSpec(name="a"), PkgSpec(name="b")]}),
        (record, ["a"], {"pkg": PkgSpec(name="a")}),
    ],
)  # fmt: skip
def test_words_become_values_of_the_declared_types(function: Any, words: list[str], arguments: dict[str, Any]) -> None:
    """The words are given by position and by name."""
    assert bound(function, *words) == arguments


def test_values_from_json_are_checked_as_words_are() -> None:
    """Values from JSON and words may be combined; a text is accepted as a list of one item."""
    assert bound(many, "a", names="b", deep=True) == {"first": "a", "names": ["b"], "deep": True}
    assert bound(records, pkgs=["a", {"name": "b"}]) == {"pkgs": [PkgSpec(name="a"), PkgSpec(name="b")]}
    with pytest.raises(ArgumentError, match="'deep' is wrong: Input should be a valid boolean"):
        bound(many, "a", "b", deep="perhaps")


@pytest.mark.parametrize(
    ("function", "words", "message"),
    [
        (one, [], "cannot call mod.f: it needs 'name'"),
        (one, ["a", "five"], "'number' is wrong: Input should be a valid integer"),
        (one, ["a", "way=left"], "'way' is wrong: Input should be 'up' or 'down'"),
        (one, ["a", "nubmer=5"], "it has no parameter 'nubmer'; did you mean 'number'?"),
        (one, ["a", "name=b"], "'a' is wrong|'number' is wrong"),
        (one, ["name=a", "name=b"], "'name' is given twice"),
        (secret, ["a", "b", "c"], "'c' is one argument too many; its parameters are name, value"),
        (records, ['{"name": "a", "versoin": "1"}'], "'pkgs' has no field 'versoin'; did you mean 'version'?"),
        (records, ['{"version": "1"}'], "'pkgs' is wrong: Field required"),
        (records, ["{broken"], "'pkgs' is wrong"),
        (many, ["a", "names=[b]"], r"'names' begins with \[ or {, but is not valid JSON"),
    ],
)
def test_a_mistake_is_named(function: Any, words: list[str], message: str) -> None:
    """The error suggests the nearest existing name."""
    with pytest.raises(ArgumentError, match=message):
        bound(function, *words)


def test_an_argument_that_is_given_both_ways_is_refused() -> None:
    """An argument may be given as a word or in JSON, but not both."""
    with pytest.raises(ArgumentError, match="'name' is given twice"):
        bound(one, "name=a", name="b")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["name", "names", "pkgs", "pkg", "number", "ages", "first", "deep"])
WORDS = st.text(max_size=12) | st.builds("{}={}".format, NAMES, st.text(max_size=12)) | JSON_VALUES.map(json.dumps)


@given(st.sampled_from([one, many, records, record, fields]), st.lists(WORDS), st.dictionaries(NAMES, JSON_VALUES))
def test_any_arguments_are_bound_or_refused(function: Any, words: list[str], values: dict[str, Any]) -> None:
    """The only exception is `ArgumentError`."""
    with contextlib.suppress(ArgumentError):
        Signature("mod.f", function).bind(words, values)


def test_secret_parameters_are_known() -> None:
    """The interface marks secret parameters."""
    assert Signature("mod.f", secret).secret == {"value"}
    assert Signature("user.set_password", UserInterface.set_password).secret == {"value"}
    assert Signature("user.list", UserInterface.list).secret == frozenset()
    assert Signature("mod.f", secrets).secret == {"maybe", "several"}


def test_secret_fields_of_results_are_masked() -> None:
    """They are masked at any depth of the result; an absent secret stays absent."""
    user = User(name="bob", uid=7, password="$6$hash", extra={"shell_history": ["ls"]})

    assert shown({"bob": [user]})["bob"][0]["password"] == MASK
    assert shown(user.model_copy(update={"password": None}))["password"] is None
    assert shown(user)["extra"] == {"shell_history": ["ls"]}
    assert "extra" not in shown(User(name="bob", uid=7))


def test_the_log_shows_arguments_briefly() -> None:
    """Arguments with default values are left out."""
    assert brief([PkgSpec(name="a"), PkgSpec(name="b", version="1")]) == ["a", {"name": "b", "version": "1"}]


@pytest.mark.parametrize(
    ("interface", "tool", "arguments", "uids"),
    [
        (PkgInterface, None, {"pkgs": [PkgSpec(name="a"), PkgSpec(name="b")]}, {("pkg", "a"), ("pkg", "b")}),
        (PkgInterface, None, {"names": ["a"], "purge": True}, {("pkg", "a")}),
        (PkgInterface, None, {"names": []}, {("pkg", "*")}),
        (PkgInterface, None, {}, {("pkg", "*")}),
        (ServiceInterface, None, {"name": "ssh"}, {("unit", "ssh"), ("unit", "ssh.service")}),
        (UserInterface, None, {"name": "a", "new_name": "b"}, {("user", "a"), ("user", "b")}),
        (GroupInterface, None, {"name": "a", "users": ["b"]}, {("group", "a")}),
        (PkgInterface, "pip", {"names": ["a"]}, {("pip", "a")}),
    ],
)
def test_the_arguments_name_what_a_call_changes(
    interface: type[Interface], tool: str | None, arguments: dict[str, Any], uids: set[tuple[str, str]]
) -> None:
    """The result has the uids of the resources that manage these things.

    Without names, it is everything of the kind.
    """
    assert things(interface, tool, arguments) == uids
