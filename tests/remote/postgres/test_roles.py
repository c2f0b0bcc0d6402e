"""Roles: attributes, passwords, memberships and settings; refusals, and secrets, which are never shown."""

from __future__ import annotations

import psycopg
import pytest

import sessions
from remote_agent import Failed
from sessions import Session

PASSWORD = "correct horse ª batterý"


async def test_a_role_is_made_from_nothing_and_then_left_alone(agent, server, name):
    """The name has quotes."""
    declared = {"name": name, "login": True, "create_db": True, "connection_limit": 5, "comment": "It's hers"}

    assert await agent.run("postgres.role", **declared) == ["create"]
    assert await agent.run("postgres.role", **declared) == []
    [row] = server.sql("SELECT * FROM pg_roles WHERE rolname LIKE 'T%' ORDER BY oid DESC LIMIT 1")
    assert (row["rolname"], row["rolcanlogin"], row["rolcreatedb"], row["rolsuper"]) == (name, True, True, False)


@pytest.mark.parametrize(
    ("drift", "field"),
    [
        ("ALTER ROLE {} SUPERUSER", "superuser"),
        ("ALTER ROLE {} NOLOGIN", "login"),
        ("ALTER ROLE {} NOINHERIT", "inherit"),
        ("ALTER ROLE {} CREATEROLE", "create_role"),
        ("ALTER ROLE {} REPLICATION BYPASSRLS", "replication bypass_rls"),
        ("ALTER ROLE {} CONNECTION LIMIT 1", "connection_limit"),
        ("ALTER ROLE {} VALID UNTIL '2020-01-01'", "valid_until"),
        ("ALTER ROLE {} SET work_mem = '1MB'", "settings"),
        ("ALTER ROLE {} RESET search_path", "settings"),
        ("ALTER ROLE {} PASSWORD 'other'", "password"),
        ("ALTER ROLE {} PASSWORD NULL", "password"),
        ("GRANT pg_monitor TO {}", "member_of"),
        ("COMMENT ON ROLE {} IS 'other'", "comment"),
    ],
)
async def test_what_others_change_is_changed_back(agent, server, name, drift, field):
    """Each property is compared, and an update changes it alone."""
    declared = {
        "name": name,
        "login": True,
        "password": PASSWORD,
        "valid_until": "2040-01-01T00:00:00Z",
        "member_of": [],
        "settings": {"search_path": 'app,"My Schema"', "timezone": "UTC"},
        "comment": "hers",
    }
    await agent.run("postgres.role", **declared)
    assert await agent.run("postgres.role", **declared) == []

    server.sql(drift.format('"' + name.replace('"', '""') + '"'))

    assert await agent.run("postgres.role", **declared) == field.split()
    assert await agent.run("postgres.role", **declared) == []


