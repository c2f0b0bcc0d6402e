r"""For authors of providers: test cases that are data files.

A *case* is a YAML file, `tests/providers/<interface>.<tool>/<behaviour>.yaml`, that `run_provider_case` runs:

    why: one sentence that says what this shows
    is:                                   # the host before; every part is optional
      facts: {osarch: amd64}              # grains
      files: {"{root}/etc/group": "a:x:5:\n"}     # as in cases of kinds; `{root}` is the directory of the system
      commands: {"groupadd --gid 7 devs": ""}     # command -> its output, or {retcode:, stdout:, stderr:}
      bus: {"* LoadUnit cron.service": ["/unit"]} # D-Bus call -> its values, or {error: NAME, message: TEXT},
                                                  # or {values: [...], signals: [[interface, member, path, [body]]]}
    call: {add: {name: devs, gid: 7}}     # the function and its arguments
    wanted:
      result: {changes: {gid: {old: null, new: 7}}}   # these fields of a result must have these values
      error: "cannot add group devs"      # in place of a result: the text of the error, or a part of it
      temporary: true                     # whether the error is a `Temporary`; default: false
      calls: ["groupadd --gid 7 devs"]    # exactly these commands, in this order; `COMMAND <<< STDIN` with an input
      bus: ["* StartUnit cron.service replace"]   # these D-Bus calls, in this order, among others
      files: {"{root}/etc/group": "..."}  # files afterwards
    plan: ...                             # result with `test=True`; default: as wanted, unless that is an error

A command is its arguments, joined by blanks. A D-Bus call is `OBJECT INTERFACE MEMBER ARGUMENT...`; arguments other
than strings are JSON. `*` stands for any text. An answer that is a mapping may have `then`, in the form of `is`: the
changes of the host by this command. A call with `test=True` must not get such an answer. A file `host.yaml` in the
directory of a provider's cases is an `is` that all these cases share.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from holdfast.resources.case_files import CaseFailed, expect, make, parsed, placed, seen_as
from holdfast.resources.context import Completed
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.host import BusError, Match, Signal
from holdfast.resources.interfaces.registry import demand, offers
from holdfast.resources.interfaces.results import Result
from holdfast.resources.testing import SilentLog
from holdfast.resources.watches import idle

TIMEOUT = 10.0
"""Seconds that a case may take; without a limit, a case that waits for a missing signal would never end."""
SHARED = "host.yaml"
"""Name of the file with the host that all cases of a provider share."""


class FakeProviderHost:
    """A host with real files below a directory, and with tables of answers for commands and D-Bus calls."""

    def __init__(self, root: Path) -> None:
        self.facts: dict[str, Any] = {}
        self.log = SilentLog()
        self.root = root
        self.calls: list[str] = []
        """The commands that ran."""
        self.bus_calls: list[str] = []
        self.changed = False
        """Whether an answer has changed the host."""
        self._answers: dict[str, list[Mapping[str, Any]]] = {"commands": [], "bus": []}
        """Tables of answers, the newest first."""
        self._signals: list[tuple[tuple[Match, ...], asyncio.Queue[Signal]]] = []

    def become(self, given: Mapping[str, Any]) -> None:
        """Add facts, files and answers; they replace earlier ones."""
        self.facts |= given.get("facts") or {}
        for name, thing in (given.get("files") or {}).items():
            make(Path(name), thing)
        for table, known in self._answers.items():
            known.insert(0, given.get(table) or {})

    def _answer(self, table: str, line: str) -> Any:
        """Return the answer to a command or call, after changing the host. Raises `Permanent` if there is none."""
        for answers in self._answers[table]:
            for pattern, answer in answers.items():
                if fits(pattern, line):
                    if isinstance(answer, Mapping) and "then" in answer:
                        self.changed = True
                        self.become(answer["then"])
                    return answer
        raise Permanent(f"the case has no answer in `{table}` to {line!r}")

    # -- what providers use --------------------------------------------------------------------------------------

    async def run(self, *argv: str, check: bool = True, stdin: str | None = None, **_: Any) -> Completed:
        """Answer a command from the table.

        Raises `Permanent` for an unknown command and, with `check`, for a failure.
        """
        line = " ".join(argv)
        self.calls.append(line if stdin is None else f"{line} <<< {stdin.rstrip()}")
        answer = self._answer("commands", line)
        given = answer if isinstance(answer, Mapping) else {"stdout": str(answer)}
        done = Completed(argv, 1, int(given.get("retcode", 0)), given.get("stdout", ""), given.get("stderr", ""))
        if check and done.retcode:
            raise Permanent(f"{argv[0]} ended with status {done.retcode}: {done.stderr}")
        return done

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Make the call at once."""
        return call(*args)

    async def long_blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Make the call at once."""
        return call(*args)

    def watch_path(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Return a watch that reports no events."""
        return idle()

    def system_path(self, path: Path) -> Path:
        """Return the path below the directory of the system."""
        return self.root / path.relative_to("/")

    def bus(self) -> FakeProviderHost:
        """Return the D-Bus, which is this host."""
        return self

    async def call(
        self,
        _: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        *arguments: Any,
        timeout: float = 25.0,
    ) -> list[Any]:
        """Answer a D-Bus call from the table. Raises `BusError` if the answer is an error."""
        words = [word if isinstance(word, str) else json.dumps(word) for word in arguments]
        line = " ".join([path, interface, member, *words])
        self.bus_calls.append(line)
        answer = self._answer("bus", line)
        if not isinstance(answer, Mapping):
            return list(answer)
        if "error" in answer:
            raise BusError(answer.get("message", answer["error"]), name=answer["error"])
        for signal in (Signal(*each) for each in answer.get("signals", ())):
            for matches, queue in self._signals:
                if any(_matches(match, signal) for match in matches):
                    queue.put_nowait(signal)
        return list(answer.get("values", ()))

    async def signals(self, *matches: Match) -> AsyncGenerator[Signal | None, None]:
        """Yield None, then the signals of later answers."""
        queue: asyncio.Queue[Signal] = asyncio.Queue()
        self._signals.append((matches, queue))
        yield None
        while True:
            yield await queue.get()


