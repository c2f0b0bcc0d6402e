"""Schemas and extensions of databases."""

from __future__ import annotations

import pytest

from remote_agent import Failed


async def test_a_schema_is_made_changed_back_and_dropped(agent, server, database, name):
    """Owner and comment are compared; its identifier names the database."""
    await agent.run("postgres.role", name=name)
    declared = {"database": database, "name": "App 1", "owner": name, "comment": "it's new"}

    assert await agent.run("postgres.schema", **declared) == ["create"]
    assert await agent.run("postgres.schema", **declared) == []
    server.sql('ALTER SCHEMA "App 1" OWNER TO postgres', """COMMENT ON SCHEMA "App 1" IS 'x'""", database=database)
    assert await agent.run("postgres.schema", **declared) == ["owner", "comment"]
    assert (await agent.read("postgres.schema", **declared)).id == f"{database}/App 1"
    assert await agent.run("postgres.schema", "absent", **declared) == ["delete"]
    assert await agent.run("postgres.schema", "absent", **declared) == []


async def test_a_schema_that_is_not_empty_is_dropped_only_if_it_cascades(agent, server, database):
    """The message names objects in it."""
    declared = {"database": database, "name": "app"}
    await agent.run("postgres.schema", **declared)
    server.sql("CREATE TABLE app.orders ()", database=database)

    with pytest.raises(Failed, match=r"table app\.orders depends on schema app; .* `cascade: true`$"):
        await agent.run("postgres.schema", "absent", **declared)
    assert "the schema 'app' is not empty (orders): " in await agent.refusal("postgres.schema", **declared)
    assert await agent.refusal("postgres.schema", **declared, cascade=True) == ""
    assert await agent.run("postgres.schema", "absent", **declared, cascade=True) == ["delete"]


async def test_what_is_in_a_database_that_does_not_exist_does_not_exist_either(agent):
    """A read finds nothing, a deletion does nothing, and a creation fails with the reason."""
    declared = {"database": "nowhere", "name": "app"}

    assert await agent.read("postgres.schema", **declared) is None
    assert await agent.run("postgres.schema", "absent", **declared) == []
    with pytest.raises(Failed, match="there is no database 'nowhere'"):
        await agent.run("postgres.schema", **declared)


async def test_a_schema_is_replaced_if_its_database_changes(agent, server, database):
    """The old schema is found by its identifier, although the declaration names another database."""
    await agent.run("postgres.schema", database="postgres", name=f"of_{database}")

    found = await agent.read("postgres.schema", f"postgres/of_{database}", database=database, name=f"of_{database}")
    assert found.state["database"] == "postgres"
    await agent.run("postgres.schema", "absent", database="postgres", name=f"of_{database}")


async def test_an_extension_is_installed_moved_and_dropped(agent, server, database):
    """The default is `public`, although the search path of the provider does not contain it."""
    declared = {"database": database, "name": "hstore"}
    await agent.run("postgres.schema", database=database, name="ext")

    assert await agent.run("postgres.extension", **declared) == ["create"]
    found = await agent.read("postgres.extension", **declared)
    assert (found.state["schema"], found.state["version"]) == (f"{database}/public", "1.8")
    assert await agent.run("postgres.extension", **declared, schema=f"{database}/ext") == ["schema"]
    assert await agent.run("postgres.extension", **declared, schema=f"{database}/ext") == []
    assert await agent.run("postgres.extension", "absent", **declared) == ["delete"]


async def test_an_extension_is_updated_to_the_declared_version(agent, server, database):
    """Another version does not replace the extension."""
    declared = {"database": database, "name": "hstore"}

    assert await agent.run("postgres.extension", **declared, version="1.6") == ["create"]
    assert await agent.run("postgres.extension", **declared) == []
    assert await agent.run("postgres.extension", **declared, version="1.7") == ["version"]
    assert server.value("SELECT extversion FROM pg_extension WHERE extname = 'hstore'", database) == "1.7"


async def test_an_extension_goes_where_it_has_to_and_brings_what_it_needs(agent, server, database):
    """`earthdistance` needs `cube`; `adminpack` demands a schema of the server."""
    with pytest.raises(Failed, match='required extension "cube" is not installed'):
        await agent.run("postgres.extension", database=database, name="earthdistance")
    assert await agent.run("postgres.extension", database=database, name="earthdistance", cascade=True) == ["create"]
    assert await agent.run("postgres.extension", database=database, name="adminpack") == ["create"]

    with pytest.raises(Failed, match=r"extension earthdistance depends on .*`cascade: true`$"):
        await agent.run("postgres.extension", "absent", database=database, name="cube")
    assert await agent.run("postgres.extension", "absent", database=database, name="cube", cascade=True) == ["delete"]


async def test_an_extension_without_files_is_refused_with_advice(agent, database):
    """Its files come from a package of the system."""
    with pytest.raises(Failed, match="no files of the extension 'postgis': install its package"):
        await agent.run("postgres.extension", database=database, name="postgis")
    with pytest.raises(Failed, match=f"schema rule: the schema must be in the database '{database}'"):
        await agent.check("postgres.extension", database=database, name="hstore", schema="other/app")


async def test_a_database_that_lets_nobody_in_is_no_missing_one(agent, server, database):
    """A failed connection has no code, so the provider checks whether the database exists."""
    await agent.read("postgres.schema", database=database, name="app")
    server.sql(
        f"ALTER DATABASE {database} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'",
    )

    with pytest.raises(Failed, match="is not currently accepting connections") as told:
        await agent.read("postgres.schema", database=database, name="app")
    assert told.value.code == "retry"