async def test_a_role_logs_in_with_its_password_and_a_null_removes_it(agent, server, name):
    """The password may have characters that SASLprep replaces.

    A verifier in place of a password is stored unchanged.
    """
    role = {"name": name, "login": True}
    login = {"user": name, "host": "127.0.0.1", "password": PASSWORD}
    await agent.run("postgres.role", **role, password=PASSWORD)
    assert server.sql("SELECT 1 AS one", **login) == [{"one": 1}]

    stored = server.value("SELECT rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL ORDER BY oid DESC LIMIT 1")
    assert stored.startswith("SCRAM-SHA-256$4096:")
    assert await agent.run("postgres.role", **role, password=stored) == []
    assert await agent.run("postgres.role", **role, password=None) == ["password"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        server.sql("SELECT 1", **login)


async def test_a_password_that_libpq_has_set_is_recognised(agent, server, name):
    """The verifier of libpq differs only in its salt."""
    await agent.run("postgres.role", name=name, login=True)
    with server.connect() as connection:
        made = connection.pgconn.encrypt_password(PASSWORD.encode(), name.encode(), b"scram-sha-256").decode()
        connection.execute(psycopg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(psycopg.sql.Identifier(name), made))

    assert await agent.run("postgres.role", name=name, login=True, password=PASSWORD) == []


async def test_no_password_and_no_verifier_reaches_the_log_of_the_server(agent, server, name):
    """The server of the tests logs every statement; statements without secrets are in the log."""
    before = server.log_path.stat().st_size
    await agent.run("postgres.role", name=name, login=True, password=PASSWORD)
    await agent.run("postgres.role", name=name, login=True, password="another word")
    logged = server.log_path.read_bytes()[before:].decode()

    assert "CREATE ROLE" in logged
    assert not [each for each in (PASSWORD, "another word", "SCRAM-SHA-256") if each in logged]
    seen = server.sql("SELECT query FROM pg_stat_activity")
    assert not [row for row in seen if PASSWORD in row["query"] or "another word" in row["query"]]


async def test_memberships_follow_the_declaration(agent, server, name):
    """Memberships that are not declared are not changed."""
    groups = [f"{name} {number}" for number in range(3)]
    for each in groups:
        await agent.run("postgres.role", name=each)
    await agent.run("postgres.role", name=name, member_of=groups[:2])

    assert await agent.run("postgres.role", name=name, member_of=groups[1:]) == ["member_of"]
    assert await agent.run("postgres.role", name=name) == []
    found = await agent.read("postgres.role", name=name)
    assert sorted(found.state["member_of"]) == groups[1:]


@pytest.mark.parametrize("version", [140000, 150000, 160000, 170000])
async def test_a_membership_that_another_role_has_granted_is_revoked(agent, server, name, version, monkeypatch):
    """Since PostgreSQL 16, REVOKE affects only grants of the current user, unless it names the grantor.

    The test runs the provider as for each version; older servers accept the statements for newer ones.
    """
    if server.value("SHOW server_version_num") < "160000":
        monkeypatch.setattr(Session, "version", version)
    member, group, grantor = (f"{each}_{id(name)}" for each in ("member", "group", "grantor"))
    server.sql(f"CREATE ROLE {group}", f"CREATE ROLE {grantor}", f"GRANT {group} TO {grantor} WITH ADMIN OPTION")
    assert await agent.run("postgres.role", name=member, member_of=[group]) == ["create"]
    server.sql(f"SET ROLE {grantor}", f"GRANT {group} TO {member}")

    assert await agent.run("postgres.role", name=member, member_of=[]) == ["member_of"]
    assert await agent.run("postgres.role", name=member, member_of=[]) == []


async def test_options_of_memberships_are_left_alone(agent, server, name):
    """An option that an administrator has set is neither removed nor reported as a difference."""
    member, group = (f"{each}_{id(name)}" for each in ("member", "group"))
    server.sql(f"CREATE ROLE {group}", f"CREATE ROLE {member}", f"GRANT {group} TO {member} WITH ADMIN OPTION")

    assert await agent.run("postgres.role", name=member, member_of=[group]) == []
    assert server.value(f"SELECT admin_option FROM pg_auth_members WHERE member = '{member}'::regrole") is True


async def test_a_role_that_owns_something_is_not_dropped(agent, server, name, database):
    """One line names the dependent objects. Without them the role is dropped; a second deletion does nothing."""
    await agent.run("postgres.role", name=name)
    quoted = '"' + name.replace('"', '""') + '"'
    server.sql(f"CREATE SCHEMA app AUTHORIZATION {quoted}", database=database)
    server.sql(f"ALTER DATABASE {database} OWNER TO {quoted}")

    why = f"some objects depend on it; owner of database {database}; 1 object in database {database}"
    with pytest.raises(Failed, match=f"cannot be dropped because {why}") as told:
        await agent.run("postgres.role", "absent", name=name)
    assert told.value.code == "permanent"
    server.sql("DROP SCHEMA app", f"ALTER DATABASE {database} OWNER TO CURRENT_USER", database=database)
    assert await agent.run("postgres.role", "absent", name=name) == ["delete"]
    assert await agent.run("postgres.role", "absent", name=name) == []


async def test_the_provider_does_not_lock_itself_out(agent):
    """A declaration of the provider's own role must not remove what the provider needs."""
    with pytest.raises(Failed, match="connects as postgres, which would lose `login`: declare `login: true`"):
        await agent.run("postgres.role", name="postgres", superuser=True)
    with pytest.raises(Failed, match="which would lose `superuser`"):
        await agent.run("postgres.role", name="postgres", login=True)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pg_mine", "name rule: the server reserves"),
        ("public", "name rule: the server reserves"),
        ("none", "name rule: the server reserves"),
        ("ä" * 40, "name length: a name in PostgreSQL has 1 to 63 bytes, not 80"),
        ("a\0b", "name form: a name in PostgreSQL has no NUL"),
    ],
)
async def test_a_name_that_the_server_would_change_or_refuse_is_refused(agent, name, told):
    """The server truncates long names silently."""
    with pytest.raises(Failed, match=told):
        await agent.check("postgres.role", name=name)


