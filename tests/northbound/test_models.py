"""Models: what a class statement promises, what a record accepts, and how it is stored."""

import copy
import json
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from holdfast.agent.northbound import registry as registry_module
from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.ref import OnDelete, Ref
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.values import ANY, MISSING, UNSET
from northbound_models import Machine, Port, Service, Site

RECORDS = Path(__file__).with_name("records")


@pytest.fixture(autouse=True)
def scratch() -> Iterator[None]:
    """Forget the models that a test defines."""
    with registry.scratch():
        yield


class Colour(Enum):
    """An enum that is no text."""

    RED = "red"
    BLUE = "blue"


class Branch(Struct):
    """Embeds its own kind."""

    name: str
    branches: list["Branch"] = []


class Early(Model, table="test-early"):
    """Embeds a class that is defined below."""

    indexes = {"name": "later.name"}
    later: "Later"


class Later(Struct):
    """Defined after it is used."""

    name: str


class Door(Model, table="test-doors", schema=3):
    """Has changed twice."""

    upgrades = {
        1: lambda values: {"id": values["id"], "colours": [values["colour"]]},
        2: lambda values: values | {"width_mm": 900},
    }
    colours: list[str]
    width_mm: int


# -- values that are none ----------------------------------------------------------------------------------------------


def test_the_four_ways_to_have_no_value_are_different() -> None:
    """UNSET, None, MISSING and ANY; none of them is true."""
    values = [UNSET, None, MISSING, ANY]
    assert len(set(values)) == 4
    assert not any(values)


def test_a_record_may_be_built_from_any_of_its_fields() -> None:
    """The others are UNSET, or have their default; `given` tells them apart."""
    record = Service(id="a")
    assert (record.machine, record.ports) == (UNSET, [])
    assert record.given() == {"id"}
    assert Machine(id="a", note=None).given() == {"id", "note"}


def test_unset_is_a_value_that_was_not_given() -> None:
    """In a new record and in a copy, where the default takes its place."""
    assert Service(id="a", state=UNSET) == Service(id="a")
    copied = Machine(id="a", note="x", version=2).replace(note=UNSET)
    assert (copied.note, copied.given()) == (None, {"id", "version"})


def test_a_record_that_lacks_a_required_field_is_not_stored() -> None:
    """The error names all of them, those of embedded models too."""
    record = Service(id="a", ports=[{"protocol": "udp"}])
    with pytest.raises(Invalid, match=r"^Service lacks machine, state, ports\.0\.number$"):
        record.encode()


# -- building ----------------------------------------------------------------------------------------------------------


def test_an_error_names_every_wrong_field_and_no_value() -> None:
    """A value may be secret."""
    with pytest.raises(Invalid) as raised:
        Service(id="a", state=5, ports=[{"number": "secret"}])
    text = str(raised.value)
    assert text.startswith("cannot build Service: ")
    assert "state: " in text
    assert "ports.0.number: " in text
    assert "secret" not in text


def test_an_unknown_field_is_refused() -> None:
    """The error names the fields that there are, also in what is embedded and for a copy."""
    known = "the fields are number, protocol"
    with pytest.raises(Invalid, match=f"there is no field 'numbr'; {known}"):
        Port(numbr=1)
    with pytest.raises(Invalid, match=f"there is no field 'numbr'; {known}"):
        Port(number=1).replace(numbr=2)
    with pytest.raises(Invalid, match=f"ports.0: there is no field 'numbr'; {known}"):
        Service(id="a", ports=[{"numbr": 1}])


def test_nothing_in_a_record_can_change() -> None:
    """Neither fields nor what is in them, at any depth; what was given is not shared."""
    facts: dict[str, Any] = {"disks": [{"name": "sda"}]}
    record = Machine(id="a", facts=facts)
    facts["disks"].append("sdb")
    assert record.facts == {"disks": [{"name": "sda"}]}
    for change in (
        lambda: record.facts.update(a=1),
        lambda: record.facts["disks"].append("sdb"),
        lambda: record.facts["disks"][0].pop("name"),
    ):
        with pytest.raises(TypeError, match="of a record cannot change; build a new record"):
            change()
    with pytest.raises(Exception, match="frozen"):
        record.note = "x"


def test_a_copy_of_a_frozen_value_is_a_plain_one() -> None:
    """`deepcopy` gives something that may be changed."""
    copied = copy.deepcopy(Machine(id="a", facts={"disks": ["sda"]}).facts)
    copied["disks"].append("sdb")
    assert copied == {"disks": ["sda", "sdb"]}


