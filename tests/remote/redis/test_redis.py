"""The package redis against a real server: keys by event, users and parameters by polling; no password is shown."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import subprocess

import pytest
from tests.remote.redis.conftest import REDIS

from deadline import DEADLINE
from holdfast.agent.plugins.values import Secret
from holdfast.resources.errors import Temporary
from holdfast_process import in_process

VALUES = [
    ("text", "hello, wörld\r\n😀"),
    ("fields", {"a": "1", "": "two\n", "2": "x", "1": "y"}),
    ("items", ["b", "a", "b", ""]),
    ("members", ["b", "a"]),
    ("scores", {"low": -1.5, "high": 2.0, "tiny": 1e-300}),
    ("secret", Secret("correct horse")),
]
PASSWORD = "correct horse battery"
HASH = hashlib.sha256(PASSWORD.encode()).hexdigest()


def test_the_generated_files_are_fresh():
    """The files equal the output of the compiler."""
    outputs = ("--out-pack", REDIS / "pack", "--out-provider", REDIS / "provider")
    in_process("idl", "compile", REDIS / "idl", *outputs, "--target", "typescript,docs", "--check", check=0)


@pytest.mark.parametrize(("field", "value"), VALUES)
async def test_a_key_of_each_type_is_made_from_nothing_and_stays(provider, field, value):
    """The second read finds no difference. A missing key is reported without an error."""
    key = {"name": "a:b*[c]", "database": 3, field: value}
    state = await provider.settled("redis.key", **key)
    assert state[field] == (sorted(value) if field == "members" else value)
    answer = await provider.delete("redis.key", **key)

    assert not answer.failure.code
    assert await provider.differing("redis.key", **key) is None


async def test_a_changed_key_is_made_right(provider, redis):
    """A changed value, type or expiry is repaired."""
    key = {"name": "k", "items": ["a", "b"]}
    await provider.settled("redis.key", **key)
    for command, told in [
        (("RPUSH", "k", "c"), ["items"]),
        (("SET", "k", "text"), ["items"]),
        (("EXPIRE", "k", "100"), ["persistent"]),
        (("XADD", "k", "*", "f", "v"), ["items"]),
    ]:
        if command[0] in ("XADD", "SET"):
            redis.ask("DEL", "k")
        redis.ask(*command)
        assert await provider.differing("redis.key", **key) == told
        await provider.settled("redis.key", **key)
    assert redis.ask("LRANGE", "k", "0", "-1").split() == ["a", "b"]
    assert redis.ask("TTL", "k") == "-1"


async def test_the_end_of_a_key_is_left_alone_if_it_is_so_declared(provider, redis):
    """A new value keeps the expiry."""
    key = {"name": "k", "text": "a", "persistent": False}
    await provider.settled("redis.key", **key)
    redis.ask("EXPIRE", "k", "1000")
    await provider.settled("redis.key", **{**key, "text": "b"})

    assert 900 < int(redis.ask("TTL", "k")) <= 1000


async def test_a_key_that_was_changed_after_it_was_read_is_not_overwritten(provider, redis):
    """The agent must read the key again first."""
    await provider.settled("redis.key", name="k", text="a")
    found = await provider.read("redis.key", name="k", text="b")
    redis.ask("SET", "k", "other")
    read, provider.read = provider.read, lambda *_, **__: asyncio.sleep(0, found)
    updated = await provider.make("redis.key", name="k", text="b")
    deleted = await provider.delete("redis.key", name="k", text="b")
    provider.read = read

    assert (updated.failure.code, deleted.failure.code) == ("conflict", "conflict")
    assert redis.ask("GET", "k") == "other"


async def test_a_key_that_was_made_after_it_was_found_missing_is_not_overwritten(provider, redis):
    """The agent must read the key again first.

    The connection does not watch the refused key any longer, so the next one is created.
    """
    missing = await provider.read("redis.key", name="k", text="a")
    redis.ask("RPUSH", "k", "other")
    read, provider.read = provider.read, lambda *_, **__: asyncio.sleep(0, missing)
    made = await provider.make("redis.key", name="k", text="a")
    redis.ask("RPUSH", "k", "more")
    provider.read = read
    await provider.settled("redis.key", name="next", text="a")

    assert made.failure.code == "conflict"
    assert redis.ask("LRANGE", "k", "0", "-1").split() == ["other", "more"]


async def test_a_hundred_keys_are_read_by_one_call(provider, redis):
    """The results are in order; a missing key has none."""
    redis.ask("EVAL", "for i = 1, 100 do redis.call('SET', 'k' .. i, i) end", "0")
    results = await asyncio.gather(*(provider.read("redis.key", name=f"k{number}", text="") for number in range(101)))

    assert [each.exists for each in results] == [False, *[True] * 100]
    assert provider.state("redis.key", results[42])["text"] == "42"


async def armed(provider):
    """Return the events of keys, after the first."""
    events = provider.watch("redis.key")
    assert (await asyncio.wait_for(anext(events), DEADLINE)).armed
    return events


async def test_a_change_of_a_known_key_is_reported_at_once(provider, redis):
    """Its deletion is reported, too; changes of other keys are not. The provider makes the server report changes."""
    await provider.settled("redis.key", name="k", text="a", database=5)
    events = await armed(provider)
    redis.ask("-n", "5", "SET", "other", "x")
    seen = []
    for command in (("SET", "k", "x"), ("PEXPIRE", "k", "1"), ("SET", "k", "y")):
        redis.ask("-n", "5", *command)
        seen.append((await asyncio.wait_for(anext(events), DEADLINE)).id)

    assert seen == ["5:k"] * 3
    assert set("KA") <= set(redis.ask("CONFIG", "GET", "notify-keyspace-events").split()[1])


async def test_a_flush_is_reported_as_one_that_concerns_everything(provider, redis):
    """The server reports a flush in another way than a change of a key."""
    await provider.settled("redis.key", name="k", text="a")
    events = await armed(provider)
    redis.ask("FLUSHALL")

    assert (await asyncio.wait_for(anext(events), DEADLINE)).relist


async def test_after_a_restart_of_the_server_everything_is_read_again(provider, redis):
    """The watch continues by itself. Meanwhile it reports the reason, and calls fail temporarily."""
    await provider.settled("redis.key", name="k", text="a")
    events = await armed(provider)
    redis.stop()
    refused = await provider.read("redis.key", raw=True, name="k", text="a")
    lost = await asyncio.wait_for(anext(events), DEADLINE)
    redis.start()
    while (event := await asyncio.wait_for(anext(events), DEADLINE)).unwatched:
        pass
    await provider.settled("redis.key", name="k", text="b")
    again = await asyncio.wait_for(anext(events), DEADLINE)

    assert refused.failure.code == "retry"
    assert lost.unwatched.startswith("the keys are not watched: cannot use the server: ")
    assert (event.relist, again.id) == (True, "0:k")


async def test_a_server_that_is_not_there_is_named_by_its_place(provider, tmp_path):
    """The message has no error codes of Node.js. The next read tries again."""
    for place, why in (
        ({"socket": str(tmp_path / "s")}, f"there is no socket {tmp_path}/s"),
        ({"host": "127.0.0.1", "port": 1}, "no server listens at 127.0.0.1:1"),
    ):
        await provider.configure(**place)
        for _ in range(2):
            refused = await provider.read("redis.key", raw=True, name="k", text="a")
            assert (refused.failure.code, refused.failure.message) == ("retry", f"cannot use the server: {why}")


async def test_a_server_that_is_down_at_first_is_watched_as_soon_as_it_is_there(provider, redis):
    """The agent starts before the server does."""
    redis.stop()
    events = provider.watch("redis.key")
    lost, first = [await asyncio.wait_for(anext(events), DEADLINE) for _ in range(2)]
    redis.start()
    while (event := await asyncio.wait_for(anext(events), DEADLINE)).unwatched:
        pass

    assert "the keys are not watched" in lost.unwatched
    assert (first.armed, event.relist) == (True, True)


async def test_an_agent_that_only_observes_leaves_the_parameter_alone(provider, redis, log):
    """Instead, all keys are read every five seconds, and the log says so."""
    events = provider.watch("redis.key", noop=True)
    found = [await asyncio.wait_for(anext(events), DEADLINE) for _ in range(2)]

    assert [(each.armed, each.relist) for each in found] == [(True, False), (False, True)]
    assert redis.ask("CONFIG", "GET", "notify-keyspace-events").split() == ["notify-keyspace-events"]
    assert [level for level, said in log if "lacks KA" in repr(said)] == ["warning"]


async def test_events_that_somebody_has_switched_off_are_switched_on_again(provider, redis, monkeypatch):
    """Then all keys are read. The provider checks this every five seconds."""
    events = await armed(provider)
    redis.ask("CONFIG", "SET", "notify-keyspace-events", "Ex")

    assert (await asyncio.wait_for(anext(events), DEADLINE)).relist
    assert set("KAE") <= set(redis.ask("CONFIG", "GET", "notify-keyspace-events").split()[1])


async def test_a_provider_that_may_not_switch_events_on_reads_all_keys_again_and_again(provider, redis, log):
    """The parameter is not changed. Once another client has set it, changes are reported at once.

    The provider checks this every five seconds.
    """
    await provider.configure(socket=str(redis.socket), events=False)
    await provider.settled("redis.key", name="k", text="a")
    events = await armed(provider)
    first, second = [await asyncio.wait_for(anext(events), DEADLINE) for _ in range(2)]
    untouched = redis.ask("CONFIG", "GET", "notify-keyspace-events").split()
    redis.ask("CONFIG", "SET", "notify-keyspace-events", "KA")
    redis.ask("SET", "k", "x")
    async with asyncio.timeout(DEADLINE):
        while not (event := await anext(events)).id:
            assert event.relist  # the last check before

    assert first.relist
    assert second.relist
    assert untouched == ["notify-keyspace-events"]
    assert event.id == "0:k"
    assert [level for level, said in log if "lacks KA" in repr(said)] == ["warning"]


USER = {"name": "app", "rules": ["+@read", "+config|get", "-get"], "keys": {"~app:*", "%R~all:*"}, "channels": {"&n:*"}}
USER = {name: sorted(value) if isinstance(value, set) else value for name, value in USER.items()}


async def test_a_user_is_made_from_nothing_and_stays(provider, redis):
    """The user can log in with the password, and has exactly the declared rights."""
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    login = ("--user", "app", "--pass", PASSWORD, "--no-auth-warning")

    assert redis.ask(*login, "EXISTS", "app:x") == "0"
    assert "NOPERM" in redis.ask(*login, "GET", "app:x", check=False)
    assert "NOPERM" in redis.ask(*login, "EXISTS", "other", check=False)
    assert not (await provider.delete("redis.acl_user", **USER)).failure.code
    assert "app" not in redis.ask("ACL", "USERS").split()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["off"], "enabled"),
        ([">other"], "password"),
        (["nopass"], "without_password"),
        (["+get"], "rules"),
        (["(~x +@all)"], "rules"),
        (["allkeys"], "keys"),
        (["&other"], "channels"),
    ],
)
async def test_a_changed_user_is_made_right(provider, redis, change, told):
    """Any change by an administrator is repaired, also an added selector."""
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    redis.ask("ACL", "SETUSER", "app", *change)

    assert told in await provider.differing("redis.acl_user", password=Secret(PASSWORD), **USER)
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)


RULES = [
    ["+@all", "-@dangerous", "+keys"],
    ["+get", "-get", "+GET"],
    ["+config|get", "+config", "-config|set"],
    ["+@all", "-@all", "+ping"],
    ["-@all", "+@read", "(~cache:* resetchannels -@all +get)"],
    ["(%R~a ~b &* +@all)"],
]


@pytest.mark.parametrize("rules", RULES)
async def test_rules_are_compared_in_the_form_of_the_server(provider, rules):
    """Otherwise, the rules would be set again and again."""
    await provider.settled("redis.acl_user", name="u", rules=rules, keys=["~*", "~a"], channels=["&*", "&x"])
    await provider.settled("redis.acl_user", name="u", rules=rules, keys=["%RW~a", "%W~b"])


async def test_passwords_that_are_not_declared_stay_and_hashes_are_all_of_them(provider, redis):
    """A user that can log in with any password has no hashes."""
    redis.ask("ACL", "SETUSER", "app", "on", f">{PASSWORD}")
    await provider.settled("redis.acl_user", name="app")
    assert redis.ask("ACL", "GETUSER", "app").count(HASH) == 1
    await provider.settled("redis.acl_user", name="app", hashes=Secret(["0" * 64, HASH]))
    wrong = await provider.check("redis.acl_user", name="app", password=Secret("x"), without_password=True)
    await provider.settled("redis.acl_user", name="app", without_password=True)

    assert [(each.code, each.path) for each in wrong.violations] == [("rule", "without_password")]
    assert "nopass" in redis.ask("ACL", "GETUSER", "app").split()


async def test_the_user_that_everyone_is_cannot_be_removed(provider):
    """The error says what to do."""
    answer = await provider.delete("redis.acl_user", name="default")

    assert (answer.failure.code, "disable it" in answer.failure.message) == ("permanent", True)


async def test_the_next_start_of_the_server_has_users_and_parameters(provider, redis):
    """The server writes users and parameters to its files."""
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    await provider.settled("redis.config", name="maxmemory", value="100mb")
    redis.stop()
    redis.start()

    assert await provider.differing("redis.acl_user", password=Secret(PASSWORD), **USER) == []
    assert await provider.differing("redis.config", name="maxmemory", value="100mb") == []


async def test_the_next_start_of_a_server_with_an_acl_file_has_users_and_parameters(provider, redis):
    """Users are in that file and parameters in redis.conf; `requirepass` is the password of a user in that file."""
    (redis.home / "users.acl").write_text("user default on nopass ~* &* +@all\n")
    with (redis.home / "redis.conf").open("a") as file:
        file.write(f"aclfile {redis.home}/users.acl\n")
    redis.stop()
    redis.start()
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    await provider.settled("redis.config", name="maxmemory", value="100mb")
    await provider.settled("redis.config", name="requirepass", secret=Secret(PASSWORD))
    redis.stop()
    redis.password = PASSWORD
    redis.start()
    await provider.configure(socket=str(redis.socket), password=PASSWORD)

    assert await provider.differing("redis.acl_user", password=Secret(PASSWORD), **USER) == []
    assert await provider.differing("redis.config", name="maxmemory", value="100mb") == []
    assert HASH in redis.ask("ACL", "GETUSER", "default")


async def test_an_acl_file_that_cannot_be_written_is_told_and_redis_conf_is_left_alone(provider, redis, log):
    """The error is logged. The server would not read users from redis.conf."""
    (redis.home / "users.acl").write_text("")
    with (redis.home / "redis.conf").open("a") as file:
        file.write(f"aclfile {redis.home}/users.acl\n")
    redis.stop()
    redis.start()
    (redis.home / "users.acl").unlink()
    (redis.home / "users.acl").mkdir()
    before = (redis.home / "redis.conf").read_text()
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    async with asyncio.timeout(DEADLINE):
        while "the server cannot save the change" not in repr(log):
            await asyncio.sleep(0)

    assert (redis.home / "redis.conf").read_text() == before


@pytest.mark.parametrize(
    ("name", "value", "forms"),
    [
        ("maxmemory", "100mb", ("104857600", "1gb")),
        ("maxmemory-policy", "allkeys-lru", ("allkeys-lru", "noeviction")),
        ("appendonly", "no", ("No", "yes")),
        ("notify-keyspace-events", "KEA", ("AKE", "K$")),
        ("save", "900 1 300 10", ("900 1 300 10", "")),
    ],
)
async def test_a_parameter_is_set_and_stays(provider, redis, name, value, forms):
    """An equal value in another form is as declared; another value is repaired."""
    same, other = forms
    await provider.settled("redis.config", name=name, value=value)
    redis.ask("CONFIG", "SET", name, same.lower())
    assert await provider.differing("redis.config", name=name, value=value) == []
    redis.ask("CONFIG", "SET", name, other)
    assert await provider.differing("redis.config", name=name, value=value) == ["value"]
    await provider.settled("redis.config", name=name, value=value)


async def test_what_the_server_does_not_accept_is_said_with_its_words(provider):
    """The cases are an unknown parameter, a wrong value, and parameters that cannot be changed or removed."""
    unknown = await provider.read("redis.config", raw=True, name="maxmemry", value="1")
    wrong = await provider.make("redis.config", name="maxmemory", value="much")
    fixed = await provider.make("redis.config", name="databases", value="5")
    gone = await provider.delete("redis.config", name="maxmemory", value="0")
    told = [each.failure for each in (unknown, wrong, fixed, gone)]

    assert {each.code for each in told} == {"permanent"}
    assert "the server has no parameter maxmemry" in told[0].message
    assert "must be a memory value" in told[1].message
    assert "immutable" in told[2].message
    assert "declare another value" in told[3].message


async def test_the_provider_logs_in_with_a_password(provider, redis):
    """The error for a wrong password does not contain it. A secret parameter must be declared as a secret."""
    await provider.settled("redis.config", name="requirepass", secret=Secret(PASSWORD))
    redis.password = PASSWORD
    wrong = await provider.check("redis.config", name="requirepass", value=PASSWORD)
    await provider.configure(socket=str(redis.socket), password="wrong horse")
    refused = await provider.read("redis.key", raw=True, name="k", text="a")
    await provider.configure(socket=str(redis.socket), password=PASSWORD)
    await provider.settled("redis.key", name="k", text="a")

    assert [(each.code, each.path) for each in wrong.violations] == [("rule", "value")]
    assert refused.failure.code == "permanent"
    assert "WRONGPASS" in refused.failure.message
    assert "horse" not in refused.failure.message


async def test_an_authority_that_cannot_be_read_is_said_with_its_path(provider, tmp_path):
    """The file does not exist, or is a directory."""
    for path in (tmp_path / "missing", tmp_path):
        await provider.configure(host="127.0.0.1", port=1, tls=True, authority=str(path))
        refused = (await provider.read("redis.key", raw=True, name="k", text="a")).failure

        assert refused.code == "permanent"
        assert refused.message.startswith(f"cannot read the authority {path}: ")


async def test_the_password_of_the_configuration_is_masked_in_later_failures(provider):
    """The runtime masks all messages of the provider's code; here the message is a path with the password."""
    await provider.configure(host="127.0.0.1", tls=True, authority="/no/secret-horse", password="secret-horse")
    refused = (await provider.read("redis.key", raw=True, name="k", text="a")).failure

    assert refused.message.startswith("cannot read the authority /no/********: ")
    assert "horse" not in refused.message


