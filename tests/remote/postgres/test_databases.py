"""Databases and privileges on them: creation, changes, replacement and refusals."""

from __future__ import annotations

import asyncio
import re

import pytest

from deadline import DEADLINE
from remote_agent import Failed


async def test_a_database_is_made_from_nothing_and_then_left_alone(agent, server, name):
    """The database has its options and its comment."""
    await agent.run("postgres.role", name=f"{name} owner")
    declared = {
        "name": name,
        "owner": f"{name} owner",
        "encoding": "LATIN1",
        "collation": "C",
        "character_type": "C",
        "template": "template0",
        "connection_limit": 7,
        "comment": "what is sold",
    }

    assert await agent.run("postgres.database", **declared) == ["create"]
    assert await agent.run("postgres.database", **declared) == []
    found = await agent.read("postgres.database", **declared)
    assert found.id == name
    assert {key: found.state[key] for key in declared} == declared
    assert await agent.run("postgres.database", "absent", **declared) == ["delete"]


@pytest.mark.parametrize(
    ("drift", "field"),
    [
        ("ALTER DATABASE {} OWNER TO pg_monitor", "owner"),
        ("ALTER DATABASE {} CONNECTION LIMIT 1", "connection_limit"),
        ("ALTER DATABASE {} ALLOW_CONNECTIONS false", "allow_connections"),
        ("ALTER DATABASE {} IS_TEMPLATE true", "is_template"),
        ("COMMENT ON DATABASE {} IS NULL", "comment"),
    ],
)
async def test_what_others_change_is_changed_back(agent, server, database, drift, field):
    """Each property is compared, and an update changes it alone."""
    declared = {"name": database, "owner": "postgres", "comment": "what is sold"}
    await agent.run("postgres.database", **declared)
    server.sql(drift.format(database))

    assert await agent.run("postgres.database", **declared) == [field]
    assert await agent.run("postgres.database", **declared) == []


async def test_another_encoding_replaces_a_database_that_has_no_tables(agent, server, database):
    """For a database with tables, the replacement is refused with their names, unless the declaration has `cascade`."""
    other = {"name": database, "encoding": "SQL_ASCII", "collation": "C", "character_type": "C"}
    other["template"] = "template0"
    server.sql("CREATE SCHEMA app", "CREATE TABLE app.orders ()", database=database)

    told = "has tables (1: app.orders): to drop it with them, declare `cascade: true`"
    with pytest.raises(Failed, match=re.escape(told)):
        await agent.run("postgres.database", **other)
    assert told in await agent.refusal("postgres.database", name=database)
    assert await agent.refusal("postgres.database", name=database, cascade=True) == ""
    assert server.value("SELECT count(*) FROM app.orders", database) == 0
    assert await agent.run("postgres.database", **other, cascade=True) == ["delete", "create"]
    server.sql("CREATE EXTENSION hstore", "CREATE TEMPORARY TABLE t ()", database=database)
    assert await agent.run("postgres.database", name=database, encoding="UTF8", template="template0") == [
        "delete",
        "create",
    ]


async def test_sessions_of_others_keep_a_database_unless_it_cascades(agent, server, database):
    """The failure is temporary. The provider's own connections do not prevent the drop."""
    declared = {"name": database}
    await agent.read("postgres.schema", database=database, name="public")
    with server.connect(database):
        with pytest.raises(Failed, match="is being accessed by other users; There is 1 other session") as told:
            await agent.run("postgres.database", "absent", **declared)
        assert told.value.code == "retry"
        assert await agent.run("postgres.database", "absent", **declared, cascade=True) == ["delete"]


async def test_a_template_is_dropped_as_any_other(agent, server, database):
    """The provider first makes it an ordinary database, because the server does not drop templates."""
    await agent.run("postgres.database", name=database, is_template=True)

    assert await agent.run("postgres.database", "absent", name=database, is_template=True) == ["delete"]


async def test_a_database_whose_drop_was_interrupted_is_made_again(agent, server, database):
    """The server marks such a database, and accepts no connections to it."""
    server.sql(f"UPDATE pg_database SET datconnlimit = -2 WHERE datname = '{database}'")

    assert await agent.run("postgres.database", name=database) == ["create"]
    assert await agent.run("postgres.database", name=database) == []


async def test_a_database_of_which_only_the_comment_failed_is_finished_by_the_next_run(agent, provider, database):
    """The provider tells the agent that there is a database."""
    name = f"{database}_new"
    databases = provider.operations[1]
    update = databases.update

    async def failing(found, inputs):
        raise databases_error

    from holdfast import plugin

    databases_error = plugin.Temporary("the server is shutting down")
    databases.update = failing
    with pytest.raises(Failed, match="is shutting down") as told:
        await agent.run("postgres.database", name=name, comment="new")
    databases.update = update

    assert told.value.code == "retry"
    assert told.value.partial == name
    assert await agent.run("postgres.database", name=name, comment="new") == ["comment"]
    await agent.run("postgres.database", "absent", name=name)


async def test_two_creations_at_once_make_one_database(agent, database):
    """The second creation fails temporarily; the next attempt finds the database."""
    name = f"{database}_new"
    runs = (agent.run("postgres.database", name=name) for _ in range(2))
    results = await asyncio.gather(*runs, return_exceptions=True)

    assert ["create"] in results
    assert {each.code for each in results if isinstance(each, Failed)} <= {"retry"}
    assert await agent.run("postgres.database", name=name) == []
    await agent.run("postgres.database", "absent", name=name)


