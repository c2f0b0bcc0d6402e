"""Private fields: what users who may only look are shown of a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.privacy import Private, for_root, for_viewers
from holdfast.agent.northbound.registry import registry


@pytest.fixture
def letter() -> Iterator[type[Model]]:
    """A model with private fields, also in what it embeds."""
    with registry.scratch():

        class Stamp(Struct):
            """A part of a letter."""

            value: int
            code: Annotated[str, Private(unless="public")] = ""
            owner: Annotated[str, Private()] = ""

        class Letter(Model, table="test-letters"):
            """Has fields of all sorts."""

            public: bool = False
            text: Annotated[str, Private(unless="public")] = ""
            seal: Annotated[str | None, Private()] = None
            stamp: Stamp | None = None
            stamps: tuple[Stamp, ...] = ()
            by_name: dict[str, Stamp] = {}
            counts: dict[int, list[int]] = {}

        Letter.model_rebuild(_types_namespace={"Stamp": Stamp})
        yield Letter


def values(**more: Any) -> dict[str, Any]:
    """Return the values of a letter."""
    stamp = {"value": 1, "code": "c", "owner": "o"}
    return {
        "id": "a",
        "text": "t",
        "seal": "s",
        "stamp": stamp,
        "stamps": [stamp],
        "by_name": {"x": stamp},
        "counts": {"1": [2]},
        **more,
    }


def test_private_fields_are_left_out(letter: type[Model]) -> None:
    """In embedded models, lists and dictionaries, too."""
    stamp = {"value": 1}

    assert for_viewers(letter(**values())) == {
        "public": False,
        "id": "a",
        "stamp": stamp,
        "stamps": [stamp],
        "by_name": {"x": stamp},
        "counts": {"1": [2]},
    }


def test_a_field_of_the_record_opens_some_of_them(letter: type[Model]) -> None:
    """Embedded models are decided by the record that contains them."""
    stamp = {"value": 1, "code": "c"}

    assert for_viewers(letter(**values(public=True))) == {
        "public": True,
        "id": "a",
        "text": "t",
        "stamp": stamp,
        "stamps": [stamp],
        "by_name": {"x": stamp},
        "counts": {"1": [2]},
    }


def test_fields_of_a_newer_version_are_not_shown(letter: type[Model]) -> None:
    """Nobody knows whether they are private."""
    record = letter.decode(b'{"$v":2,"id":"a","added":"x"}')

    assert for_root(record)["added"] == "x"
    assert "added" not in for_viewers(record)


def test_root_is_shown_everything(letter: type[Model]) -> None:
    """As it is stored."""
    assert for_root(letter(**values())) == {**values(), "public": False}


def test_a_condition_that_is_no_field_hides_the_field(letter: type[Model]) -> None:
    """A misspelt name shows nothing."""
    with registry.scratch():

        class Wrong(Model, table="test-wrong"):
            """Its condition is no field."""

            text: Annotated[str, Private(unless="pubic")] = ""

        assert for_viewers(Wrong(id="a", text="t")) == {"id": "a"}
