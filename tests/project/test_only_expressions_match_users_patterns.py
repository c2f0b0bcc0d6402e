"""Only `resources/expressions` matches patterns of users, with a time limit; other patterns are literals in code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COVERED = ("agent", "resources", "states")
APART = "resources/expressions.py"
MATCHING = frozenset(["compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"])
EDITS = "an edit is made within `cpu_timeout`, and by a process of its own when that time is over"
EXCEPTIONS = {
    "resources/kinds/file/block.py: _with_block": EDITS,
    "resources/kinds/file/line.py: holds": EDITS,
    "resources/kinds/_commands.py: _bare": "the name of the program is escaped, and the labels are literals",
    "resources/kinds/file/replace.py: _fits": "it is only compiled",
    "resources/kinds/file/replace.py: edited": EDITS,
    "resources/kinds/file/replace.py: anchored": EDITS,
    "resources/kinds/file/edit.py: regular": "it is only compiled",
    "resources/kinds/file/keyvalue.py: _find": "key and separator are escaped, and the signs are literals or escaped",
    "resources/fields.py: shaped": "the patterns are literals of the kinds",
    "resources/kinds/_known_hosts.py: <module>": "the pattern of types is a literal of another module",
    "agent/cli/options.py: span": "the units are literals",
    "resources/providers/_homes.py: default": "the name is a literal of the callers",
    "states/parse/line_marks.py: <module>": "the marks are literals",
    "states/lint/secrets.py: <module>": "the shapes are literals",
    "states/parse/marks.py: sought": "the word is escaped",
    "states/template/environment.py: _pinned": "a name, escaped",
}
"""Module and function with a pattern that is neither a literal nor an `Expression` -> why it cannot take long."""


def patterns() -> Iterator[str]:
    """Return module and function of each call of `re` whose pattern does not consist of literals and `re.escape`."""
    for path in sorted(path for folder in COVERED for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if not re.search(r"\bre\b", text):
            continue  # it takes seconds to look at all syntax trees
        tree = ast.parse(text)
        constants = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for function in calls(tree, "<module>", constants):
            yield f"{path.relative_to(ROOT)}: {function}"


def calls(node: ast.AST, function: str, constants: set[str]) -> Iterator[str]:
    """Yield each such call with its innermost function."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            function = name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr), args=[pattern, *_]) if attr in MATCHING:
            if not literal(pattern, constants):
                yield function
    for child in ast.iter_child_nodes(node):
        yield from calls(child, function, constants)


def literal(node: ast.expr, constants: set[str]) -> bool:
    """Return whether an expression consists of literals, constants of the module and escaped text."""
    match node:
        case ast.Name(id=name):
            return name in constants
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return literal(left, constants) and literal(right, constants)
        case ast.JoinedStr(values=values):
            return all(
                literal(value.value if isinstance(value, ast.FormattedValue) else value, constants) for value in values
            )
        case (
            ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[part])
            | ast.GeneratorExp(elt=part)
            | ast.Subscript(value=part)
        ):
            return literal(part, constants)
        case ast.Call(func=function, args=[first, *_]):
            return "re.escape" in (ast.unparse(function), ast.unparse(first))
    return isinstance(node, ast.Constant)


def test_no_other_module_matches_a_pattern_of_a_user():
    """Every other pattern is a literal, or an exception that is listed here with its reason."""
    found = {where for where in patterns() if not where.startswith(APART)}

    assert not found - set(EXCEPTIONS), "use resources/expressions.py, or add an exception with its reason"
    assert not set(EXCEPTIONS) - found, "remove the exceptions that are not needed"


def test_patterns_that_are_not_literals_are_found():
    """Names and attributes are found; literals, escaped text and constants of the module are not."""
    seen = [
        literal(ast.parse(text, mode="eval").body, {"KNOWN"})
        for text in ("pattern", "self.pattern", "f'a{b}'", "'a' + b")
    ]
    clear = [
        literal(ast.parse(text, mode="eval").body, {"KNOWN"})
        for text in ("'a'", "KNOWN", "f'{KNOWN}{re.escape(b)}'", "re.escape(b)")
    ]

    assert not any(seen)
    assert all(clear)
