"""Privileges on schemas, on objects in them, and on later objects."""

from __future__ import annotations

import itertools

import pytest

import privileges
from remote_agent import Failed
from sessions import Session

TABLES = ("CREATE SCHEMA app", "CREATE TABLE app.orders ()", "CREATE TABLE app.items ()")


@pytest.fixture
def shop(server, database):
    """A database with a schema, two tables and a sequence, and a role that owns nothing."""
    role = f"reader_{database}"
    server.sql(*TABLES, "CREATE SEQUENCE app.numbers", f"CREATE ROLE {role}", database=database)
    yield role
    server.sql(f"DROP OWNED BY {role}", f"DROP ROLE {role}", database=database)


async def test_privileges_on_all_tables_cover_those_that_come_later(agent, server, database, shop):
    """A second run does nothing, until there is another table."""
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["select", "insert"]}

    assert await agent.run("postgres.grant", **declared) == ["create"]
    assert await agent.run("postgres.grant", **declared) == []
    server.sql('CREATE VIEW app."a view" AS SELECT 1 AS one', database=database)
    assert await agent.run("postgres.grant", **declared) == ["privileges"]
    assert server.value(f"""SELECT has_table_privilege('{shop}', 'app."a view"', 'INSERT')""", database)


async def test_what_is_too_much_on_one_table_is_revoked(agent, server, database, shop):
    """A superfluous privilege on one of several tables is revoked; with `exact: false` it stays."""
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["select"]}
    await agent.run("postgres.grant", **declared)
    server.sql(f"GRANT DELETE ON app.items TO {shop}", database=database)

    assert await agent.run("postgres.grant", **declared, exact=False) == []
    assert await agent.run("postgres.grant", **declared) == ["privileges"]
    assert not server.value(f"SELECT has_table_privilege('{shop}', 'app.items', 'DELETE')", database)


async def test_grants_that_overlap_can_live_side_by_side(agent, server, database, shop):
    """Each grant compares and revokes only its own privileges."""
    common = {"role": shop, "schema": f"{database}/app", "objects": "tables", "exact": False}
    all_tables = {**common, "privileges": ["select"]}
    one_table = {**common, "privileges": ["insert"], "only": ["orders"]}
    await agent.run("postgres.grant", **all_tables)
    await agent.run("postgres.grant", **one_table)

    assert await agent.run("postgres.grant", **all_tables) == []
    assert await agent.run("postgres.grant", **one_table) == []
    assert await agent.run("postgres.grant", "absent", **one_table) == ["delete"]
    assert await agent.run("postgres.grant", "absent", **one_table) == []
    assert await agent.run("postgres.grant", **all_tables) == []


@pytest.mark.parametrize(
    "case",
    [
        ("schema", ["usage", "create"], "has_schema_privilege('{}', 'app', 'CREATE')"),
        ("tables", ["all"], "has_table_privilege('{}', 'app.orders', 'TRIGGER')"),
        ("sequences", ["usage"], "has_sequence_privilege('{}', 'app.numbers', 'USAGE')"),
        ("functions", ["execute"], """has_function_privilege('{}', 'app."f o"(text, int[])', 'EXECUTE')"""),
    ],
)
async def test_every_kind_of_object_has_privileges(agent, server, database, shop, case):
    """They are granted, found again, and revoked."""
    objects, privileges, held = case
    server.sql(
        """CREATE FUNCTION app."f o"(text, a int[] DEFAULT '{}') RETURNS int LANGUAGE sql AS 'SELECT 1'""",
        "CREATE PROCEDURE app.p() LANGUAGE sql AS 'SELECT 1'",
        "CREATE AGGREGATE app.total(int) (sfunc = int4pl, stype = int)",
        "REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA app FROM PUBLIC",
        database=database,
    )
    declared = {"role": shop, "schema": f"{database}/app", "objects": objects, "privileges": privileges}

    assert await agent.run("postgres.grant", **declared) == ["create"]
    assert await agent.run("postgres.grant", **declared) == []
    assert server.value(f"SELECT {held.format(shop)}", database)
    assert await agent.run("postgres.grant", "absent", **declared) == ["delete"]
    assert not server.value(f"SELECT {held.format(shop)}", database)
    assert await agent.run("postgres.grant", "absent", **declared) == []