def test_what_a_record_cannot_keep_is_refused() -> None:
    """Numbers that JSON does not have, and models that can change."""

    class Loose(BaseModel):
        pass

    with pytest.raises(Invalid, match="nan cannot be stored: JSON has no such number"):
        Machine(id="a", facts={"load": [float("nan")]})
    with pytest.raises(Invalid, match="Loose can change: embed models that are derived from Struct or are frozen"):
        Machine(id="a", facts={"loose": Loose()})


def test_a_copy_is_validated_as_a_whole() -> None:
    """`replace` and `merged` run the validators of the model, with all fields that are set."""
    with pytest.raises(Invalid, match="cannot build Service: state: "):
        Service(id="a", state="up").replace(state=5)
    merged = Service(id="a", state="up", ports=[{"number": 1}]).merged(Service(id="a", state="down"))
    assert (merged.state, merged.ports[0].number) == ("down", 1)


def test_what_has_changed_tells_true_from_one() -> None:
    """In Python they are equal. 1 and 1.0 are one number."""
    changed = Machine(id="a", facts={"deep": [{"up": True}]}).changed_from(Machine(id="a", facts={"deep": [{"up": 1}]}))
    assert changed == {"facts"}
    assert Machine(id="a", facts={"a": 1.0}).changed_from(Machine(id="a", facts={"a": 1})) == frozenset()


# -- class statements --------------------------------------------------------------------------------------------------


def test_a_name_that_is_taken_is_refused() -> None:
    """The error names both classes."""
    with pytest.raises(Invalid, match=r"cannot define .*Other: the table 'test-sites' is that of .*\.Site"):

        class Other(Model, table="test-sites"):
            pass

    with pytest.raises(Invalid, match=r"the class 'Site' is that of northbound_models\.Site"):
        type(Model)("Site", (Model,), {"__module__": __name__, "__qualname__": "Site"})


def test_a_class_statement_with_a_mistake_is_refused() -> None:
    """An unknown option, a field that hides a method, a bad table, a required `Field`, a missing upgrade."""
    with pytest.raises(TypeError, match="tabel"):
        type(Model)("A1", (Model,), {"__module__": __name__}, tabel="a")
    with pytest.raises(TypeError, match="table"):
        type(Model)("A2", (Struct,), {"__module__": __name__}, table="a")
    with pytest.raises(Invalid, match="cannot define A0: every model has 'index' already, it cannot be a field"):

        class A0(Model):
            index: str

    with pytest.raises(Invalid, match=r"the name of a table is \[a-z\]\[a-z0-9_-\]\*, not 'a/b'"):
        type(Model)("A3", (Model,), {"__module__": __name__}, table="a/b")
    with pytest.raises(Invalid, match=r"cannot define A4: write `n: Annotated\[\.\.\., Field\(\.\.\.\)\]`"):

        class A4(Struct):
            n: int = Field(ge=1)

    with pytest.raises(Invalid, match="cannot define A5: no upgrade from schema version 2"):
        type(Model)("A5", (Model,), {"__module__": __name__, "upgrades": {1: dict}}, table="a5", schema=3)


def test_the_nearest_class_decides_about_an_index() -> None:
    """By the order in which Python looks for methods, also when parents share a parent. Events add up."""

    class Top(Model):
        indexes = {"x": "a", "top": "a"}
        events = ("top",)
        a: str = ""
        b: str = ""

    class Left(Top):
        pass

    class Right(Top):
        indexes = {"x": "b"}
        events = ("right",)

    class Bottom(Left, Right, table="bottom"):
        indexes = {"own": ("a", "b")}

    assert Bottom.indexes == {"x": "b", "top": "a", "own": ("a", "b")}
    assert set(Bottom.events) == {"created", "updated", "deleted", "top", "right"}
    assert set(Top.all_indexes()) == set()


def test_a_model_is_found_by_class_by_class_name_and_by_table() -> None:
    """The error for another name proposes the nearest."""
    assert registry.find(Site) is registry.find("Site") is registry.find("test-sites") is Site
    with pytest.raises(Invalid, match="there is no model or table 'test-site'; did you mean 'test-sites'"):
        registry.find("test-site")


def test_models_are_ordered_by_what_they_refer_to() -> None:
    """Directly or in what they embed."""
    order = registry.in_order()
    assert order.index(Site) < order.index(Machine) < order.index(Service)


