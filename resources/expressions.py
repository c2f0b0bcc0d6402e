"""Regular expressions of users, matched without blocking the interpreter.

While Python matches a regular expression, no other thread runs and nothing can stop the match. A match may take very
long: `(a+)+$` takes exponential time in the length of the text. An expression therefore first computes from its parts
how many ways of matching a text of that length Python may have to try. If there are few, the match runs at once.
Otherwise a worker matches: a separate process that a timer ends after `DEADLINE`. A worker without work for `IDLE`
seconds ends by itself.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]  # no public interface gives the parts of an expression
from threading import Thread
from typing import Any

from holdfast.resources.errors import Permanent

DEADLINE = 5.0
"""Greatest duration of one match, in seconds."""
IDLE = 10.0
"""Seconds after which a worker without work ends."""
WAYS = 500_000
"""Greatest number of ways of matching that this process tries, in a few hundredths of a second."""
SIZE = 32 << 20
"""Greatest length of a text after replacements, in characters."""
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
    """A match takes too long, or its result is too large."""


class Expression:
    """A regular expression.

    The constructor raises `re.error` or `OverflowError` for a malformed expression, `RecursionError` for one that is
    nested too deeply. The methods raise `Unbounded`. They block for up to `DEADLINE` seconds if the text or the
    expression is long: call them in a thread.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._compiled = re.compile(pattern, flags)
        parts = _parser.parse(pattern, flags)
        self._constant, self._degree = _ways(parts)
        at_start = len(parts) and str(parts[0][1]) == "AT_BEGINNING" and not self._compiled.flags & re.MULTILINE
        self._anywhere = () if at_start else ("search", "sub")

    @property
    def ways(self) -> tuple[int, int]:
        """An upper bound of the ways to match a text: (c, d) means c times the d-th power of its length plus one."""
        return self._constant, self._degree

    def search(self, text: str) -> Groups | None:
        """Return the groups of the first match anywhere in the text; the whole match if there are no groups.

        Returns None if nothing matches.
        """
        return self._found("search", text)

    def match(self, text: str) -> Groups | None:
        """Do as `search`, for a match at the beginning of the text."""
        return self._found("match", text)

    def fullmatch(self, text: str) -> Groups | None:
        """Do as `search`, for a match of the whole text."""
        return self._found("fullmatch", text)

    def sub(self, repl: str, text: str) -> str:
        """Return the text with each match replaced.

        Raises `re.error` or `IndexError` for a replacement that does not fit.
        """
        if self._is_short("sub", text) and len(text) * len(repl) <= SIZE:
            return self._compiled.sub(repl, text)
        changed = str(self._ask_worker("sub", text, repl))
        if len(changed) > SIZE:
            raise Unbounded(f"the result has more than {SIZE >> 20} MB")
        return changed

    def is_short(self, text: str) -> bool:
        """Return whether a match anywhere in this text takes little time."""
        return self._is_short("search", text)

    def _found(self, how: str, text: str) -> Groups | None:
        if self._is_short(how, text):
            found = getattr(self._compiled, how)(text)
            return None if found is None else found.groups() or (found[0],)
        groups = self._ask_worker(how, text, "")
        return None if groups is None else tuple(groups)

    def _is_short(self, how: str, text: str) -> bool:
        """Return whether a match has few enough ways to run in this process."""
        return bool(self._constant * (len(text) + 1) ** (self._degree + (how in self._anywhere)) <= WAYS)

    def _ask_worker(self, how: str, text: str, repl: str) -> Any:
        """Return the result of a match in a worker."""
        pattern = self._compiled.pattern
        try:
            answer = _ask(
                json.dumps([how, pattern, self._compiled.flags & ~re.DEBUG, text, repl, DEADLINE]).encode() + b"\n"
            )
        except TimeoutError:
            raise Unbounded(
                f"the regular expression {pattern[:100]!r} takes longer than {DEADLINE:g} s on a text of {len(text)} "
                "characters; "
                "look for repetitions within repetitions, like (a+)+"
            ) from None
        if isinstance(answer, dict):
            raise re.error(answer["error"])
        return answer


@lru_cache(256)
def expression(pattern: str, flags: int = 0) -> Expression:
    """Return the compiled expression of a pattern, from a cache. Raises as `Expression` does."""
    return Expression(pattern, flags)


# -- number of ways to match -----------------------------------------------------------------------------------------


_MANY = (WAYS + 1, 0)
"""More ways than this process tries, for any text."""


def _ways(parts: Any) -> tuple[int, int]:
    """Return an upper bound of the ways to match a sequence of parts at one position of a text.

    (c, d) means c times the d-th power of the length of the text.
    """
    constant, degree = 1, 0
    for part in parts:
        factor, power = _ways_of(str(part[0]), part[1])
        constant, degree = constant * factor, degree + power
        if constant > WAYS:
            return _MANY
    return constant, degree


def _ways_of(name: str, rest: Any) -> tuple[int, int]:
    """Do as `_ways`, for one part, given as the name and the arguments that Python's parser uses."""
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
    )  # only one of several branches that begin with different characters can match
    return count(constant for constant, _ in ways), max(degree for _, degree in ways)


# -- workers -------------------------------------------------------------------------------------------------------


_idle: list[subprocess.Popen[bytes]] = []
"""Idle workers: a thread takes a worker out, and puts it back after the answer."""


def _ask(request: bytes) -> Any:
    """Return the answer of a worker to a request. Raises `TimeoutError`."""
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
                f"a process that matches regular expressions ended with {worker.returncode}: memory may be short"
            )


def _start() -> subprocess.Popen[bytes]:
    argv = (sys.executable, "-I", "-S", "-c", _WORKER, str(IDLE))
    worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    Thread(target=_reap, args=(worker,), name="holdfast-worker", daemon=True).start()
    return worker


def _reap(worker: subprocess.Popen[bytes]) -> None:
    """Wait until a worker ends, so that an idle worker leaves no zombie and no open descriptors."""
    worker.wait()
    with suppress(ValueError):  # a thread is using the worker, and will see its end
        _idle.remove(worker)
        _end(worker)


def _end(worker: subprocess.Popen[bytes]) -> None:
    with suppress(BrokenPipeError), worker:  # closes the pipes and waits
        pass
