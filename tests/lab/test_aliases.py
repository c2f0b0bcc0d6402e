"""Mail aliases with the real Postfix: its database contains the declared aliases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver
from lab import Host, Run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with Postfix, which need not run for this."""
    with tools.equipped(run, layers, "newaliases") as host:
        yield host


def answer(host: Host, name: str) -> str:
    """Return the targets of an alias, as Postfix reads them from its database."""
    return host.run("postalias", "-q", name, "hash:/etc/aliases", check=False).stdout.strip()


def test_postfix_delivers_as_declared(host: Host):
    """An alias is added, changed and removed."""
    with Driver(host) as driver:
        before = host.read("/etc/aliases")
        targets = ["bob", '|/bin/page "on, call"', ":include:/etc/list"]
        assert driver.apply("alias.present", "ops", target=targets).changes == {"alias": "ops"}
        assert answer(host, "ops") == r'bob, "|/bin/page \"on, call\"", :include:/etc/list'
        assert not driver.apply("alias.present", "OPS", target="carol").right
        assert answer(host, "ops") == "carol"
        assert not driver.apply("alias.absent", "ops").right
        assert answer(host, "ops") == ""
        assert host.read("/etc/aliases") == before
