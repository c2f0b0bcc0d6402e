"""Mail aliases with the real Postfix: what its database answers is what is declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import repairs
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs."""
PREPARE = (
    "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y postfix >/dev/null 2>&1; systemctl start postfix || true"
)
STATES = """
root:
  alias.present:
    - target: [alice, ops@example.org]
"""


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host with Postfix, whose agent keeps one alias."""
    with repairs.kept(run, layers, STATES, PREPARE) as host:
        yield host


def answer(host: Host, name: str) -> str:
    """Return the targets of an alias, as Postfix reads them from its database."""
    return host.run("postalias", "-q", name, "hash:/etc/aliases", check=False).stdout.strip()


def test_postfix_delivers_as_declared(kept: Host):
    """From nothing, again without a change, changed, and removed; a plan changes nothing."""
    with Driver(kept) as driver:
        before = kept.read("/etc/aliases")
        targets = ["bob", '|/bin/page "on, call"', ":include:/etc/list"]
        assert not driver.plan("alias.present", "ops", target=targets).right
        assert kept.read("/etc/aliases") == before
        assert driver.apply("alias.present", "ops", target=targets).changes == {"alias": "ops"}
        assert answer(kept, "ops") == r'bob, "|/bin/page \"on, call\"", :include:/etc/list'
        assert driver.apply("alias.present", "ops", target=targets).right
        assert not driver.apply("alias.present", "OPS", target="carol").right
        assert answer(kept, "ops") == "carol"
        assert not driver.apply("alias.absent", "ops").right
        assert answer(kept, "ops") == ""
        assert kept.read("/etc/aliases") == before


def test_an_alias_and_its_database_are_put_back(kept: Host):
    """The agent repairs an edited file, a removed database, and one that was made of another file, by inotify."""
    right = "'root: alice, ops@example.org\\n' in text('/etc/aliases') and (os.stat('/etc/aliases.db').st_mtime_ns >="
    right += " os.stat('/etc/aliases').st_mtime_ns)"
    for damage in (
        "sed -i 's/^root:.*/root: eve/' /etc/aliases",
        "rm /etc/aliases.db",
        "touch -d 2001-01-01 /etc/aliases.db",
    ):
        assert repairs.repair_times(kept, damage, right)[0] < SOON, damage
    assert answer(kept, "root") == "alice, ops@example.org"
