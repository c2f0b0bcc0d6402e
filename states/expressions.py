"""Regular expressions of users, which come to an end.

One with a repetition or alternatives within a repetition, or with several on a long text, may take longer than anybody lives, and while Python
matches nothing else in the process runs, nor can anything stop it. Such a one is left to a process of its own, with a deadline;
it costs a hundredth of a second.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]  # nothing public tells the parts of an expression
from typing import Any

from holdfast.states.budget import SIZE, Spent, check

DEADLINE = 5.0
"""Seconds that one match may take."""
FEW, LONG = 10, 10_000
"""Repetitions up to which one is short, and characters from which on a text is long."""
Groups = tuple[str | None, ...]

_CHILD = """
import json, re, sys
how, pattern, flags, text, repl = json.load(sys.stdin)
try:
    if how == "sub":
        answer = re.sub(pattern, repl, text, flags=flags)
    else:
        found = getattr(re, how)(pattern, text, flags)
        answer = found and (found.groups() or (found[0],))
except (re.error, IndexError) as error:
    answer = {"error": str(error)}
json.dump(answer, sys.stdout)
"""


class Expression:
    """A regular expression. Raises `re.error` or `OverflowError` for what is none."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._compiled = re.compile(pattern, flags)
        self._repetitions, self._nested = _repetitions(pattern, flags)

    def search(self, text: str) -> Groups | None:
        """The groups of the first match anywhere, or all of it when there are none; None without a match. Raises `Spent`."""
        return self._found("search", text)

    def match(self, text: str) -> Groups | None:
        """The same, at the beginning."""
        return self._found("match", text)

    def fullmatch(self, text: str) -> Groups | None:
        """The same, of the whole text."""
        return self._found("fullmatch", text)

    def sub(self, repl: str, text: str) -> str:
        """The text with each match replaced. Raises `Spent`, and `re.error` for a replacement that does not fit."""
        if self._may_take_long(text):
            check(len(text) * len(repl))
            return str(self._apart("sub", text, repl))
        if len(text) * len(repl) > SIZE:
            check(sum(1 for _ in self._compiled.finditer(text)) * len(repl))
        return self._compiled.sub(repl, text)

    def _found(self, how: str, text: str) -> Groups | None:
        if self._may_take_long(text):
            groups = self._apart(how, text, "")
            return None if groups is None else tuple(groups)
        found = getattr(self._compiled, how)(text)
        return None if found is None else found.groups() or (found[0],)

    def _may_take_long(self, text: str) -> bool:
        return self._nested or (self._repetitions > 1 and len(text) > LONG)

    def _apart(self, how: str, text: str, repl: str) -> Any:
        return _apart(how, self._compiled.pattern, self._compiled.flags & ~re.DEBUG, text, repl)


@lru_cache(1024)
def _apart(how: str, pattern: str, flags: int, text: str, repl: str) -> Any:
    """What another process finds. Raises `Spent` when it takes too long."""
    argv = (sys.executable, "-I", "-S", "-c", _CHILD)
    try:
        said = subprocess.run(
            argv, input=json.dumps([how, pattern, flags, text, repl]), timeout=DEADLINE, capture_output=True, text=True, check=True
        ).stdout
    except subprocess.TimeoutExpired:
        raise Spent(
            f"the regular expression {pattern[:100]!r} takes longer than {DEADLINE:g} s on a text of {len(text)} characters"
        ) from None
    answer = json.loads(said)
    if isinstance(answer, dict):
        raise re.error(answer["error"])
    return answer


def _repetitions(pattern: str, flags: int) -> tuple[int, bool]:
    """How many repetitions there are that may be long, and whether one, or alternatives, are within another."""
    count, nested = 0, False
    todo: list[tuple[Any, bool]] = [(_parser.parse(pattern, flags), False)]
    while todo:
        part, within = todo.pop()
        if isinstance(part, tuple) and len(part) == 2 and str(part[0]) in ("MAX_REPEAT", "MIN_REPEAT") and part[1][1] > FEW:
            count, nested = count + 1, nested or within
            todo.append((part[1][2], True))
        elif within and str(part) == "BRANCH":
            nested = True
        elif isinstance(part, (list, tuple, _parser.SubPattern)):
            todo += [(item, within) for item in part]
    return count, nested
