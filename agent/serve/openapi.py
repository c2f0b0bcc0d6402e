"""The OpenAPI 3.1 document of the server, made from the models of the records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from holdfast import __version__
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.privacy import private_fields
from holdfast.agent.northbound.registry import registry
from holdfast.agent.serve.parameters import OF_PAGE, OF_RECORD, OF_WATCH, Parameter

REF = "#/components/schemas/{model}"
ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
EVENT = {"type": "object", "properties": {name: {"type": "string"} for name in ("event", "data", "id")}}
FAILURES = {
    "400": "The request is not valid.",
    "401": "Over TCP: the token is missing or wrong.",
    "404": "There is no such table or record.",
    "421": "Over TCP: this server does not have that name.",
    "502": "The answer of the agent cannot be passed on.",
    "503": "The agent does not answer, or is too busy.",
}


class _Schemas(GenerateJsonSchema):
    """Makes the schemas of records as they are sent: all fields, without private ones.

    A field that may be private is not required.
    """

    def model_schema(self, schema: Any) -> Any:
        """Return the schema of a model."""
        made = super().model_schema(schema)
        always, sometimes = private_fields(schema["cls"])
        properties = {name: each for name, each in made.get("properties", {}).items() if name not in always}
        required = [name for name in properties if name not in sometimes]
        kept = {key: value for key, value in made.items() if key in {"title", "description", "type"}}
        return {**kept, "type": "object", "properties": properties, "required": required}

    def default_schema(self, schema: Any) -> Any:
        """Return the schema of a field without its default: fields are always sent."""
        return self.generate_inner(schema["schema"])


def tables() -> dict[str, type[Model]]:
    """Return the models of all public tables, by table. Imports the models."""
    from holdfast.agent.records import models  # noqa: F401, PLC0415 - declares them

    registry.load_extensions()
    return {model.table: model for model in registry.in_order() if not model.internal}


@cache
def document() -> dict[str, Any]:
    """Return the document."""
    found = tables()
    _, schemas = models_json_schema(
        [(model, "serialization") for model in found.values()], ref_template=REF, schema_generator=_Schemas
    )
    paths: dict[str, Any] = {}
    for table, model in found.items():
        paths |= _paths(table, model)
    paths["/v1/watch"] = {"get": _watch(list(found))}
    paths["/v1/openapi.json"] = {
        "get": _operation("document", "This document.", (), {"type": "object"}, failures=("401", "421"))
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Records of the agent of this host, without what its users cannot read otherwise.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR, **schemas["$defs"]},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _paths(table: str, model: type[Model]) -> dict[str, Any]:
    """Return the paths of a table."""
    record = {"$ref": REF.format(model=model.__name__)}
    page = {
        "type": "object",
        "required": ["revision", "records", "next"],
        "properties": {
            "revision": {"type": "integer", "description": "Where to begin to watch: `Last-Event-ID`."},
            "records": {"type": "array", "items": record},
            "next": {"type": ["string", "null"], "description": "`after`, or `before`, of the next page."},
        },
    }
    doc = " ".join((model.__doc__ or "").split())
    key = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": "With `/` as %2F.",
    }
    one = _operation(
        f"get_{table}",
        f"One record of {table}.",
        OF_RECORD,
        record,
        failures=("400", "401", "404", "421", "502", "503"),
    )
    one["parameters"].insert(0, key)
    return {
        f"/v1/{table}": {"get": _operation(f"list_{table}", doc, OF_PAGE, page)},
        f"/v1/{table}/{{id}}": {"get": one},
    }


def _watch(names: list[str]) -> dict[str, Any]:
    """Return the operation of the stream of writes."""
    text = (
        "Server-sent events, one for each write. `event` is the table, `data` a JSON object with `id` and `record`, "
        "which is null if the record was deleted. `id` is a revision: all writes up to it were sent. The event `reset` "
        "says that writes were missed, because they are no longer kept: list the tables again."
    )
    made = _operation("watch_writes", text, OF_WATCH, EVENT, kind="text/event-stream")
    made["parameters"][0]["schema"] = {"type": "array", "items": {"type": "string", "enum": names}}
    revision = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"}
    text = "The revision after which to begin; by default now."
    made["parameters"].append({"name": "Last-Event-ID", "in": "header", "schema": revision, "description": text})
    return made


def _operation(
    name: str,
    text: str,
    parameters: Sequence[Parameter],
    schema: dict[str, Any],
    *,
    kind: str = "application/json",
    failures: Sequence[str] = ("400", "401", "421", "502", "503"),
) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": REF.format(model="Error")}}}
    return {
        "operationId": name.replace("-", "_"),
        "summary": text.partition(". ")[0].rstrip("."),
        "description": text,
        "parameters": [
            {"name": each.name, "in": "query", "schema": each.schema, "description": each.text} for each in parameters
        ],
        "responses": {
            "200": {"description": "The answer.", "content": {kind: {"schema": schema}}},
            **{status: {"description": FAILURES[status], "content": error} for status in failures},
        },
    }