async def test_privileges_on_a_database_are_granted_exactly(agent, server, database, name):
    """Missing privileges are granted, superfluous ones are revoked, and `absent` revokes all."""
    await agent.run("postgres.role", name=name)
    declared = {"database": database, "role": name, "privileges": ["connect", "temporary"]}
    quoted = '"' + name.replace('"', '""') + '"'

    assert await agent.run("postgres.database_grant", **declared) == ["create"]
    assert await agent.run("postgres.database_grant", **declared) == []
    server.sql(f"GRANT CREATE ON DATABASE {database} TO {quoted}")
    assert await agent.run("postgres.database_grant", **declared) == ["privileges"]
    server.sql(f"REVOKE CONNECT ON DATABASE {database} FROM {quoted}")
    assert await agent.run("postgres.database_grant", **declared) == ["privileges"]
    server.sql(f"GRANT CONNECT ON DATABASE {database} TO {quoted} WITH GRANT OPTION")
    assert await agent.run("postgres.database_grant", **declared) == ["grantable"]
    assert await agent.run("postgres.database_grant", **declared) == []
    assert await agent.run("postgres.database_grant", "absent", **declared) == ["delete"]
    assert await agent.run("postgres.database_grant", "absent", **declared) == []


async def test_changes_of_the_same_by_several_calls_do_not_disturb_each_other(agent, server, database):
    """The server refuses concurrent changes (`tuple concurrently updated`), so the provider makes them in turn."""
    roles = [f"{database}_{number}" for number in range(20)]
    server.sql(*(f"CREATE ROLE {each}" for each in roles))
    grant = {"database": database, "privileges": ["create"]}
    runs = [agent.run("postgres.database_grant", role=each, **grant) for each in roles]

    assert await asyncio.gather(*runs, return_exceptions=True) == [["create"]] * len(roles)


async def test_privileges_of_all_roles_can_be_revoked(agent, server, database):
    """`public` means all roles, and an empty set means nothing."""
    declared = {"database": database, "role": "public", "privileges": []}

    assert await agent.run("postgres.database_grant", **declared) == ["privileges"]
    assert await agent.run("postgres.database_grant", **declared) == []
    assert (
        server.value(f"SELECT datacl::text FROM pg_database WHERE datname = '{database}'") == "{postgres=CTc/postgres}"
    )


async def test_a_grant_on_what_does_not_exist_says_so(agent, database):
    """The message names both the role and the database, because the server does not say which is missing."""
    with pytest.raises(Failed, match="there is no database 'nowhere', or no role 'public'"):
        await agent.run("postgres.database_grant", database="nowhere", role="public", privileges=["connect"])
    with pytest.raises(Failed, match="databases have no privilege 'select'; legal: all, connect, create, temporary"):
        await agent.run("postgres.database_grant", database=database, role="public", privileges=["select"])


async def test_the_owner_of_a_database_keeps_what_it_has(agent, server, database):
    """An owner's privileges are not changed by a grant."""
    declared = {"database": database, "role": "postgres", "privileges": ["connect"]}

    assert await agent.run("postgres.database_grant", **declared) == ["create"]
    assert await agent.run("postgres.database_grant", **declared) == []
    assert await agent.run("postgres.database_grant", "absent", **declared) == ["delete"]
    assert await agent.run("postgres.database_grant", "absent", **declared) == []


async def test_the_database_of_the_provider_is_not_dropped(agent):
    """The provider refuses this permanently; the server's own error looks temporary."""
    with pytest.raises(Failed, match="name another one as `database` in its configuration") as told:
        await agent.run("postgres.database", "absent", name="postgres", cascade=True)
    assert told.value.code == "permanent"


async def test_databases_can_be_read_while_others_are_created(agent, provider, server, database):
    """The creations wait for a session in the template. At most two of them hold a connection meanwhile."""
    names = [f"{database}_{number}" for number in range(6)]
    with server.connect("template1"):
        runs = [asyncio.create_task(agent.run("postgres.database", name=each)) for each in names]
        async with asyncio.timeout(DEADLINE):
            while server.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE%'") < 2:
                await asyncio.sleep(0.01)
            assert await agent.read("postgres.database", name=database) is not None
        assert server.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE%'") == 2
    await asyncio.gather(*runs, return_exceptions=True)
    for each in names:
        server.sql(f"DROP DATABASE IF EXISTS {each} WITH (FORCE)")


async def test_a_provider_that_is_no_superuser_needs_the_role_that_is_to_own_a_database(agent, server, database, name):
    """The error is in docs/postgres.md. The words of the server depend on its version."""
    maker, made = f"maker_{database}", {"name": f"{database}_new", "owner": name}
    server.sql(f"CREATE ROLE {maker} LOGIN CREATEROLE CREATEDB")
    await agent.configure(**{**server.config, "user": maker})
    await agent.run("postgres.role", name=name)

    with pytest.raises(Failed, match=r"must be (member of role|able to SET ROLE)"):
        await agent.run("postgres.database", **made)
    quoted = '"' + name.replace('"', '""') + '"'
    server.sql(f"GRANT {quoted} TO {maker}")
    assert await agent.run("postgres.database", **made) == ["create"]
    assert await agent.run("postgres.database", "absent", **made) == ["delete"]