async def test_a_change_of_others_in_between_is_a_conflict(agent, server, name):
    """An update of a role that has changed since it was read does nothing; the next run repairs the role."""
    await agent.run("postgres.role", name=name, login=True)
    found = await agent.read("postgres.role", name=name, login=True)
    server.sql(f"""ALTER ROLE "{name.replace('"', '""')}" CREATEDB""")

    with pytest.raises(Failed, match="has been changed by others") as told:
        await agent.update("postgres.role", found, name=name)
    assert told.value.code == "conflict"
    assert (await agent.read("postgres.role", name=name)).state["login"] is True


async def test_a_role_that_was_renamed_is_made_again(agent, server, name):
    """The renamed role is left alone, because it may still be wanted."""
    await agent.run("postgres.role", name=name)
    quoted = name.replace('"', '""')
    server.sql(f'ALTER ROLE "{quoted}" RENAME TO "{quoted} old"')

    assert await agent.run("postgres.role", name=name) == ["create"]
    assert (await agent.read("postgres.role", name=f"{name} old")) is not None


async def test_a_creator_of_roles_suffices(agent, server, name):
    """Such a role cannot read verifiers, so a changed password is not noticed; a new declaration is applied."""
    server.sql("DROP ROLE IF EXISTS creator", "CREATE ROLE creator LOGIN CREATEROLE")
    await agent.configure(**{**server.config, "user": "creator"})
    declared = {"name": name, "login": True, "password": PASSWORD, "settings": {"work_mem": "1MB"}}

    assert await agent.run("postgres.role", **declared) == ["create"]
    assert await agent.run("postgres.role", **declared) == []
    assert server.sql("SELECT 1 AS one", user=name, host="127.0.0.1", password=PASSWORD)
    found = await agent.read("postgres.role", **declared)
    await agent.update("postgres.role", found, **{**declared, "password": "another word"})
    assert server.sql("SELECT 1 AS one", user=name, host="127.0.0.1", password="another word")
    with pytest.raises(Failed, match="must be superuser"):
        await agent.run("postgres.role", **{**declared, "superuser": True})


async def test_one_query_reads_all_roles(agent, server, name):
    """One query suffices for any number of roles."""
    names = [f"{name} {number}" for number in range(20)]
    for each in names:
        await agent.run("postgres.role", name=each)
    before = server.log_path.stat().st_size
    results = await agent.read_all("postgres.role", [{"name": each} for each in names])

    assert [each.id for each in results] == names
    assert server.log_path.read_bytes()[before:].count(b"FROM pg_roles r WHERE") == 1


async def test_a_lock_of_others_is_waited_for_only_so_long(agent, server, name):
    """The failure is temporary. The shortest limit is a second, which the test takes."""
    await agent.run("postgres.role", name=name)
    await agent.configure(**server.config, lock_timeout=1)
    quoted = '"' + name.replace('"', '""') + '"'
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"ALTER ROLE {quoted} CREATEDB")

        with pytest.raises(Failed, match="canceling statement due to lock timeout") as told:
            await agent.run("postgres.role", name=name, login=True)
        other.execute("ROLLBACK")

    assert told.value.code == "retry"
    assert await agent.run("postgres.role", name=name, login=True) == ["login"]