@pytest.mark.parametrize("version", [160004, 170002])
async def test_maintain_is_a_privilege_since_17(agent, server, shop, version, monkeypatch):
    """On an older server, the provider refuses it. On a newer one, it is granted, and `all` includes it."""
    declared = {"role": shop, "schema": f"{shop.removeprefix('reader_')}/app", "objects": "tables"}
    known = int(server.value("SHOW server_version_num")) >= privileges.MAINTAIN
    monkeypatch.setattr(Session, "version", version)
    if version == 170002 and known:
        assert await agent.run("postgres.grant", **declared, privileges=["maintain"]) == ["create"]
    else:
        old, new = "PostgreSQL 16 has no privilege 'maintain': it came with 17", "unrecognized privilege type"
        with pytest.raises(Failed, match=old if version == 160004 else new):
            await agent.run("postgres.grant", **declared, privileges=["maintain"])

    assert ("maintain" in privileges.possible("tables", version)) is (version == 170002)
    assert "maintain" not in privileges.possible("sequences", version)


async def test_a_grant_on_an_empty_schema_is_kept_in_mind(agent, server, database, shop):
    """There is nothing to grant yet, but the first table gets the privileges."""
    server.sql("CREATE SCHEMA empty", database=database)
    declared = {"role": shop, "schema": f"{database}/empty", "objects": "tables", "privileges": ["select"]}

    assert await agent.run("postgres.grant", "absent", **declared) == []
    assert await agent.run("postgres.grant", **declared) == ["create"]
    assert await agent.run("postgres.grant", **declared) == []
    server.sql("CREATE TABLE empty.first ()", database=database)
    assert await agent.run("postgres.grant", **declared) == ["privileges"]


async def test_what_another_role_has_granted_is_revoked_as_well(agent, server, database, shop):
    """The server permits only the grantor to revoke a privilege."""
    other = f"other_{database}"
    server.sql(
        f"CREATE ROLE {other}",
        f"GRANT USAGE ON SCHEMA app TO {other}",
        f"GRANT SELECT ON app.orders TO {other} WITH GRANT OPTION",
        f"SET ROLE {other}",
        f"GRANT SELECT ON app.orders TO {shop}",
        database=database,
    )
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["insert"]}

    assert await agent.run("postgres.grant", **declared) == ["privileges"]
    assert await agent.run("postgres.grant", **declared) == []
    assert not server.value(f"SELECT has_table_privilege('{shop}', 'app.orders', 'SELECT')", database)
    server.sql(f"DROP OWNED BY {other}", f"DROP ROLE {other}", database=database)


async def test_a_role_without_the_right_to_grant_is_told_so(agent, server, database, shop):
    """The server only warns, so the provider checks the result."""
    weak = f"weak_{database}"
    server.sql(f"CREATE ROLE {weak} LOGIN", f"GRANT USAGE ON SCHEMA app TO {weak}", database=database)
    await agent.configure(**{**server.config, "user": weak})
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["select"]}

    with pytest.raises(Failed, match="permission denied for table items"):
        await agent.run("postgres.grant", **declared)
    with pytest.raises(Failed, match="may not change all privileges"):
        await agent.run("postgres.grant", **{**declared, "objects": "schema", "privileges": ["usage"]})
    server.sql(f"DROP OWNED BY {weak}", f"DROP ROLE {weak}", database=database)


async def test_tables_that_the_role_owns_are_left_alone(agent, server, database, shop):
    """An owner has all privileges, which a grant must not revoke."""
    server.sql(f"CREATE TABLE app.own (); ALTER TABLE app.own OWNER TO {shop}", database=database)
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["select"]}
    await agent.run("postgres.grant", **declared)

    assert await agent.run("postgres.grant", **declared) == []
    assert server.value(f"SELECT has_table_privilege('{shop}', 'app.own', 'INSERT')", database)


