"""The declarations in sources, as syntax: `statements` finds them, `scope` resolves names, `build` makes the model."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from holdfast.agent.idl.sources import IdlSource


@dataclass
class FieldSyntax:
    """A field of a class."""

    name: str
    node: ast.AnnAssign
    type: ast.expr
    """The annotation; types in quotes are parsed."""
    options: dict[str, ast.expr] = field(default_factory=dict)
    """Option of `idl.field` -> its value. A plain value is the option `default`."""
    doc: str = ""
    comment: str = ""
    broken: bool = False
    """A problem of the field has been reported: its content is not completely known."""

    def place(self, *options: str) -> ast.expr | ast.stmt:
        """Return the value of the first of these options that is given; the declaration if none is."""
        return next((self.options[each] for each in options if each in self.options), self.node)


@dataclass
class MemberSyntax:
    """A value of an enumeration."""

    name: str
    node: ast.Assign
    doc: str = ""
    comment: str = ""


@dataclass
class ClassSyntax:
    """A class: a struct, a resource, a function, the configuration, or an enumeration."""

    name: str
    node: ast.ClassDef
    doc: str = ""
    comment: str = ""
    fields: dict[str, FieldSyntax] = field(default_factory=dict)
    members: dict[str, MemberSyntax] = field(default_factory=dict)
    options: dict[str, ast.expr] = field(default_factory=dict)
    rules: list[ast.Call] = field(default_factory=list)
    broken: bool = False
    """The base of the class is unknown."""

    @property
    def is_enumeration(self) -> bool:
        """Whether the class derives from `idl.Enum`."""
        return any(word_of(base) == "Enum" for base in self.node.bases)


@dataclass
class AliasSyntax:
    """A name for a type."""

    name: str
    node: ast.Assign
    type: ast.expr
    doc: str = ""
    comment: str = ""


@dataclass
class ConstantSyntax:
    """A named value."""

    name: str
    node: ast.AnnAssign
    value: ast.expr
    type: ast.expr | None
    """The type in `Final[type]`; None: that of the value."""
    doc: str = ""
    comment: str = ""
    broken: bool = False
    """The value is unknown."""


Declaration = ClassSyntax | AliasSyntax | ConstantSyntax


@dataclass(frozen=True)
class Imported:
    """A name that another module of the package declares."""

    module: str
    name: str
    node: ast.ImportFrom


@dataclass
class ModuleSyntax:
    """One source file."""

    source: IdlSource
    doc: str = ""
    comment: str = ""
    declared: dict[str, Declaration] = field(default_factory=dict)
    """Declarations in the order of the source."""
    imports: dict[str, Imported] = field(default_factory=dict)
    needed: dict[str, None] = field(default_factory=dict)
    """Names of `imports` that are bases or parts of values: the module cannot be evaluated without them."""
    limits: list[ast.Call] = field(default_factory=list)
    """Every call of `idl.limits` in types, checked; the answer of the evaluation has their values in this order."""

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.source.module


def word_of(node: ast.expr) -> str:
    """Return `Ref` of `idl.Ref`; empty for anything but a word of the language."""
    known = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "idl"
    return node.attr if isinstance(node, ast.Attribute) and known else ""


def name_of(node: ast.expr) -> str:
    """Return the name if an expression is one; empty for any other expression."""
    return node.id if isinstance(node, ast.Name) else ""


def called(node: ast.expr) -> str:
    """Return `field` of a call of `idl.field`; empty for any other expression."""
    return word_of(node.func) if isinstance(node, ast.Call) else ""
