"""Finds errors in a template without rendering it: invalid syntax, and unknown filters, tests, calls and templates.

Only errors that do not depend on variables are reported: nothing below an `if`, and macros only if they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jinja2 import nodes

from holdfast.resources.registry import nearest
from holdfast.states.errors import Problem
from holdfast.states.firstline import OPTIONS
from holdfast.states.helpers.calls import NoSuchCall
from holdfast.states.helpers.table import TABLE
from holdfast.states.jinja import syntax_problem
from holdfast.states.lint.template import Template, asked_calls, asked_words, called, jinja, read_template
from holdfast.states.source import Text, Tree, is_there


def certain_problems(text: Text, tree: Tree) -> Iterator[Problem]:
    """The errors of a template that do not depend on its variables."""
    plain = not text.text.startswith(OPTIONS)  # options may change the delimiters
    template = read_template(text) if plain else None
    found = [] if template is None else list(_unknown(template, tree))
    yield from found
    if (
        not any(problem.code == "source-syntax" for problem in found)
        and (problem := syntax_problem(text, tree.root)) is not None
    ):
        yield replace(problem, code="source-syntax")


def _unknown(template: Template, tree: Tree) -> Iterator[Problem]:
    """Problems of unknown filters, tests, calls and templates."""
    asked = asked_calls(template)
    for node in unconditional_nodes(template.tree):
        if isinstance(node, (nodes.Filter, nodes.Test)):
            what, known = ("filter", jinja().filters) if isinstance(node, nodes.Filter) else ("test", jinja().tests)
            if node.name not in known and node.name not in asked_words(template, what):
                near = nearest(node.name, known)
                hint = f"did you mean {near}?" if near else ""
                yield template.problem(
                    node.lineno, node.name, "source-syntax", f"there is no {what} {node.name!r}", hint
                )
        elif isinstance(node, nodes.Call) and (name := called(node.node)) and name not in TABLE and name not in asked:
            error = NoSuchCall(name, TABLE, tree)
            yield template.problem(node.lineno, name, "template-call", str(error), error.hint)
        elif isinstance(node, (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)):
            part = node.template.value if isinstance(node.template, nodes.Const) else None
            if isinstance(part, str) and not getattr(node, "ignore_missing", False) and not _exists(tree, part):
                hint = "paths begin at the states directory"
                yield template.problem(node.lineno, part, "template-missing", f"there is no template {part}", hint)


def unconditional_nodes(tree: nodes.Template) -> Iterator[nodes.Node]:
    """The nodes of a template that are evaluated whatever its variables are. The body of a loop counts as evaluated."""
    used = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}
    todo: list[nodes.Node] = [tree]
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


def _exists(tree: Tree, name: str) -> bool:
    """Whether a template exists; True for a relative name, and if the file system cannot say."""
    if name.startswith(("./", "../")):
        return True
    try:
        path: Path = tree.template(name)
        return is_there(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
