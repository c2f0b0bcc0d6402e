"""Changes within databases are reported at once by event triggers, or found by polling."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from deadline import DEADLINE
from events import BODY, PRESENT
from remote_agent import Failed

KINDS = ("postgres.schema", "postgres.extension", "postgres.grant", "postgres.default_grant")


@pytest.fixture
def reader(server, database):
    """A role that owns nothing, and a schema with a table."""
    role = f"reader_{database}"
    server.sql(f"CREATE ROLE {role} LOGIN", "CREATE SCHEMA app", "CREATE TABLE app.orders ()", database=database)
    yield role
    with contextlib.suppress(Exception):
        server.sql(f"DROP OWNED BY {role} CASCADE", database=database)
    server.sql(f"DROP ROLE {role}")


async def armed(server, database):
    """Wait until the database has the event triggers of the provider."""
    with server.connect(database) as connection:
        async with asyncio.timeout(DEADLINE):
            while connection.execute(PRESENT, ["holdfast", BODY]).fetchone()["number"] != 2:
                await asyncio.sleep(0.01)


@pytest.fixture
async def watched(agent, server, database, reader):
    """All kinds of resources of a database, which were read and are watched."""
    schema = f"{database}/app"
    grant = {"role": reader, "schema": schema, "objects": "tables", "privileges": ["select"]}
    declared = {
        "postgres.schema": {"database": database, "name": "app", "owner": "postgres"},
        "postgres.extension": {"database": database, "name": "hstore"},
        "postgres.grant": grant,
        "postgres.default_grant": {**grant, "owner": "postgres"},
    }
    async with agent.watching(*KINDS) as events:
        for kind, arguments in declared.items():
            await agent.run(kind, **arguments)
        await armed(server, database)
        yield events


@pytest.mark.parametrize(
    ("drift", "what"),
    [
        ("ALTER SCHEMA app OWNER TO pg_monitor", "schema:Schema {}/app"),
        ("DROP SCHEMA app CASCADE", "schema:Schema {}/app"),
        ("ALTER SCHEMA app RENAME TO other", "schema:Schema {}/app"),
        ("COMMENT ON SCHEMA app IS 'mine'", "schema:Schema {}/app"),
        ("DROP EXTENSION hstore", "extension:Extension {}/hstore"),
        ("ALTER EXTENSION hstore SET SCHEMA app", "extension:Extension {}/hstore"),
        ("REVOKE ALL ON app.orders FROM reader_{0}", "grant:Grant {}/app/tables/reader_{}"),
        ("GRANT ALL ON ALL TABLES IN SCHEMA app TO reader_{0}", "grant:Grant {}/app/tables/reader_{}"),
        ("CREATE TABLE app.later (LIKE app.orders)", "grant:Grant {}/app/tables/reader_{}"),
        ("CREATE TABLE app.later AS SELECT 1 AS one", "grant:Grant {}/app/tables/reader_{}"),
        ("SELECT 1 AS one INTO app.later", "grant:Grant {}/app/tables/reader_{}"),
        ("DROP OWNED BY reader_{0}", "grant:Grant {}/app/tables/reader_{}"),
        (
            "ALTER DEFAULT PRIVILEGES IN SCHEMA app REVOKE ALL ON TABLES FROM reader_{0}",
            "grant:DefaultGrant {}/app/tables/postgres/reader_{}",
        ),
    ],
)
async def test_a_change_by_sql_is_reported(watched, server, database, drift, what):
    """An event names the resource, perhaps after events of other affected resources."""
    server.sql(drift.format(database), database=database)

    while await watched() != what.format(database, database):
        pass


async def test_changes_of_the_provider_itself_are_not_reported(watched, agent, server, database, reader):
    """Changes that affect no resource are not reported either. The first event is for the change that follows."""
    await agent.run("postgres.schema", database=database, name="app", owner="pg_monitor")
    server.sql("CREATE SCHEMA other", "CREATE TABLE other.t (one int)", "DROP TABLE other.t", database=database)
    server.sql("DROP EXTENSION hstore", database=database)

    assert await watched() == f"extension:Extension {database}/hstore"


async def test_temporary_tables_notify_nobody(watched, server, database):
    """Programs make thousands of them, and a notification makes their transactions wait for each other."""
    with server.connect(database) as listener:
        listener.execute("LISTEN holdfast")
        server.sql("CREATE TEMPORARY TABLE t (one int)", "DROP TABLE t", database=database)
        assert list(listener.notifies(timeout=0)) == []
        server.sql("CREATE TABLE app.t ()", database=database)
        assert len(list(listener.notifies(timeout=DEADLINE, stop_after=1))) == 1


async def test_users_without_privileges_on_the_event_triggers_notify_as_well(watched, server, database, reader):
    """Users who change their own objects need no rights on the schema of the provider."""
    server.sql(f"GRANT CREATE, USAGE ON SCHEMA app TO {reader}", database=database)
    server.sql("CREATE TABLE app.mine ()", "GRANT SELECT ON app.mine TO pg_monitor", database=database, user=reader)
    server.sql("CREATE TABLE app.later ()", database=database)

    assert await watched() == f"grant:Grant {database}/app/tables/{reader}"


async def test_an_agent_that_only_observes_creates_no_event_triggers(agent, server, database, reader):
    """The database is polled instead. Existing triggers are used."""
    await agent.configure(**server.config, poll=1)
    kind, arguments = "postgres.schema", {"database": database, "name": "app", "owner": "postgres"}
    async with agent.watching(kind, noop=True) as event:
        await agent.run(kind, **arguments)
        server.sql("ALTER SCHEMA app OWNER TO pg_monitor", database=database)
        seen = await event()
        made = server.value("SELECT count(*) FROM pg_event_trigger", database)

    assert seen == f"schema:Schema {database}/app"
    assert made == 0


async def test_a_lost_connection_is_made_again_and_everything_is_looked_at(watched, server, database):
    """A change without a connection is reported afterwards."""
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'",
        "ALTER EVENT TRIGGER holdfast_dropped DISABLE",
        "DROP EXTENSION hstore",
        database=database,
    )

    while await watched() != f"extension:Extension {database}/hstore":
        pass


async def test_after_a_restart_of_the_server_everything_is_looked_at(watched, agent, server, database):
    """Calls meanwhile fail temporarily. The watch continues by itself."""
    server.stop()
    with pytest.raises(Failed) as told:
        await agent.run("postgres.schema", database=database, name="app")
    assert told.value.code == "retry"
    server.start()
    server.sql("ALTER EVENT TRIGGER holdfast_dropped DISABLE", "DROP EXTENSION hstore", database=database)
    seen: set[str] = set()
    while len(seen) < len(KINDS):  # a change may be reported twice
        seen.add(await watched())

    assert f"extension:Extension {database}/hstore" in seen
    assert await agent.run("postgres.schema", database=database, name="app") == []


async def test_event_triggers_that_were_removed_are_made_again(agent, server, database, reader):
    """Their removal is not an event; the provider checks every `poll` seconds."""
    await agent.configure(**server.config, poll=1)
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        await armed(server, database)
        server.sql("DROP SCHEMA holdfast CASCADE", database=database)
        await armed(server, database)
        server.sql("DROP SCHEMA app CASCADE", database=database)

        assert await events() == f"schema:Schema {database}/app"


async def test_without_a_superuser_changes_are_found_by_looking(agent, server, database, reader):
    """The provider creates nothing and polls."""
    await agent.configure(**{**server.config, "user": reader}, poll=1)
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        server.sql("DROP SCHEMA app CASCADE", database=database)

        assert await events() == f"schema:Schema {database}/app"
    assert server.value("SELECT count(*) FROM pg_event_trigger", database) == 0
    assert server.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'holdfast'", database) == 0


async def test_an_operator_can_do_without_event_triggers(agent, server, database, reader):
    """An empty `event_schema` turns event triggers off."""
    await agent.configure(**server.config, poll=1, event_schema="")
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        server.sql("DROP SCHEMA app CASCADE", database=database)

        assert await events() == f"schema:Schema {database}/app"
    assert server.value("SELECT count(*) FROM pg_event_trigger", database) == 0


async def test_no_function_of_a_stranger_is_executed_by_event_triggers(agent, server, database, reader, caplog):
    """If the owner of a database has created the schema, to attack superusers, the provider creates nothing there."""
    server.sql(
        f"ALTER DATABASE {database} OWNER TO {reader}",
        f"CREATE SCHEMA holdfast AUTHORIZATION {reader}",
        database=database,
    )
    await agent.configure(**server.config, poll=1)
    with caplog.at_level("INFO"):
        async with agent.watching("postgres.schema") as events:
            await agent.read("postgres.schema", database=database, name="app")
            server.sql("DROP SCHEMA app CASCADE", database=database)
            assert await events() == f"schema:Schema {database}/app"
    assert server.value("SELECT count(*) FROM pg_event_trigger", database) == 0
    assert f"the schema 'holdfast' belongs to {reader}, or others may create objects in it" in caplog.text
    server.sql(f"ALTER DATABASE {database} OWNER TO postgres")


async def test_a_run_without_watches_creates_nothing(agent, server, database, reader):
    """A plan only reads."""
    await agent.read("postgres.schema", database=database, name="app")
    await agent.run("postgres.schema", database=database, name="more")

    assert server.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'holdfast'", database) == 0


async def test_a_database_that_is_dropped_is_no_longer_followed(agent, server, database, reader, provider):
    """The resources in it are reported. The next database of this name is followed again."""
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        await armed(server, database)
        server.sql(f"DROP DATABASE {database} WITH (FORCE)")
        assert await events() == f"schema:Schema {database}/app"

        server.sql(f"CREATE DATABASE {database} STRATEGY file_copy")
        await agent.run("postgres.schema", database=database, name="app")
        await armed(server, database)
        server.sql("DROP SCHEMA app", database=database)
        assert await events() == f"schema:Schema {database}/app"


async def test_the_end_of_all_watches_closes_the_connections(agent, server, database, reader, provider):
    """An agent that is reloaded leaves nothing behind."""
    async with agent.watching("postgres.schema"):
        await agent.read("postgres.schema", database=database, name="app")
        await armed(server, database)
    await provider.sessions.leave(database)

    async with asyncio.timeout(DEADLINE):
        while server.value(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"):
            await asyncio.sleep(0.01)


async def test_what_others_create_is_reported(agent, server, database, reader):
    """The only resource of the database is declared absent; its creation by another program is reported."""
    async with agent.watching("postgres.schema") as events:
        assert await agent.read("postgres.schema", database=database, name="later") is None
        await armed(server, database)
        server.sql("CREATE SCHEMA later", database=database)

        assert await events() == f"schema:Schema {database}/later"


async def test_a_database_is_followed_as_soon_as_the_provider_has_created_it(agent, server, database):
    """The resources in it were read before, and did not exist."""
    name = f"{database}_new"
    async with agent.watching("postgres.schema") as events:
        assert await agent.read("postgres.schema", database=name, name="later") is None
        await agent.run("postgres.database", name=name)
        await armed(server, name)
        server.sql("CREATE SCHEMA later", database=name)

        assert await events() == f"schema:Schema {name}/later"
    await agent.run("postgres.database", "absent", name=name)


async def test_a_template_is_followed_again_after_its_copy(agent, server, database, reader):
    """During the copy, the provider must not be connected to the template."""
    name = f"{database}_new"
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        await armed(server, database)
        await agent.run("postgres.database", name=name, template=database)
        server.sql("DROP SCHEMA app CASCADE", database=database)

        assert await events() == f"schema:Schema {database}/app"
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_database_that_could_not_be_dropped_is_followed_again(agent, server, database, reader):
    """The provider lacks the right to drop the database."""
    server.sql("DROP TABLE app.orders", database=database)
    await agent.configure(**{**server.config, "user": reader}, poll=1)
    async with agent.watching("postgres.schema") as events:
        await agent.read("postgres.schema", database=database, name="app")
        with pytest.raises(Failed, match="must be owner of database"):
            await agent.run("postgres.database", "absent", name=database)
        server.sql("DROP SCHEMA app", database=database)

        assert await events() == f"schema:Schema {database}/app"
