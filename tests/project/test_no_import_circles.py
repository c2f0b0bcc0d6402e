"""Modules of resources/ and states/ import each other in one direction only: each can be read, tested and loaded without the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_no_circle() -> None:
    """No module imports itself by way of others, neither at its top nor in a function."""
    try:
        TopologicalSorter(imports(ROOT)).prepare()
    except CycleError as error:
        pytest.fail("modules import each other: " + " <- ".join(error.args[1]))


def test_packages_load_nothing() -> None:
    """The `__init__` of a package imports none of its modules, for who needs one of them would load all; but for `paths`, which is one thing."""
    loaded = {name: found for name, found in imports(ROOT).items() if (ROOT / name.replace(".", "/")).is_dir()}
    assert {
        name: below
        for name, found in loaded.items()
        if name != "resources.paths" and (below := {each for each in found if each.startswith(f"{name}.")})
    } == {}


def test_circles_are_found(tmp_path: Path) -> None:
    """A circle is found that goes through a function, and by the package of what is imported."""
    package = tmp_path / "states" / "family"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from holdfast.states.family import one\n")
    (package / "one.py").write_text("def late():\n    import holdfast.states.other\n")
    (tmp_path / "states" / "other.py").write_text("from holdfast.states.family.two import x\n")
    (package / "two.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from holdfast.states.family import one\n"
    )
    found = imports(tmp_path)
    assert found["states.family.one"] == {"states.other"}
    assert found["states.other"] == {"states.family.two", "states.family"}
    assert found["states.family.two"] == set()
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()


def imports(root: Path) -> dict[str, set[str]]:
    """Module -> modules that it imports, of these two folders; importing one runs the `__init__` of its packages, too."""
    files = {
        name(path.relative_to(root)): path
        for folder in ("resources", "states")
        for path in (root / folder).rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        named = {target for node in nodes(ast.parse(path.read_text())) for target in targets(node)}
        around = {
            ".".join(parts[:end])
            for parts in (target.split(".") for target in named)
            for end in range(1, len(parts) + 1)
        }
        found[module] = {target for target in around if target in files and not f"{module}.".startswith(f"{target}.")}
    return found


def name(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, but for what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes(node)


def targets(node: ast.AST) -> Iterator[str]:
    """What a node imports of the package, without its name; a name that is imported may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name.removeprefix("holdfast.") for alias in node.names if alias.name.startswith("holdfast."))
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast."):
        module = node.module.removeprefix("holdfast.")
        yield from (f"{module}.{alias.name}" for alias in node.names)
