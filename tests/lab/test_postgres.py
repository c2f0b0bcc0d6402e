"""The package `postgres` on a real host with Debian's server, which accepts the provider by the name of its user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lab
import pytest

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "postgres"
PASSWORD = "change me"


@pytest.fixture(scope="module")
def shop(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with the packaged server, `holdfast install`, and the example."""
    host = run.host("postgres", layers=layers)
    try:
        host.sh("DEBIAN_FRONTEND=noninteractive apt-get -qq install -y postgresql >/dev/null", timeout=240)
        lab.wait_for("the server answers", lambda: sql(host, "SELECT 1") == "1")
        host.run("holdfast", "install")
        for path in sorted(EXAMPLE.rglob("*")):
            if path.is_file():
                host.write(f"/etc/holdfast/{path.relative_to(EXAMPLE)}", path.read_text(), 0o600)
        yield host
    finally:
        host.down()


def sql(host: lab.Host, query: str, database: str = "postgres") -> str:
    """Return what an administrator's query prints; empty if it fails."""
    command = ("runuser", "-u", "postgres", "--", "psql", "-XAtqc", query, database)
    return host.run(*command, check=False).stdout.strip()


def test_the_example_works_without_any_configuration(shop: lab.Host) -> None:
    """The provider runs as postgres and needs no password; the owner logs in with the password of the pillar."""
    granted = "SELECT has_schema_privilege('reporting', 'app', 'usage')"
    lab.wait_for("the last state is applied", lambda: sql(shop, granted, "shop") == "t", interval=0.1)
    users = shop.sh("ps -eo user:20,args | grep '[p]ostgres_plugin.py' | cut -d' ' -f1 | sort -u").split()
    login = f"postgresql://shop_owner:{PASSWORD.replace(' ', '%20')}@127.0.0.1/shop"

    assert "postgres" in users
    assert shop.run("psql", "-XAtqc", "SELECT current_user", login).stdout.strip() == "shop_owner"


def test_damage_is_repaired_and_the_journal_says_so(shop: lab.Host) -> None:
    """The extension is restored at once, also after a restart of the server. The password is in no journal."""
    there = "SELECT 1 FROM pg_extension WHERE extname = 'hstore'"
    for damage in ("true", "systemctl restart postgresql"):
        lab.wait_for("the extension is there", lambda: sql(shop, there, "shop") == "1", interval=0.05)
        shop.sh(damage)
        lab.wait_for("the server answers", lambda: sql(shop, "SELECT 1") == "1")
        sql(shop, "DROP EXTENSION hstore", "shop")
        lab.wait_for("the extension is back", lambda: sql(shop, there, "shop") == "1", interval=0.05)

    journal = shop.run("journalctl", "-u", "holdfast", "-o", "cat").stdout
    assert "repaired postgres.extension[hstore]" in journal
    assert PASSWORD not in journal
    assert PASSWORD not in shop.sh("cat /var/log/postgresql/*.log; grep -rla 'change me' /var/lib/holdfast || true")
