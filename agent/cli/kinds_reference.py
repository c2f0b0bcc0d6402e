"""The output of `doc`: all kinds, or the arguments of one."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import click

from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.agent.widths import flow

if TYPE_CHECKING:
    from pydantic import BaseModel

    from holdfast.resources.contract import Resource


ALL = "all"
"""Stands for a kind: the arguments that every kind takes."""
TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true/false",
    "array": "list",
    "object": "mapping",
}
"""Type in a JSON schema -> word for people."""
EXAMPLE = " " * 4


def show(kind: str | None, form: str) -> None:
    """Print all kinds, those of a family, or the arguments of one, as JSON or for people.

    Raises `UsageError` if there is no such kind.
    """
    from holdfast.resources import registry
    from holdfast.resources.meta import Meta
    from holdfast.resources.spelling import nearest

    paper = Paper.stdout()
    if kind is None or kind in registry.families():
        known = {
            cls.kind: _first_line(cls) for cls in registry.kinds() if kind is None or cls.kind.startswith(f"{kind}.")
        }
        print_json(known) if form == "json" else click.echo("\n".join(listed(known, paper)))
        return
    found = registry.find(kind)
    if found is None and kind != ALL:
        meant = nearest(kind, registry.names())
        raise click.UsageError(
            f"there is no kind {kind!r}" + (f"; did you mean {meant!r}?" if meant else "; holdfast doc lists them")
        )
    if form == "json":
        print_json((found or Meta).model_json_schema())
    else:
        click.echo(describe(found, paper) if found else describe_meta(paper))


def listed(known: Mapping[str, str], paper: Paper) -> Iterator[str]:
    """Name -> text: each in one line, wrapped on a narrow terminal."""
    width = max(map(len, known))
    for name, text in known.items():
        first, *rest = paper.lines(text, width + 2)
        yield f"{name:{width}}  {first}"
        yield from (f"{'':{width}}  {line}" for line in rest)


def describe(cls: type[Resource], paper: Paper) -> str:
    """The reference page of one kind."""
    lines = [cls.kind, "", *_paragraphs(inspect.getdoc(cls) or "", paper), "", "Arguments:"]
    lines += _arguments(cls, paper)
    for title, arguments in (("Accepted without effect:", cls.ignored), ("Refused:", cls.refused)):
        if arguments:
            lines += ["", title]
            lines += [line for name, why in arguments.items() for line in flow(f"  {name}: {why}", paper.width)]
    lines += [
        "",
        *flow(
            f"Every state also takes requisites (require, watch, ...) and what `holdfast doc {ALL}` lists.", paper.width
        ),
    ]
    return "\n".join(lines)


def describe_meta(paper: Paper) -> str:
    """The reference page of the arguments that every state takes."""
    from holdfast.resources.meta import Meta
    from holdfast.states.requisite_kinds import REQUISITES, REVERSED

    about = (
        "Arguments that every state takes, whatever its kind. "
        f"Besides these: name, names, order; the requisites {', '.join(REQUISITES)}; "
        f"declared by a target, {', '.join(REVERSED)}."
    )
    return "\n".join([ALL, "", *flow(about, _width(paper)), "", "Arguments:", *_arguments(Meta, paper)])


def _arguments(model: type[BaseModel], paper: Paper) -> Iterator[str]:
    """Each argument with its type and default, and its description below."""
    docs, takes = field_docs(model), types(model)
    for name, info in model.model_fields.items():
        default = (
            "required" if info.is_required() else f"default {_default(info.get_default(call_default_factory=True))}"
        )
        yield f"  {name} ({', '.join(filter(None, (takes.get(name), default)))})"
        yield from flow(" " * 6 + docs.get(name, ""), _width(paper))


def types(model: type[BaseModel]) -> dict[str, str]:
    """Argument -> its type in the words of state files: `text`, `text or list`; nothing if the type is unknown."""
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        schema = model.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        return {}  # an operator's kind may take types that JSON schema lacks
    found = {}
    for name, info in model.model_fields.items():
        words = list(_words(schema["properties"].get(name, {}), schema.get("$defs", {})))
        if _converts(info.annotation, info.metadata):
            words = ["text", *words] if words in (["list"], ["number"]) else words
        found[name] = " or ".join(dict.fromkeys(words))
    return found


def _converts(annotation: Any, metadata: Sequence[object]) -> bool:
    """Whether an argument, or one type of its union, accepts other spellings, which a validator converts."""
    from pydantic import BeforeValidator

    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    return any(isinstance(each, BeforeValidator) for each in metadata) or any(
        _converts(each, getattr(each, "__metadata__", ())) for each in members
    )


def _words(part: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """The words for one part of a JSON schema."""
    part = parts[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    if "anyOf" in part:
        for each in part["anyOf"]:
            yield from _words(each, parts)
    elif "enum" in part or "const" in part:
        yield from (_default(each) for each in part.get("enum", [part.get("const")]))
    elif part.get("type") in TYPES:
        yield TYPES[part["type"]]


def _paragraphs(text: str, paper: Paper) -> Iterator[str]:
    """A docstring; text without indentation is refilled to the terminal's width. Examples are always indented."""
    for number, part in enumerate(text.split("\n\n")):
        yield from [""] if number else []
        first, _, rest = part.partition("\n")
        if first.endswith(":") and rest.startswith(" ") and not part.startswith(" "):
            part = textwrap.indent(part, EXAMPLE)  # noqa: PLW2901 - the same, as others have it
        filled = part if part.startswith(" ") or paper.width is None else " ".join(part.split())
        yield from flow(filled, paper.width)


def _width(paper: Paper) -> int:
    """The width of text without line breaks of its own, in columns."""
    return min(100, paper.width or 100)


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Argument -> the docstring below its declaration; the nearest class takes precedence."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(_declared(base))
    return found


@functools.cache
def _declared(cls: type) -> Mapping[str, str]:
    """The docstrings of the declarations in one class itself. Parsing its source takes long."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}  # the class was not declared in a file
    found = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value.value if isinstance(text.value, ast.Constant) else ""
            found[field.target.id] = " ".join(str(value).split())
    return found


def _first_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _default(value: Any) -> str:
    """A default in the notation of state files."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return "[]" if value == () else repr(value)
