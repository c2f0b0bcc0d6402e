"""Exit codes of all verbs. Codes from 64 are those of sysexits.h; 130 is the shell's for an interruption.

The tables in README.md and docs/engine.md are compared with this one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Self


class ExitCode(IntEnum):
    """An exit code with its meaning for users."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        """Return the code with this number."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    DONE = 0, "done; `plan`: nothing would be changed; `status`: the host has converged"
    FAILED = (
        1,
        (
            "something failed; `status`: the host has not converged; `check --strict`: there are warnings; "
            "`history`, `drift`, `db`: the operation failed, or `db check` has found damage"
        ),
    )
    CHANGES = (
        2,
        (
            "`plan`, `apply` in noop, `fmt --check`, `--diff`: something would be changed; "
            "`apply --detailed-exitcode`: something was changed"
        ),
    )
    UNUSABLE = 3, "states or settings cannot be used"
    TIMEOUT = 4, "the time limit was reached (`--timeout`)"
    USAGE = 64, "the command line cannot be understood"
    NO_AGENT = 69, "no agent answers"
    BUG = 70, "a bug in Holdfast, or in a kind of your own"
    FOREIGN = 76, "the versions of agent and command are not compatible"
    NOT_PERMITTED = 77, "not permitted"
    INTERRUPTED = 130, "interrupted (Ctrl-C)"


def code_of(error: Exception) -> int:
    """Return the exit code of a verb that ends with this error."""
    from holdfast.agent.control.schema import ControlError
    from holdfast.resources.errors import HoldfastError
    from holdfast.states.errors import CompileError

    declared: Any = getattr(error, "exit_code", None)  # click's own errors have one
    if isinstance(declared, int):
        return declared
    if isinstance(error, ControlError):
        return _REFUSED[error.code]
    if isinstance(error, CompileError):
        return ExitCode.UNUSABLE
    if isinstance(error, PermissionError):
        return ExitCode.NOT_PERMITTED
    return ExitCode.FAILED if isinstance(error, (HoldfastError, OSError)) else ExitCode.BUG


_REFUSED = {
    "": ExitCode.FAILED,
    "no-agent": ExitCode.NO_AGENT,
    "not-permitted": ExitCode.NOT_PERMITTED,
    "not-understood": ExitCode.FOREIGN,
    "busy": ExitCode.NO_AGENT,
    "gone": ExitCode.FAILED,
    "bug": ExitCode.BUG,
}
"""Reason why the agent could not be asked -> exit code."""
