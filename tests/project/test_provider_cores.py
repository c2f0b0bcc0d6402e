"""The core of a provider is short and is at the beginning of its class, where an author looks for it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from holdfast.resources.interfaces import registry
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.providers.pkg_base import HoldingProvider, UnneededProvider

MOST = 60
"""Greatest number of lines of a core."""
OPTIONAL = (HoldingProvider, UnneededProvider)
"""Bases that add functions for further abilities of tools: these functions do not belong to the core."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def built_in() -> Iterator[type]:
    """Yield the providers of this repository."""
    for name in registry.names():
        registry.offers(registry.demand(name))
    for offer in Provider.registered:
        if offer.home.startswith("holdfast.resources.providers.") and not isinstance(offer.source, ModuleType):
            yield offer.source


def asked(provider: type) -> set[str]:
    """Return the names of the functions that the bases of a provider require."""
    return {
        name
        for base in provider.__mro__
        if base not in OPTIONAL
        for name, member in vars(base).items()
        if getattr(member, "__isabstractmethod__", False)
    }


def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a class."""
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    return node.body


def length(source: str, core: set[str]) -> int:
    """Return the number of lines of a core and of its attributes, without documentation, comments and blank lines."""
    lines, counted = source.splitlines(), set[int]()
    for node in statements(source):
        if isinstance(node, ast.Expr) or (isinstance(node, Function) and node.name not in core):
            continue
        counted.update(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, Function) and ast.get_docstring(node) is not None:
            counted.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(lines[number - 1].strip()[:1] not in ("", "#") for number in counted)


def is_first(source: str, core: set[str]) -> bool:
    """Return whether no function precedes one of the core, except the constructor."""
    functions = [node.name for node in statements(source) if isinstance(node, Function) and node.name != "__init__"]
    belongs = [name in core for name in functions]
    return belongs == sorted(belongs, reverse=True)


def test_the_core_of_a_provider_has_at_most_60_lines():
    """A reader can read that many lines at a glance; further functions of a tool follow the core."""
    found = {provider.__name__: length(inspect.getsource(provider), asked(provider)) for provider in built_in()}

    assert found["Zypper"] > 20
    long = {name: lines for name, lines in found.items() if lines > MOST}
    assert not long, f"shorten the core to {MOST} lines: move what the tool can do besides below it"


def test_the_core_of_a_provider_comes_first():
    """Helpers and further functions follow the core."""
    others = [each.__name__ for each in built_in() if not is_first(inspect.getsource(each), asked(each))]
    assert not others, "move the abstract functions of the base to the beginning of the class"


SOURCE = '''class Tool(Base):
    """A tool."""

    lists = (
        "a",
    )
    """Its lists."""

    def __init__(self): ...

    async def _query(self):
        """Read."""
        # all of it
        return await self._run(
            "tool",
        )

    def _helper(self): ...
'''


def test_what_counts_as_a_line():
    """The lines are the attributes and functions of the core, as they are written."""
    assert length(SOURCE, {"_query"}) == 3 + 4
    assert length(SOURCE, {"_query", "_helper"}) == 3 + 4 + 1


@pytest.mark.parametrize(("core", "first"), [({"_query"}, True), ({"_query", "_helper"}, True), ({"_helper"}, False)])
def test_what_counts_as_first(core: set[str], first: bool):
    """A constructor may precede the core."""
    assert is_first(SOURCE, core) == first
