"""All JSON schemas by name: `states`, `pillar`, `top`, `agent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.agent.generators.json_types import DRAFT, Schema, definitions, object_schema
from holdfast.agent.generators.states_schema import LINK, states_schema
from holdfast.agent.model.build import build
from holdfast.agent.model.package import Package
from holdfast.agent.settings import Settings
from holdfast.resources import registry
from holdfast.states.view.match import MATCHERS

NAMES: Schema = {"type": "string", "description": "Name of a file, with dots for slashes and without `.sls`."}
OPTIONS: Schema = {
    "type": "object",
    "properties": {
        "match": {"description": "The matcher of the target.", "enum": sorted(MATCHERS)},
        "order": {"description": "Targets with a lower number come first.", "type": "number"},
        "ignore_missing": {"description": "Files that do not exist are not an error.", "type": "boolean"},
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {"type": "string", "description": "environment: name of a file"},
}
"""An item of a target that is not a name: an option, or a name with its environment."""
TARGET: Schema = {"type": "array", "items": {"anyOf": [NAMES, OPTIONS]}}


def states() -> Schema:
    """Return the schema of state files, with the kinds that are registered."""
    own = (kind for kind in registry.kinds() if not kind.__module__.startswith(registry.REMOTE))
    return states_schema(build(own), _packages() if registry.remote() else ())


def _packages() -> list[Package]:
    from holdfast.agent.remote.described import packages  # noqa: PLC0415 - most settings name no plugins

    return packages()


def pillar() -> Schema:
    """Return the schema of pillar files: any keys, and `include`."""
    options = {
        "type": "object",
        "properties": {
            "key": {"description": "Key below which the data of the file is put: `a:b`.", "type": ["string", "null"]},
            "defaults": {"description": "Variables for the template of the file.", "type": ["object", "null"]},
        },
        "additionalProperties": False,
    }
    included = {**LINK, "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}, options]}}
    include = {
        "description": "Pillar files whose data this file extends.",
        "type": "array",
        "items": {"anyOf": [NAMES, included]},
    }
    return {
        "$schema": DRAFT,
        "description": "Data for hosts, by keys of any name.",
        "type": ["object", "null"],
        "properties": {"include": include},
    }


def top() -> Schema:
    """Return the schema of top files of states and pillar: environment -> target -> names of files."""
    targets = {
        "description": "Target (a compound matcher, unless `match` says otherwise) -> names of files.",
        "type": ["object", "null"],
        "additionalProperties": TARGET,
    }
    include = {"description": "Top files that count as appended.", "type": "array", "items": NAMES}
    return {
        "$schema": DRAFT,
        "description": "Environment -> targets.",
        "type": ["object", "null"],
        "properties": {"include": include},
        "additionalProperties": targets,
    }


def agent() -> Schema:
    """Return the schema of agent.yaml."""
    model = build(settings=Settings)
    schema = object_schema(model.settings, description="Settings of the agent.", type=["object", "null"])
    return {"$schema": DRAFT, **schema, "definitions": definitions(model.records)}


SCHEMAS: Mapping[str, Callable[[], Schema]] = {"states": states, "pillar": pillar, "top": top, "agent": agent}
"""Name -> function that returns the schema."""
