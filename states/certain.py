"""What is certainly wrong with the template of a file, told without rendering it: its syntax, and what it uses that there is not.

Only what the template comes to whatever its variables are is certain: nothing below an `if`, and macros only where something names them.
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
    """All that is certainly wrong with a template."""
    plain = not text.text.startswith(OPTIONS)  # its signs are not those that are looked for
    template = read_template(text) if plain else None
    found = [] if template is None else list(_unknown(template, tree))
    yield from found
    if (
        not any(problem.code == "source-syntax" for problem in found)
        and (problem := syntax_problem(text, tree.root)) is not None
    ):
        yield replace(problem, code="source-syntax")


def _unknown(template: Template, tree: Tree) -> Iterator[Problem]:
    """Filters, tests, calls and templates that there are not."""
    asked = asked_calls(template)
    for node in certain(template.tree):
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


def certain(tree: nodes.Template) -> Iterator[nodes.Node]:
    """All that a template comes to whatever its variables are. What a loop does counts: it is there to be done."""
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
    """Whether a template is there; one beside another, or that cannot be looked for, may be."""
    if name.startswith(("./", "../")):
        return True
    try:
        path: Path = tree.template(name)
        return is_there(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
