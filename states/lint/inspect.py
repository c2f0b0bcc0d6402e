"""Reports everything about a states directory: all errors, then all warnings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.states.compile.compiler import Compiler, CompilerTrace
from holdfast.states.data import Call, CompilerInputs
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.gc_pause import gc_paused
from holdfast.states.lint import (  # noqa: F401 - importing a module registers its rules
    files,
    keys,
    owners,
    requisites,
    secrets,
    sources,
    states,
    templates,
    values,
)
from holdfast.states.lint.rule import RULES, Subject
from holdfast.states.lint.silence import Ignored, ignored, silenced, unknown_codes

OF_THE_WHOLE = frozenset({"action-unguarded", "managed-twice"})
"""Warnings that could be wrong if files are missing: an `onchanges_in` or an `exclude` may be in these."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """The errors and the warnings of a states directory, each sorted by location."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    states: int = 0
    """Number of states that were checked; 0 if the states do not compile."""


class HostCheck(Protocol):
    """Checks of compiled states that depend on the host."""

    def errors(self, calls: Sequence[Call]) -> Iterable[Problem]:
        """Return the errors that depend on the host."""
        ...

    def warnings(self, calls: Sequence[Call]) -> Iterable[Problem]:
        """Return the warnings that depend on the host."""
        ...


def inspect(
    inputs: CompilerInputs, ignore: Collection[str] = (), noted: Iterable[Problem] = (), host: HostCheck | None = None
) -> LintReport:
    """Compile the states and run every rule. Errors are in the report, and are not raised.

    `ignore` has codes of warnings that are not reported; `noted` has further warnings, of the caller. `host` checks the
    states if they compile.
    """
    with gc_paused():
        return _inspect(inputs, ignore, noted, host)


def _inspect(
    inputs: CompilerInputs, ignore: Collection[str], noted: Iterable[Problem], host: HostCheck | None
) -> LintReport:
    trace = CompilerTrace()
    errors: Sequence[Problem] = ()
    complete = 0
    try:
        calls = Compiler().compile(inputs, trace).calls
        complete = len(trace.checked)
        if host is not None:
            errors, noted = tuple(host.errors(calls)), (*noted, *host.warnings(calls))
    except CompileError as error:
        errors = error.problems
    texts = tuple(trace.tree.read_files.values()) if trace.tree else ()
    subject = Subject(inputs, texts, trace.checked, trace.edges, trace.calls)
    found = [*noted, *trace.warnings, *(trace.tree.warnings if trace.tree else ())]
    for rule in RULES:
        found += (problem for problem in rule(subject) if complete or problem.code not in OF_THE_WHOLE)
    for text in texts:
        found += unknown_codes(str(text.path), text.text)
    secret = {(problem.location.file, problem.location.line) for problem in found if problem.code == "secret-plain"}
    errors, found = _covered(errors, secret), _covered(found, secret)
    return LintReport(
        in_order(errors), tuple(_wanted(in_order(found), errors, _comments(found, subject), ignore)), complete
    )


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return each problem once, sorted by location."""
    return tuple(sorted(set(problems), key=lambda problem: (problem.location, problem.code, problem.message)))


def _covered(problems: Iterable[Problem], secret: Collection[tuple[str, int]]) -> list[Problem]:
    """Return the same problems, without the text of lines that contain a secret."""
    return [
        problem._replace(text="") if (problem.location.file, problem.location.line) in secret else problem
        for problem in problems
    ]


def _comments(found: Iterable[Problem], subject: Subject) -> dict[str, list[Ignored]]:
    """Return the comments that silence warnings, by file, for all files with problems."""
    texts = {str(text.path): text.text for text in subject.texts}
    tree = subject.all_files()
    for file in {problem.location.file for problem in found} - texts.keys():
        with suppress(CompileError):
            texts[file] = tree.read(Path(file)).text
    return {file: ignored(text) for file, text in texts.items()}


def _wanted(
    found: Iterable[Problem], errors: Iterable[Problem], comments: Mapping[str, list[Ignored]], ignore: Collection[str]
) -> Iterator[Problem]:
    """Yield the warnings to report: not on the line of an error, not silenced, and once for all turns of a loop."""
    wrong = {(problem.location.file, problem.location.line) for problem in errors}
    alike: dict[tuple[Location, str], list[Problem]] = {}
    for problem in found:
        beside = (problem.location.file, problem.location.line) in wrong
        if not beside and problem.code not in ignore and not silenced(problem, comments):
            alike.setdefault((problem.location, problem.code), []).append(problem)
    for first, *more in alike.values():
        yield first._replace(message=f"{first.message} (and {len(more)} more like it in this line)") if more else first
