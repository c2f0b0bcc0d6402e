"""Finds errors in a template without rendering it: invalid syntax, and unknown filters, tests, calls and templates.

Only errors that do not depend on variables are reported: nothing below an `if`, and macros only if they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jinja2 import nodes

from holdfast.resources.spelling import nearest
from holdfast.states.errors import Problem
from holdfast.states.helpers.calls import NoSuchCall
from holdfast.states.helpers.table import TABLE
from holdfast.states.source.files import Text, Tree
from holdfast.states.template.analysis import Template, asked_calls, asked_words, called, jinja, read_template
from holdfast.states.template.firstline import OPTIONS
from holdfast.states.template.jinja import syntax_problem


class TemplatePart(NamedTuple):
    """Another template that a template imports, includes or extends, whatever its variables are."""

    name: str
    missing: Problem | None
    """The problem if the part does not exist; None: the part is optional."""


class TemplateFacts(NamedTuple):
    """The problems and the parts of a template, found without rendering it."""

    problems: tuple[Problem, ...] = ()
    parts: tuple[TemplatePart, ...] = ()


def facts_of(text: Text, tree: Tree, name: str | None) -> TemplateFacts:
    """Return the errors of a template that do not depend on its variables, and the other templates that it needs.

    `name` is its path from the root of the tree; None if it is not a file.
    """
    plain = not text.text.startswith(OPTIONS)  # options may change the delimiters
    template = read_template(text) if plain else None
    problems = [] if template is None else list(_unknown(template, tree))
    if not any(problem.code == "source-syntax" for problem in problems):
        problem = syntax_problem(text, name, tree.root)
        problems += [] if problem is None else [problem._replace(code="source-syntax")]
    return TemplateFacts(tuple(problems), () if template is None else tuple(_parts(template)))


def _parts(template: Template) -> Iterator[TemplatePart]:
    """Yield the other templates that a template always needs, without computed names."""
    for node in unconditional_nodes(template):
        if isinstance(node, (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)):
            name = node.template.value if isinstance(node.template, nodes.Const) else None
            if isinstance(name, str):
                problem = template.problem(
                    node.lineno,
                    name,
                    "template-missing",
                    f"there is no template {name}",
                    "paths begin at the states directory",
                )
                yield TemplatePart(name, None if getattr(node, "ignore_missing", False) else problem)


def _unknown(template: Template, tree: Tree) -> Iterator[Problem]:
    """Yield the problems of unknown filters, tests and calls."""
    asked = asked_calls(template)
    for node in unconditional_nodes(template):
        if isinstance(node, nodes.Filter):
            yield from _unknown_word(template, node, "filter", jinja().filters)
        elif isinstance(node, nodes.Test):
            yield from _unknown_word(template, node, "test", jinja().tests)
        elif isinstance(node, nodes.Call) and (name := called(node.node)) and name not in TABLE and name not in asked:
            error = NoSuchCall(name, TABLE, tree)
            yield template.problem(node.lineno, name, "template-call", str(error), error.hint)


def _unknown_word(
    template: Template, node: nodes.Filter | nodes.Test, what: str, known: Mapping[str, object]
) -> Iterator[Problem]:
    """Yield the problem of a filter or test that does not exist, unless the template tests for its existence."""
    if node.name not in known and node.name not in asked_words(template, what):
        near = nearest(node.name, known)
        hint = f"did you mean {near}?" if near else ""
        yield template.problem(node.lineno, node.name, "source-syntax", f"there is no {what} {node.name!r}", hint)


def unconditional_nodes(template: Template) -> Iterator[nodes.Node]:
    """Yield the nodes of a template that are evaluated whatever its variables are.

    The body of a loop counts as evaluated.
    """
    used = {name.name for name in template.all(nodes.Name) if name.ctx == "load"}
    todo: list[nodes.Node] = [template.tree]
    while todo:
        node = todo.pop()
        yield node
        match node:
            case nodes.If() | nodes.CondExpr():
                todo.append(node.test)
            case nodes.And() | nodes.Or():
                todo.append(node.left)
            case nodes.Macro() if node.name not in used:
                pass
            case _:
                todo += node.iter_child_nodes()
