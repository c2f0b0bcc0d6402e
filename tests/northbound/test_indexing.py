"""Indexes: which keys a record has, what a query matches, and which paths are refused."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from ipaddress import IPv4Address
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.indexing import Index, scalar
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored
from holdfast.agent.northbound.store.copying import CopyingStore
from holdfast.agent.northbound.store.indexed import IndexedStore
from holdfast.agent.northbound.values import ANY, MISSING
from northbound_models import Machine, Site


@pytest.fixture(autouse=True)
def scratch() -> Iterator[None]:
    """Forget the models that a test defines."""
    with registry.scratch():
        yield


class Computed(Enum):
    """An enum that is no text."""

    OK = "ok"
    FAILED = "failed"


class Address(Struct):
    """Embedded in a `Card`."""

    text: str | None
    peer: Ref[Site] | None = None
    index: int = 0


class Card(Struct):
    """Embedded in a `Server`."""

    mac: str
    network: str = ""
    addresses: list[Address | None] = []


class Server(Model, table="test-servers"):
    """Has a value of each shape."""

    result: Computed | None = None
    since: datetime | None = None
    ip: IPv4Address | None = None
    card: Card | None = None
    cards: list[Card] = []
    named: dict[str, Card] = {}
    tags: set[str] = set()
    grid: list[list[int]] = []
    numbers: dict[int, str] = {}
    facts: dict[str, object] = {}
    peers: dict[str, Ref[Site]] = {}
    several: list[Ref[Site]] = []
    bare: dict = {}


def keys(record: Server, *paths: str) -> set[tuple[Any, ...]]:
    """Return the keys of a record in an index of these paths."""
    return set(Index(Server, "tested", paths).keys(record))


# -- paths -------------------------------------------------------------------------------------------------------------


def test_none_a_missing_value_and_a_text_are_different_keys() -> None:
    """None is a value; an absent field or an empty list has none."""
    assert keys(Server(id="a", card=None), "card.mac") == {(MISSING,)}
    assert keys(Server(id="a", result=None), "result") == {(None,)}
    assert keys(Server(id="a", cards=[]), "cards.mac") == {(MISSING,)}
    assert keys(Server(id="a", cards=[{"network": "n"}]), "cards.mac") == {(MISSING,)}
    assert keys(Server(id="a", card={"addresses": [None, {"text": None}]}), "card.addresses.text") == {
        (MISSING,),
        (None,),
    }


def test_a_list_a_set_and_a_dictionary_have_a_key_for_each_value() -> None:
    """Lists in lists, too."""
    record = Server(id="a", tags={"x", "y"}, grid=[[1, 2], [], [3]], numbers={1: "one", 2: "two"})
    assert keys(record, "tags") == {("x",), ("y",)}
    assert keys(record, "grid") == {(1,), (2,), (3,)}
    assert keys(record, "numbers") == keys(record, "numbers.*") == {("one",), ("two",)}


def test_paths_through_one_list_belong_together() -> None:
    """The network is that of the same card; paths through different lists are combined."""
    cards = [{"mac": "1", "network": "a"}, {"mac": "2", "network": "b"}]
    assert keys(Server(id="s", cards=cards), "cards.mac", "cards.network") == {("1", "a"), ("2", "b")}
    record = Server(id="s", cards=cards, tags={"x", "y"})
    assert keys(record, "tags", "cards.mac") == {("x", "1"), ("x", "2"), ("y", "1"), ("y", "2")}


def test_paths_through_the_values_of_one_dictionary_belong_together() -> None:
    """A name in the path stands for one value, `*` for each."""
    record = Server(id="s", named={"left": {"mac": "1", "network": "a"}, "right": {"mac": "2", "network": "b"}})
    assert keys(record, "named.*.mac", "named.*.network") == {("1", "a"), ("2", "b")}
    assert keys(record, "named.left.mac", "named.*.network") == {("1", "a"), ("1", "b")}
    assert keys(record, "named.top.mac") == {(MISSING,)}


def test_a_reference_stands_for_the_id_of_its_target() -> None:
    """Alone, in lists and in dictionaries, with and without `id`."""
    record = Server(id="s", peers={"left": "a", "right": "b"}, several=["c", "c"])
    assert keys(record, "peers") == keys(record, "peers.*.id") == {("a",), ("b",)}
    assert keys(record, "peers.left.id") == {("a",)}
    assert keys(record, "several.id") == keys(record, "several") == {("c",)}


def test_what_only_looks_like_a_field_is_no_value() -> None:
    """A method of a text that stands where the path expects a dictionary."""
    assert keys(Server(id="s", facts={"os": "debian"}), "facts.os.title") == {(MISSING,)}
    assert keys(Server(id="s", facts={"os": {"title": ["x", {"deep": 1}]}}), "facts.os.title") == {("x",), (1,)}


def test_values_have_their_stored_form() -> None:
    """A query may have the value or what is stored of it."""
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    record = Server(id="s", result=Computed.OK, ip="10.0.0.1", since=at)
    assert keys(record, "result", "ip", "since") == {("ok", "10.0.0.1", "2026-11-23T12:00:00Z")}
    index = Index(Server, "tested", ("result", "ip"))
    assert index.query({"result": Computed.OK, "ip": IPv4Address("10.0.0.1")}) == [("ok",), ("10.0.0.1",)]


def test_different_values_are_different_keys() -> None:
    """True is not 1, and a text is not a number; 1 and 1.0 are one number. What cannot be a key is refused."""
    assert len({scalar(each) for each in (True, 1, "1", None, MISSING, 0, False, "")}) == 8
    assert scalar(1) == scalar(1.0)
    assert scalar({"b": 1, "a": [2]}) == scalar({"a": [2], "b": 1})
    with pytest.raises(Invalid, match="a record cannot have the value of a object, so no index has it"):
        scalar(object())


@pytest.mark.parametrize(
    ("paths", "error"),
    [
        ("cardz.mac", r"index 'tested', path 'cardz\.mac': Server has no 'cardz'"),
        ("cards.mack", r"path 'cards\.mack': Server\.cards has no 'mack'"),
        ("result.value", r"Server\.result has no 'value'"),
        ("numbers.1", r"Server\.numbers has no '1'"),
        ("several.name", r"Server\.several is a reference, which has no value besides `id`"),
        ("card", r"Server\.card is embedded; name one of its fields"),
        ("cards", r"Server\.cards is embedded"),
        ("named", r"Server\.named is embedded"),
        ("", r"Server has no ''"),
        (("tags", "tags"), "index 'tested': the names of its parts are tags, tags"),
        ((), "the names of its parts are none"),
        ("card.addresses.index", "the names of its parts are index"),
    ],
)
def test_a_path_that_leads_to_no_value_is_refused(paths: Any, error: str) -> None:
    """When the class is defined; the error says how far the path leads."""
    with pytest.raises(Invalid, match=f"^cannot define Server, .*{error}"):
        Index(Server, "tested", paths)


def test_a_class_statement_with_a_wrong_path_registers_nothing() -> None:
    """The name and the table are still free."""
    with pytest.raises(Invalid, match="path 'colour': Wrong has no 'colour'"):

        class Wrong(Model, table="wrong"):
            indexes = {"colour": "colour"}

    assert "wrong" not in registry.tables()


# -- queries -----------------------------------------------------------------------------------------------------------


def test_parts_have_the_last_name_of_their_path() -> None:
    """The whole path if two end alike; a single part has the name of its index as well."""
    assert Index(Server, "i", ("card.mac", "named.*.mac", "ip")).parts == ("card_mac", "named_mac", "ip")
    assert Index(Server, "i", "card.mac").query({"i": "x"}) == Index(Server, "i", "card.mac").query({"mac": "x"})


def test_a_set_matches_each_of_its_values_and_any_matches_all() -> None:
    """As a part that is not given does."""
    index = Index(Server, "i", ("ip", "result", "tags"))
    (ip, result, tags) = index.query({"ip": {"a", "b"}, "result": ANY})
    assert (set(ip), result, tags) == ({"a", "b"}, ANY, ANY)


# -- all indexes against a search --------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["x", "y", 1.0, 0.5])
FACTS = st.dictionaries(
    st.sampled_from(["os", "cpu"]),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner)),
    max_size=2,
)
ADDRESSES = st.lists(
    st.none() | st.builds(Address, text=st.sampled_from([None, "1", "2"]), peer=st.sampled_from([None, "s", "t"])),
    max_size=2,
)
CARDS = st.builds(Card, mac=st.sampled_from("xy"), network=st.sampled_from("ab"), addresses=ADDRESSES)
SERVERS = st.builds(
    lambda **values: Server(id="s", **values),
    result=st.none() | st.sampled_from(Computed),
    card=st.none() | CARDS,
    cards=st.lists(CARDS, max_size=3),
    named=st.dictionaries(st.sampled_from("lr"), CARDS, max_size=2),
    tags=st.sets(st.sampled_from("tuv")),
    facts=FACTS,
    several=st.lists(st.sampled_from("st"), max_size=2),
)
PATHS = (
    "result", "card.mac", "cards.mac", "cards.network", "cards.addresses.text", "cards.addresses.peer",
    "named.*.mac", "named.*.addresses.text", "named.l.network", "tags", "facts.os", "facts.cpu.a", "several",
)  # fmt: skip


def elements(value: Any) -> list[Any]:
    """Return what stands at a place: the value or, of lists, what is in them and is no list."""
    return flat([value]) or [MISSING]


def flat(values: Iterable[Any]) -> list[Any]:
    """Return the elements of lists in lists."""
    return [end for each in values for end in (flat(each) if isinstance(each, (list, set, tuple)) else [each])]


def found(value: Any, paths: dict[int, list[str]]) -> list[dict[int, Any]]:
    """Return the keys by the definition: for each element the combinations of what its continuations have."""
    rows: list[dict[int, Any]] = []
    for element in elements(value):
        ends = {number: ends_of(element) for number, path in paths.items() if not path}
        choices = [[dict.fromkeys(ends, each) for each in values] for values in list(ends.values())[:1]]
        for name in dict.fromkeys(path[0] for path in paths.values() if path):
            rest = {number: path[1:] for number, path in paths.items() if path and path[0] == name}
            choices.append([row for each in steps(element, name) for row in found(each, rest)])
        rows += [{key: each for part in chosen for key, each in part.items()} for chosen in product(*choices)]
    return rows


def steps(value: Any, name: str) -> list[Any]:
    """Return what a name leads to."""
    if isinstance(value, dict):
        return flat(value.values()) or [MISSING] if name == "*" else [value.get(name, MISSING)]
    return [vars(value)[name]] if isinstance(value, Struct) else [MISSING]


def ends_of(value: Any) -> list[Any]:
    """Return the values of a path that ends."""
    if isinstance(value, dict):
        inner = [end for each in value.values() if each != [] for end in leaves(each)]
        return inner or [MISSING]
    return [scalar(value)]


def leaves(value: Any) -> list[Any]:
    """Return all values in a value; an empty list or dictionary has none."""
    if isinstance(value, (list, dict)):
        return [end for each in (value.values() if isinstance(value, dict) else value) for end in leaves(each)]
    return [scalar(value)]


@given(server=SERVERS, paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True))
def test_the_keys_are_those_of_the_definition(server: Server, paths: list[str]) -> None:
    """For random nested records and correlated paths."""
    wanted = found(server, {number: path.split(".") for number, path in enumerate(paths)})
    index = Index(Server, "tested", tuple(paths))
    assert set(index.keys(server)) == {tuple(row[number] for number in range(len(paths))) for row in wanted}


@pytest.mark.parametrize("make", [CopyingStore, IndexedStore])
def test_several_values_find_each_record_once(make: type[DbStore]) -> None:
    """Also one that several of them match."""
    store = make()
    records = [Machine(id="a", facts={"os": ["x", "y"]}), Machine(id="b", facts={"os": "y"}), Machine(id="c")]
    store.apply(1, [StoreChange(Machine, each.id, Stored(each, 1, 1)) for each in records])
    assert list(store.view.keys(Machine, "os", os={"x", "y"})) == ["a", "b"]
    assert list(store.view.keys(Machine, "os", os={"x", MISSING})) == ["a", "c"]
    assert list(store.view.keys(Machine, "os", os=set())) == []
    assert list(store.view.keys(Machine, "os")) == ["a", "b", "c"]
    assert store.view.has(Machine, "a")
    assert not store.view.has(Machine, "d")
