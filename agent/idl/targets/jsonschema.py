"""The target `jsonschema`: the JSON schema of state files that use a package, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.agent.generators.json_types import Schema
from holdfast.agent.generators.states_schema import package_schema
from holdfast.agent.model.package import Package


class JsonSchemaTarget:
    """Generates one schema, for state files with states of this package and of any other."""

    name = "jsonschema"

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return the schema."""
        return {"states.schema.json": _text(package_schema(package))}

    def provider(self, package: Package) -> Mapping[str, str]:  # noqa: ARG002 - it is for users of packages
        """Return no files."""
        return {}


def _text(schema: Schema) -> str:
    """Return a schema as text with a line for each definition, so that a diff shows what has changed."""
    definitions = ",\n".join(f"  {_line(name)}: {_line(each)}" for name, each in schema["definitions"].items())
    rest = "".join(f" {_line(key)}: {_line(value)},\n" for key, value in schema.items() if key != "definitions")
    return f'{{\n{rest} "definitions": {{\n{definitions}\n }}\n}}\n'


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


TARGET = JsonSchemaTarget()
