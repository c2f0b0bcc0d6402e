"""The output of `doc`: all kinds, or the arguments of one; as JSON, the model of these kinds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.agent.widths import flow

if TYPE_CHECKING:
    from holdfast.agent.model.docstrings import Docs
    from holdfast.agent.model.model import Field, KindModel, SystemModel
    from holdfast.agent.settings import Settings

ALL = "all"
"""Stands for a kind: the arguments that every kind takes."""
EXAMPLE = " " * 4


def show(kind: str | None, form: str) -> None:
    """Print all kinds, those of a family, or the arguments of one, as JSON or for people.

    As JSON, without a kind, the whole model is printed, with all interfaces and settings. Raises `UsageError` if there
    is no such kind.
    """
    names = _named(kind)
    if form == "json":
        print_json(_data(names, everything=kind is None))
    elif kind == ALL:
        click.echo("\n".join(_meta(_model(()), Paper.stdout())))
    elif kind in names:
        click.echo(describe(_model(names).kinds[0], Paper.stdout()))
    else:
        click.echo("\n".join(listed(_summaries(names), Paper.stdout())))


def _named(kind: str | None) -> list[str]:
    """Return the kinds that an argument names: all, those of a family, or one. Raises `UsageError` if there is none."""
    from holdfast.resources import registry

    known = registry.names()
    names = [name for name in known if kind is None or kind in (name, name.partition(".")[0])]
    if not names and kind != ALL:
        raise click.UsageError(f"there is no kind {kind!r}; {_instead(str(kind), known)}")
    return names


def _instead(kind: str, known: Sequence[str]) -> str:
    """Return what to write instead of a kind that does not exist; it may be a function of an interface."""
    from holdfast.agent.plugins.shipped import packages
    from holdfast.resources.interfaces import registry as interfaces
    from holdfast.resources.spelling import nearest

    module, _, function = kind.partition(".")
    interface = interfaces.serving(module)[0] if module in interfaces.modules() else None
    if interface is not None and (not function or function in interface.functions()):
        return f"`holdfast describe {kind}` describes the {'function' if function else 'interface'} of this name"
    if module in packages() and not any(each.startswith(f"{module}.") for each in known):
        return f"agent.yaml does not name the package: plugins: {{{module}: {{}}}} (docs/{module}.md)"
    meant = nearest(kind, known)
    return f"did you mean {meant!r}?" if meant else "holdfast doc lists them"


def _model(names: Iterable[str], interfaces: Iterable[str] = (), settings: type[Settings] | None = None) -> SystemModel:
    from holdfast.agent.model.build import build
    from holdfast.resources import registry

    return build(filter(None, map(registry.find, names)), interfaces, settings)


def _data(names: Iterable[str], *, everything: bool) -> Mapping[str, object]:
    """Return the model of some kinds as data; with everything, also of all interfaces and of the settings."""
    from holdfast.agent.model.model import plain
    from holdfast.agent.settings import Settings
    from holdfast.resources.interfaces import registry as interfaces

    made = _model(names, interfaces.names(), Settings) if everything else _model(names)
    return dict(plain(made))


def _summaries(names: Iterable[str]) -> dict[str, str]:
    """Return kind -> the first line of its documentation; the model of all kinds would take longer."""
    from holdfast.agent.model.docstrings import docs_of
    from holdfast.resources import registry

    return {cls.kind: docs_of(cls).summary for cls in filter(None, map(registry.find, names))}


def listed(known: Mapping[str, str], paper: Paper) -> Iterator[str]:
    """Yield a line for each name with its text, wrapped on a narrow terminal."""
    width = max(map(len, known))
    for name, text in known.items():
        first, *rest = paper.lines(text, width + 2)
        yield f"{name:{width}}  {first}"
        yield from (f"{'':{width}}  {line}" for line in rest)


def describe(kind: KindModel, paper: Paper) -> str:
    """Return the reference page of one kind."""
    from holdfast.agent.generators.markdown import abilities

    remote, outputs = kind.remote is not None, _outputs(kind)
    lines = [kind.name, "", *_documentation(kind.docs, paper), "", "Arguments:"]
    lines += arguments(kind.fields, paper, remote=remote)
    lines += ["", "Set by the provider:", *arguments(outputs, paper, remote=remote)] if outputs else []
    refused = {name: why for name, why in kind.refused.items() if name not in {each.name for each in outputs}}
    former = {name: f"former name of {present}" for name, present in kind.former.items()}
    for title, items in (
        ("Accepted without effect:", kind.ignored),
        ("Refused:", refused),
        ("Former names:", former),
        ("What it does:", abilities(kind)),
    ):
        if items:
            lines += ["", title]
            lines += [line for name, text in items.items() for line in flow(f"  {name}: {text}", paper.width)]
    more = f"Every state also takes requisites (require, watch, ...) and what `holdfast doc {ALL}` lists."
    return "\n".join([*lines, "", *flow(more, paper.width)])


def _outputs(kind: KindModel) -> list[Field]:
    """Return the fields of a remote kind that only its provider sets; they are not arguments."""
    from dataclasses import replace

    from holdfast.resources import registry

    declared = getattr(registry.find(kind.name), "remote", None) if kind.remote is not None else None
    fields: Sequence[Field] = declared.model.fields if declared is not None else ()
    return [replace(each, required=False) for each in fields if each.out]


def _meta(model: SystemModel, paper: Paper) -> Iterator[str]:
    """Yield the reference page of the arguments that every state takes."""
    about = (
        "Arguments that every state takes, whatever its kind. "
        f"Besides these: name, names, order; the requisites {', '.join(each.name for each in model.requisites)}; "
        f"declared by a target, {', '.join(each.reversed_form for each in model.requisites if each.reversed_form)}."
    )
    yield from (ALL, "", *flow(about, _width(paper)), "", "Arguments:")
    yield from arguments(model.meta, paper)


def arguments(fields: Iterable[Field], paper: Paper, *, remote: bool = False) -> Iterator[str]:
    """Yield each argument with its type and default, and its description below; of a remote kind, with all options."""
    from holdfast.agent.generators.markdown import null_differs
    from holdfast.agent.generators.package_pages import restrictions
    from holdfast.agent.generators.remote_types import described
    from holdfast.agent.model.types import NONE, members, words

    for field in fields:
        limits = restrictions(field.type) if remote else ()
        null = " or null" if null_differs(field) or (remote and NONE in members(field.type)) else ""
        said = [words(field.type) + null, *limits, field.unit, default(field), "secret" if field.secret else ""]
        yield from flow(f"  {field.name} ({', '.join(filter(None, said))})", paper.width)
        yield from flow(" " * 6 + (" ".join(described(field)) if remote else field.doc), _width(paper))


def default(field: Field) -> str:
    """Return whether a field is required, or its default."""
    from holdfast.agent.model.model import ABSENT
    from holdfast.agent.model.types import written

    if field.required:
        return "required"
    if field.from_id:
        return "default the ID"
    return "" if field.default is ABSENT else f"default {written(field.default)}"


def _documentation(docs: Docs, paper: Paper) -> Iterator[str]:
    """Yield the paragraphs of a docstring, filled to the terminal's width, and its examples, indented."""
    yield from flow(docs.summary, _width(paper))
    for paragraph in docs.text:
        yield ""
        yield from flow(paragraph, _width(paper))
    for example in docs.examples:
        yield from ("", *textwrap.indent(example, EXAMPLE).split("\n"))


def _width(paper: Paper) -> int:
    """Return the width of text without line breaks of its own, in columns."""
    return min(100, paper.width or 100)
