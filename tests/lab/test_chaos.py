"""An application under random drift, with the agent killed at random moments: it ends converged, and nothing was lost on the way.

`HOLDFAST_CHAOS_SECONDS` says for how long (default: 30, on CI 600), `HOLDFAST_CHAOS_SEED` makes the same choices again; the seed of each
run is printed. `HOLDFAST_CHAOS_ONLY` names the damages to choose from.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator

import lab
import pytest
from damages import DAMAGES, Damage
from site_under_test import Site

pytestmark = pytest.mark.lab

SECONDS = float(os.environ.get("HOLDFAST_CHAOS_SECONDS", "600" if os.environ.get("CI") else "30"))
SEED = int(os.environ.get("HOLDFAST_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
CHOSEN = [damage for damage in DAMAGES if damage.name in os.environ.get("HOLDFAST_CHAOS_ONLY", damage.name).split(",")]
GROWTH = 6 * 1024
"""KB that the agent may grow by after it has warmed up: the allocator's give and take, not what is kept."""
WARM = 10
"""Rounds after which it has."""


def turns(chance: random.Random, damages: list[Damage]) -> Iterator[Damage]:
    """All damages in some order, and again in another, for ever."""
    while True:
        yield from chance.sample(damages, len(damages))


def test_there_are_fifty_kinds_of_damage() -> None:
    """Each with a name of its own."""
    assert len({damage.name for damage in DAMAGES}) == len(DAMAGES) >= 50


@pytest.mark.timeout(SECONDS + 600)
def test_an_application_under_random_drift_ends_as_declared(host: lab.Host) -> None:
    """Repaired after each damage; in the journal, told to those who watch, never half written, and at no cost that grows."""
    print(f"HOLDFAST_CHAOS_SEED={SEED}")  # noqa: T201 - shown when it fails
    site = Site(host, SEED)
    began, rounds = time.monotonic(), 0
    for damage in turns(site.chance, CHOSEN):  # with crashes
        if time.monotonic() > began + SECONDS / 2:
            break
        pair = (damage, site.chance.choice(CHOSEN)) if site.chance.random() < 0.25 else (damage,)
        kill = site.chance.uniform(0.0, 1.5) if site.chance.random() < 0.5 else None
        site.suffer(*dict.fromkeys(pair), kill=kill)
        rounds += 1

    # A new process, to be looked at for as long as it lives.
    host.run("systemctl", "restart", "holdfast")
    site.recover("a restart")
    warm = site.footprint()
    calm = [damage for damage in CHOSEN if not damage.restarts]
    for number, damage in zip(itertools.count(1), turns(site.chance, calm), strict=False):
        site.suffer(damage)
        rounds += 1
        if number == WARM:
            warm = site.footprint()
        if number >= WARM + 2 and time.monotonic() > began + SECONDS:
            break
    end = site.footprint()
    print(f"{rounds} rounds, {site.kills} kills; agent after warm-up {warm}, at the end {end}")  # noqa: T201 - the same

    assert end["VmRSS"] <= warm["VmRSS"] + GROWTH
    assert end["fds"] <= warm["fds"] + 2
    assert end["Threads"] <= warm["Threads"] + 1
    assert site.half_written() == ""
    assert site.leftovers() == ""
