"""Regular expressions of users, matched so that they never hold the interpreter.

While Python matches a regular expression, no other thread runs and nothing can stop the match, which may take longer than anybody waits:
`(a+)+$` takes two to the power of the length of the text. An expression therefore first computes from its parts how many ways of matching
a text of that length may have to be tried. A match with few of them is made at once. Any other match is made by a worker, a process of its
own that a timer ends after `DEADLINE`. A worker that has nothing to do for `IDLE` seconds ends by itself.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]  # nothing public tells the parts of an expression
from threading import Thread
from typing import Any

from holdfast.resources.errors import Permanent

DEADLINE = 5.0
"""Seconds that one match may take."""
IDLE = 10.0
"""Seconds after which a worker without work ends."""
WAYS = 500_000
"""Ways of matching that may be tried while the interpreter is held: a few hundredths of a second."""
SIZE = 32 << 20
"""Characters that a text with replacements may have."""
Groups = tuple[str | None, ...]

_WORKER = """
import json, re, resource, select, signal, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
while select.select([sys.stdin], [], [], float(sys.argv[1]))[0] and (line := sys.stdin.buffer.readline()):
    how, pattern, flags, text, repl, deadline = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, deadline)
    try:
        if how == "sub":
            answer = re.sub(pattern, repl, text, flags=flags)
        else:
            found = getattr(re, how)(pattern, text, flags)
            answer = found and (found.groups() or (found[0],))
    except (re.error, IndexError, MemoryError) as error:
        answer = {"error": str(error) or "it needs too much memory"}
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(answer), flush=True)
"""


class Unbounded(Permanent):
    """A match takes too long, or makes too much."""


class Expression:
    """A regular expression. Raises `re.error` or `OverflowError` for what is none, `RecursionError` for one that is nested too deeply.

    Its methods raise `Unbounded`. They block for up to `DEADLINE` seconds where the text or the expression is long: call them in a thread.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._compiled = re.compile(pattern, flags)
        parts = _parser.parse(pattern, flags)
        self._constant, self._degree = _ways(parts)
        at_start = len(parts) and str(parts[0][1]) == "AT_BEGINNING" and not self._compiled.flags & re.MULTILINE
        self._anywhere = () if at_start else ("search", "sub")

    def search(self, text: str) -> Groups | None:
        """The groups of the first match anywhere, or all of it when there are none; None without a match."""
        return self._found("search", text)

    def match(self, text: str) -> Groups | None:
        """The same, at the beginning."""
        return self._found("match", text)

    def fullmatch(self, text: str) -> Groups | None:
        """The same, of the whole text."""
        return self._found("fullmatch", text)

    def sub(self, repl: str, text: str) -> str:
        """The text with each match replaced. Raises `re.error` or `IndexError` for a replacement that does not fit."""
        if self._is_short("sub", text) and len(text) * len(repl) <= SIZE:
            return self._compiled.sub(repl, text)
        changed = str(self._apart("sub", text, repl))
        if len(changed) > SIZE:
            raise Unbounded(f"it makes a value of more than {SIZE >> 20} MB")
        return changed

    def is_short(self, text: str) -> bool:
        """Whether a match of this text, anywhere in it, does not hold the interpreter for long."""
        return self._is_short("search", text)

    def _found(self, how: str, text: str) -> Groups | None:
        if self._is_short(how, text):
            found = getattr(self._compiled, how)(text)
            return None if found is None else found.groups() or (found[0],)
        groups = self._apart(how, text, "")
        return None if groups is None else tuple(groups)

    def _is_short(self, how: str, text: str) -> bool:
        """Whether a match has so few ways that it can be made here."""
        return bool(self._constant * (len(text) + 1) ** (self._degree + (how in self._anywhere)) <= WAYS)

    def _apart(self, how: str, text: str, repl: str) -> Any:
        """What a worker finds."""
        pattern = self._compiled.pattern
        try:
            answer = _ask(
                json.dumps([how, pattern, self._compiled.flags & ~re.DEBUG, text, repl, DEADLINE]).encode() + b"\n"
            )
        except TimeoutError:
            raise Unbounded(
                f"the regular expression {pattern[:100]!r} takes longer than {DEADLINE:g} s on a text of {len(text)} characters; "
                "look for repetitions within repetitions, like (a+)+"
            ) from None
        if isinstance(answer, dict):
            raise re.error(answer["error"])
        return answer