async def test_no_user_can_keep_changes_waiting_by_an_advisory_lock(agent, server, name):
    """Every user may take advisory locks and hold them for ever."""
    await agent.configure(**server.config, lock_timeout=1)
    server.sql("DROP ROLE IF EXISTS holder", "CREATE ROLE holder LOGIN")
    with server.connect(user="holder") as holder:
        holder.execute("SELECT pg_advisory_lock(hashtext('holdfast'))")

        assert await agent.run("postgres.role", name=name) == ["create"]


@pytest.mark.parametrize("until", ["12000-01-01", "-infinity", "4000-01-01 BC"])
async def test_an_end_that_no_declaration_can_name_differs(agent, server, name, until):
    """Python cannot represent such times. The other roles of the same query are read all the same."""
    await agent.run("postgres.role", name=name)
    await agent.run("postgres.role", name=f"{name} 2")
    quoted = '"' + name.replace('"', '""') + '"'
    server.sql(f"ALTER ROLE {quoted} VALID UNTIL '{until}'")
    results = await agent.read_all("postgres.role", [{"name": name}, {"name": f"{name} 2"}])

    assert [each.id for each in results] == [name, f"{name} 2"]
    assert await agent.run("postgres.role", name=name, valid_until=None) == ["valid_until"]
    assert await agent.run("postgres.role", name=name, valid_until=None) == []


async def test_a_name_of_a_group_that_the_server_would_cut_is_refused(agent, name):
    """The truncated name would mean another role."""
    with pytest.raises(Failed, match="member_of length: a name in PostgreSQL has 1 to 63 bytes, not 80"):
        await agent.check("postgres.role", name=name, member_of=["a", "ä" * 40])


async def test_a_server_that_is_too_old_is_refused(agent, monkeypatch, name):
    """The message says which version the provider needs."""
    monkeypatch.setattr(sessions, "OLDEST", 99)

    with pytest.raises(Failed, match=r"the server is PostgreSQL \d+; the provider needs 99 or newer") as told:
        await agent.run("postgres.role", name=name)
    assert told.value.code == "permanent"


async def test_no_verifier_reaches_a_log_of_sampled_transactions(agent, server, name):
    """The server samples transactions when they begin, and logs all of their statements."""
    server.sql("ALTER ROLE postgres SET log_transaction_sample_rate = 1")
    try:
        before = server.log_path.stat().st_size
        await agent.run("postgres.role", name=name, login=True, password=PASSWORD)
        logged = server.log_path.read_bytes()[before:].decode()
    finally:
        server.sql("ALTER ROLE postgres RESET log_transaction_sample_rate")

    assert "CREATE ROLE" in logged
    assert "SCRAM-SHA-256" not in logged


async def test_no_verifier_reaches_the_statistics_of_statements(agent, server, name, database):
    """The extension pg_stat_statements keeps the text of statements like ALTER ROLE."""
    server.sql("CREATE EXTENSION pg_stat_statements", "SELECT pg_stat_statements_reset()", database=database)
    seen = "SELECT query FROM pg_stat_statements WHERE query LIKE 'ALTER ROLE%'"
    await agent.run("postgres.role", name=name, login=True, connection_limit=17, password=PASSWORD)
    queries = [row["query"] for row in server.sql(seen, database=database)]

    assert [each for each in queries if "CONNECTION LIMIT 17" in each]
    assert not [each for each in queries if "SCRAM-SHA-256" in each]


async def test_a_change_waits_for_others_only_so_long(agent, provider, server, name):
    """Another change of the provider is slow, and the message says so. The shortest limit is a second."""
    await agent.configure(**server.config, statement_timeout=1)
    async with provider.sessions.turn(provider.sessions.changes[""], ""):
        with pytest.raises(Failed, match="other changes of roles or databases have taken longer than 1 s") as told:
            await agent.run("postgres.role", name=name)

    assert told.value.code == "retry"
    assert await agent.run("postgres.role", name=name) == ["create"]
