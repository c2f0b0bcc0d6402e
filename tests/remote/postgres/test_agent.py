"""The example of the package in a real agent, against a real server. An agent takes seconds to start."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from deadline import DEADLINE
from holdfast_process import Agent, Tree, holdfast

EXAMPLE = Path(__file__).parents[3] / "config/examples/postgres"
PROGRAM = "postgres_plugin.py"
ME = pwd.getpwuid(os.geteuid()).pw_name
PASSWORD = "correct horse battery"
ROLES = ("shop_owner", "shop_admin", "reporting")


@pytest.fixture
def site(server, tmp_path):
    """The example, with the user of the tests in place of postgres, and a server without any of its resources."""
    tmp_path.chmod(0o755)
    tree = Tree(tmp_path / "tree", holdfast)
    plugin = {
        "user": ME,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {**server.config, "poll": 1},
    }
    tree.settings(yaml.safe_dump({"plugins": {"postgres": plugin}}))
    shutil.copytree(EXAMPLE / "states", tree.etc / "states", dirs_exist_ok=True)
    tree.pillar(f"shop_password: {PASSWORD}\n")
    yield tree
    server.sql("DROP DATABASE IF EXISTS shop WITH (FORCE)", *(f"DROP ROLE IF EXISTS {role}" for role in ROLES))


def becomes(server, query, database="postgres"):
    """Wait until a query has a row whose first value is true; return how many seconds that took."""
    began = time.monotonic()
    while not server.value(query, database):
        assert time.monotonic() < began + DEADLINE, query
        time.sleep(0.005)
    return time.monotonic() - began


def test_the_example_is_applied_once_and_never_shows_the_password(site, server):
    """The second run changes nothing. No output and no file of the agent has the password."""
    before = server.log_path.stat().st_size
    planned = site("plan", check=2)
    assert server.value("SELECT count(*) FROM pg_database WHERE datname = 'shop'") == 0
    applied = site("apply", "--detailed-exitcode", check=2)
    again = site("apply", "--detailed-exitcode", check=0)

    assert server.sql("SELECT 1 AS one", user="shop_owner", host="127.0.0.1", password=PASSWORD, database="shop")
    outputs = [planned.stdout, planned.stderr, applied.stdout, applied.stderr, again.stdout, again.stderr]
    outputs += [site("history", "--format", "json").stdout]
    outputs += [server.log_path.read_bytes()[before:].decode()]
    outputs += [
        path.read_bytes().decode(errors="replace") for path in (site.root / "state").rglob("*") if path.is_file()
    ]
    assert not [each for each in outputs if PASSWORD in each]


def renamed(site):
    """Change the owner in the states of the example."""
    path = site.etc / "states/shop.sls"
    path.write_text(path.read_text().replace("- login: true", "- name: shop_admin\n    - login: true"))


OWNERS = """SELECT string_agg(DISTINCT pg_get_userbyid(owner), ' ') FROM (
    SELECT datdba AS owner FROM pg_database WHERE datname = 'shop'
    UNION SELECT nspowner FROM pg_namespace WHERE nspname = 'app') AS owners"""
FORMER = "SELECT count(*) FROM pg_roles WHERE rolname = 'shop_owner'"


def test_all_that_refers_to_each_other_is_deleted_in_one_run(site, server):
    """The references determine the order; the server would refuse any other. A second run finds nothing to do."""
    site("apply", check=0)
    path = site.etc / "states/shop.sls"
    path.write_text(re.sub(r"(  postgres\..*:\n)", r"\1    - ensure: absent\n", path.read_text()))
    planned = site("plan", check=2)
    site("apply", "--detailed-exitcode", check=2)
    site("apply", "--detailed-exitcode", check=0)

    assert ": 9 would be removed" in planned.stdout
    assert server.value("SELECT count(*) FROM pg_database WHERE datname = 'shop'") == 0
    assert server.value("SELECT count(*) FROM pg_roles WHERE rolname IN ('shop_owner', 'reporting')") == 0


def test_a_renamed_owner_is_dropped_after_database_and_schema_have_the_new_one(site, server):
    """Objects of other owners stay. The drop is then refused, but database and schema have their new owner."""
    site("apply", check=0)
    server.sql("CREATE TABLE app.orders ()", "ALTER TABLE app.orders OWNER TO shop_owner", database="shop")
    renamed(site)
    refused = site("apply", check=1)
    owners, former = server.value(OWNERS, "shop"), server.value(FORMER)
    server.sql("DROP TABLE app.orders", database="shop")
    done = site("apply", check=0)

    assert (owners, former) == ("shop_admin", 1)
    assert "the former role shop_owner cannot be deleted: " in refused.stdout
    assert "removed the former role shop_owner of postgres.role[shop_owner]" in done.stdout
    assert server.value(FORMER) == 0


def test_an_owner_is_renamed_although_the_agent_is_killed_half_way(site, server):
    """After `kill -9` between the creation of the new role and the change of the database, nothing is left over."""
    site("apply", check=0)
    renamed(site)
    with server.connect() as other:
        with other.transaction(force_rollback=True):
            other.execute("ALTER DATABASE shop CONNECTION LIMIT 50")  # prevents changes of the database
            agent = Agent(site)
            becomes(server, "SELECT count(*) = 1 FROM pg_roles WHERE rolname = 'shop_admin'")
            becomes(server, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            agent.process.kill()
            agent.process.wait()
        owners, former = server.value(OWNERS, "shop"), server.value(FORMER)
    with Agent(site):
        becomes(server, f"SELECT ({FORMER}) = 0")

    assert (owners, former) == ("shop_owner", 1)
    assert server.value(OWNERS, "shop") == "shop_admin"


def test_drift_by_sql_is_repaired_at_once(site, server):
    """Schemas, extensions, privileges and later tables are repaired by event, roles by polling."""
    with Agent(site) as agent:
        before = server.log_path.stat().st_size
        becomes(server, "SELECT count(*) = 2 FROM pg_event_trigger", "shop")
        for drift, repaired in (
            ("DROP EXTENSION hstore", "SELECT 1 FROM pg_extension WHERE extname = 'hstore'"),
            (
                "ALTER SCHEMA app OWNER TO pg_monitor",
                "SELECT nspowner = 'shop_owner'::regrole FROM pg_namespace WHERE nspname = 'app'",
            ),
            (
                "REVOKE USAGE ON SCHEMA app FROM reporting",
                "SELECT has_schema_privilege('reporting', 'app', 'usage')",
            ),
            ("CREATE TABLE app.orders ()", "SELECT has_table_privilege('reporting', 'app.orders', 'select')"),
        ):
            server.sql(drift, database="shop")
            took = becomes(server, repaired, "shop")
            print(f"{drift}: repaired in {took * 1000:.0f} ms")  # noqa: T201 - for those who measure
        verifier = "SELECT rolpassword FROM pg_authid WHERE rolname = 'shop_owner'"
        [other] = server.sql("ALTER ROLE shop_owner PASSWORD 'other'", verifier)
        site("recheck")
        becomes(server, f"SELECT ({verifier}) <> '{other['rolpassword']}'")
        status, log = site("status", "--all").stdout, agent.log

    assert server.sql("SELECT 1 AS one", user="shop_owner", host="127.0.0.1", password=PASSWORD, database="shop")
    assert "drift" in log
    history = site("history", "--format", "json").stdout
    logged = server.log_path.read_bytes()[before:].decode()
    assert not [each for each in (status, log, history, logged) if PASSWORD in each]


def test_a_server_that_is_down_is_shown_and_everything_is_checked_when_it_returns(site, server):
    """The status has the reason. An outage is reported after five seconds, which the test takes."""
    with Agent(site) as agent:
        becomes(server, "SELECT count(*) = 2 FROM pg_event_trigger", "shop")
        server.stop()
        try:
            down = _settles(site, lambda rows: all(rows[each] in BAD for each in CONTAINED))
            why = site("why", CONTAINED[0]).stdout
        finally:
            server.start()
        server.sql("DROP EXTENSION hstore", database="shop")
        becomes(server, "SELECT 1 FROM pg_extension WHERE extname = 'hstore'", "shop")
        up = _settles(site, lambda rows: set(rows.values()) == {"ok"})
        log = agent.log

    [condition] = [each for each in down["health"] if each["code"] == "watch-broken"]
    reason = "the database 'shop' is not watched: "
    assert reason in condition["text"]
    assert reason in why
    assert reason in log
    assert "plugin postgres: changes are seen again; its resources are checked" in log
    assert up["health"] == []


BAD = ("unwatched", "failed", "blocked")
CONTAINED = ("postgres.extension[hstore]", "postgres.schema[app]")


def _settles(site, wanted):
    """Return the status as soon as the resources have the wanted states."""
    until = time.monotonic() + DEADLINE
    while True:
        status = site.json("status", "--all")
        if wanted({each["identity"]: each["state"] for each in status["resources"]}):
            return status
        assert time.monotonic() < until, status
        time.sleep(0.05)


def test_a_killed_provider_is_started_again_and_nothing_is_missed(site, server):
    """A change while no provider runs is repaired, too."""
    with Agent(site) as agent:
        becomes(server, "SELECT count(*) = 2 FROM pg_event_trigger", "shop")
        below = psutil.Process(agent.process.pid).children(recursive=True)
        [provider] = [each for each in below if each.cmdline()[1:2] and PROGRAM in each.cmdline()[1]]
        provider.kill()
        server.sql("DROP EXTENSION hstore", database="shop")
        becomes(server, "SELECT 1 FROM pg_extension WHERE extname = 'hstore'", "shop")
        assert PASSWORD not in agent.log


def test_what_leaves_the_states_stays_and_what_is_absent_goes(site, server):
    """The removal of a declaration deletes nothing; `ensure: absent` deletes, in the order of the states."""
    site("apply", check=0)
    site.sls("shop", "other:\n  postgres.role: []\n")
    site("apply", check=0)
    assert server.value("SELECT 1 FROM pg_database WHERE datname = 'shop'")
    site.sls(
        "shop",
        "shop:\n  postgres.database:\n    - ensure: absent\n"
        "reporting:\n  postgres.role:\n    - ensure: absent\n"
        "shop_owner:\n  postgres.role:\n    - ensure: absent\n"
        "other:\n  postgres.role:\n    - ensure: absent\n",
    )
    site("apply", "--detailed-exitcode", check=2)

    assert server.value("SELECT count(*) FROM pg_database WHERE datname = 'shop'") == 0
    assert server.value("SELECT count(*) FROM pg_roles WHERE rolname IN ('shop_owner', 'reporting', 'other')") == 0
    site("apply", "--detailed-exitcode", check=0)


def test_mistakes_in_states_are_reported_with_their_lines(site):
    """All mistakes are reported at once, before anything starts.

    Mistakes that only the provider knows follow when it is called.
    """
    site.sls(
        "shop",
        "a:\n  postgres.role:\n    - logni: true\n    - connection_limit: -5\n"
        "b:\n  postgres.grant:\n    - schema: {ref: a}\n    - role: x\n    - privileges: [slect]\n"
        "c:\n  postgres.grant:\n    - schema: shop\n    - role: x\n    - privileges: [usage]\n",
    )
    said = site("check", check=3)

    told = said.stdout + said.stderr
    assert "shop.sls:3" in told
    assert "did you mean 'login'?" in told
    assert "shop.sls:4" in told
    assert "shop.sls:9" in told
    assert "did you mean 'select'?" in told
    assert re.search(r"shop.sls:12.*schema.*'\[\^/\]\+/\[\^/\]\+'", told)