def rights() -> list[str]:
    """Return the rules that docs/redis.md gives to a provider with a user of its own."""
    page = (REDIS.parents[2] / "docs/redis.md").read_text().partition("## Rights")[2]
    return " ".join(re.findall(r"`([^`]*)`", page)).split()


async def test_the_provider_can_do_its_work_with_the_rights_of_the_documentation(provider, redis):
    """The provider manages keys with events, users and parameters, and writes the files of the server."""
    redis.ask("ACL", "SETUSER", "holdfast", "on", f">{PASSWORD}", "resetchannels", *rights())
    await provider.configure(socket=str(redis.socket), user="holdfast", password=PASSWORD)
    await provider.settled("redis.key", name="k", text="a")
    events = await armed(provider)
    redis.ask("FLUSHALL")
    flushed = await asyncio.wait_for(anext(events), DEADLINE)
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    await provider.settled("redis.config", name="maxmemory", value="100mb")

    assert flushed.relist
    assert "maxmemory 100mb" in (redis.home / "redis.conf").read_text()


async def test_no_password_reaches_the_server_or_a_log(provider, redis, log):
    """Neither MONITOR, nor the server's log, nor the agent's log contains a password."""
    monitor = subprocess.Popen(  # noqa: ASYNC220 - it starts at once
        ["redis-cli", "-s", str(redis.socket), "MONITOR"], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert monitor.stdout.readline() == "OK\n"
    redis.ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
    await provider.settled("redis.acl_user", password=Secret(PASSWORD), **USER)
    refused = await provider.make("redis.acl_user", name="app", password=Secret(PASSWORD), rules=["+nonsense"])
    redis.ask("ECHO", "last")
    shown = ""
    while "last" not in shown:
        shown += monitor.stdout.readline()
    monitor.kill()
    monitor.communicate()
    told = shown + redis.ask("SLOWLOG", "GET", "100") + (redis.home / "log").read_text() + repr(log)

    assert refused.failure.code == "permanent"
    assert HASH not in refused.failure.message
    assert PASSWORD not in told
    assert not re.search(r"horse|battery", told)


async def test_a_provider_that_is_killed_while_it_creates_a_key_leaves_all_or_nothing(provider, plugin, redis):
    """The value is written in one transaction; the next start finds it missing, or right."""
    redis.ask("CLIENT", "PAUSE", "60000", "WRITE")
    making = asyncio.ensure_future(provider.make("redis.key", name="k", items=["a", "b"]))
    blocked = "blocked_clients:1"
    async with asyncio.timeout(DEADLINE):
        while blocked not in await asyncio.to_thread(redis.ask, "INFO", "clients"):
            await asyncio.sleep(0)
    os.kill(plugin.pid, signal.SIGKILL)
    with pytest.raises(Temporary):
        await making
    redis.ask("CLIENT", "UNPAUSE")

    assert redis.ask("LRANGE", "k", "0", "-1").split() in ([], ["a", "b"])


async def test_a_change_that_the_agent_has_given_up_is_not_made_later(provider, redis):
    """The change waits for another one, which the server delays."""
    redis.ask("CLIENT", "PAUSE", "60000", "WRITE")
    first = asyncio.ensure_future(provider.make("redis.key", name="first", text="a"))
    async with asyncio.timeout(DEADLINE):
        while "blocked_clients:1" not in await asyncio.to_thread(redis.ask, "INFO", "clients"):
            await asyncio.sleep(0)
    with pytest.raises(Temporary, match="no answer in time"):
        await provider.make("redis.key", timeout=0.3, name="second", text="a")
    redis.ask("CLIENT", "UNPAUSE")
    await first
    await provider.settled("redis.key", name="third", text="a")

    assert redis.ask("EXISTS", "first", "second") == "1"


async def test_calls_that_find_a_lost_connection_open_one_together(provider, redis, tmp_path):
    """Further connections would stay open and unused.

    Ten calls wait for a connection that is lost while it is opened.
    """
    opened, lost = [], asyncio.Event()

    async def carry(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def answer(reader, writer):
        opened.append(writer)
        if len(opened) == 1:
            await lost.wait()
            writer.close()
        else:
            beyond = await asyncio.open_unix_connection(redis.socket)
            await asyncio.gather(carry(reader, beyond[1]), carry(beyond[0], writer))

    server = await asyncio.start_unix_server(answer, tmp_path / "s")
    await provider.configure(socket=str(tmp_path / "s"))
    calls = [asyncio.ensure_future(provider.read("redis.key", raw=True, name=f"k{n}", text="a")) for n in range(10)]
    async with asyncio.timeout(DEADLINE):
        while not opened:
            await asyncio.sleep(0)
    for _ in range(10):  # later commands are answered later, so all calls are waiting by then
        await provider.check("redis.key", name="k", text="a")
    lost.set()
    await asyncio.gather(*calls)
    server.close()

    assert len(opened) == 2


async def test_a_server_that_hangs_is_an_error_for_now(provider, redis):
    """The provider answers other calls, and continues when the server does."""
    await provider.settled("redis.key", name="k", text="a")
    redis.process.send_signal(signal.SIGSTOP)
    with pytest.raises(Temporary, match="no answer in time"):
        await provider.read("redis.key", timeout=0.3, name="k", text="a")
    redis.process.send_signal(signal.SIGCONT)

    await provider.settled("redis.key", name="k", text="b")


async def test_something_else_than_a_server_is_an_error_for_now(provider, tmp_path):
    """The other server speaks HTTP."""

    async def answer(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_unix_server(answer, tmp_path / "s")
    await provider.configure(socket=str(tmp_path / "s"))
    read = await provider.read("redis.key", raw=True, name="k", text="a")
    server.close()

    assert read.failure.code == "retry"
    assert "something else than RESP" in read.failure.message
