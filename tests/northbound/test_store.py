"""The cache: the same answers from both stores, for the present and for older views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, StoreView
from holdfast.agent.northbound.store.copying import CopyingStore
from holdfast.agent.northbound.store.indexed import IndexedStore
from holdfast.agent.northbound.values import ANY, MISSING
from northbound_models import Container, Machine, Part, Port, Service, Site

STORES = (CopyingStore, IndexedStore)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> DbStore:
    """An empty store."""
    return request.param()


def put(store: DbStore, *records: Model) -> StoreView:
    """Write records with the next revision."""
    revision = store.view.revision + 1
    return store.apply(revision, [StoreChange(type(each), each.id, Stored(each, revision, 1)) for each in records])


def drop(store: DbStore, *records: Model) -> StoreView:
    """Delete records."""
    return store.apply(store.view.revision + 1, [StoreChange(type(each), each.id, None) for each in records])


def test_one_match_none_and_several(store: DbStore) -> None:
    """`get_one`: the record, None, an error."""
    put(store, Machine(id="a", labels={"role": "web"}), Machine(id="b", labels={"role": "db"}), Machine(id="c"))
    assert store.view.get_one(Machine, "role", role="web").id == "a"
    assert store.view.get_one(Machine, "role", role="mail") is None
    with pytest.raises(Invalid, match="2 records of Machine match, not one"):
        store.view.get_one(Machine, "role", role={"web", "db"})


def test_an_unknown_index_or_part_is_refused(store: DbStore) -> None:
    """The error names what there is."""
    put(store, Machine(id="a"))
    with pytest.raises(Invalid, match=r"Machine has no index 'rule'; it has: os, role, site"):
        store.view.keys(Machine, "rule", role="web")
    with pytest.raises(Invalid, match="the index 'role' has no part 'roll'; available: role"):
        store.view.keys(Machine, "role", roll="web")
    with pytest.raises(Invalid, match="cannot look for note in Machine without an index"):
        store.view.keys(Machine, note="x")


def test_deletion_may_be_repeated(store: DbStore) -> None:
    """The second time changes nothing."""
    put(store, Machine(id="a", labels={"role": "web"}))
    drop(store, Machine(id="a"))
    drop(store, Machine(id="a"))
    assert (store.view.count(Machine), list(store.view.keys(Machine, "role", role="web"))) == (0, [])


def test_an_older_write_of_a_record_changes_nothing(store: DbStore) -> None:
    """Repeated and reordered notifications are harmless."""
    put(store, Machine(id="a", note="1"))
    view = put(store, Machine(id="a", note="2"))
    store.apply(view.revision + 1, [StoreChange(Machine, "a", Stored(Machine(id="a", note="1"), 1, 1))])
    assert store.view.get(Machine, "a").note == "2"


def test_a_batch_with_a_wrong_record_changes_nothing(store: DbStore) -> None:
    """Neither records nor indexes."""
    put(store, Machine(id="a", labels={"role": "web"}))
    before = store.view
    with pytest.raises(RuntimeError):
        store.apply(9, [
            StoreChange(Machine, "b", Stored(Machine(id="b"), 9, 9)),
            StoreChange(Machine, "c", Stored(Unindexable(id="c"), 9, 9)),
        ])  # fmt: skip
    assert list(store.view.keys(Machine)) == ["a"]
    assert store.view.revision == before.revision


def test_true_and_one_are_different_values(store: DbStore) -> None:
    """As are None, a value that is absent, and a text."""
    values = {"a": True, "b": 1, "c": "1", "d": None}
    put(store, *(Machine(id=key, facts={"os": value}) for key, value in values.items()), Machine(id="e"))
    found = {key: list(store.view.keys(Machine, "os", os=value)) for key, value in values.items()}
    assert found == {key: [key] for key in values}
    assert list(store.view.keys(Machine, "os", os=MISSING)) == ["e"]


def test_contained_records_are_found_as_long_as_something_contains_them(store: DbStore) -> None:
    """Several containers; the newest content is seen."""
    put(store, Container(id="one", parts=[Part(id="p", text="first"), Part(id="q", text="x")]))
    put(store, Container(id="two", parts=[Part(id="p", text="second")]))
    assert store.view.get(Part, "p").text == "second"
    assert list(store.view.keys(Part, "text", text="first")) == []
    drop(store, Container(id="two"))
    assert store.view.get(Part, "p").text == "first"
    put(store, Container(id="one", parts=[Part(id="q", text="x")]))
    assert list(store.view.keys(Part)) == ["q"]
    put(store, Part(id="q", text="alone"))
    drop(store, Container(id="one"))
    assert store.view.get(Part, "q").text == "alone"


def test_old_views_remember_nothing_that_nobody_holds() -> None:
    """A view that is held keeps what differs from it, the others are gone."""
    store = IndexedStore()
    view = put(store, Machine(id="a", note="1"))
    for number in range(100):
        put(store, Machine(id="a", note=str(number)))
    assert len(store._views) <= 2
    assert view.get(Machine, "a").note == "1"
    assert sum(map(len, view.lost.values())) == 1


class Unindexable(Machine):
    """A record on which every question raises."""

    def __getattribute__(self, name: str) -> Any:
        """Raise for a field that an index needs."""
        if name == "labels":
            raise RuntimeError("this record cannot be indexed")
        return super().__getattribute__(name)


IDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["x", "y", "z"])
VALUES = st.sampled_from([None, True, False, 0, 1, "x", "1", 1.5])
MACHINES = st.builds(
    lambda key, facts, labels, site: Machine(id=key, facts=facts, labels=labels, site=site),
    IDS, st.dictionaries(st.sampled_from(["os", "cpu"]), VALUES | st.lists(VALUES)),
    st.dictionaries(st.sampled_from(["role", "tier"]), TEXTS), st.none() | IDS,
)  # fmt: skip
PORTS = st.lists(st.builds(lambda n, p: Port(number=n, protocol=p), st.integers(1, 3), st.sampled_from(["tcp", "udp"])))
SERVICES = st.builds(
    lambda key, machine, state, ports, after: Service(id=key, machine=machine, state=state, ports=ports, after=after),
    IDS, IDS, TEXTS, PORTS, st.lists(IDS),
)  # fmt: skip
PARTS = st.builds(lambda key, text: Part(id=key, text=text), IDS, TEXTS)
CONTAINERS = st.builds(
    lambda key, parts, named: Container(id=key, parts=parts, named=named),
    IDS, st.lists(PARTS, unique_by=lambda part: part.id), st.dictionaries(TEXTS, PARTS, max_size=1),
).filter(lambda it: not {each.id for each in it.parts} & {each.id for each in it.named.values()})  # fmt: skip
SITES = st.builds(lambda key, name: Site(id=key, name=name), IDS, TEXTS)
MODELS = (Machine, Service, Container, Part, Site)
QUERIES: dict[type[Model], list[tuple[str, dict[str, Any]]]] = {
    Machine: [("os", {"os": value}) for value in (None, True, 1, "x", MISSING, ANY, frozenset({"x", 1}))]
    + [("role", {"role": "x"}), ("site", {"site": "a"}), ("->site", {"site": "b"})],
    Service: [
        ("by_state", {"machine": "a", "state": "x"}), ("by_state", {"state": "x"}), ("by_state", {"machine": "a"}),
        ("port", {"number": 1, "protocol": "udp"}), ("port", {"protocol": "udp"}), ("port", {"number": MISSING}),
        ("->after", {"after": "a"}),
    ],
    Container: [], Part: [("text", {"text": "x"})], Site: [("name", {"name": "x"})],
}  # fmt: skip


def answers(view: StoreView) -> list[Any]:
    """Return the answers of a view to all questions."""
    said: list[Any] = []
    for model in MODELS:
        said.append([view.stored(model, key) for key in "abcd"])
        said.append((view.count(model), list(view.keys(model)), [each.id for each in view.get_all(model)]))
        said += [list(view.keys(model, index, **values)) for index, values in QUERIES[model]]
    return said


class Stores(RuleBasedStateMachine):
    """Both stores get the same batches; views of every age are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: list[DbStore] = [make() for make in STORES]
        self.held: list[tuple[StoreView, list[Any]]] = []
        self.revision = 0

    @rule(
        records=st.lists(MACHINES | SERVICES | CONTAINERS | PARTS | SITES, min_size=1, max_size=4), late=st.booleans()
    )
    def write(self, records: list[Model], late: bool) -> None:
        """Write some records, perhaps with an old revision."""
        self.revision += 1
        revision = max(1, self.revision - 2) if late else self.revision
        unique = {(type(each), each.id): each for each in records}.values()
        self._apply(lambda: [StoreChange(type(each), each.id, Stored(each, revision, 1)) for each in unique])

    @rule(model=st.sampled_from(MODELS), ids=st.sets(IDS))
    def delete(self, model: type[Model], ids: set[str]) -> None:
        """Delete some records, whether they exist or not."""
        self.revision += 1
        self._apply(lambda: [StoreChange(model, each, None) for each in sorted(ids)])

    @rule()
    def hold(self) -> None:
        """Keep the present view."""
        self.held.append((self.stores[1].view, answers(self.stores[0].view)))

    @rule()
    def let_go(self) -> None:
        """Forget the oldest view."""
        self.held = self.held[1:]

    @invariant()
    def same_answers(self) -> None:
        """The present view answers as the reference does, older ones as they did."""
        reference, indexed = (answers(each.view) for each in self.stores)
        assert indexed == reference
        for view, before in self.held:
            assert answers(view) == before

    def _apply(self, changes: Callable[[], list[StoreChange]]) -> None:
        for each in self.stores:
            each.apply(self.revision, changes())


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=20, stateful_step_count=10, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
