"""Directories of Python modules for Salt, such as `_modules`.

Holdfast does not load them, and says what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from holdfast.resources import paths
from holdfast.states.source import hostfiles
from holdfast.states.source.files import Tree

KIND = (
    "write it as a kind of your own, one Python file in the directory that agent.yaml names as 'resources'"
    " (CONTRIBUTING shows one)"
)
DATA = "compute the value in a template, or put it into the pillar or the grains (agent.yaml: grains, grains_file)"
INSTEAD: Mapping[str, str] = {
    "_states": KIND,
    "_modules": DATA,
    "_utils": DATA,
    "_grains": "put the values into the grains (agent.yaml: grains, grains_file)",
    "_pillar": "put the data into pillar files",
    "_tops": "write a top file",
    "_matchers": "match by grains, pillar or a compound of them",
    "_renderers": "write the file in Jinja and YAML, or JSON",
    "_serializers": "use an existing format, or a template",
    "_sdb": "put the values into the pillar",
}
"""Directory of Salt -> what to do instead of its modules."""
REST = tuple(
    f"_{word}"
    for word in [
        "auth",
        "beacons",
        "cache",
        "clouds",
        "engines",
        "executors",
        "log_handlers",
        "output",
        "proxy",
        "queues",
        "returners",
        "roster",
        "runners",
        "thorium",
        "tokens",
        "wheel",
        "wrapper",
    ]
)
"""Directories that an agent without a master does not need."""


def modules(tree: Tree, directory: str) -> list[str]:
    """Return the names of the Python files in such a directory, sorted; empty if it is missing or cannot be read."""
    try:
        return sorted(
            name for name in hostfiles.names(f"{tree.root}/{directory}") if name.endswith((".py", ".pyx", ".so"))
        )
    except (OSError, ValueError, paths.Unsafe):
        return []


def grain_of(tree: Tree | None, grain: str) -> str:
    """Return a hint for a grain that a module in the tree's `_grains` seems to set: the module has its name in quotes.

    Empty if there is no such module.
    """
    if tree is None:
        return ""
    for name in modules(tree, "_grains"):
        with suppress(OSError, ValueError, paths.Unsafe):
            text = hostfiles.read_text(f"{tree.root}/_grains/{name}")
            if re.search(rf"""(['"]){re.escape(grain)}\1""", text):
                return instead(tree, "_grains", name.removesuffix(".py"))
    return ""


def instead(tree: Tree | None, directory: str, name: str) -> str:
    """Return advice on a function of a module in such a directory; empty if there is no such module."""
    if tree is None or f"{name}.py" not in modules(tree, directory):
        return ""
    return f"{directory}/{name}.py is a module for Salt, which Holdfast does not load: {INSTEAD[directory]}"
