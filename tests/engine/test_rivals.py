"""Two resources that undo each other: the notice that one flaps names the other."""

from __future__ import annotations

import pytest

import engine_bench
from engine_bench import Bench, Machine, Setting, compilation, in_virtual_time, state
from holdfast.agent.engine.limits import _meet
from holdfast.resources.contract import Uid


class Shared(Setting, kind="zsetting.shared"):
    """A setting that is another's, too."""

    def uids(self) -> tuple[Uid, ...]:
        """All of them mean one thing."""
        return (("setting", "shared"),)


engine_bench.KINDS[Shared.kind] = Shared


async def fight(bench: Bench, machine: Machine, *kinds: str) -> list[str]:
    """What the notices say when `a` and `b` drift in turn."""
    engine = bench.engine(flap_limit=3, flap_window=60)
    await engine.swap(compilation(*(state(name, kind) for name, kind in zip("ab", kinds, strict=True))))
    await engine.settle()
    for _ in range(4):
        for name in "ab":
            machine.drift(name)
            await bench.until(lambda _, name=name: machine.settings[name] == "right")
            await engine.settle()
    await engine.stop()
    return [notice.text for notice in bench.notices("flapping")]


@in_virtual_time
async def test_one_that_repairs_the_same_is_named(bench: Bench, machine: Machine) -> None:
    """Each of the two names the other, and what to do."""
    ours, theirs = await fight(bench, machine, Shared.kind, Shared.kind)

    assert "in 60 s; zsetting.shared[b] repairs the same: keep one. From now on" in ours
    assert "in 60 s; zsetting.shared[a] repairs the same: keep one. From now on" in theirs


@in_virtual_time
async def test_one_that_repairs_something_else_is_not_named(bench: Bench, machine: Machine) -> None:
    """However busy it is: then it is somebody who is not the agent."""
    texts = await fight(bench, machine, "zsetting.present", "zsetting.present")

    assert len(texts) == 2
    assert all("somebody undoes it" in text for text in texts)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (("path", "/a"), ("path", "/a"), True),
        (("path", "/a"), ("path", "/a/b"), True),
        (("path", "/"), ("path", "/a"), True),
        (("path", "/a"), ("path", "/ab"), False),
        (("user", "/a"), ("user", "/a/b"), False),
        (("user", "a"), ("group", "a"), False),
    ],
)
def test_uids_that_mean_one_thing(one: Uid, other: Uid, meet: bool) -> None:
    """The same, or a path and what is below it."""
    assert _meet(one, other) is _meet(other, one) is meet
