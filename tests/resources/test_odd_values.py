"""Names and values with odd characters: each kind refuses them with a clear error, or passes them on exactly.

The arguments are those of the data cases; in each, one text at a time is replaced. A command has the text in one
element of its argument list, no shell reads it, and a file that was written with it is read as declared. Nothing
outside of the directory of the test changes. Lone surrogates do not reach kinds.
"""

from __future__ import annotations

import asyncio
import copy
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from changing_only import changing_only_below
from holdfast.agent.model.docstrings import docs_of
from holdfast.resources import registry
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.case_files import make, parsed, placed
from holdfast.resources.context import Completed
from holdfast.resources.contract import Resource, acts
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.testing import FakeContext
from holdfast.states.errors import CompileError
from holdfast.states.parse.loader import parse_json, parse_yaml
from holdfast.states.parse.marks import Document
from odd_texts import ODD, PER_TEXT, demand_exact, replaced, texts

CASES = Path(__file__).parents[1] / "cases"
COMMANDS = re.compile(
    r"cmd\.\w+ (name|stateful|unless|onlyif)|file\.\w+ check_cmd|module\.\w+ .*|git\.config_set multivar"
    r"|iptables\.\w+ .*"
)
"""Kinds and arguments that are commands for a shell, or are split into words, or are lists of words."""
UNSETTLED = ("file.replace repl", "file.replace pattern")
"""Arguments whose result the pattern matches again, so that each run changes something."""
PARAMETER = "/proc/sys/kernel/ostype"
"""The kernel parameter of the cases, which must not be changed."""


class Watching(FakeContext):
    """A host whose commands are recorded with their argument lists, and succeed without output."""

    def __init__(self, var_dir: Path, **world: Any) -> None:
        super().__init__(var_dir, **world)
        self.argvs: list[tuple[str, ...]] = []
        self.environments: list[dict[str, str]] = []

    async def run(self, *argv: str, check: bool = True, stdin: str | None = None, **options: Any) -> Completed:
        """Answer as the case says, else without output."""
        self.argvs.append(argv)
        self.environments.append(dict(options.get("env") or {}))
        if argv[0] == sys.executable or any("\0" in word for word in (*argv, *self.environments[-1].values())):
            raise Permanent("it cannot be started")  # as on a real host; edits in a process of their own are not tried
        if " ".join(map(str, argv)) in self.commands:
            return await super().run(*argv, check=check, stdin=stdin, **options)
        return Completed(argv, 1, 0, "", "")

    def _source(self, url: str) -> bytes:
        """Return the content of a source. Raises `Permanent` also for a name that no file can have."""
        try:
            return super()._source(url)
        except (OSError, ValueError) as error:
            raise Permanent(str(error)) from None


def cases(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the data cases of a kind, or its examples, and further ones with the arguments that these lack."""
    cls: Any = registry.find(kind)
    found = [parsed(path.read_text(encoding="utf-8")) for path in sorted((CASES / kind).glob("*.yaml"))]
    found = found or [{"declared": declared} for text in docs_of(cls).examples for declared in arguments_in(text, kind)]
    yield from found
    known = {name for case in found for name in case["declared"]}
    for name in cls.model_fields.keys() - known:
        for value in ("x", ["x"], {"x": "x"}):
            yield {**found[0], "declared": {**found[0]["declared"], name: value}}


def arguments_in(text: str, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the states of a kind in an example."""
    for name, states in parsed(text).items():
        given = states.get(kind) if isinstance(states, dict) else [] if states == kind else None
        if given is not None:
            yield {"name": name, **{key: value for item in given for key, value in item.items()}}


def trials(kind: str) -> Iterator[tuple[dict[str, Any], tuple[Any, ...], str]]:
    """Yield (case, place, name of the odd text); each run of the tests yields others."""
    seen: set[tuple[Any, ...]] = set()
    for case in cases(kind):
        for steps in texts({"name": "case", **case["declared"]}):
            place = tuple(step for step in steps if not isinstance(step, int))
            if place not in seen:
                seen.add(place)
                yield from ((case, steps, name) for name in random.sample(list(ODD), PER_TEXT))


def demand_clear(error: str) -> None:
    """Raise `AssertionError` unless an error is a message for people."""
    assert error.strip()
    assert "Traceback" not in error


async def attempt(kind: str, case: dict[str, Any], steps: tuple[Any, ...], odd: str, tmp: Path) -> str:
    """Run one trial; return `refused`, `failed` or `passed`. Raises `AssertionError`."""
    case = placed(copy.deepcopy(case), {"tmp": str(tmp)})
    before = case.get("is") or {}
    arguments, odd = replaced({"name": "case", **case["declared"]}, steps, odd, str(tmp))
    cls: Any = registry.find(kind)
    try:
        resource: Resource = cls.model_validate(arguments)
    except ValidationError as error:
        demand_clear(str(error))
        return "refused"
    for name, thing in (before.get("files") or {}).items():
        make(Path(name), thing)
    world = {word: before[word] for word in ("facts", "pillar", "commands", "sources", "managed") if word in before}
    try:
        for apply in (False, True):
            ctx = Watching(tmp.with_name("var"), identity=f"{kind}[x]", **world)
            try:
                await resource.check_apply(ctx, apply)
            finally:
                if not COMMANDS.fullmatch(f"{kind} {steps[0]}"):
                    for argv in ctx.argvs:
                        demand_exact(argv, odd)
        again = Watching(tmp.with_name("var"), identity=f"{kind}[x]", **world)
        right = await resource.check_apply(again, False)
    except HoldfastError as error:
        demand_clear(str(error))
        return "failed"
    repeats = f"{kind} {steps[0]}" in UNSETTLED or acts(resource) or "again" in case or bool(case.get("commands"))
    assert right or repeats or again.argvs, "what was written is read differently"
    return "passed"


@pytest.mark.parametrize("kind", sorted(KIND_MODULES))
def test_odd_texts_are_refused_or_passed_on_exactly(kind: str, tmp_path: Path) -> None:
    """An odd text replaces each text of each data case of the kind, one at a time."""
    (tmp_path / "var").mkdir()
    for number, (case, steps, name) in enumerate(trials(kind)):
        tmp = tmp_path / str(number) / "world"
        tmp.mkdir(parents=True)
        (tmp.parent / "var").mkdir()
        try:
            with changing_only_below(tmp_path, PARAMETER):
                asyncio.run(attempt(kind, case, steps, ODD[name], tmp))
        except Exception as error:
            raise AssertionError(f"{name} in {'.'.join(map(str, steps))} of {case['declared']}: {error!r}") from error


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_yaml, '"\\ud800"'), (parse_yaml, "\ud800"), (parse_json, '"\\ud800"'), (parse_json, '"\ud800"')],
)
def test_no_parser_returns_a_lone_surrogate(parse, text):
    """Kinds need not handle a lone surrogate, because no file and no argument list can have one."""
    with pytest.raises(CompileError):
        parse(Document("a.sls", text), text)
