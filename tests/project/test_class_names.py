"""No two classes of the package have the same name."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = {ROOT / each for each in ("resources/idl/__init__.py", "agent/plugins/stub.py", "agent/plugins/pack.py")}
"""The words of authors and users of packages (`idl.Resource`, `plugin.Found`), used with the module's."""
REMOTE = ROOT / "resources/remote"
CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)


def modules() -> Iterator[Path]:
    """Yield the modules whose classes need names of their own.

    A resource of a package has one name in its declaration, in the stub and in the pack.
    """
    for folder in ("agent", "resources", "states"):
        for path in (ROOT / folder).rglob("*.py"):
            of_resources = {"idl", "pack"} & {*path.relative_to(ROOT).parts} or path.stem.endswith("_stub")
            if path not in WORDS and not (REMOTE in path.parents and of_resources):
                yield path


def is_kind(cls: ast.ClassDef) -> bool:
    """Return whether a class is a kind, which has the name of its function: `present`, `absent`, `run`."""
    return any(keyword.arg == "kind" for keyword in cls.keywords)


def test_no_two_classes_share_a_name() -> None:
    """Bases and helpers of kinds need names of their own, too.

    Only the modules are parsed that seem to share one: the others would take seconds.
    """
    texts = {path: path.read_text() for path in modules()}
    lines = Counter(name for text in texts.values() for name in CLASS.findall(text))
    assert len(lines) > 500
    places = defaultdict(list)
    for path, text in texts.items():
        if any(lines[name] > 1 for name in CLASS.findall(text)):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and not is_kind(node):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert not shared, "rename one of the classes: say what distinguishes it, as in `HostOfAgent`"
