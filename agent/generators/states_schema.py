"""The JSON schema of state files without templates, for the completion and the checks of editors.

A state is written in one of Salt's two forms: `file.managed:` with a list of arguments, or `file:` with a list that has
the function as one of its items. Each item of a list is a mapping of arguments. An editor cannot know other files, so
the schema accepts that an argument is missing if the state can get it from elsewhere (`use`, `recv`, `names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.agent.generators.json_types import DRAFT, Schema, definitions, field_schema
from holdfast.agent.generators.remote_types import NOT_NULL, remote_definitions, remote_field, rules_of
from holdfast.agent.model.build import build
from holdfast.agent.model.model import KindModel, SystemModel
from holdfast.agent.model.package import Package
from holdfast.agent.model.packages import kinds_of, records_of
from holdfast.states.compile.check import IGNORED
from holdfast.states.declare.high import USE, USE_IN
from holdfast.states.requisite_kinds import RECV

ELSEWHERE = (USE, RECV, "names")
"""Arguments that can provide the value of another argument."""
HIDDEN: Schema = {"^__": {}}
"""Keys that the compiler ignores: `patternProperties`."""
LINK: Schema = {"type": "object", "minProperties": 1, "maxProperties": 1}
"""A mapping with one key."""
TARGETS: Schema = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string", "description": "ID or name of a state of any type"},
            {
                **LINK,
                "description": "state type (or `sls`): ID or name",
                "propertyNames": {"pattern": "^[^.]+$"},
                "additionalProperties": {"type": ["string", "null"]},
            },
        ]
    },
}
"""The targets of a requisite."""
_MAPPED: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
REVERSED_TARGETS: Schema = {"anyOf": [TARGETS, _MAPPED]}
"""The targets of a requisite that a target declares: a mapping is accepted, too."""
REMOTE: Schema = {
    "name": {"description": "Name of the state; by default its ID.", "type": "string"},
    "ensure": {"description": "`absent` deletes the resource.", "enum": ["present", "absent"], "default": "present"},
}
"""Arguments of every remote kind, unless it has a field of that name."""
ORDER: Schema = {
    "description": "Position in the order of execution: a number, `first` or `last`; a negative number counts from "
    "the end.",
    "anyOf": [{"enum": ["first", "last"]}, {"type": "number"}],
}


def states_schema(model: SystemModel, packages: Iterable[Package] = ()) -> Schema:
    """Return the schema of state files with the kinds of a model, and with those of packages."""
    known = tuple(packages)
    kinds = (*model.kinds, *(kind for each in known for kind in kinds_of(each)))
    records = definitions(model.records)
    for each in known:
        records |= remote_definitions(records_of(each))
    return _schema(model, kinds, records, HIDDEN)


def package_schema(package: Package) -> Schema:
    """Return the schema of state files with the kinds of a package; states of any other kinds are not checked."""
    model, others = build(), f"^(?!{package.name}([-.]|$))"
    records = {**definitions(model.records), **remote_definitions(records_of(package))}
    return _schema(model, kinds_of(package), records, {**HIDDEN, others: {}})


def _schema(model: SystemModel, kinds: Iterable[KindModel], records: Schema, unchecked: Schema) -> Schema:
    """Return the schema with these kinds and records. `unchecked` has patterns of keys whose values are not checked."""
    common = _common(model)
    found = {**records, **{f"argument {name}": schema for name, schema in common.items()}}
    families: dict[str, list[KindModel]] = {}
    for kind in kinds:
        arguments = _arguments(kind, common)
        found[f"arguments of {kind.name}"] = arguments
        rules = [*_rules(kind, arguments)]
        found[f"rules of {kind.name}"] = {"allOf": rules} if rules else {}
        found[kind.name] = {"description": _description(kind), **_list_of(kind), "allOf": [_rules_of(kind)]}
        families.setdefault(kind.name.partition(".")[0], []).append(kind)
    found |= {f"family {name}": _family(kinds) for name, kinds in families.items()}
    found["declaration"] = _declaration(kinds, families, unchecked)
    return {
        "$schema": DRAFT,
        "description": "The IDs of a state file, each with the states that it declares.",
        "type": ["object", "null"],
        "properties": {
            "include": _references("State files that this file includes", "environment"),
            "exclude": _references("State files or IDs that are left out", "`sls` or `id`", ("sls", "id")),
            "extend": _extend(kinds, families, unchecked),
        },
        "patternProperties": HIDDEN,
        "additionalProperties": {"$ref": "#/definitions/declaration"},
        "definitions": found,
    }


def _references(text: str, key: str, keys: tuple[str, ...] = ()) -> Schema:
    pair = {**LINK, "description": f"{key}: name", "additionalProperties": {"type": "string"}}
    names = {"propertyNames": {"enum": list(keys)}} if keys else {}
    return {"description": f"{text}.", "type": "array", "items": {"anyOf": [{"type": "string"}, {**pair, **names}]}}


def _common(model: SystemModel) -> dict[str, Schema]:
    """Return the arguments that every state accepts."""
    found = {field.name: field_schema(field) for field in model.meta}
    for requisite in model.requisites:
        found[requisite.name] = {"description": requisite.doc, **TARGETS}
        if requisite.reversed_form:
            text = f"The states that have this state as a target of `{requisite.name}`."
            found[requisite.reversed_form] = {"description": text, **REVERSED_TARGETS}
    found[USE] = {"description": "States whose arguments this state copies, unless it has its own.", **TARGETS}
    found[USE_IN] = {"description": "States that copy the arguments of this state.", **REVERSED_TARGETS}
    found["order"] = ORDER
    return found | {name: _without_effect(why) for name, why in IGNORED.items()}


def _without_effect(why: str) -> Schema:
    """Return the schema of an argument that editors do not offer; they would show `deprecationMessage` as an error."""
    return {"description": f"Accepted without effect: {why}.", "doNotSuggest": True}


def _arguments(kind: KindModel, common: Mapping[str, Schema]) -> Schema:
    """Return the schema of one item in the list of arguments of a kind."""
    own = _own(kind)
    own["names"] = {
        "description": "One state for each of these names, each with arguments of its own if it has a list of them.",
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {**LINK, "additionalProperties": _list_of(kind)}]},
    }
    own |= {
        former: {**own[name], "description": f"Former name of `{name}`.", "doNotSuggest": True}
        for former, name in kind.former.items()
    }
    own |= {name: _without_effect(why) for name, why in kind.ignored.items() if name not in own}
    own |= {name: _refused(why) for name, why in kind.refused.items()}
    shared = {name: {"$ref": f"#/definitions/argument {name}"} for name in common if name not in own}
    return {
        "type": "object",
        "properties": {**own, **shared},
        "patternProperties": HIDDEN,
        "additionalProperties": bool(kind.open or kind.variables),
    }


def _own(kind: KindModel) -> dict[str, Schema]:
    """Return the schemas of the fields of a kind that are arguments."""
    if kind.remote is None:
        return {field.name: field_schema(field) for field in kind.fields}
    return {**REMOTE, **{field.name: remote_field(field) for field in kind.fields if not field.out}}


def _refused(why: str) -> Schema:
    """Return the schema of an argument that has no valid value. `errorMessage` is the language server's own keyword."""
    never = {"type": "null", "not": {"type": "null"}}
    return {"description": f"Refused: {why}.", **never, "errorMessage": f"refused: {why}", "doNotSuggest": True}


