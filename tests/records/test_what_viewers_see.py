"""Each field of each table is decided: shown to every user who may look, or private."""

from __future__ import annotations

from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.privacy import private_fields
from holdfast.agent.northbound.ref import within
from holdfast.agent.records import models, world_records

SHOWN = {
    "Actor": "pid name uid user login unit way",
    "Replaced": "size mode uid gid lost",
    "Host": "id version states",
    "Pass": "id host number cause at duration converged interrupted counts by",
    "Change": "id host resource kind at first times what result origin cause run duration public undone ended by"
    " replaced review",
    "ResourceStatus": "id host kind result since",
    "Condition": "id host severity since",
    "Note": "id host at what about by",
}
"""Model -> the fields that viewers see of every record: no content, argument, output, error or value."""


def parts(model: type[Struct]) -> set[type[Struct]]:
    """Return a model and what it embeds."""
    inner = {each for field in model.model_fields.values() for each, _, _ in within(Struct, field.annotation)}
    return {model}.union(*(parts(each) for each in inner))


def test_no_field_is_shown_that_was_not_decided() -> None:
    """A new field, or a new table, fails here until it is private, internal, or in the list above."""
    declared = [each for module in (models, world_records) for each in vars(module).values()]
    tables = {each for each in declared if isinstance(each, type) and issubclass(each, Model) and each.table}
    shown = {
        part.__name__: set(part.model_fields) - frozenset().union(*private_fields(part))
        for table in tables
        if not table.internal
        for part in parts(table)
    }

    assert shown == {name: set(fields.split()) for name, fields in SHOWN.items()}


def test_the_condition_of_a_private_field_is_a_field() -> None:
    """Otherwise the field would never be shown."""
    for model in (models.Change,):
        assert "public" in model.model_fields
        assert model.model_fields["public"].annotation is bool