def fits(pattern: str, line: str) -> bool:
    """Return whether a line matches a pattern, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), line, re.DOTALL) is not None


def _matches(match: Match, signal: Signal) -> bool:
    wanted = ((match.interface, signal.interface), (match.member, signal.member), (match.path, signal.path))
    return all(not want or want == have for want, have in wanted)


def run_provider_case(path: Path, tmp: Path) -> None:
    """Run one case, below an empty directory. Raises `CaseFailed`.

    The interface and the tool are the name of the directory that the case is in.
    """
    asyncio.run(_plan(path, tmp / "plan"))
    asyncio.run(_change(path, tmp / "change"))


async def _plan(path: Path, root: Path) -> None:
    """Make the call with `test=True`, if the function has this parameter; it must not change the host."""
    case, host, bound = _build(path, root)
    ((function, _),) = case["call"].items()
    wanted = case.get("plan", case["wanted"])
    takes_test = "test" in inspect.signature(bound.interface.functions()[function]).parameters
    if takes_test and ("plan" in case or "error" not in wanted):
        await _compare_result("the call with `test`", case, bound, wanted, test=True)
        expect("whether the call with `test` changes the host", False, host.changed)


async def _change(path: Path, root: Path) -> None:
    """Make the call, and compare what it does with the case."""
    case, host, bound = _build(path, root)
    wanted = case["wanted"]
    await _compare_result("the call", case, bound, wanted)
    if "calls" in wanted:
        pairs = zip_longest(wanted["calls"], host.calls, fillvalue="")
        got = [pattern if pattern and fits(pattern, line) else line for pattern, line in pairs]
        expect("the commands of the call", wanted["calls"], got)
    left = iter(host.bus_calls)
    for pattern in wanted.get("bus", ()):
        if not any(fits(pattern, line) for line in left):
            raise CaseFailed(f"the D-Bus calls of the call: no {pattern!r}, in this order, among {host.bus_calls}")
    for name, thing in (wanted.get("files") or {}).items():
        expect(f"{name} after the call", thing, seen_as(Path(name), thing))


def _build(path: Path, root: Path) -> tuple[dict[str, Any], FakeProviderHost, Bound]:
    """Return a case, its host, and its provider, which need not fit the machine that runs the case."""
    interface, _, tool = path.parent.name.partition(".")
    root.mkdir()
    host = FakeProviderHost(root)
    texts = [file.read_text(encoding="utf-8") for file in (path.with_name(SHARED), path) if file.exists()]
    *shared, case = [placed(parsed(text), {"root": str(root)}) for text in texts]
    for given in [*shared, case.get("is") or {}]:
        host.become(given)
    known = offers(demand(interface))
    if tool not in known:
        raise CaseFailed(f"{path.parent}: no provider {tool!r} of {interface}; available: {', '.join(sorted(known))}")
    return case, host, Bound(known[tool], host)


async def _compare_result(
    what: str, case: Mapping[str, Any], bound: Bound, wanted: Mapping[str, Any], **extra: Any
) -> None:
    """Make the call of a case, and compare its result or its error with `wanted`."""
    ((function, given),) = case["call"].items()
    hints = get_type_hints(bound.interface.functions()[function])
    arguments = {
        name: TypeAdapter(hints[name]).validate_python(value) if name in hints else value
        for name, value in (given or {}).items()
    }
    try:
        async with asyncio.timeout(TIMEOUT):
            result = getattr(bound, function)(**arguments, **extra)
            result = await result if inspect.isawaitable(result) else result
    except TimeoutError:
        raise CaseFailed(f"{what} did not end within {TIMEOUT:g} s") from None
    except HoldfastError as error:
        _expect_error(what, wanted, error)
        return
    expect(f"the error of {what}", wanted.get("error"), None)
    expect(f"the result of {what}", wanted.get("result"), _shown(result, wanted.get("result")))


def _expect_error(what: str, wanted: Mapping[str, Any], error: HoldfastError) -> None:
    text, part = str(error), str(wanted.get("error", ""))
    if not part or part not in text:
        raise CaseFailed(f"the error of {what}: wanted {part or 'none'!r}, got {text!r}") from error
    expect(f"whether the error of {what} is temporary", wanted.get("temporary", False), isinstance(error, Temporary))


def _shown(value: Any, like: Any) -> Any:
    """Return a result in the form of a case: of a `Result` the fields that the case names."""
    if isinstance(value, Result):
        return _fields(value, like) if isinstance(like, Mapping) else value
    if isinstance(value, Mapping):
        likes = like if isinstance(like, Mapping) else {}
        return {name: _shown(item, likes.get(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        named = like[: len(value)] if isinstance(like, list) else []
        return [_shown(item, this) for item, this in zip_longest(value, named)]
    return value


def _fields(result: Result, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return these fields of a result; fields that only one platform has are taken from `extra`."""
    known = {**result.extra, **{name: getattr(result, name) for name in type(result).model_fields}}
    return {name: _shown(known.get(name), names[name]) for name in names}
