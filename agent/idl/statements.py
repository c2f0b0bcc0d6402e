"""The first step of the check: the statements of a source. It needs no other source.

Docstrings below declarations and comments above them belong to these.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from holdfast.agent.idl.declared import (
    AliasSyntax,
    ClassSyntax,
    ConstantSyntax,
    Declaration,
    FieldSyntax,
    Imported,
    MemberSyntax,
    ModuleSyntax,
    called,
    name_of,
    word_of,
)
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.sources import IdlSource, parsed

TYPING = ("Annotated", "Final")
IMPORTS = (
    "allowed: `from holdfast import idl`, `from typing import Annotated, Final`, "
    "`from __future__ import annotations` and names of other sources: `from .vpc import Vpc`"
)
STATEMENTS = "a source has imports, classes, aliases (`Port = Annotated[int, ...]`) and constants (`MOST: Final = 5`)"
BODY = "a class has fields (`size: int`), each with its docstring below"
DIRECTIVES = re.compile(r"#!|# *(-\*-|(noqa|type|mypy|ruff|pylint|pyright|fmt|isort|vim)\b *[:=]?)")
"""Comments for tools, which are not documentation."""
WORDS: Mapping[type[ast.stmt], str] = {
    ast.Assert: "an assertion",
    ast.AsyncFor: "a loop",
    ast.AsyncWith: "a with statement",
    ast.AugAssign: "an assignment",
    ast.Delete: "a del statement",
    ast.Expr: "an expression",
    ast.For: "a loop",
    ast.Global: "a global statement",
    ast.If: "a condition",
    ast.Match: "a condition",
    ast.Raise: "a raise statement",
    ast.Try: "a try statement",
    ast.TryStar: "a try statement",
    ast.While: "a loop",
    ast.With: "a with statement",
}


class Statements:
    """Reads the statements of one source."""

    def __init__(self, source: IdlSource, report: SourceReport) -> None:
        self.source, self.report = source, report
        self.module = ModuleSyntax(source)

    def read(self) -> ModuleSyntax:
        """Return the declarations of the source."""
        body = self.source.tree.body
        self.module.doc = _docstring(body)
        first = body[0].lineno if body else len(self.source.lines) + 1
        if self.module.doc:
            self.module.comment = self._comment_above(first, 0)
        for node, doc, comment in self._documented(body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node)
            elif (made := self._declaration(node, doc, comment)) is not None:
                self._declare(made)
        return self.module

    def _declare(self, made: Declaration) -> None:
        if made.name in self.module.declared or made.name in self.module.imports:
            self._refuse(made.node, "idl-duplicate", f"the name {made.name!r} is declared twice", "rename one of them")
        else:
            self.module.declared[made.name] = made

    def _declaration(self, node: ast.stmt, doc: str, comment: str) -> Declaration | None:
        if isinstance(node, ast.ClassDef):
            return self._class(node, comment)
        if isinstance(node, ast.AnnAssign) and (name := name_of(node.target)):
            return self._constant(node, name, doc, comment)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and (name := name_of(node.targets[0])):
            if _is_type(node.value):
                return AliasSyntax(name, node, self._unquoted(node.value), doc, comment)
            hint = f"a constant has the type Final: `{name}: Final = ...`"
            self._refuse(node, "idl-variable", f"{name!r} is a global variable", hint)
            return None
        self._other(node, STATEMENTS)
        return None

    def _constant(self, node: ast.AnnAssign, name: str, doc: str, comment: str) -> ConstantSyntax | None:
        outer = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
        if name_of(outer) != "Final":
            self._refuse(node, "idl-variable", f"{name!r} is a global variable", f"write `{name}: Final = ...`")
            return None
        if node.value is None:
            self._refuse(node, "idl-variable", f"the constant {name!r} has no value", f"write `{name}: Final = ...`")
            return None
        type_ = self._unquoted(node.annotation.slice) if isinstance(node.annotation, ast.Subscript) else None
        return ConstantSyntax(name, node, node.value, type_, doc, comment)

    # -- imports -----------------------------------------------------------------------------------------------

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            self._refuse(node, "idl-import", f"the module {node.names[0].name!r} cannot be imported", IMPORTS)
        elif node.level:
            self._relative(node)
        else:
            legal = {"holdfast": ("idl",), "typing": TYPING, "__future__": ("annotations",)}.get(node.module or "")
            for each in node.names:
                if legal is None or each.name not in legal or each.asname not in (None, each.name):
                    told = f"`from {node.module} import {each.name}{f' as {each.asname}' if each.asname else ''}`"
                    self._refuse(each, "idl-import", f"{told} is not part of the language", IMPORTS)

    def _relative(self, node: ast.ImportFrom) -> None:
        parents = self.source.module.split("/")[: -node.level]
        if node.level > len(self.source.module.split("/")):
            self._refuse(node, "idl-import", "this import leads out of the package", IMPORTS)
            return
        if node.module is None:
            self._refuse(node, "idl-import", "modules cannot be imported, only names", "write `from .vpc import Vpc`")
            return
        module = "/".join([*parents, *node.module.split(".")])
        for each in node.names:
            local = each.asname or each.name
            if each.name == "*":
                self._refuse(each, "idl-import", "`*` cannot be imported", "name what the source uses")
            elif local in self.module.declared or local in self.module.imports:
                self._refuse(each, "idl-duplicate", f"the name {local!r} is declared twice", "import it `as` another")
            else:
                self.module.imports[local] = Imported(module, each.name, node)

    # -- classes -----------------------------------------------------------------------------------------------

    def _class(self, node: ast.ClassDef, comment: str) -> ClassSyntax:
        made = ClassSyntax(node.name, node, _docstring(node.body), comment)
        for keyword in node.keywords:
            if keyword.arg is None:
                self._refuse(keyword.value, "idl-option", "options are named one by one", "write `poll=60`")
            else:
                made.options[keyword.arg] = keyword.value
        for decorator in node.decorator_list:
            if called(decorator) and isinstance(decorator, ast.Call):
                made.rules.append(decorator)
            else:
                hint = "allowed: the rules of the language: `@idl.ordered('first', 'last')`"
                self._refuse(decorator, "idl-rule", "this decorator is not part of the language", hint)
        if not made.doc and isinstance(node.body[0], ast.Pass):
            return made
        for each, doc, above in self._documented(node.body):
            self._of_class(made, each, doc, above)
        return made

    def _of_class(self, made: ClassSyntax, node: ast.stmt, doc: str, comment: str) -> None:
        known: dict[str, FieldSyntax] | dict[str, MemberSyntax] = made.members if made.is_enumeration else made.fields
        name = ""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name = name_of(node.targets[0])
        elif isinstance(node, ast.AnnAssign):
            name = name_of(node.target)
        if name and name in known:
            self._refuse(node, "idl-duplicate", f"the name {name!r} is declared twice", "rename one of them")
        elif made.is_enumeration and isinstance(node, ast.Assign) and name:
            made.members[name] = MemberSyntax(name, node, doc, comment)
        elif made.is_enumeration and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._refuse(node, "idl-statement", "an enumeration has values only", 'write `TCP = "tcp"`')
        elif isinstance(node, ast.AnnAssign) and name:
            type_ = self._unquoted(node.annotation)
            made.fields[name] = FieldSyntax(name, node, type_, self._options(node.value), doc, comment)
        elif isinstance(node, ast.Assign) and name:
            self._refuse(node, "idl-statement", f"the field {name!r} has no type", f"write `{name}: str = ...`")
        else:
            self._other(node, BODY)

    def _options(self, value: ast.expr | None) -> dict[str, ast.expr]:
        if value is None:
            return {}
        if called(value) != "field" or not isinstance(value, ast.Call):
            return {"default": value}
        for each in value.args:
            self._refuse(each, "idl-option", "an option has a name", "write `idl.field(default=...)`")
        for keyword in value.keywords:
            if keyword.arg is None:
                self._refuse(keyword.value, "idl-option", "options are named one by one", "write `default=...`")
        return {each.arg: each.value for each in value.keywords if each.arg is not None}

    # -- docstrings and comments ---------------------------------------------------------------------------

    def _documented(self, body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str, str]]:
        """Yield each statement except docstrings, with the docstring below it and the comment above it."""
        last = body[0].end_lineno or 0 if _docstring(body) else 0
        rest = body[1:] if _docstring(body) else body
        for number, node in enumerate(rest):
            if not _is_text(node):
                below = rest[number + 1] if number + 1 < len(rest) else None
                doc = _text(below) if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_text(below) else ""
                yield node, doc, self._comment_above(_first_line(node), last)
            elif number == 0 or not isinstance(rest[number - 1], (ast.Assign, ast.AnnAssign)):
                hint = "write a text at the start of a source or class, or below a field, an alias or a constant"
                self._refuse(node, "idl-statement", "this text belongs to nothing", hint)
            last = node.end_lineno or node.lineno

    def _comment_above(self, line: int, last: int) -> str:
        """Return the text of the comment lines directly above a line, but not above the line `last`."""
        found: list[str] = []
        number = line - 1
        while number > last and (text := self.source.line(number).strip()).startswith("#"):
            if not DIRECTIVES.match(text):
                found.append(text.lstrip("#").strip())
            number -= 1
        return "\n".join(reversed(found))

    def _unquoted(self, node: ast.expr) -> ast.expr:
        """Return a type with the types in quotes parsed; one that cannot be parsed stays a text."""
        return _Unquote(self._of_text).visit(node)  # type: ignore[no-any-return]

    def _of_text(self, node: ast.Constant) -> ast.expr:
        try:
            inner = parsed(f"({node.value!s})").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return node
        if len(inner) != 1 or not isinstance(inner[0], ast.Expr):
            return node
        for each in ast.walk(inner[0].value):
            if isinstance(each, (ast.expr, ast.keyword)):
                offset = each.col_offset if each.lineno == 1 else 0
                each.lineno = each.end_lineno = node.lineno
                each.col_offset = each.end_col_offset = node.col_offset + offset
        return inner[0].value

    def _other(self, node: ast.stmt, legal: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            hint = "what fields must satisfy together is a rule: `@idl.exactly_one('a', 'b')` above the class"
            self._refuse(node, "idl-function", f"the function {node.name!r} is not part of the language", hint)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._refuse(node, "idl-variable", "this assignment is not part of the language", legal)
        elif isinstance(node, ast.ClassDef):
            self._refuse(node, "idl-statement", f"the class {node.name!r} is within another", "put it at the top level")
        else:
            what = WORDS.get(type(node), "this statement")
            self._refuse(node, "idl-statement", f"{what} is not part of the language", legal)

    def _refuse(self, node: ast.stmt | ast.expr | ast.alias, code: str, message: str, hint: str) -> None:
        self.report.add(self.source, node, code, message, hint)


class _Unquote(ast.NodeTransformer):
    """Replaces texts in a type, except those that are arguments of calls."""

    def __init__(self, parse: Callable[[ast.Constant], ast.expr]) -> None:
        self._parse = parse

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Return the type in a text."""
        return self._parse(node) if isinstance(node.value, str) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return the call as it is."""
        return node


def _is_type(node: ast.expr) -> bool:
    """Return whether the value of an assignment is a type, which makes the assignment an alias."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr)
    return isinstance(node, (ast.Subscript, ast.Name)) or bool(word_of(node))


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _text(node: ast.stmt | None) -> str:
    """Return the docstring of a field in one line."""
    value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else ""
    return " ".join(str(value).split())


def _docstring(body: list[ast.stmt]) -> str:
    """Return the docstring at the start of a source or a class, without common indentation."""
    node = body[0] if body else None
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    return inspect.cleandoc(node.value.value) if isinstance(node.value.value, str) else ""


def _first_line(node: ast.stmt) -> int:
    """Return the line of a statement or, if it has decorators, of the first of these."""
    decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
    return min([node.lineno, *(each.lineno for each in decorators)])