def _list_of(kind: KindModel) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/definitions/arguments of {kind.name}"}}


def _description(kind: KindModel) -> str:
    examples = [f"```yaml\n{example}\n```" for example in kind.docs.examples]
    return "\n\n".join([kind.docs.summary, *kind.docs.text, *examples])


def _rules(kind: KindModel, arguments: Schema) -> Iterator[Schema]:
    """Yield the rules for a list of arguments as a whole: required arguments, and others that are accepted."""
    for field in kind.fields:
        if field.required and not field.out:
            yield {**_contains(field.name, *ELSEWHERE), "errorMessage": f"{kind.name} needs the argument {field.name}"}
    yield from _remote_rules(kind)
    if kind.variables:
        known = {"properties": dict.fromkeys(arguments["properties"], True), "patternProperties": HIDDEN}
        closed = {"items": {**known, "additionalProperties": False}}
        yield {"if": {"not": _contains(kind.variables, *ELSEWHERE)}, "then": closed}


def _remote_rules(kind: KindModel) -> Iterator[Schema]:
    """Yield the rules of a remote kind for its list of arguments, if the state takes none from elsewhere."""
    if kind.remote is None:
        return
    for rule in rules_of(kind.remote.rules, _given):
        yield {"if": {"not": _contains(*ELSEWHERE)}, "then": rule}


