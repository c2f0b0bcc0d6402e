"""The schema of each argument accepts every value that the kind accepts, in its own code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from holdfast.agent.generators.json_types import definitions, schema_of
from holdfast.agent.model.build import build
from holdfast.agent.model.model import Field, SystemModel
from holdfast.agent.model.types import members
from holdfast.agent.settings import Settings
from holdfast.resources import registry
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.meta import Meta

TEXTS = ("", "x", "5", "yes", "/x", "0644", "a b", "root", "x\ny", "ssh.service", "@daily", "*", "salt://x", "a=b")
PLAIN = (None, True, False, 0, 1, 5, -1, 1.5, 600, *TEXTS, "random", "keep", "u=rw,go=r", "TERM", "IGNORECASE")
VALUES = (
    *PLAIN, [], [[]], [["x"]], *([value] for value in PLAIN), ["x", "y"], {}, *({"x": value} for value in PLAIN),
    {"x": ["y"]}, {"x": {"y": "z"}}, *([{"x": value}] for value in PLAIN),
)  # fmt: skip
"""Values of all forms that arguments have."""


@pytest.fixture(scope="module")
def model() -> SystemModel:
    """Return the model of all built-in kinds and of the settings."""
    return build(filter(None, map(registry.find, sorted(KIND_MODULES))), settings=Settings)


def fields(model: SystemModel) -> Iterator[tuple[str, Field, FieldInfo]]:
    """Yield (name, field of the model, field of pydantic), once for each type."""
    owners: list[tuple[str, tuple[Field, ...], type[BaseModel] | None]] = [("every state", model.meta, Meta)]
    owners += [("agent.yaml", model.settings, Settings)]
    owners += [(kind.name, kind.fields, registry.find(kind.name)) for kind in model.kinds]
    seen = set()
    for owner, known, cls in owners:
        assert cls is not None
        cls.model_rebuild()
        infos = {info.alias or name: info for name, info in cls.model_fields.items()}
        for field in known:
            info = infos[field.name]
            if (key := (str(info.annotation), str(info.metadata))) not in seen:
                seen.add(key)
                yield f"{owner}: {field.name}", field, info


def parts(model: SystemModel) -> Iterator[tuple[str, Field, TypeAdapter[Any], Draft7Validator]]:
    """Yield (name, field, the kind's code, schema) for each type."""
    records = definitions(model.records)
    for name, field, info in fields(model):
        annotation: Any = info.annotation
        for each in info.metadata:
            annotation = Annotated[annotation, each]
        schema = {"allOf": [schema_of(field.type)], "definitions": records}
        yield name, field, TypeAdapter(annotation), Draft7Validator(schema)


def accepts(adapter: TypeAdapter[Any], value: Any) -> bool:
    """Return whether the kind's code accepts a value."""
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def confused(field: Field, value: Any) -> bool:
    """Return whether a kind accepts a value that is probably a mistake, and which the schema therefore refuses.

    Python takes a number for a boolean, and the reverse. Lines of content that are nothing become `None`, as in Salt.
    """
    if value == [None]:
        return field.name in ("text", "content", "contents")
    words = {member.type for member in members(field.type)}
    boolean = "boolean" in words or any(False in member.choices for member in members(field.type))
    return (boolean and value in (0, 1)) or bool({"integer", "number"} & words and isinstance(value, bool))


def test_schemas_refuse_nothing_that_a_kind_accepts(model: SystemModel) -> None:
    """A value of any form that passes the validators of an argument passes its schema."""
    refused = [
        (name, value)
        for name, field, adapter, schema in parts(model)
        for value in VALUES
        if accepts(adapter, value) and not schema.is_valid(value) and not confused(field, value)
    ]

    assert refused == []


def test_schemas_refuse_most_of_what_a_kind_refuses(model: SystemModel) -> None:
    """The share of wrong values that the schemas accept is small; a schema that accepts all would raise it."""
    wrong = [
        schema.is_valid(value)
        for _, _, adapter, schema in parts(model)
        for value in VALUES
        if not accepts(adapter, value)
    ]

    assert sum(wrong) / len(wrong) < 0.1
