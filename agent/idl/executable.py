"""Makes the code that is evaluated: only checked declarations, in an order in which they can be executed."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from types import CodeType

from holdfast.agent.idl.declared import ClassSyntax, ConstantSyntax, ModuleSyntax, name_of, word_of
from holdfast.agent.idl.names import LIMITS
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.scope import BASES, SourceScope


def executables(scope: SourceScope, report: SourceReport) -> list[tuple[str, CodeType]]:
    """Return the name and the code of each module; each comes after the modules whose names it needs."""
    needs = {name: {module.imports[each].module for each in module.needed} for name, module in scope.modules.items()}
    try:
        order = [*TopologicalSorter(needs).static_order()]
    except CycleError as error:
        circle = [str(each) for each in error.args[1]]
        module = scope.modules[circle[0]]
        node = next(each.node for each in map(module.imports.get, module.needed) if each and each.module in circle)
        told = f"these sources need bases or values of each other: {', '.join(sorted(set(circle)))}"
        report.add(module.source, node, "idl-import", told, "put what they share into a source of its own")
        return []
    return [(name, _code(scope.modules[name], scope)) for name in order]


def _code(module: ModuleSyntax, scope: SourceScope) -> CodeType:
    body: list[ast.stmt] = [*_imports(module)]
    for each in module.declared.values():
        if isinstance(each, ClassSyntax):
            body.append(_class(module, each, scope))
        elif isinstance(each, ConstantSyntax) and not each.broken:
            body.append(ast.Assign(targets=[_stored(each.name)], value=each.value))
    calls: list[ast.expr] = [*module.limits]
    body.append(ast.Assign(targets=[_stored(LIMITS)], value=ast.List(elts=calls, ctx=ast.Load())))
    tree = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(tree, module.source.file, "exec", flags=flags, dont_inherit=True)
    return code


def _imports(module: ModuleSyntax) -> Iterator[ast.stmt]:
    yield ast.ImportFrom(module="holdfast", names=[ast.alias(name="idl")], level=0)
    for local in module.needed:
        each = module.imports[local]
        yield ast.ImportFrom(module=each.module, names=[ast.alias(name=each.name, asname=local)], level=0)


def _class(module: ModuleSyntax, made: ClassSyntax, scope: SourceScope) -> ast.ClassDef:
    bases = [each for each in made.node.bases[:1] if not made.broken and _exists(module, each, scope)]
    body: list[ast.stmt] = [
        ast.AnnAssign(target=_stored(each.name), annotation=ast.Constant(None), value=_options(each.options), simple=1)
        for each in made.fields.values()
    ]
    body += [ast.Assign(targets=[_stored(each.name)], value=each.node.value) for each in made.members.values()]
    return ast.ClassDef(
        name=made.name,
        bases=bases or [_word("Struct")],
        keywords=_keywords(made.options.items()),
        body=body or [ast.Pass()],
        decorator_list=[*made.rules],
    )


def _exists(module: ModuleSyntax, base: ast.expr, scope: SourceScope) -> bool:
    return word_of(base) in BASES or scope.find(module, name_of(base)) is not None


def _options(options: dict[str, ast.expr]) -> ast.expr:
    return ast.Call(func=_word("field"), args=[], keywords=_keywords(options.items()))


def _keywords(options: Iterable[tuple[str, ast.expr]]) -> list[ast.keyword]:
    return [ast.keyword(arg=name, value=value) for name, value in options]


def _word(name: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id="idl", ctx=ast.Load()), attr=name, ctx=ast.Load())


def _stored(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Store())
