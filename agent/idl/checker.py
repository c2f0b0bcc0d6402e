"""The second step of the check: names, bases, options, rules and values. Later steps do not see wrong declarations."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.agent.idl.declared import (
    AliasSyntax,
    ClassSyntax,
    ConstantSyntax,
    FieldSyntax,
    ModuleSyntax,
    called,
    name_of,
    word_of,
)
from holdfast.agent.idl.names import unknown
from holdfast.agent.idl.report import Node, SourceReport
from holdfast.agent.idl.scope import BASES, SourceScope
from holdfast.resources import idl

RULES = ("ordered", "exactly_one", "at_most_one", "at_least_one", "together")
FIELD_OPTIONS = tuple(inspect.signature(idl.field).parameters)
LIMITS = tuple(inspect.signature(idl.limits).parameters)
CLASS_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "struct": tuple(inspect.signature(idl.Struct.__init_subclass__).parameters),
    "config": ("deprecated", "since"),
    "function": ("deprecated", "since"),
    "resource": tuple(inspect.signature(idl.Resource.__init_subclass__).parameters),
    "enumeration": (),
}
"""Family of a class -> the options after its base."""
VALUES = "allowed: texts, numbers, True, False, None, lists and mappings of them, constants, and values of enumerations"
LARGEST = 2**63
"""The largest whole number of the language: they have 64 bits."""
FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
CONSTANT_NAME = re.compile(r"_?[A-Z][A-Z0-9_]*", re.ASCII)
CLASS_NAME = re.compile(r"_?[A-Z][A-Za-z0-9]*", re.ASCII)


class SyntaxChecker:
    """Checks all modules of a package."""

    def __init__(self, scope: SourceScope, report: SourceReport) -> None:
        self.scope, self.report = scope, report
        self.module = ModuleSyntax.__new__(ModuleSyntax)  # the module that is being checked

    def check(self) -> None:
        """Check all modules."""
        for module in self.scope.modules.values():
            self.module = module
            self._imports()
            for constant in module.declared.values():
                if isinstance(constant, ConstantSyntax):
                    constant.broken = not self._value(constant.value, constant.node)
        for module in self.scope.modules.values():
            self.module = module
            for each in module.declared.values():
                if isinstance(each, ClassSyntax):
                    self._class(each)
                    continue
                self._name(each)
                if each.type is not None:
                    self._type(each.type)

    def _name(self, each: AliasSyntax | ConstantSyntax) -> None:
        """Check the name of an alias or a constant: a field with a name in small letters could hide it."""
        if isinstance(each, AliasSyntax) and not CLASS_NAME.fullmatch(each.name):
            hint = "allowed: letters and digits, with a capital first: `Port`"
            self._refuse(each.node, "idl-name", f"{each.name!r} is not a valid name of an alias", hint)
        elif isinstance(each, ConstantSyntax) and not CONSTANT_NAME.fullmatch(each.name):
            hint = "allowed: capitals, digits and underscores: `MOST`"
            self._refuse(each.node, "idl-name", f"{each.name!r} is not a valid name of a constant", hint)

    def _imports(self) -> None:
        for imported in self.module.imports.values():
            home = self.scope.modules.get(imported.module)
            if home is None:
                told, hint = unknown("source", imported.module, self.scope.modules)
                self._refuse(imported.node, "idl-import", told, hint)
            elif imported.name in home.imports:
                origin = home.imports[imported.name].module
                told = f"{imported.module!r} only imports {imported.name!r}"
                self._refuse(imported.node, "idl-import", told, f"import it from {origin!r}")
            elif imported.name not in home.declared:
                told, hint = unknown(f"declaration in {imported.module!r} named", imported.name, home.declared)
                self._refuse(imported.node, "idl-import", told, hint)

    # -- classes -----------------------------------------------------------------------------------------------

    def _class(self, made: ClassSyntax) -> None:
        family = self.scope.family(self.module, made)
        if not CLASS_NAME.fullmatch(made.name):
            hint = "allowed: letters and digits, with a capital first: `SecurityGroup`"
            self._refuse(made.node, "idl-name", f"{made.name!r} is not a valid name of a class", hint)
        self._bases(made)
        made.broken = any(each.declared.broken for each in self.scope.lineage(self.module, made))
        for name in [*made.options]:
            if made.broken:
                del made.options[name]
            elif name not in CLASS_OPTIONS[family]:
                told, hint = unknown("option", name, CLASS_OPTIONS[family], f"a {family} has none")
                self._refuse(made.options.pop(name), "idl-option", told, hint)
            elif not self._value(made.options[name], made.node):
                del made.options[name]
        made.rules = [each for each in made.rules if self._rule(each, family)]
        for each in made.fields.values():
            self._field(each)
        for member in [*made.members.values()]:
            if not isinstance(member.node.value, ast.Constant) or not isinstance(member.node.value.value, str):
                hint = f'write `{member.name} = "{member.name.lower()}"`'
                self._refuse(member.node.value, "idl-enum", "the value of an enumeration is text", hint)
                del made.members[member.name]

    def _bases(self, made: ClassSyntax) -> None:
        if len(made.node.bases) > 1:
            hint = "a class derives from one class at most; that class may derive from another one"
            self._refuse(made.node.bases[1], "idl-base", f"{made.name!r} has several bases", hint)
        for base in made.node.bases[:1]:
            made.broken = not self._base(made, base)

    def _base(self, made: ClassSyntax, base: ast.expr) -> bool:
        """Return whether a class can derive from this one; report it if not."""
        legal = f"allowed: {', '.join(f'idl.{each}' for each in BASES)} and classes of the package"
        name = name_of(base)
        found = self.scope.find(self.module, name)
        if word_of(base) in BASES:
            return True
        if found is None and name in self.module.imports:
            return False
        if found is None or not isinstance(found.declared, ClassSyntax):
            known = [each for each in self.scope.names(self.module) if each != made.name]
            told, hint = unknown("class", word_of(base) or name or ast.unparse(base), [*BASES, *known], legal)
        elif self.scope.family(found.module, found.declared) == "enumeration":
            told, hint = "an enumeration has no subclasses", "list all values in one class"
        elif self.scope.derives_from_itself(self.module, made):
            told, hint = f"{made.name!r} derives from itself", legal
        else:
            return self._eager(base, name, made.node)
        self._refuse(base, "idl-base", told, hint)
        return False

    def _rule(self, rule: ast.Call, family: str) -> bool:
        word = called(rule)
        if word not in RULES:
            told, hint = unknown("rule", word, RULES)
        elif family == "enumeration":
            told, hint = "an enumeration has no rules", "rules are for classes with fields"
        elif rule.keywords or not all(
            isinstance(each, ast.Constant) and isinstance(each.value, str) for each in rule.args
        ):
            told, hint = "a rule takes the names of fields", f"write `@idl.{word}('first', 'second')`"
        elif len(rule.args) < 2:
            told, hint = "a rule is about several fields", f"write `@idl.{word}('first', 'second')`"
        else:
            return True
        self._refuse(rule, "idl-rule", told, hint)
        return False

    # -- fields ------------------------------------------------------------------------------------------------

    def _field(self, field: FieldSyntax) -> None:
        before = len(self.report.problems)
        if not FIELD_NAME.fullmatch(field.name):
            hint = "allowed: small letters, digits and underscores, with a letter first: `from_port`"
            self._refuse(field.node, "idl-name", f"{field.name!r} is not a valid name of a field", hint)
        for name in [*field.options]:
            if not self._option(name, field.options[name], FIELD_OPTIONS, field.node):
                del field.options[name]
        self._type(field.type)
        field.broken = len(self.report.problems) > before

    def _option(self, name: str, value: ast.expr, legal: Iterable[str], user: ast.stmt) -> bool:
        """Return whether an option exists and has a value without logic; report it if not."""
        if name not in legal:
            told, hint = unknown("option", name, legal)
            self._refuse(value, "idl-option", told, hint)
            return False
        return self._value(value, user)

    def _type(self, type_: ast.expr) -> None:
        """Check the restrictions in a type, and note them for the evaluation."""
        for node in ast.walk(type_):
            if not isinstance(node, ast.Call) or called(node) != "limits":
                continue
            before = len(self.report.problems)
            for each in node.args:
                self._refuse(each, "idl-option", "a restriction has a name", "write `idl.limits(minimum=0)`")
            node.keywords = [
                each
                for each in node.keywords
                if each.arg is not None and self._option(each.arg, each.value, LIMITS, _NOWHERE)
            ]
            if len(self.report.problems) == before:
                self.module.limits.append(node)

    # -- values ------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, user: ast.stmt) -> bool:
        """Return whether a value has no logic; report it if not. `user` is the declaration that contains the value."""
        if isinstance(node, (ast.List, ast.Tuple)):
            good = [self._value(each, user) for each in node.elts]
            return all(good)
        if isinstance(node, ast.Dict):
            good = [self._entry(key, value, user) for key, value in zip(node.keys, node.values, strict=True)]
            return all(good)
        return self._single(node, user)

    def _single(self, node: ast.expr, user: ast.stmt) -> bool:
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and _is_number(node.operand):
            return self._literal(node.operand)
        if name := name_of(node):
            return self._named(node, name, user)
        if isinstance(node, ast.Attribute) and (name := name_of(node.value)) and name != "idl":
            return self._member(node, name, user)
        self._refuse(node, "idl-value", "this value is computed, and the language has no logic", VALUES)
        return False

    def _literal(self, node: ast.expr) -> bool:
        value = node.value if isinstance(node, ast.Constant) else None
        if type(value) is int and value > LARGEST:
            self._refuse(node, "idl-value", "this whole number does not fit in 64 bits", VALUES)
            return False
        if (
            isinstance(value, (str, bytes, bool, int))
            or value is None
            or (type(value) is float and math.isfinite(value))
        ):
            return True
        self._refuse(node, "idl-value", f"{ast.unparse(node)} is not a value of the language", VALUES)
        return False

    def _entry(self, key: ast.expr | None, value: ast.expr, user: ast.stmt) -> bool:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return self._value(value, user)
        self._refuse(key or value, "idl-value", "the key of a mapping is text", 'write `{"key": ...}`')
        return False

    def _named(self, node: ast.expr, name: str, user: ast.stmt) -> bool:
        found = self.scope.find(self.module, name)
        if found is not None and isinstance(found.declared, ConstantSyntax):
            return not found.declared.broken and self._eager(node, name, user)
        if found is not None:
            self._refuse(node, "idl-value", f"{name!r} is not a value", VALUES)
        elif name not in self.module.imports:
            told, hint = unknown("constant", name, self.scope.names(self.module), VALUES)
            self._refuse(node, "idl-value", told, hint)
        return False

    def _member(self, node: ast.Attribute, name: str, user: ast.stmt) -> bool:
        found = self.scope.find(self.module, name)
        if found is None and name in self.module.imports:
            return False
        if found is None or not isinstance(found.declared, ClassSyntax) or not found.declared.is_enumeration:
            known = [each for each in self.scope.names(self.module) if each != name]
            told, hint = unknown("enumeration", name, known, VALUES)
        elif node.attr not in found.declared.members:
            told, hint = unknown(f"value of {name}", node.attr, found.declared.members)
        else:
            return self._eager(node, name, user)
        self._refuse(node, "idl-value", told, hint)
        return False

    def _eager(self, node: ast.expr, name: str, user: ast.stmt) -> bool:
        """Return whether a name is declared before it is used; note that the evaluation needs it."""
        declared = self.module.declared.get(name)
        if declared is None:
            self.module.needed[name] = None
        elif user is not _NOWHERE and declared.node.lineno >= user.lineno:
            self._refuse(node, "idl-name", f"{name!r} is declared below", "move its declaration up")
            return False
        return True

    def _refuse(self, node: Node, code: str, message: str, hint: str) -> None:
        self.report.add(self.module.source, node, code, message, hint)


_NOWHERE = ast.Pass(lineno=0, col_offset=0)
"""Stands for the user of a value in a type: types are read after the evaluation of all modules."""


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
