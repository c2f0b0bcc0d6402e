"""Resources that wake themselves by their own failing attempts are tried at growing intervals."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from engine_bench import Bench, state
from fake_machine import Machine, Setting
from holdfast import Permanent, Temporary
from holdfast.agent.engine.inspect.explain import explain

ECHO = 0.5
"""Seconds after which a watch reports the changes of an attempt again."""


class Restless(Setting, kind="zsetting.restless"):
    """A setting whose attempts touch what it watches, at once and a little later, before they fail if it is broken."""

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Touch the setting during the repair."""
        self.machine.log.append(f"try {self.name}")
        self.machine.touch(self.name)
        asyncio.get_running_loop().call_later(ECHO, self.machine.touch, self.name)
        await asyncio.sleep(0.1)
        await self.machine.gate(f"stuck {self.name}")
        await super().apply(ctx, delta)


def attempts(bench: Bench, name: str) -> list[float]:
    """Return the loop times of all attempts from now on, a list that grows."""
    times: list[float] = []
    log = bench.machine.log

    class Log(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            if line == f"try {name}":
                times.append(asyncio.get_running_loop().time())

    bench.machine.log = Log(log)
    return times


FAILURES: dict[str, tuple[Exception | None, dict[str, Any]]] = {
    "for good": (Permanent("no"), {}),
    "for now": (Temporary("busy"), {}),
    "by its deadline": (None, {"timeout": 5}),
    "with attempts left": (Permanent("no"), {"retry": 3}),
    "with attempts without end": (Permanent("no"), {"retry": -1}),
    "and is polled": (Permanent("no"), {"poll": 0.7}),
}


@pytest.mark.parametrize(("error", "meta"), FAILURES.values(), ids=FAILURES)
async def test_a_resource_that_wakes_itself_and_fails_is_tried_at_growing_intervals(
    bench: Bench, machine: Machine, error: Exception | None, meta: dict[str, Any]
) -> None:
    """Each way to fail gives about ten attempts in two minutes, then one a minute, and flapping is reported."""
    if error:
        machine.broken["a"] = error
    else:
        machine.hold("stuck a")
    machine.watchers["a"] = asyncio.Queue()  # a poll has none
    times = attempts(bench, "a")
    async with bench.starting(state("a", "zsetting.restless", meta=meta), state("b")):
        await bench.elapse(0.2)
        began = asyncio.get_running_loop().time()
        await bench.elapse(3600)

        waits = [after - before for before, after in pairwise(times)]
        assert 6 <= len([at for at in times if at < began + 120]) <= 11
        assert max(waits[:2]) < 10
        assert min(waits[-20:]) > 45
        assert machine.settings == {"b": "right"}
        assert len(bench.notices("flapping")) == ("poll" not in meta)


async def test_drift_that_no_attempt_can_have_caused_is_repaired_at_once(bench: Bench, machine: Machine) -> None:
    """The drift comes after a success, or some seconds after a failure."""
    async with bench.running(state("a", "zsetting.restless")):
        await bench.elapse(2 * ECHO)
        machine.drift("a")
        await bench.elapse(0.15)
        assert machine.settings == {"a": "right"}

        await bench.elapse(2 * ECHO)
        machine.broken["a"] = Permanent("no")
        machine.drift("a")
        await bench.elapse(95)  # the last attempt was at about 63 s, the next would be at about 123 s
        machine.broken.clear()
        machine.touch("a")
        await bench.elapse(0.15)
        assert machine.settings == {"a": "right"}


async def test_log_why_and_status_agree_on_the_wait_of_such_a_resource(bench: Bench, machine: Machine) -> None:
    """An operator can override it."""
    machine.broken["a"] = Permanent("no")
    async with bench.starting(state("a", "zsetting.restless")) as engine:
        await bench.elapse(0.2)
        (notice,) = bench.notices("held-off")
        said = float(notice.text.removeprefix("may have drifted; checked in ").removesuffix(" s"))
        told = explain(engine.view.graph.by_identity["zsetting.restless[a]"], engine.view)
        (row,) = engine.status()

        assert told["next"][0] == {"what": "retry", "in": pytest.approx(said - 0.1, abs=0.1)}
        assert row["next"] == told["next"][0]["in"]
        machine.broken.clear()
        engine.trigger("zsetting.restless[a]")
        await bench.elapse(0.15)
        assert machine.settings == {"a": "right"}
