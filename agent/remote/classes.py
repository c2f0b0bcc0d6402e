"""Makes the class of a remote kind from its model: each argument is a field, whose values the schema validates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import PlainValidator, ValidationError, WithJsonSchema, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel
from holdfast.agent.model.types import Type, members
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import Violation, steps
from holdfast.agent.remote.kind import RemoteKind
from holdfast.agent.remote.resource import RemoteResource, attribute
from holdfast.resources import fields
from holdfast.resources.idl import UNSET
from holdfast.resources.refusals import VIOLATION, VIOLATION_OF_TYPE
from holdfast.resources.registry import REMOTE

JSON: Mapping[str, str] = {
    "none": "null",
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "list": "array",
    "set": "array",
    "mapping": "object",
    "record": "object",
    "tagged": "object",
}
"""Word of a type -> type of JSON; all others are texts, except `any` and unions."""


def declare(schema: Schema, model: KindModel) -> type[RemoteResource]:
    """Declare the class of a remote kind, which also registers it. Raises `DeclarationError`."""
    kind = RemoteKind(schema, model)
    made = create_model(
        kind.remote.token.rpartition(":")[2],
        __base__=RemoteResource,
        __module__=module(kind.package),
        __doc__=_docstring(model.docs),
        __cls_kwargs__={"kind": model.name},
        **{attribute(name): _field(kind, each) for name, each in kind.inputs.items()},
    )
    made.remote = kind
    made.sends = kind.sends
    made.polled = kind.remote.poll
    made.deprecated = _deprecated(kind)
    made.refused = {each.name: "the provider sets it" for each in model.fields if each.out}
    return made


def module(package: str) -> str:
    """Return the `__module__` of the classes of a package; there is no such module."""
    return f"{REMOTE}{package}"


def _deprecated(kind: RemoteKind) -> dict[str, str]:
    """Return each deprecated argument with its replacement; `""` stands for the kind."""
    found = {name: field.deprecated for name, field in kind.inputs.items() if field.deprecated}
    return {**({"": kind.remote.deprecated} if kind.remote.deprecated else {}), **found}


def _docstring(docs: Docs) -> str:
    examples = ("\n".join(f"    {line}" for line in example.split("\n")) for example in docs.examples)
    return "\n\n".join([docs.summary, *docs.text, *examples])


def _field(kind: RemoteKind, field: Field) -> Any:
    """Return the annotation of an argument and its field."""
    marks = (PlainValidator(_validator(kind, field)), WithJsonSchema(_json(field.type)))
    if field.name == "name":
        return Annotated[(str, *marks)], fields.field()
    info = fields.field(*(() if field.required else (UNSET,)), secret=kind.hides(field), alias=field.name)
    return Annotated[(Any, *marks)], info


def _validator(kind: RemoteKind, field: Field) -> Callable[[Any], Any]:
    def validate(data: Any) -> Any:
        value, violations, _ = kind.decode(field, data)
        if violations:
            raise ValidationError.from_exception_data(kind.model.name, [_detail(each) for each in violations])
        return value

    return validate


def _detail(violation: Violation) -> InitErrorDetails:
    """Return a violation as an error of pydantic, at its path within the argument."""
    word = VIOLATION_OF_TYPE if violation.code == "type" else VIOLATION
    error = PydanticCustomError(word, "{why}", {"why": violation.message})
    return InitErrorDetails(type=error, loc=steps(violation.path)[1:], input=None)


def _json(type_: Type) -> dict[str, Any]:
    """Return the types of JSON that an argument accepts, by which a received value is checked."""
    found = {JSON.get(each.type, "string") for each in members(type_)}
    return {} if "any" in {each.type for each in members(type_)} else {"type": sorted(found)}
