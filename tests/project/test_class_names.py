"""One word for one thing: no two classes of the package have the same name."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APART = (ROOT / "resources/kinds", ROOT / "resources/remote")
"""Classes of kinds are named after functions of the language, such as `present` and `absent`; packages of remote
resources are programs of their own, whose classes are named after these resources, such as `Role`."""
WORDS = tuple(ROOT / each for each in ("resources/idl/__init__.py", "agent/plugins/stub.py", "agent/plugins/pack.py"))
"""The words of authors and users of packages (`idl.Resource`, `plugin.Found`), used with the module's."""


CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)


def test_no_two_classes_share_a_name():
    """Classes of kinds, and words of authors and users of packages, may share a name with other classes.

    Only the modules are parsed that seem to: the others would take seconds.
    """
    texts = {
        path: path.read_text()
        for folder in ("agent", "resources", "states")
        for path in (ROOT / folder).rglob("*.py")
        if not any(map(path.is_relative_to, APART)) and path not in WORDS
    }
    lines = Counter(name for text in texts.values() for name in CLASS.findall(text))
    assert len(lines) > 500
    places = defaultdict(list)
    for path, text in texts.items():
        if any(lines[name] > 1 for name in CLASS.findall(text)):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert {name: where for name, where in places.items() if len(where) > 1} == {}