def _given(name: str) -> Schema:
    """Return the schema of a list that has an argument with a value."""
    return {"contains": {"type": "object", "required": [name], "properties": {name: NOT_NULL}}}


def _rules_of(kind: KindModel) -> Schema:
    return {"$ref": f"#/definitions/rules of {kind.name}"}


def _contains(*names: str) -> Schema:
    """Return the rule that one item of a list has one of these arguments."""
    return {"contains": {"type": "object", "anyOf": [{"required": [name]} for name in names]}}


def _family(kinds: Iterable[KindModel]) -> Schema:
    """Return the schema of a state that is written as `family`, with the function as an item of its list."""
    functions = {kind.name.partition(".")[2]: kind for kind in kinds}
    choices = [{"const": function, "description": kind.docs.summary} for function, kind in functions.items()]
    chosen = [
        {"if": {"contains": {"const": function}}, "then": {"allOf": [_with_function(kind, function), _rules_of(kind)]}}
        for function, kind in functions.items()
    ]
    return {
        "type": "array",
        "items": {"anyOf": [*choices, {"type": "object"}]},
        "contains": {"enum": [*functions]},
        "errorMessage": f"one item must be a function: {', '.join(functions)}",
        "allOf": chosen,
    }


def _with_function(kind: KindModel, function: str) -> Schema:
    return {"items": {"anyOf": [{"const": function}, {"$ref": f"#/definitions/arguments of {kind.name}"}]}}


def _declaration(kinds: Iterable[KindModel], families: Iterable[str], unchecked: Schema) -> Schema:
    """Return the schema of the body of an ID: its states, or the only one, without arguments."""
    known = {kind.name: {"$ref": f"#/definitions/{kind.name}"} for kind in kinds}
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {**known, **{name: {"$ref": f"#/definitions/family {name}"} for name in families}},
                "patternProperties": unchecked,
                "additionalProperties": False,
            },
            {"type": "string", "anyOf": [{"enum": [*known]}, *_texts(unchecked)]},
        ]
    }


def _texts(unchecked: Schema) -> list[Schema]:
    return [{"pattern": pattern} for pattern in unchecked if pattern not in HIDDEN]


def _extend(kinds: Iterable[KindModel], families: Iterable[str], unchecked: Schema) -> Schema:
    """Return the schema of `extend`: arguments of states of other files, all of them optional."""
    known: dict[str, Any] = {kind.name: _list_of(kind) for kind in kinds}
    loose = {"type": "array", "items": {"type": ["string", "object"]}}
    states = {
        "type": "object",
        "properties": {**known, **dict.fromkeys(families, loose)},
        "patternProperties": unchecked,
        "additionalProperties": False,
    }
    text = "Arguments and requisites that this file adds to states of other files: ID, state type, list."
    return {"description": text, "type": "object", "patternProperties": HIDDEN, "additionalProperties": states}
