r"""For authors of kinds: test cases that are data files.

A *case* is a YAML file, `tests/cases/<kind>/<behaviour>.yaml`, that `run_case` runs:

    why: one sentence that says what this shows
    is:                                   # the state of the host before; every part is optional
      files: {"{tmp}/motd": "old"}        # text; or {text:, mode:} or {dir: true, mode:} or {link: target}
      commands: {"id -u app": "1000", "false": {retcode: 1}}   # command -> its output, or Completed's fields,
                                        # or {file: PATH}, the file of its output, or {into: PATH}, where its stdin goes
      sources: {"salt://motd": "new"}     # URL -> content
      interfaces: {}                      # virtual module -> an object; only from Python
      pillar: {}
      facts: {}
    declared: {name: "{tmp}/motd", contents: new}
    wanted:
      result: changed                     # changed | right | the text of an error, or a part of it; the error may be
                                          # one in the arguments, `ARGUMENT: REASON`
      changes: {diff: ...}                # these keys must be reported with these values; {} means none at all
      calls: ["id -u app"]                # exactly these commands, in this order
      files: {"{tmp}/motd": "new\n", "{tmp}/gone": null}
    plan: changed                         # result of a run without apply; default: as wanted, unless that is an error
    again: right                          # result of a second run; default: right, without changes and further calls

`{tmp}` stands for the temporary directory. A case is run without `apply` first; this run must change nothing. A case of
a remote kind needs a plugin, whose provider finds the remote things below that directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.case_files import CaseFailed, expect, make, parsed, placed, seen_as, snapshot
from holdfast.resources.contract import Resource
from holdfast.resources.errors import HoldfastError
from holdfast.resources.plugin import Plugin
from holdfast.resources.refusals import said
from holdfast.resources.testing import FakeContext

OUTCOMES = frozenset({"changed", "right"})


Plugins = Callable[[Path], Awaitable[Mapping[str, Plugin]]]
"""Returns the plugins of a case by package, for the directory of the case."""


async def no_plugins(_: Path) -> Mapping[str, Plugin]:
    """Return no plugins."""
    return {}


def run_case(path: Path, tmp: Path, plugins: Plugins = no_plugins) -> None:
    """Run one case in an empty directory.

    The kind is the name of the directory that the case is in. Raises `CaseFailed`.
    """
    kind = path.parent.name
    cls = registry.find(kind)
    if cls is None:
        raise CaseFailed(f"{path}: there is no kind {kind}")
    case = placed(parsed(path.read_text(encoding="utf-8")), {"tmp": str(tmp)})
    before, wanted = case.get("is") or {}, case["wanted"]
    for name, thing in (before.get("files") or {}).items():
        make(Path(name), thing)
    try:
        resource = cls.model_validate({"name": "case", **case["declared"]})
    except ValidationError as error:
        _compare_refusal(wanted["result"], error)
        return
    var_dir = tmp.with_name(f"{tmp.name}.var")
    var_dir.mkdir(exist_ok=True)
    world = {word: before[word] for word in ("facts", "pillar", "commands", "sources", "managed") if word in before}

    async def play() -> None:
        known = await plugins(tmp)
        await _play(resource, lambda: FakeContext(var_dir, f"{kind}[case]", plugins=known, **world), case, tmp)

    asyncio.run(play())
    for name, thing in (wanted.get("files") or {}).items():
        expect(f"{name} afterwards", thing, seen_as(Path(name), thing))


def _compare_refusal(wanted: str, error: ValidationError) -> None:
    """Compare the result that a case expects with the reason why its arguments are refused."""
    told = "; ".join(f"{'.'.join(map(str, detail['loc']))}: {said(detail)}" for detail in error.errors())
    expect("the result of checking the arguments", wanted if wanted in OUTCOMES or wanted not in told else told, told)


async def _play(resource: Resource, context: Callable[[], FakeContext], case: Mapping[str, Any], tmp: Path) -> None:
    """Run the resource without apply, with apply, and again."""
    wanted = case["wanted"]
    untouched = snapshot(tmp)
    planned = await _outcome(resource, context(), apply=False)
    if "plan" in case or wanted["result"] in OUTCOMES:
        expect("the result without apply", case.get("plan", wanted["result"]), planned)
    expect("what a run without apply leaves", untouched, snapshot(tmp))
    ctx = context()
    _compare("the run", wanted, await _outcome(resource, ctx, apply=True), ctx)
    if case.get("again") == "same":
        return
    ctx = context()
    second = await _outcome(resource, ctx, apply=True)
    again = case.get("again") or (wanted["result"] if wanted["result"] not in OUTCOMES else "right")
    _compare("the second run", {"result": again, **({"changes": {}} if again == "right" else {})}, second, ctx)


async def _outcome(resource: Resource, ctx: FakeContext, *, apply: bool) -> str:
    """Return `right`, `changed`, or the text of the error."""
    try:
        return "right" if await resource.check_apply(ctx, apply) else "changed"
    except HoldfastError as error:
        return str(error)
    finally:
        reported = ctx.report.effect.verbs if ctx.report.effect else ()
        expect("verbs that the kind does not declare", set(), {*reported} - {*resource.effect_verbs})


def _compare(what: str, wanted: Mapping[str, Any], outcome: str, ctx: FakeContext) -> None:
    result = wanted["result"]
    if result not in OUTCOMES and result in outcome:
        result = outcome
    expect(f"the result of {what}", result, outcome)
    changes = ctx.report.changes
    if "changes" in wanted:
        told = {key: changes.get(key) for key in wanted["changes"]} if wanted["changes"] else changes
        expect(f"the changes of {what}", wanted["changes"], told)
    if "calls" in wanted:
        expect(f"the calls of {what}", wanted["calls"], ctx.calls)
