"""Composites in the engine: parts run in order, and the composite has the result of its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine_bench import Bench
from fake_machine import Machine
from holdfast import Composite, Part, Permanent
from holdfast.resources.fields import Texts
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs


class House(Composite, kind="zhouse.built"):
    """A composite of settings."""

    rooms: Texts = ()
    value: str = "right"

    def parts(self) -> Sequence[Part]:
        """Return the walls, then rooms that watch them."""
        walls = Part("walls", "zsetting.present", {"name": f"{self.name}-walls", "value": self.value})
        return (walls, *[Part(room, "zsetting.present", {}, {"watch": ("walls",)}) for room in self.rooms])


class Street(Composite, kind="zstreet.built"):
    """A composite of two composites."""

    def parts(self) -> Sequence[Part]:
        """Return the two houses in order."""
        return (
            Part("first", "zhouse.built", {"rooms": ["hall"]}),
            Part("second", "zhouse.built", {}, {"require": ("first",)}),
        )


Compile = Callable[[str], Compilation]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Return a function that compiles one state file."""
    compiler = Compiler()
    tmp_path.chmod(0o755)

    def compile_text(text: str) -> Compilation:
        (tmp_path / "site.sls").write_text(text)
        return compiler.compile(CompilerInputs(states=tmp_path, trusted_uids=frozenset({os.getuid()})))

    return compile_text


def done(machine: Machine) -> list[str]:
    """Return the changes."""
    return [line for line in machine.log if not line.startswith("check")]


HOME = "home:\n  zhouse.built:\n    - rooms: [kitchen]\n"
BELL = "bell:\n  zsetting.present:\n    - value: right\n    - watch:\n      - zhouse: home\n"


async def once(bench: Bench, compilation: Compilation, **options: bool) -> None:
    """Run the states once."""
    async with bench.starting(compiled=compilation, watch=False, **options) as engine:
        await engine.settle()


def results(bench: Bench) -> dict[str, tuple[bool | None, str]]:
    """Return the result and reason of the last outcome of each identity."""
    found = {}
    for record in bench.passes():
        for outcome in record.outcomes:
            found[outcome.identity] = (outcome.result, outcome.reason)
    return found


async def test_parts_run_before_the_composite_which_has_changed_if_one_has(
    bench: Bench, machine: Machine, compiled: Compile
) -> None:
    """A state that watches the composite is refreshed; without a change it is not."""
    machine.settings["bell"] = "right"
    await once(bench, compiled(HOME + BELL))
    assert done(machine) == ["apply home-walls", "apply kitchen", "refresh bell"]
    assert bench.outcomes("home")[-1].changes == {"home": "changed"}
    bench.forget()

    await once(bench, compiled(HOME + BELL))
    assert done(machine) == []
    assert [(outcome.result, outcome.changes) for outcome in bench.outcomes("home")] == [(True, {})]


async def test_a_failed_part_fails_the_composite_and_blocks_its_dependents(
    bench: Bench, machine: Machine, compiled: Compile
) -> None:
    """The composite behaves like any other state."""
    machine.broken["kitchen"] = machine.broken["refresh kitchen"] = Permanent("no water")
    await once(bench, compiled(HOME + BELL))

    found = results(bench)
    assert found["zsetting.present[home/kitchen]"] == (False, "")
    assert found["zhouse.built[home]"] == found["zsetting.present[bell]"] == (False, "requisite_failed")


async def test_each_part_has_the_requisites_of_the_composite(bench: Bench, machine: Machine, compiled: Compile) -> None:
    """No part runs if the required state has failed."""
    machine.broken["ground"] = Permanent("swamp")
    await once(bench, compiled("ground: zsetting.present\n" + HOME + "    - require: [{zsetting: ground}]\n"))

    assert done(machine) == ["apply ground"]
    assert results(bench)["zsetting.present[home/walls]"] == (False, "requisite_failed")


async def test_a_guard_of_the_composite_applies_to_each_part(
    bench: Bench, machine: Machine, compiled: Compile, tmp_path: Path
) -> None:
    """With `creates` of an existing file, no part runs, and none fails."""
    await once(bench, compiled(HOME + f"    - creates: {tmp_path}/site.sls\n"))

    assert done(machine) == []
    assert {result for result, _ in results(bench).values()} == {True}


@pytest.mark.parametrize("meta", ["    - noop: true\n", ""])
async def test_noop_of_the_composite_or_the_agent_changes_no_part(
    bench: Bench, machine: Machine, compiled: Compile, meta: str
) -> None:
    """The composite reports that it would change."""
    await once(bench, compiled(HOME + meta), noop=not meta)

    assert not [line for line in done(machine) if not line.startswith("would")]
    assert results(bench)["zhouse.built[home]"] == (None, "")


async def test_a_prereq_on_the_composite_runs_before_its_first_part(
    bench: Bench, machine: Machine, compiled: Compile
) -> None:
    """It does not run if no part would change."""
    before = "guard:\n  zaction.run:\n    - prereq: [{zhouse: home}]\n"
    await once(bench, compiled(HOME + before))
    assert done(machine) == ["run guard", "apply home-walls", "apply kitchen"]
    bench.forget()

    await once(bench, compiled(HOME + before))
    assert done(machine) == []


async def test_composites_may_contain_composites(bench: Bench, machine: Machine, compiled: Compile) -> None:
    """All parts run in order, and a failure of the innermost part fails the outermost composite."""
    machine.broken["hall"] = machine.broken["refresh hall"] = Permanent("no")
    await once(bench, compiled("main: zstreet.built\n"))

    found = results(bench)
    assert done(machine) == ["apply first-walls", "apply hall", "refresh hall"]
    assert (
        found["zhouse.built[main/first]"] == found["zsetting.present[main/second/walls]"] == (False, "requisite_failed")
    )
    assert found["zstreet.built[main]"] == (False, "requisite_failed")


async def test_drift_of_a_part_repairs_that_part_and_changes_the_composite(
    bench: Bench, machine: Machine, compiled: Compile
) -> None:
    """The test runs an agent. Of the other parts, only those that watch this one are refreshed."""
    async with bench.starting(compiled=compiled(HOME + BELL)) as engine:
        await engine.settle()
        bench.forget()
        machine.drift("kitchen")
        await bench.elapse(1)
        assert done(machine) == ["apply kitchen", "refresh bell"]
        bench.forget()

        await engine.swap(compiled(HOME + BELL + "more: zsetting.present\n"))
        await engine.settle()
        assert machine.log == ["check more", "apply more", "check more"]
        assert {row["identity"] for row in engine.status()} >= {"zsetting.present[home/walls]", "zhouse.built[home]"}
        bench.forget()

        await engine.swap(compiled(HOME.replace("kitchen", "cellar") + BELL))
        await engine.settle()
        assert "apply cellar" in done(machine)
        assert "zsetting.present[home/kitchen]" not in {row["identity"] for row in engine.status()}
