"""Problems of states and settings, their locations, and the exception that contains them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.resources.errors import HoldfastError
from holdfast.resources.secrets import Redactor
from holdfast.resources.visible import clean


class Location(NamedTuple):
    """A position in a file: lines and columns count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return `file:line:column`, in the form of editors and compilers."""
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


class Problem(NamedTuple):
    """One error or warning: its location, the rule that is broken, and the likely fix."""

    location: Location
    code: str
    """Stable identifier: `yaml-syntax`, `unknown-argument`, `requisite-missing`, ..."""
    message: str
    """One sentence, without the location."""
    hint: str = ""
    """The likely fix."""
    text: str = ""
    """The line of the file."""
    waived: bool = False
    """Salt accepts it, and the file is lenient: it is a warning."""

    def as_dict(self) -> dict[str, object]:
        """Return the stable JSON form: file, line, column, code, message, hint."""
        return {**self.location._asdict(), "code": self.code, "message": self.message, "hint": self.hint}

    def redacted(self, redactor: Redactor) -> Problem:
        """Return the problem without secrets."""
        return self._replace(message=redactor(self.message), hint=redactor(self.hint), text=redactor(self.text))

    def __str__(self) -> str:
        """Return the readable form: location, message, line, hint. Control sequences are removed."""
        lines = [f"{self.location}: {self.message} [{self.code}]"]
        if self.text.strip():
            lines.append(f"    {self.text.rstrip()}")
            if self.location.column:
                lines.append("    " + " " * (self.location.column - 1) + "^")
        if self.hint:
            lines.append(f"  {self.hint}")
        return clean("\n".join(lines))


class CompileError(HoldfastError):
    """The states do not compile; `problems` has all problems, sorted by location."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.location, p.code, p.message)))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def redacted(self, redactor: Redactor) -> CompileError:
        """Return the error without secrets."""
        return CompileError(problem.redacted(redactor) for problem in self.problems)


class Refused(CompileError):
    """The states are well-formed, but invalid: unknown kinds, wrong arguments, contradictions.

    Their low and high data is known and included.
    """

    def __init__(self, problems: Iterable[Problem], low: tuple[dict[str, Any], ...], high: Mapping[str, Any]) -> None:
        super().__init__(problems)
        self.low, self.high = low, high

    def redacted(self, redactor: Redactor) -> Refused:
        """Return the error without secrets."""
        return Refused(
            (problem.redacted(redactor) for problem in self.problems),
            tuple(map(redactor.masked, self.low)),
            masked(self.high, redactor),
        )


def masked(high: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return high data without secrets. The name of an ID does not decide whether its body is secret."""
    return {redactor(id_): redactor.masked(body) for id_, body in high.items()}
