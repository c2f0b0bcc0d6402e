"""schema.json keeps the whole model, and a wrong file is refused with the location of the mistake."""

from __future__ import annotations

import json
import re

import pytest

from ec2_package import EC2
from holdfast.agent.model.package import from_json, to_json


def test_a_schema_is_read_as_it_was_written():
    """Writing and reading lose nothing, and equal packages have equal texts."""
    assert from_json(to_json(EC2)) == EC2
    assert to_json(from_json(to_json(EC2))) == to_json(EC2)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (["format"], 2, "format: expected 1, found 2"),
        (["modules", 0, "order"], "Port", "modules[0].order: expected an array, found 'Port'"),
        (["modules", 0, "resources", 0, "nmae"], "x", "modules[0].resources[0]: unknown member 'nmae'"),
        (["modules", 0, "records", 0, "rules", 0, "rule"], "most", "modules[0].records[0].rules[0].rule: expected"),
        (["modules", 1, "resources", 0, "remote", "named"], 1, "remote.named: expected true or false, found 1"),
        (["modules", 1, "resources", 0, "fields", 1, "type"], "text", "fields[1].type: expected an object"),
        (["name"], 5, "name: expected text, found 5"),
    ],
)
def test_a_wrong_schema_is_refused_with_the_place(path, value, told):
    """The error has the path of the wrong member in the file."""
    data = json.loads(to_json(EC2))
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value

    with pytest.raises(ValueError, match=re.escape(told)):
        from_json(json.dumps(data))


def test_a_schema_without_a_name_is_refused():
    """A member without a default is required."""
    data = json.loads(to_json(EC2))
    del data["name"]

    with pytest.raises(ValueError, match="the schema: member 'name' is missing"):
        from_json(json.dumps(data))