async def test_a_grant_on_a_table_that_does_not_exist_is_refused(agent, database, shop):
    """So is a privilege that such objects do not have, and a list of names for the schema itself."""
    declared = {"role": shop, "schema": f"{database}/app", "privileges": ["select"]}

    with pytest.raises(Failed, match="or one of these tables in it: customers"):
        await agent.run("postgres.grant", **declared, objects="tables", only=["customers"])
    with pytest.raises(Failed, match="privileges rule: schemas have no privilege 'select'; legal: all, create, usage"):
        await agent.check("postgres.grant", **declared)
    with pytest.raises(Failed, match="only rule: `only` names tables, sequences or functions"):
        await agent.check("postgres.grant", **{**declared, "privileges": ["usage"]}, only=["orders"])


async def test_another_choice_of_tables_replaces_the_grant(agent, server, database, shop):
    """The old grant is found by its identifier, and its privileges are revoked."""
    declared = {"role": shop, "schema": f"{database}/app", "objects": "tables", "privileges": ["select"]}
    await agent.run("postgres.grant", **declared, only=["orders", "items"])
    old = f"{database}/app/tables/{shop}/items/orders"
    found = await agent.read("postgres.grant", old, **declared, only=["items"])

    assert sorted(found.state["only"]) == ["items", "orders"]
    assert await agent.run("postgres.grant", id_=old, **declared, only=["items"]) == ["delete", "create"]
    assert not server.value(f"SELECT has_table_privilege('{shop}', 'app.orders', 'SELECT')", database)
    assert server.value(f"SELECT has_table_privilege('{shop}', 'app.items', 'SELECT')", database)


@pytest.mark.parametrize(
    "case", [*itertools.product(["schema", "database"], ["tables", "sequences", "functions"])], ids="-".join
)
async def test_later_objects_have_default_privileges(agent, server, database, shop, case):
    """The grant is for one schema or for all. A second run changes nothing, and `absent` revokes the privileges."""
    place, objects = case
    owner = f"maker_{database}"
    server.sql(f"CREATE ROLE {owner}", f"GRANT CREATE ON SCHEMA app TO {owner}", database=database)
    where = {"schema": f"{database}/app"} if place == "schema" else {"database": database}
    privileges = {"tables": ["select"], "sequences": ["all"], "functions": ["execute"]}[objects]
    declared = {"owner": owner, "role": shop, "objects": objects, "privileges": privileges, **where}

    assert await agent.run("postgres.default_grant", **declared) == ["create"]
    assert await agent.run("postgres.default_grant", **declared) == []
    server.sql(f"SET ROLE {owner}", "CREATE TABLE app.later ()", "CREATE SEQUENCE app.later_s", database=database)
    if objects == "tables":
        assert server.value(f"SELECT has_table_privilege('{shop}', 'app.later', 'SELECT')", database)
    assert await agent.run("postgres.default_grant", "absent", **declared) == ["delete"]
    assert await agent.run("postgres.default_grant", "absent", **declared) == []
    server.sql(f"DROP OWNED BY {owner} CASCADE", f"DROP ROLE {owner}", database=database)


async def test_a_default_grant_is_about_one_schema_or_one_database(agent, database, shop):
    """Both together, and a grant of a role to itself, are refused."""
    declared = {"owner": "postgres", "role": shop, "objects": "tables", "privileges": ["select"]}

    with pytest.raises(Failed, match="exactly one of them must be given: schema, database"):
        await agent.check("postgres.default_grant", **declared, schema=f"{database}/app", database=database)
    with pytest.raises(Failed, match="role rule: the owner has all privileges"):
        await agent.check("postgres.default_grant", **{**declared, "role": "postgres"}, database=database)
    with pytest.raises(Failed, match="there is no role 'postgres', or no role 'nobody_here'"):
        await agent.run("postgres.default_grant", **{**declared, "role": "nobody_here"}, database=database)
