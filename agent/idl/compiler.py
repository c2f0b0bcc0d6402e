"""Compiles the folder of a package to its model, or finds all of its problems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.agent.idl import sources
from holdfast.agent.idl.build import Builder
from holdfast.agent.idl.checker import SyntaxChecker
from holdfast.agent.idl.declared import ModuleSyntax
from holdfast.agent.idl.evaluation import EvaluationError, ModuleAnswer, evaluate
from holdfast.agent.idl.executable import executables
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.scope import SourceScope
from holdfast.agent.idl.sources import IdlSource
from holdfast.agent.idl.statements import Statements
from holdfast.agent.idl.structure import Cycles, StructureCheck
from holdfast.agent.model.package import Package
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.refusals import display


class CompiledPackage(NamedTuple):
    """A package that has no problems."""

    package: Package
    scope: SourceScope
    root: Path
    """The folder of its sources."""


def compiled(root: Path) -> CompiledPackage:
    """Read and check a package. Raises `CompileError` with all problems."""
    try:
        return _compiled(root)
    except RecursionError:
        told, hint = "a chain of declarations is too long", "let fewer of them derive from or refer to each other"
        raise CompileError([Problem(Location(display(root)), "idl-syntax", told, hint)]) from None


def _compiled(root: Path) -> CompiledPackage:
    read = sources.read(root)
    report = SourceReport()
    report.problems += read.problems
    scope = SourceScope({name: _declared(source, report) for name, source in read.modules.items()})
    SyntaxChecker(scope, report).check()
    builder = Builder(read.manifest, scope, _answers(scope, report), report)
    package = builder.build()
    StructureCheck(builder, package).check()
    Cycles(builder, package).report()
    report.demand_none()
    return CompiledPackage(package, scope, root)


def _declared(source: IdlSource, report: SourceReport) -> ModuleSyntax:
    try:
        return Statements(source, report).read()
    except RecursionError:
        report.add_line(source, 0, "idl-syntax", "an expression is nested too deeply", "use constants and aliases")
        return ModuleSyntax(source)


def _answers(scope: SourceScope, report: SourceReport) -> Mapping[str, ModuleAnswer]:
    """Return the evaluated modules; none if they cannot be evaluated."""
    before = len(report.problems)
    modules = executables(scope, report)
    if len(report.problems) > before:
        return {}
    try:
        return evaluate(modules)
    except EvaluationError as error:
        if not report.problems:  # otherwise the error follows from these problems
            first = next(iter(scope.modules.values()))
            source = scope.modules[error.module].source if error.module in scope.modules else first.source
            report.add_line(source, error.line, "idl-evaluation", f"the source cannot be evaluated: {error}")
        return {}
