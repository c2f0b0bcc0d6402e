"""Rules on templates of files and in states: undefined names, unknown functions in branches, and missing keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.resources.spelling import nearest
from holdfast.states.compile.check import Checked
from holdfast.states.compile.source_checks import placed
from holdfast.states.errors import CompileError, Problem
from holdfast.states.lint.keys import mistyped_in
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.lint.templates import unknown_in
from holdfast.states.source.files import Text, Tree
from holdfast.states.template.analysis import HANDED, NameFinder, Template, jinja, names_of, read_template
from holdfast.states.template.jinja import names_for
from holdfast.states.view.host_view import HostView

SCHEMES = ("salt://", "tree://")
ONE_OF = frozenset({"file.managed", "file.recurse"})
"""Kinds that use the first of their sources that exists."""
ALL_OF = frozenset({"file.append", "file.prepend", "file.blockreplace"})
"""Kinds that use all of their sources."""
PART = frozenset({"source", "name", "saltenv"})
OWN_OF = {"file.managed": PART | {"user", "group", "mode", "accumulator"}, **dict.fromkeys(ALL_OF, PART)}
"""Attributes of its state that the template of a file sees, and the texts of `file.accumulated`."""


@rule
def unknown_in_sources(subject: Subject) -> Iterator[Problem]:
    """Yield unknown functions, filters and tests in branches of templates that may never be taken; and missing keys.

    Unknown functions, filters and tests elsewhere are errors.
    """
    tree = subject.all_files()
    for url in {
        url
        for call in subject.calls
        if _is_template(call)
        for some in _urls(call)
        for url in some
        if url.startswith(SCHEMES)
    }:
        text = _text(tree, url)
        template = None if text is None else read_template(text)
        if template is not None:
            yield from unknown_in(template)
            yield from mistyped_in(template, subject)


@rule
def undefined_in_sources(subject: Subject) -> Iterator[Problem]:
    """Yield the names in templates of managed files that neither the template nor the context of the state defines."""
    tree = subject.all_files()
    templates: dict[str, tuple[Template, NameFinder] | None] = {}
    for call in subject.calls:
        urls = [url for some in _urls(call) for url in some if url.startswith(SCHEMES)]
        if not _is_template(call) or len(urls) != 1:
            continue
        if urls[0] not in templates:
            templates[urls[0]] = _template(tree, urls[0])
        found = templates[urls[0]]
        if found is None:
            continue
        yield from _undefined(*found, call)


@rule
def in_states(subject: Subject) -> Iterator[Problem]:
    """Yield the problems of `unknown_in_sources` and `undefined_in_sources`, for templates in arguments of states."""
    for call in subject.calls:
        for key, text in call.chunk.checked.inline if call.chunk.checked else ():
            template = read_template(Text(Path(call.chunk.spot.document.file), text, ""))
            names = None if template is None else names_of(template)
            if template is not None and names is not None:
                found = (*unknown_in(template), *mistyped_in(template, subject), *_undefined(template, names, call))
                yield from (placed(problem, call.chunk, key, text) for problem in found)


def _undefined(template: Template, names: NameFinder, call: Checked) -> Iterator[Problem]:
    """Yield the names that neither a template nor the context of its state defines."""
    given = _handed(call)
    for name in names.missing(_known() | given):
        near = nearest(name.name, given | names.given)
        hint = (
            f"did you mean {near}?" if near else "add it to 'context', give a default, or test whether it 'is defined'"
        )
        text = f"{name.name!r} is not defined; {call.chunk.identity} ({call.chunk.spot.location}) does not define it"
        yield template.problem(name.lineno, name.name, "template-name", text, hint)


def _is_template(call: Checked) -> bool:
    """Return whether the source of a state is a template, and one file."""
    return getattr(call.resource, "template", None) == "jinja" and call.resource.kind != "file.recurse"


def _urls(call: Checked) -> list[list[str]]:
    """Return the sources of a state: lists of alternatives."""
    resource: Any = call.resource
    if resource.kind == "cmd.script":
        return [[resource.source or resource.name.split(" ", 1)[0]]]
    if resource.kind in ALL_OF:
        return [[url] for url, _ in resource.all_sources()]
    if resource.kind in ONE_OF and resource.source:
        return [[url if isinstance(url, str) else url[0] for url in resource.source]]
    return []


def _text(tree: Tree, url: str) -> Text | None:
    """Return the file of a URL in the states directory; None if it cannot be read as text."""
    with suppress(CompileError, OSError):
        return tree.read(tree.template(_inside(url)))
    return None


def _inside(url: str) -> str:
    """Return the path of a URL below the states directory."""
    return url.partition("://")[2].partition("?")[0].lstrip("/")


def _template(tree: Tree, url: str) -> tuple[Template, NameFinder] | None:
    text = _text(tree, url)
    template = None if text is None else read_template(text)
    names = None if template is None else names_of(template)
    return None if template is None or names is None else (template, names)


def _handed(call: Checked) -> frozenset[str]:
    resource: Any = call.resource
    return frozenset({*(resource.context or {}), *(resource.defaults or {})} | OWN_OF.get(resource.kind, frozenset()))


@cache
def _known() -> frozenset[str]:
    """Return the names that every template of a managed file sees."""
    return frozenset({*names_for(HostView()), *jinja().globals}) | HANDED
