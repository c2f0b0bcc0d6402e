"""Rules on mistyped keys: a template or a state asks for a missing pillar or grain key, and a similar key exists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import nodes

from holdfast.resources.lookup import near_key
from holdfast.states.compile.check import spot_of
from holdfast.states.errors import Problem
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.source.extensions import grain_of
from holdfast.states.template.analysis import ASKING, DEFAULTING, Template, called
from holdfast.states.view.values import MISSING, traverse


class Asking(NamedTuple):
    """Where the arguments of a call name a key."""

    where: str
    """The mapping that has the key: `pillar` or `grains`."""
    position: int = 0
    keyword: str = "key"
    default: int | None = 1
    """The position of the default value; a keyword `default` always is one."""


CALLS: Mapping[str, Asking] = {
    "pillar.get": Asking("pillar"),
    "pillar.fetch": Asking("pillar"),
    "pillar.keys": Asking("pillar", default=None),
    "pillar.filter_by": Asking("pillar", 1, "pillar", None),
    "grains.get": Asking("grains"),
    "grains.fetch": Asking("grains"),
    "grains.equals": Asking("grains", default=None),
    "grains.filter_by": Asking("grains", 1, "grain", None),
}
"""Calls that do not fail when the key is missing."""


@rule
def mistyped(subject: Subject) -> Iterator[Problem]:
    """Yield the keys in the templates of state files."""
    for template in subject.templates:
        yield from mistyped_in(template, subject)


@rule
def mistyped_contents(subject: Subject) -> Iterator[Problem]:
    """Yield the keys in `contents_pillar` and `contents_grains`."""
    for call in subject.calls:
        resource: Any = call.resource
        if resource.kind != "file.managed" or resource.contents_delimiter != ":":
            continue
        for where in ("pillar", "grains"):
            for key in getattr(resource, f"contents_{where}"):
                if hint := _hint(subject, where, key, plain=False):
                    spot = spot_of(call.chunk, (f"contents_{where}",))
                    yield spot.problem("key-missing", f"{call.chunk.identity}: {_lacks(where, key)}", hint)


def mistyped_in(template: Template, subject: Subject) -> Iterator[Problem]:
    """Report each missing key in one template for which a similar key exists.

    A key may be missing if the template tests for it or gives a default.
    """
    asked = _asked(template)
    for node in template.all(nodes.Call):
        if node not in asked and (found := _key(node)):
            where, key, plain = found
            if hint := _hint(subject, where, key, plain=plain):
                yield template.problem(
                    node.lineno, key, "key-missing", f"{_lacks(where, key)}, and the call has no default", hint
                )


def _lacks(where: str, key: str) -> str:
    return f"the {where} {'have' if where == 'grains' else 'has'} no {key!r}"


def _hint(subject: Subject, where: str, key: str, *, plain: bool) -> str:
    """Return a hint about a missing key; empty if the key exists or no similar key is found."""
    data = subject.inputs.grains if where == "grains" else subject.inputs.pillar
    if key in data:
        return ""
    if traverse(data, key, MISSING) is not MISSING:
        return f"write salt['{where}.get']('{key}') for a key below another" if plain else ""
    if where == "grains" and (module := grain_of(subject.all_files(), key.partition(":")[0])):
        return module
    near = near_key(data, key)
    return f"did you mean {near!r}?" if near and _letters(near) != _letters(key) else ""


def _letters(key: str) -> str:
    """Return a key without digits: keys that differ only in digits are not typing errors."""
    return re.sub(r"\d", "", key)


def _key(call: nodes.Call) -> tuple[str, str, bool] | None:
    """Return (mapping, key, whether the call is `get` of the mapping itself); None for a call with a default."""
    name = called(call.node)
    asking = CALLS.get(name) if name else _get_of(call.node)
    if asking is None:
        return None
    given = {pair.key: pair.value for pair in call.kwargs}
    if _may_have_default(call, asking) or "delimiter" in given:
        return None
    key = call.args[asking.position] if len(call.args) > asking.position else given.get(asking.keyword)
    return (asking.where, key.value, not name) if isinstance(key, nodes.Const) and isinstance(key.value, str) else None


def _may_have_default(call: nodes.Call, asking: Asking) -> bool:
    """Return whether a call gives a default, or has computed arguments."""
    positional = asking.default is not None and len(call.args) > asking.default
    return positional or bool(call.dyn_args or call.dyn_kwargs) or any(pair.key == "default" for pair in call.kwargs)


def _get_of(target: nodes.Node) -> Asking | None:
    """Return `pillar.get` or `grains.get`, the method of the mapping itself; None for other functions."""
    if not isinstance(target, nodes.Getattr) or target.attr != "get" or not isinstance(target.node, nodes.Name):
        return None
    return Asking(target.node.name) if target.node.name in ("pillar", "grains") else None


def _asked(template: Template) -> set[nodes.Node]:
    """Return the expressions that a template tests, or for which it gives an alternative."""
    todo = _tested(template)
    asked: set[nodes.Node] = set()
    while todo:
        node = todo.pop()
        if isinstance(node, (nodes.And, nodes.Or)) and node not in asked:
            todo += (node.left, node.right)
        asked.add(node)
    names = {node.name for node in asked if isinstance(node, nodes.Name)}
    asked.update(
        node.node
        for node in template.all(nodes.Assign)
        if isinstance(node.target, nodes.Name) and node.target.name in names
    )
    return asked


def _tested(template: Template) -> list[nodes.Node]:
    """Return the conditions of a template, and the operands that may be missing."""
    operands = (*template.all(nodes.Not), *template.all(nodes.Filter), *template.all(nodes.Test))
    return [
        *(node.test for node in (*template.all(nodes.If), *template.all(nodes.CondExpr))),
        *(node.left for node in template.all(nodes.Or)),
        *(node.node for node in operands if _asks(node)),
    ]


def _asks(node: nodes.Not | nodes.Filter | nodes.Test) -> bool:
    """Return whether the operand of a node may be missing."""
    return isinstance(node, nodes.Not) or node.name in (DEFAULTING if isinstance(node, nodes.Filter) else ASKING)