@lru_cache(256)
def expression(pattern: str, flags: int = 0) -> Expression:
    """The expression that a pattern is, kept for the next match. Raises as `Expression` does."""
    return Expression(pattern, flags)


# -- how much there is to try --------------------------------------------------------------------------------------


_MANY = (WAYS + 1, 0)
"""More ways than are tried here, whatever the text."""


def _ways(parts: Any) -> tuple[int, int]:
    """How many ways there are, at most, to match a sequence of parts at one place of a text: (c, d) means c times the d-th power of its length."""
    constant, degree = 1, 0
    for part in parts:
        factor, power = _ways_of(str(part[0]), part[1])
        constant, degree = constant * factor, degree + power
        if constant > WAYS:
            return _MANY
    return constant, degree


def _ways_of(name: str, rest: Any) -> tuple[int, int]:
    """The same for one part, which Python's parser gives as its name and what belongs to it."""
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = rest
        return _ways_of_repeat(least, most, *_ways(body))
    if name == "BRANCH":
        return _ways_of_branch(rest[1])
    if name == "GROUPREF_EXISTS":
        return _ways_of_branch([rest[1], rest[2] or []])
    if name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        return _ways(rest[-1])
    return _ways(rest) if name == "ATOMIC_GROUP" else (1, 0)


def _ways_of_repeat(least: int, most: int, constant: int, degree: int) -> tuple[int, int]:
    if (constant, degree) == (1, 0):
        return (most - least + 1, 0) if most - least < WAYS else (1, 1)
    if most > 16:
        return _MANY
    constant = sum(constant**times for times in range(least, most + 1))
    return (constant, degree * most) if constant <= WAYS else _MANY


def _ways_of_branch(branches: Any) -> tuple[int, int]:
    ways = [_ways(branch) for branch in branches]
    firsts = [branch[0] if len(branch) else None for branch in branches]
    literals = {chr(first[1]).casefold() for first in firsts if first is not None and str(first[0]) == "LITERAL"}
    count = (
        max if len(literals) == len(firsts) else sum
    )  # of branches that begin with different characters only one can match
    return count(constant for constant, _ in ways), max(degree for _, degree in ways)


# -- workers -------------------------------------------------------------------------------------------------------


_idle: list[subprocess.Popen[bytes]] = []
"""Workers that nobody uses: a thread takes one out, and puts it back when it has its answer."""


def _ask(request: bytes) -> Any:
    """The answer of a worker. Raises `TimeoutError`."""
    while True:
        worker, new = (_idle.pop(), False) if _idle else (_start(), True)
        try:
            worker.stdin.write(request)  # type: ignore[union-attr]  # a pipe
            worker.stdin.flush()  # type: ignore[union-attr]
            line = worker.stdout.readline()  # type: ignore[union-attr]
        except BrokenPipeError:
            line = b""
        if line.endswith(b"\n"):
            _idle.append(worker)
            return json.loads(line)
        _end(worker)
        if worker.returncode == -signal.SIGALRM:
            raise TimeoutError
        if new:
            raise Unbounded(
                f"a process that matches regular expressions ended with {worker.returncode}: is there too little memory?"
            )


def _start() -> subprocess.Popen[bytes]:
    argv = (sys.executable, "-I", "-S", "-c", _WORKER, str(IDLE))
    worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    Thread(target=_reap, args=(worker,), name="holdfast-worker", daemon=True).start()
    return worker


def _reap(worker: subprocess.Popen[bytes]) -> None:
    """Wait until a worker has ended, so that no zombie and no descriptors stay of one that ends by itself."""
    worker.wait()
    with suppress(ValueError):  # somebody uses it, and will find out
        _idle.remove(worker)
        _end(worker)


def _end(worker: subprocess.Popen[bytes]) -> None:
    with suppress(BrokenPipeError), worker:  # closes the pipes and waits
        pass
