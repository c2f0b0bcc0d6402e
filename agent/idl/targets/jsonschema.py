"""The target `jsonschema`: the JSON schema of state files that use a package, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.agent.generators.states_schema import package_schema
from holdfast.agent.model.package import Package


class JsonSchemaTarget:
    """Generates one schema, of state files with states of this package and of any others."""

    name = "jsonschema"

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return the schema."""
        return {"states.schema.json": json.dumps(package_schema(package), indent=1, ensure_ascii=False) + "\n"}

    def provider(self, package: Package) -> Mapping[str, str]:  # noqa: ARG002 - it is for users of packages
        """Return no files."""
        return {}


TARGET = JsonSchemaTarget()
