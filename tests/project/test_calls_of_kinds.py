"""The engine calls the code of kinds in the modules that `kinds.py` names, so an exception of a kind ends there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "agent/engine"
QUESTIONS = (
    "uids", "touches", "action", "reacts", "cmp", "group", "offers", "dependencies",
    "model_validate", "model_dump_json",
)  # fmt: skip
COROUTINES = {
    "check_apply": "call/attempt.py",
    "refresh": "call/attempt.py",
    "apply_together": "model/batch.py",
    "inverse": "execute/reversals.py",
    "background": "watch/backgrounds.py",
}
CALLERS = dict.fromkeys(QUESTIONS, "kinds.py") | COROUTINES
"""Method of kinds -> the module of the engine that calls it."""
BY_EDGES = {("model/autoedges.py", "offers"), ("model/autoedges.py", "dependencies")}
"""An exception here is reported, and the graph has no automatic edges."""


def calls(source: str) -> Iterator[tuple[str, str, int]]:
    """Yield each use of a method of kinds in a module: the object, the method, the line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in CALLERS:
            yield ast.unparse(node.value), node.attr, node.lineno


@pytest.mark.parametrize("path", sorted(path.relative_to(ENGINE).as_posix() for path in ENGINE.rglob("*.py")))
def test_only_the_named_modules_call_kinds(path: str) -> None:
    """`kinds.uids(...)` and `self.group` of the engine itself are no calls of a kind."""
    found = [
        f"{path}:{line}: {what}.{method}"
        for what, method, line in calls((ENGINE / path).read_text())
        if path != CALLERS[method] and (path, method) not in BY_EDGES and is_resource(what)
    ]

    assert not found, "call the function of agent/engine/kinds.py, which handles the exceptions of kinds"


def is_resource(what: str) -> bool:
    """Return whether an expression may be a resource, not an engine object with methods of the same name."""
    return "resource" in what or what in {"old", "new", "one", "other", "refreshable", "cls", "self._kind"}


@pytest.mark.parametrize("method", sorted(CALLERS))
def test_each_call_of_a_kind_is_found(method: str) -> None:
    """The rule itself is tested: a call on a resource is found, however it is reached."""
    resources = ("vertex.resource", "resource", "vertex.call.resource")
    source = "".join(f"{each}.{method}()\n" for each in resources)

    assert [(found, is_resource(what)) for what, found, _ in calls(source)] == [(method, True)] * 3


def test_the_module_names_the_others() -> None:
    """Its docstring says where coroutines of kinds are awaited."""
    text = (ENGINE / "kinds.py").read_text().partition("import")[0]

    assert all(f"`{path}`" in text for path in COROUTINES.values() if "watch/" not in path)
    assert "`watch/`" in text
