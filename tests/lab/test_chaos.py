"""An application under random drift, whose agent is killed at random moments: it converges, and nothing is lost.

`HOLDFAST_CHAOS_SECONDS` is the duration (default: 30, on CI 600). `HOLDFAST_CHAOS_SEED` repeats the same choices, as
far as the time allows; the default is random and printed, on CI it is constant. `HOLDFAST_CHAOS_ONLY` names the damages
to choose from.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import damages_of_agent
import damages_of_files
import damages_of_system
import lab
import pytest
from damages import Damage, kinds
from site_under_test import Site

pytestmark = pytest.mark.lab

CI = bool(os.environ.get("CI"))
SECONDS = float(os.environ.get("HOLDFAST_CHAOS_SECONDS", "600" if CI else "30"))
SEED = os.environ.get("HOLDFAST_CHAOS_SEED") or ("20" if CI else str(random.SystemRandom().randrange(10**6)))
DAMAGES = [*kinds(damages_of_files, damages_of_system, damages_of_agent)]
CHOSEN = [damage for damage in DAMAGES if damage.name in os.environ.get("HOLDFAST_CHAOS_ONLY", damage.name).split(",")]
GROWTH = 6 * 1024
"""KB by which the agent may grow after the rounds of warming up, because the allocator keeps some memory."""
WARM = min(10, len(CHOSEN))
"""Rounds of warming up."""


def turns(chance: random.Random, damages: list[Damage]) -> Iterator[Damage]:
    """Yield all damages in random order, then in another order, for ever; nothing if there are no damages."""
    while damages:
        yield from chance.sample(damages, len(damages))


def test_there_are_fifty_kinds_of_damage() -> None:
    """Each kind of damage has a name of its own."""
    assert len({damage.name for damage in DAMAGES}) == len(DAMAGES) >= 50


@pytest.mark.timeout(SECONDS + 600)
def test_an_application_under_random_drift_converges(host: lab.Host) -> None:
    """Each damage is repaired, logged and delivered; no file is half-written, and costs do not grow."""
    site = Site(host)
    site.say(f"HOLDFAST_CHAOS_SEED={SEED}")
    began = time.monotonic()
    chance = random.Random(f"{SEED}: killed")
    for damage in turns(chance, CHOSEN):
        pair = (damage, chance.choice(CHOSEN)) if chance.random() < 0.25 else (damage,)
        kill = chance.uniform(0.0, 1.5) if chance.random() < 0.5 else None
        site.suffer(*dict.fromkeys(pair), kill=kill)
        if time.monotonic() > began + SECONDS / 2:
            break

    # start a new process, whose costs are measured from now on
    host.run("systemctl", "restart", "holdfast")
    site.recover("a restart")
    warm = site.footprint()
    chance = random.Random(f"{SEED}: watched")
    calm = [damage for damage in CHOSEN if not damage.restarts]
    for number, damage in enumerate(turns(chance, calm), 1):
        site.suffer(damage)
        if number == WARM:
            warm = site.footprint()
        if number >= WARM + 2 and time.monotonic() > began + SECONDS:
            break
    end = site.footprint()
    site.say(f"{site.rounds} rounds, {site.kills} kills; the agent after warm-up {warm}, at the end {end}")

    assert end["VmRSS"] <= warm["VmRSS"] + GROWTH
    assert end["fds"] <= warm["fds"] + 2
    assert end["Threads"] <= warm["Threads"] + 1
    assert site.half_written() == ""
    assert site.leftovers() == ""
