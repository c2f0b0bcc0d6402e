"""What several models share, and the order of hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pytest

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.mixins import Named, Topic, Versioned
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.registry import registry
from northbound_models import Machine, Site, Tenant


@pytest.fixture(autouse=True)
def scratch() -> Iterator[None]:
    """Forget the models that a test defines."""
    with registry.scratch():
        yield


@pytest.mark.parametrize(("given", "kept"), [({}, 1), ({"version": 0}, 1), ({"version": -3}, 1), ({"version": 7}, 7)])
def test_the_first_version_is_one_or_what_the_caller_set(given: dict[str, int], kept: int) -> None:
    """Unless that is not a version."""
    assert Machine(id="a", **given).on_create_pre().version == kept


@pytest.mark.parametrize(("wanted", "kept"), [(2, 6), (5, 6), (6, 6), (9, 9)])
def test_a_version_grows_with_each_write(wanted: int, kept: int) -> None:
    """A greater number that the caller set is kept, a smaller one is not."""
    assert Machine(id="a", version=wanted).on_update_pre(Machine(id="a", version=5)).version == kept


def test_a_unique_key_cannot_be_changed() -> None:
    """It could become that of another record; other fields may change."""
    before = Tenant(id="a", topic="t", unique_key=1)
    with pytest.raises(Invalid, match="cannot change test-tenants 'a': its unique_key is allocated"):
        before.replace(unique_key=2).on_update_pre(before)
    assert before.replace(topic="u").on_update_pre(before).topic == "u"


def test_mixins_bring_their_fields_and_indexes() -> None:
    """Together with those of the model."""
    assert set(Tenant.all_indexes()) == {"unique_key", "topic"}
    assert set(Tenant.model_fields) == {"id", "unique_key", "topic"}
    assert set(Site.index("name").keys(Site(id="a", name="x"))) == {("x",)}


def test_a_name_and_a_topic_are_required() -> None:
    """The error names the field."""
    with pytest.raises(Invalid, match="Site lacks name"):
        Site(id="a").encode()
    with pytest.raises(Invalid, match="Tenant lacks unique_key, topic"):
        Tenant(id="a").encode()


def test_hooks_run_in_the_order_of_the_classes() -> None:
    """Each calls the next by `super()`, through mixins and parents."""

    class Marked(Model):
        text: str = ""

        def on_create_pre(self) -> Self:
            record = super().on_create_pre()
            return record.replace(text=f"{record.text} marked")

    class Base(Named, Model):
        text: str = ""

        def on_create_pre(self) -> Self:
            record = super().on_create_pre()
            return record.replace(text=f"{record.text} base")

    class Full(Marked, Versioned, Base, Topic, table="full"):
        def on_create_pre(self) -> Self:
            record = super().on_create_pre()
            return record.replace(text=f"{record.text} full")

    made = Full(id="a", name="n", topic="t").on_create_pre()
    assert (made.text, made.version) == (" base marked full", 1)
