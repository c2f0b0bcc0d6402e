"""A skeleton of an interface, from the source of a module that serves as an example. The module is not run."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WIDTH = 120
EXAMPLE = "CLI Example"
"""Beginning of the end of Salt's docstrings, which an interface does not need."""
DIRECTIVE = ".. "
"""Beginning of paragraphs of Salt's docstrings that are not text for people."""
TYPES: Mapping[type, str] = {bool: "bool", int: "int", float: "float", str: "str"}
"""Type of a default -> annotation."""
EMPTY: Mapping[str, str] = {
    "ChangeSet": "ChangeSet()",
    "bool": "False",
    "int": "0",
    "float": "0.0",
    "str": '""',
    "dict": "{}",
    "list": "[]",
    "tuple": "()",
}
"""Beginning of an annotation of a result -> the empty result; any other result is None."""
HEAD = '''"""`{name}`: {about}"""

from __future__ import annotations

from typing import Any

from holdfast.resources.interfaces.base import Interface, Options
from holdfast.resources.interfaces.results import ChangeSet


class {title}Interface(Interface, name="{name}"):
    """{about}"""
'''


class Skeleton(NamedTuple):
    """One function of the interface."""

    name: str
    positional: list[str]
    keyword: list[str]
    result: str
    about: list[str]
    """Lines of the docstring."""

    def __str__(self) -> str:
        """Return the declaration as a method."""
        words = ["self", *self.positional, *(["*"] if self.keyword else []), *self.keyword]
        head = f"    async def {self.name}({', '.join(words)}) -> {self.result}:"
        if len(head) > WIDTH:
            lines = "".join(f"        {word},\n" for word in words)
            head = f"    async def {self.name}(\n{lines}    ) -> {self.result}:"
        doc = "\n\n".join("\n".join(_wrapped(paragraph)) for paragraph in self.about)
        end = "\n        " if len(self.about) > 1 else ""
        empty = next((value for start, value in EMPTY.items() if self.result.startswith(start)), "None")
        return f'{head}\n        """{doc.lstrip()}{end}"""\n        return {empty}\n'


def skeleton(source: str, name: str, stem: str) -> str:
    """Return the text of a module with an interface. `name` is its name; empty: the one that the module declares.

    `stem` is the name of the file. Raises `SyntaxError`, and `LookupError` for a module without public functions.
    """
    tree = ast.parse(source)
    functions = sorted(_functions(tree))
    if not functions:
        raise LookupError("has no public functions; name a module that has those of the interface")
    name = name or _constant(tree, "__virtualname__", stem)
    head = HEAD.format(name=name, title="".join(map(str.capitalize, name.split("_"))), about=_about(tree)[0])
    return "\n".join([head, *map(str, functions)])


def _functions(tree: ast.Module) -> Iterator[Skeleton]:
    """Yield the public functions, under whatever condition they are defined, by the names that callers use."""
    exported = _constant(tree, "__all__", None)
    alias: Mapping[str, str] = _constant(tree, "__func_alias__", {})
    found = {node.name: node for node in _statements(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for given, function in found.items():
        if not given.startswith("_") if exported is None else given in exported:
            yield _skeleton(alias.get(given, given), function)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a module, with those below `if` and `try`."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, (ast.If, ast.Try, ast.ExceptHandler)):
            yield from _statements(child)


def _skeleton(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Skeleton:
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    by_position = {each.arg: _parameter(each, default) for each, default in zip(plain, defaults, strict=True)}
    by_name = {
        each.arg: _parameter(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    }
    changes = "test" in {**by_position, **by_name} or _asks_for_test(function)
    for gone in ("self", "test", "options"):
        by_position.pop(gone, None)
        by_name.pop(gone, None)
    if given.vararg:
        by_position[given.vararg.arg] = f"{given.vararg.arg}: tuple[Any, ...] = ()"
    if changes:
        by_name["test"] = "test: bool = False"
    if changes or given.kwarg:
        by_name["options"] = "options: Options = None"
    result = "ChangeSet" if changes else ast.unparse(function.returns) if function.returns else "Any"
    return Skeleton(name, [*by_position.values()], [*by_name.values()], result, _about(function))


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    """Return a parameter with its type and default; a default that is computed or mutable becomes None."""
    declared = ast.unparse(argument.annotation) if argument.annotation else ""
    if default is None:
        return f"{argument.arg}: {declared or 'Any'}"
    try:
        value = ast.literal_eval(default)
    except ValueError:
        value = None
    if isinstance(value, (list, dict, set)):
        value = None
    if declared and value is None and "None" not in declared:
        declared = f"{declared} | None"
    written = json.dumps(value) if isinstance(value, str) else repr(value)
    return f"{argument.arg}: {declared or TYPES.get(type(value), 'Any')} = {written}"


def _asks_for_test(function: ast.AST) -> bool:
    """Return whether a function of Salt's asks whether it may change anything: `__opts__["test"]`."""
    return any(
        isinstance(node, ast.Subscript) and ast.unparse(node) == "__opts__['test']" for node in ast.walk(function)
    )


def _about(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the paragraphs of a docstring, at least one, without those that only Salt needs."""
    found = []
    for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
        if paragraph.lstrip().startswith(EXAMPLE):
            break
        if paragraph.lstrip().startswith(DIRECTIVE):
            continue
        if text := " ".join(paragraph.split()).replace("\\", "\\\\").replace('"""', "'''"):
            found.append(text)
    first, *rest = found or ["To be described."]
    return [first if first.endswith((".", ":")) else f"{first}.", *rest]


def _wrapped(paragraph: str) -> list[str]:
    return textwrap.wrap(paragraph, WIDTH - 12, initial_indent=" " * 8, subsequent_indent=" " * 8)


def _constant(tree: ast.Module, name: str, default: Any) -> Any:
    """Return the value of a constant of a module; the default if the module does not set it to a literal."""
    for node in _statements(tree):
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                return default
    return default