def test_references_in_a_cycle_are_refused() -> None:
    """The error names all classes; a reference to the own class is one."""
    one = type(Model)("One", (Model,), {"__module__": __name__, "__annotations__": {"two": Ref["Two"]}}, table="one")
    type(Model)("Two", (Model,), {"__module__": __name__, "__annotations__": {"one": list[Ref[one]]}}, table="two")
    with pytest.raises(Invalid, match="models refer to each other in a cycle: One -> Two -> One"):
        registry.in_order()


def test_a_reference_to_what_is_no_table_is_refused() -> None:
    """Whether it is not defined, or only embedded."""
    type(Model)("Lost", (Model,), {"__module__": __name__, "__annotations__": {"to": Ref["Nobody"]}}, table="lost")
    with pytest.raises(Invalid, match=r"Lost refers to Nobody in to, which is not defined"):
        registry.in_order()
    type(Model)("Nobody", (Model,), {"__module__": __name__})
    with pytest.raises(Invalid, match=r"Lost refers to Nobody in to, which has no table"):
        registry.in_order()


def test_a_model_may_embed_what_is_defined_later() -> None:
    """Its indexes are checked when they are needed first; itself counts, too."""
    record = Early(id="a", later={"name": "x"})
    assert set(Early.index("name").keys(record)) == {("x",)}
    assert Branch(name="a", branches=[{"name": "b"}]).branches[0].name == "b"
    absent = type(Model)("Absent", (Model,), {"__module__": __name__, "__annotations__": {"to": "Nowhere"}}, table="ab")
    with pytest.raises(Invalid, match="Absent embeds Nowhere, which is not defined"):
        absent.all_indexes()


