"""Each part of a vertex has one writer, which its docstring names; checked in the syntax trees of all modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.engine.model import vertex as model

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "agent/engine"
PARTS = {"links": model.Links, "queue": model.Queue, "watching": model.Watching, "run": model.Run}
PARTS |= {"last": model.Last, "rate": model.Rate, "probe": model.Probe}
CONTEXT = {"assignment": "call/attempt.py", "report": "call/attempt.py", "background": "watch/backgrounds.py"}
"""Attribute of a vertex's context that the engine writes -> its writer."""
MUTATORS = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
    *("add", "discard", "update", "popitem", "setdefault", "appendleft", "popleft"),
    *("difference_update", "intersection_update", "symmetric_difference_update"),
}
INDIRECT = {"setattr", "delattr", "vars", "__setattr__", "__delattr__"}
"""Names by which a field could be written without its name in the syntax tree."""


def fields(cls: type) -> tuple[str, ...]:
    """Return the fields of a part or of the vertex."""
    return tuple(cls.__annotations__)


def named_writer(text: str) -> str:
    """Return the module that a docstring names as the writer."""
    found = re.search(r"Written by\s+`([\w/]+\.py)`", text)
    return found[1] if found else ""


def vertex_writers() -> dict[str, str]:
    """Return the module that writes each field of the vertex; empty: none does after the construction."""
    tree = ast.parse(Path(model.__file__).read_text())
    (cls,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Vertex"]
    writers: dict[str, str] = {}
    for field, doc in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = doc.value.value if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) else ""
            writers[field.target.id] = named_writer(str(text))
    return writers


def owners() -> dict[str, set[str]]:
    """Return the modules that may write an attribute, by the name of its field."""
    found = {name: {writer} for name, writer in CONTEXT.items()}
    for name, writer in vertex_writers().items():
        found.setdefault(name, set()).update({writer} - {""})
    for name, part in PARTS.items():
        writer = named_writer(part.__doc__ or "")
        found[name].add(writer)
        for field in fields(part) if not issubclass(part, tuple) else ():  # the fields of a tuple cannot be written
            found.setdefault(field, set()).add(writer)
    return found


def written(node: ast.expr) -> Iterator[tuple[ast.expr, str, int]]:
    """Yield each attribute that an assignment to this target writes: its object, its name, the line."""
    if isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from written(each)
    elif isinstance(node, ast.Starred | ast.Subscript):
        yield from written(node.value)
    elif isinstance(node, ast.Attribute):
        yield node.value, node.attr, node.lineno


def aliases(tree: ast.AST) -> dict[str, str]:
    """Return the field whose value each local name was given."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.NamedExpr | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and isinstance(value, ast.Attribute):
                        found[name.id] = value.attr
    return found


def targets_of(node: ast.AST) -> list[ast.expr]:
    """Return what a node of the syntax tree writes."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor | ast.NamedExpr | ast.comprehension):
        return [node.target]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [node.optional_vars]
    return [node.func.value] if is_mutation(node) else []


def is_mutation(node: ast.AST) -> bool:
    """Return whether a node calls a method that changes a container."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS


def writes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each write of an attribute of another object: its name and the line."""
    for node in ast.walk(tree):
        for target in targets_of(node):
            for value, name, line in written(target):
                if not (isinstance(value, ast.Name) and value.id == "self"):
                    yield name, line
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known = aliases(node)
            for call in filter(is_mutation, ast.walk(node)):
                if isinstance(call.func.value, ast.Name) and call.func.value.id in known:
                    yield known[call.func.value.id], call.lineno


def indirect(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each place that may write attributes by names that are known only at run time."""
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in INDIRECT:
            yield name, node.lineno


def intruders(path: str, source: str) -> list[str]:
    """Return the writes in this source, a module of the engine by its path, that belong to other modules."""
    tree, allowed = ast.parse(source), owners() | {"__dict__": set()}
    found = [f"{path}:{line}: {name}" for name, line in writes(tree) if path not in allowed.get(name, {path})]
    return found + [f"{path}:{line}: {name}" for name, line in indirect(tree)]


def test_each_part_names_its_writer() -> None:
    """The module exists. Parts that are always there are never replaced, so the vertex has no writer for them."""
    writers = {name: named_writer(part.__doc__ or "") for name, part in PARTS.items()} | {
        name: writer for name, writer in vertex_writers().items() if name not in {*PARTS, "ctx"}
    }

    assert set(writers) | {"ctx"} == set(fields(model.Vertex)), "name the writer in the docstring of the field"
    unknown = [name for name, writer in writers.items() if not (ENGINE / writer).is_file() or not writer]
    assert not unknown, "their docstrings must name a module of agent/engine as the writer"


def test_no_field_has_two_writers() -> None:
    """A name that two parts share would allow each writer to write the field of the other."""
    assert {name: modules for name, modules in owners().items() if len(modules) > 1} == {}


@pytest.mark.parametrize(
    "path", sorted(path.relative_to(ENGINE).as_posix() for path in ENGINE.rglob("*.py")), ids=lambda path: path
)
def test_no_module_of_the_engine_writes_the_field_of_another(path: str) -> None:
    """A module that needs a change calls a method of the writer."""
    found = intruders(path, (ENGINE / path).read_text())
    assert not found, "call a method of the writer, which the docstring of the part names"


def test_no_other_module_of_the_agent_writes_a_part() -> None:
    """The rest of the agent reads vertices, to show them."""
    found = []
    for path in sorted((ROOT / "agent").rglob("*.py")):
        source = path.read_text()
        if ENGINE not in path.parents and "engine.model.vertex" in source:
            found += [each for each in intruders(path.as_posix(), source) if each.rpartition(": ")[2] not in INDIRECT]

    assert not found, "only modules of agent/engine write vertices: ask the engine"


@pytest.mark.parametrize(
    "source",
    [
        "vertex.queue.dirty = True",
        "vertex.queue.generation += 1",
        "vertex.queue.cause: str = 'poll'",
        "vertex.run = Run()",
        "vertex.ctx.report = Report()",
        "a, vertex.timer = 1, None",
        "del vertex.last.outcome",
        "for vertex.queue.round in (1, 2): pass",
        "with entered() as vertex.run.task: pass",
        "[0 for vertex.paused in (True,)]",
        "vertex.queue.waiters.append(other)",
        "vertex.queue.waiters[0] = other",
        "def f(vertex):\n    waiters = vertex.queue.waiters\n    waiters.append(vertex)",
        "def f(vertex):\n    queue = vertex.queue\n    queue.dirty = True",
        "setattr(vertex.queue, 'dirty', True)",
        "object.__setattr__(vertex, 'run', None)",
        "vertex.__dict__['run'] = None",
    ],
)
def test_writes_of_all_kinds_are_found(source: str) -> None:
    """The rule itself is tested: each of these lines would be an intruder in any module without parts."""
    assert intruders("decide/requisites.py", source) != []
