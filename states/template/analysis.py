"""Analyses a template without running it: its syntax tree, its undefined names, and its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
from jinja2 import nodes

from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.files import Text
from holdfast.states.template.environment import StateEnvironment, environment
from holdfast.states.template.firstline import split_shebang
from holdfast.states.template.jinja import names_for, sls_variables
from holdfast.states.view.host_view import HostView

EXPRESSION = re.compile(r"\{\{.*?\}\}")
"""Pattern of Jinja in a line."""
DEFAULTING = frozenset({"default", "d"})
"""Filters that accept undefined values."""
HANDED = frozenset({"loop", "self", "super", "caller", "varargs", "kwargs"})
"""Names to which Jinja itself gives a value in places."""
ASKING = frozenset(
    {"defined", "undefined", "none", "string", "mapping", "number", "integer", "float", "boolean", "sequence", "sameas"}
)
"""Tests that accept undefined values."""


@dataclass(frozen=True, slots=True)
class Template:
    """One file with Jinja in it."""

    path: Path
    lines: list[str]
    tree: nodes.Template
    parts: dict[type[nodes.Node], list[Any]]
    """All nodes of the tree by their type."""

    def all(self, kind: type[nodes.Node]) -> list[Any]:
        """Return all nodes of a type."""
        return self.parts.get(kind, [])

    def problem(
        self, line: int, word: str, code: str, message: str, hint: str = "", *, secret: bool = False
    ) -> Problem:
        """Return a problem of a word in a line.

        Jinja knows no columns, so the word is searched for; the column is 0 if it is not found.
        """
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        found = re.search(rf"(?<![\w|]){re.escape(word)}(?!\w)", text)
        return Problem(
            Location(str(self.path), line, found.start() + 1 if found else 0),
            code,
            message,
            hint,
            "" if secret else text[:500],
        )


@cache
def jinja() -> StateEnvironment:
    """Return the environment that parses templates."""
    return environment(None, marks=False)


@cache
def known_names() -> frozenset[str]:
    """Return the names that every state file can use."""
    given = {*names_for(HostView()), *sls_variables("", ""), *jinja().globals}
    return frozenset(given) | HANDED


def read_template(text: Text) -> Template | None:
    """Return the template of a file; None if it has no Jinja, or cannot be parsed (the compiler reports that)."""
    if "{{" not in text.text and "{%" not in text.text:
        return None
    try:
        pipe, body = split_shebang(text)
        tree = jinja().parse(body)
    except (
        CompileError,
        jinja2.TemplateSyntaxError,
        RecursionError,
        ValueError,
    ):  # ValueError: a number with thousands of digits
        return None
    return Template(text.path, text.text.split("\n"), tree, _by_type(tree)) if "jinja" in pipe else None


def _by_type(tree: nodes.Template) -> dict[type[nodes.Node], list[Any]]:
    found: dict[type[nodes.Node], list[Any]] = {}
    todo: list[nodes.Node] = [tree]
    while todo:
        node = todo.pop()
        found.setdefault(type(node), []).append(node)
        todo += node.iter_child_nodes()
    return found


@dataclass(slots=True)
class Scope:
    """The names that are defined in one part of a template."""

    given: set[str]
    """Collects every name of every scope of the template."""
    outer: Scope | None = None
    names: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        """Return whether a name is defined here."""
        return name in self.names or (self.outer is not None and self.outer.has(name))

    def give(self, *names: str) -> None:
        """Define names."""
        self.names.update(names)
        self.given.update(names)

    def assign(self, target: nodes.Node) -> None:
        """Define the targets of an assignment: a name, or several."""
        if isinstance(target, nodes.Name):
            self.give(target.name)
        else:
            self.give(*(name.name for name in target.find_all(nodes.Name)))

    def inside(self, *names: str) -> Scope:
        """Return a nested scope with more names."""
        scope = Scope(self.given, self)
        scope.give(*names)
        return scope


class NameFinder:
    """Finds uses of undefined names. A name that a test asks for (`x is defined`) may be undefined.

    Names are processed in the order of the text. Macros also see names below them, because they are called later.
    """

    def __init__(self, tree: nodes.Template) -> None:
        self.given: set[str] = set()
        """Every name that is assigned anywhere; included templates see it."""
        self._found: list[nodes.Name] = []
        self._asked: set[str] = set()
        self._later: list[tuple[Iterable[nodes.Node], Scope]] = []
        self._all(tree.body, Scope(self.given))
        while self._later:
            self._all(*self._later.pop())

    def missing(self, known: frozenset[str]) -> Iterator[nodes.Name]:
        """Return the uses of names that are not in `known` either."""
        return (name for name in self._found if name.name not in known and name.name not in self._asked)

    def _all(self, several: Iterable[nodes.Node | None], scope: Scope) -> None:
        for node in several:
            if node is not None:
                self._node(node, scope)

    def _node(self, node: nodes.Node, scope: Scope) -> None:
        """Visit one node; nodes that define names are visited first."""
        match node:
            case nodes.Name():
                if node.ctx == "load" and not scope.has(node.name):
                    self._found.append(node)
            case nodes.Test(node=nodes.Name() as name) if node.name in ASKING:
                self._asked.add(name.name)
                self._all((*node.args, *node.kwargs), scope)
            case nodes.Filter(node=nodes.Name()) if node.name in DEFAULTING:
                self._all((*node.args, *node.kwargs), scope)
            case nodes.Import():
                self._node(node.template, scope)
                scope.give(node.target)
            case nodes.FromImport():
                self._node(node.template, scope)
                scope.give(*(name if isinstance(name, str) else name[1] for name in node.names))
            case nodes.Assign():
                self._node(node.node, scope)
                scope.assign(node.target)
            case _:
                self._block(node, scope)

    def _block(self, node: nodes.Node, scope: Scope) -> None:
        """Visit a node with a body, in a scope of its own."""
        match node:
            case nodes.AssignBlock():
                self._all((node.filter, *node.body), scope.inside())
                scope.assign(node.target)
            case nodes.For():
                self._node(node.iter, scope)
                inner = scope.inside()
                inner.assign(node.target)
                self._all((node.test, *node.body), inner)
                self._all(node.else_, scope.inside())
            case nodes.With():
                self._all(node.values, scope)
                inner = scope.inside()
                for target in node.targets:
                    inner.assign(target)
                self._all(node.body, inner)
            case nodes.Macro() | nodes.CallBlock():
                if isinstance(node, nodes.Macro):
                    scope.give(node.name)
                else:
                    self._node(node.call, scope)
                self._all(node.defaults, scope)
                self._later.append((node.body, scope.inside(*(argument.name for argument in node.args))))
            case nodes.FilterBlock():
                self._all((node.filter, *node.body), scope.inside())
            case _:
                self._all(node.iter_child_nodes(), scope)


def names_of(template: Template) -> NameFinder | None:
    """Return the names of a template; None when it is nested too deeply to be walked."""
    try:
        return NameFinder(template.tree)
    except RecursionError:
        return None


def parts_named(template: Template) -> Iterator[str | None]:
    """Yield the file name of each state file that a template imports, includes or extends; None for a computed name."""
    for node in (
        node for kind in (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends) for node in template.all(kind)
    ):
        tail = _tail(node.template)
        if tail.endswith(".sls") or not PurePosixPath(tail).suffix:
            yield PurePosixPath(tail).name if "/" in tail or _text(node.template) else None


def _tail(node: nodes.Node) -> str:
    """Return the known end of the text of an expression, as in `root ~ '/map.jinja'`."""
    if isinstance(node, nodes.Concat):
        return _tail(node.nodes[-1])
    return _tail(node.right) if isinstance(node, nodes.Add) else _text(node)


def calls(template: Template) -> Iterator[tuple[str, int]]:
    """Yield every `salt['module.function']` and `salt.module.function` of a template, with its line."""
    for node in (*template.all(nodes.Getitem), *template.all(nodes.Getattr)):
        if name := called(node):
            yield name, node.lineno


def called(node: nodes.Node) -> str:
    """Return the name of the function that an expression names; empty if it is not a function."""
    if isinstance(node, nodes.Getitem) and _is_salt(node.node):
        return _text(node.arg)
    deeper = isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Getattr) and _is_salt(node.node.node)
    return (
        f"{node.node.attr}.{node.attr}"
        if deeper and isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Getattr)
        else ""
    )


def asked_calls(template: Template) -> set[str]:
    """Return the functions for whose existence a template tests: `'x.y' in salt`."""
    asking = template.all(nodes.Compare)
    return {_text(compare.expr) for compare in asking if any(_is_salt(operand.expr) for operand in compare.ops)}


def asked_words(template: Template, what: str) -> set[str]:
    """Return the filters, or tests, for whose existence a template tests: `'x' is filter`."""
    return {
        str(each.node.value)
        for each in template.all(nodes.Test)
        if each.name == what and isinstance(each.node, nodes.Const)
    }


def literals(template: Template) -> Iterator[tuple[str, str, int]]:
    """Yield every text that a template assigns, by `set` or as a value of a mapping: (name, text, line)."""
    for assign in template.all(nodes.Assign):
        if isinstance(assign.target, nodes.Name) and (text := _text(assign.node)):
            yield assign.target.name, text, assign.lineno
    for pair in template.all(nodes.Pair):
        if (name := _text(pair.key)) and (text := _text(pair.value)):
            yield name, text, pair.value.lineno


def _is_salt(node: Any) -> bool:
    return isinstance(node, nodes.Name) and node.name == "salt"


def _text(node: nodes.Node) -> str:
    """Return the text of an expression; empty if it is not a constant text."""
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else ""