def test_installed_packages_bring_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in one of them names it."""
    points = [EntryPoint("good", "json", "holdfast.models"), EntryPoint("bad", "no_such_module", "holdfast.models")]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points[:1])
    registry.load_extensions()
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)
    with pytest.raises(NorthboundError, match="cannot load the models no_such_module of an unknown package"):
        registry.load_extensions()


# -- references --------------------------------------------------------------------------------------------------------


def test_a_reference_is_made_from_an_id_a_reference_or_a_record() -> None:
    """All three are equal, and stored as the ID."""
    records = [Machine(id="m", site=target) for target in ("s", Ref[Site]("s"), Ref["Site"]("s"), Site(id="s"))]
    assert len({each.site for each in records}) == 1
    assert json.loads(records[0].encode())["site"] == "s"


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (Machine(id="m"), "site: it refers to Site, not to Machine"),
        (Ref[Machine]("m"), "site: it refers to Site, not to Machine"),
        (5, "site: it refers to Site, not to int"),
        ("", "site: an ID of Site is a text of at least one character"),
        (Site(name="x"), "site: this Site has no ID"),
    ],
)
def test_what_is_no_target_of_a_reference_is_refused(target: object, error: str) -> None:
    """The error says what it is."""
    with pytest.raises(Invalid, match=f"^cannot build Machine: {error}$"):
        Machine(id="m", site=target)


def test_a_record_of_a_derived_class_is_no_target() -> None:
    """It stands in a table of its own."""

    class SubSite(Site, table="sub-sites"):
        pass

    with pytest.raises(Invalid, match="it refers to Site, not to SubSite"):
        Machine(id="m", site=SubSite(id="s", name="x"))


def test_a_reference_cannot_change_and_needs_an_api() -> None:
    """A copy of it is the reference itself."""
    ref = Ref[Site]("s")
    with pytest.raises(AttributeError, match="a reference cannot change: cannot set id"):
        ref.id = "t"
    with pytest.raises(NorthboundError, match=r"Ref\[Site\]\('s'\) belongs to no API"):
        ref.peek()
    assert copy.deepcopy(ref) is copy.copy(ref) is ref


def test_a_copy_of_a_record_keeps_the_source_of_its_references() -> None:
    """So they can still be resolved."""

    class Source:
        def peek(self, ref: Ref[Site]) -> str:
            return f"the target {ref.id}"

    record = Machine.decode(Machine(id="m", site="s").encode(), Source())
    assert record.replace(note="x").site.peek() == "the target s"


def test_on_delete_may_stand_anywhere_in_a_type() -> None:
    """Around the field, in an optional type, in a list or a dictionary; the nearest counts."""

    class Refers(Model, table="refers"):
        plain: Ref[Site]
        optional: Annotated[Ref[Site], OnDelete.CASCADE] | None = None
        several: list[Annotated[Ref[Site], OnDelete.DANGLE]] = []
        named: Annotated[dict[str, Ref[Site]], OnDelete.CASCADE] = {}

    assert [(use.path, use.on_delete) for use in Refers.references()] == [
        ("plain", OnDelete.RESTRICT),
        ("optional", OnDelete.CASCADE),
        ("several", OnDelete.DANGLE),
        ("named.*", OnDelete.CASCADE),
    ]


# -- the stored form ---------------------------------------------------------------------------------------------------


def test_fields_that_the_model_does_not_have_are_written_back() -> None:
    """By default, also those of embedded models, and after `replace` and `merged`."""
    data = b'{"$v":1,"id":"a","state":"up","machine":"m","new":{"x":1},"ports":[{"number":1,"extra":[2]}]}'
    record = Service.decode(data)
    for each in (record, record.replace(state="down"), record.merged(Service(id="a", state="down"))):
        stored = json.loads(each.encode())
        assert (stored["new"], stored["ports"][0]["extra"]) == ({"x": 1}, [2])


def test_a_table_may_drop_or_reject_unknown_fields() -> None:
    """Each table decides for itself."""

    class Drops(Model, table="drops", unknown="drop"):
        pass

    class Rejects(Model, table="rejects", unknown="reject"):
        pass

    data = b'{"$v":1,"id":"a","new":1}'
    assert "new" not in json.loads(Drops.decode(data).encode())
    with pytest.raises(Invalid, match="cannot read a record of rejects: the record: there is no field 'new'"):
        Rejects.decode(data)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_record_of_each_schema_version_is_read(version: int) -> None:
    """Older ones are upgraded step by step; each version has a file here, which never changes."""
    stored = (RECORDS / f"test-doors.{version}.json").read_bytes()
    door = Door.decode(stored)
    assert door == Door(id="front", colours=["red"], width_mm=900)
    assert door.encode() == (RECORDS / "test-doors.3.json").read_bytes().strip()
    assert door.newer == 0


def test_a_record_of_a_newer_schema_version_is_written_back_as_such() -> None:
    """It keeps its version and everything that it has, even where unknown fields are dropped."""

    class Dropping(Model, table="dropping", unknown="drop"):
        note: str = ""

    record = Dropping.decode(b'{"$v":4,"id":"a","note":"x","new":1}').replace(note="y")
    assert record.newer == 4
    assert json.loads(record.encode()) == {"$v": 4, "id": "a", "note": "y", "new": 1}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "Expecting value"),
        (b"\xff", "can't decode byte"),
        (b"[]", "it is not a JSON object"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"$v":0,"id":"a"}', "its schema version is 0"),
        (b'{"$v":true,"id":"a"}', "its schema version is True"),
        (b'{"$v":1,"id":"a"}', "the upgrade from schema version 1 fails: KeyError"),
        (b'{"$v":3,"id":"a","colours":5}', "colours: "),
    ],
)
def test_a_stored_form_that_cannot_be_read_is_an_error(data: bytes, error: str) -> None:
    """Of one kind, whatever is wrong, with the reason."""
    with pytest.raises(Invalid, match=f"cannot read a record of test-doors: .*{error}"):
        Door.decode(data)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


class Everything(Model, table="test-everything"):
    """A field of each kind."""

    facts: dict[str, object] = {}
    data: bytes = b""
    colours: set[Colour] = set()
    numbers: dict[int, list[float]] = {}
    pair: tuple[int, str] | None = None
    peers: dict[str, Ref[Site]] = {}
    ports: dict[str, Port | None] = {}


@given(
    facts=st.dictionaries(st.text(), JSON, max_size=3),
    data=st.binary(max_size=9),
    colours=st.sets(st.sampled_from(Colour)),
    numbers=st.dictionaries(st.integers(), st.lists(st.floats(allow_nan=False, allow_infinity=False)), max_size=2),
    pair=st.none() | st.tuples(st.integers(), st.text()),
    peers=st.dictionaries(st.text(), st.text(min_size=1), max_size=2),
    ports=st.dictionaries(st.text(), st.none() | st.builds(Port, number=st.integers()), max_size=2),
)
def test_what_is_read_is_what_was_written(**values: Any) -> None:
    """For values of all kinds."""
    record = Everything(id="a", **values)
    assert Everything.decode(record.encode()) == record
    assert record.changed_from(Everything.decode(record.encode())) == frozenset()
