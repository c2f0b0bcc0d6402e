"""The agent's side of a plugin: starts, restarts, calls, watches and faults, with real processes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from certificates import make_certificates
from deadline import DEADLINE
from holdfast.agent.model.package import to_json
from holdfast.agent.plugins import plugins, supervisor
from holdfast.agent.plugins.declared import PluginLoader
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.remote.calls import RemoteCalls
from holdfast.agent.remote.kind import RemoteKind
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.watch_items import Unwatched
from notes_package import NOTE, NOTES
from plugin_bench import ENDED, ME, PAYLOADS, TOKEN, Bench, create, item


async def test_a_plugin_that_is_declared_in_another_way_is_asked_again_to_check_inputs(bench):
    """The plugin's answers may depend on its environment and its configuration."""
    kind = RemoteKind(Schema(NOTES), NOTE)

    async def asked(**more: Any) -> int:
        calls = RemoteCalls(kind, await bench.use(**more), "web", {"name": "web", "owner": "me"})
        await calls.check()
        return int(bench.plugins.counts.calls["notes", "Check"])

    changed = {"environment": {"PYTHONPATH": os.pathsep.join(sys.path), "LANG": "C"}}
    counts = [await asked(), await asked(), await asked(**changed), await asked(**changed)]

    assert counts == [1, 1, 2, 2]


async def test_a_plugin_is_started_when_it_is_needed_and_ended_when_it_is_not(bench, monkeypatch):
    """The plugin gets its configuration before any other call."""
    monkeypatch.setattr(supervisor, "LINGER", 0.05)
    plugin = await bench.use()
    assert bench.plugins.state()[0]["state"] == "stopped"
    assert (await create(plugin, "web")).id == "web"
    assert (bench.directory / "notes/web").exists()
    assert (await plugin.read(item("web"))).exists
    pid = bench.pid
    bench.plugins.keep({"notes"})
    assert bench.pid == pid > 0
    bench.plugins.keep(())

    await bench.becomes(lambda: bench.plugins.state()[0]["state"] == "stopped")
    assert not Path(f"/proc/{pid}").exists()
    assert bench.told == ""


async def test_a_plugin_that_is_killed_is_started_again(bench, monkeypatch):
    """Running calls fail temporarily. Health reports this until the plugin has run for a while."""
    monkeypatch.setattr(supervisor, "STEADY", 0.3)
    plugin = await bench.use()
    await create(plugin, "web")
    pid = bench.pid
    waiting = asyncio.ensure_future(plugin.read(item("read-hangs")))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Temporary, match=ENDED):
        await waiting

    await bench.becomes(lambda: "was ended by SIGKILL; its resources are neither checked nor repaired" in bench.told)
    assert (await plugin.read(item("web"))).exists
    assert bench.pid != pid
    assert bench.plugins.state()[0]["restarts"] == 1
    await bench.becomes(lambda: not bench.told)


@pytest.mark.parametrize("when", ["read", "create", "delete"])
async def test_a_crash_in_an_operation_fails_that_call_for_now(bench, when):
    """The next process answers the next call."""
    plugin = await bench.use()
    (bench.directory / "notes" / f"{when}-crashes").write_text('["me", []]')
    calls = {
        "read": lambda: plugin.read(item("read-crashes")),
        "create": lambda: create(plugin, "create-crashes"),
        "delete": lambda: plugin.call("Delete", delete_request("delete-crashes")),
    }
    with pytest.raises(Temporary, match=ENDED):
        await calls[when]()

    assert (await create(plugin, "web")).id == "web"
    assert "ended with status 3" in bench.told


def delete_request(name: str) -> Any:
    """Return the request that deletes a note."""
    state = PAYLOADS.pack_state(NOTE, {"name": name, "owner": "me", "lines": [], "size": 1})
    return message["DeleteRequest"](subject=message["Subject"](token=TOKEN, id=name), state=state)


async def test_reads_that_are_asked_for_together_travel_together(bench):
    """A read that crashes the plugin is repeated alone, so that the others succeed."""
    plugin = await bench.use()
    await create(plugin, "web")
    names = ["web", "mail", "read-crashes"]
    results = await asyncio.gather(*(plugin.read(item(name)) for name in names), return_exceptions=True)
    assert [type(each) for each in results] == [Temporary] * 3
    again = await asyncio.gather(*(plugin.read(item(name)) for name in names[:2]))
    assert [each.exists for each in again] == [True, False]
    assert bench.plugins.counts.calls["notes", "Read"] == 3

    await asyncio.gather(*(plugin.read(item(name)) for name in names[:2]))
    assert bench.plugins.counts.calls["notes", "Read"] == 4


async def test_a_plugin_that_crashes_at_every_start_is_started_ever_more_rarely(bench, monkeypatch):
    """A call does not wait for a distant start. The text of its error is correct, and counts each start."""
    monkeypatch.setattr(supervisor, "TIMEOUT", 0.3)
    plugin = await bench.use(command=["sh", "-c", "exit 3"])
    with pytest.raises(Temporary, match=r"before it listened; it is restarted later$") as error:
        await create(plugin, "web")

    assert error.value.delay > 0.3
    assert "ended with status 3" in bench.told
    assert bench.plugins.state()[0]["restarts"] >= 1


async def test_what_a_plugin_says_at_each_start_is_logged_once_until_it_changes(bench, monkeypatch):
    """A call that waits for the first starts has the same text in its error."""
    monkeypatch.setattr(supervisor, "TIMEOUT", 0.3)
    lines: list[str] = []
    monkeypatch.setattr(plugins, "_log", lambda _name, _level, said: lines.append(said["message"]))
    said = bench.directory / "said"
    said.write_text("no such module\n")
    plugin = await bench.use(command=["sh", "-c", 'cat "$0" >&2; exit 3', str(said)])
    with pytest.raises(Temporary, match="it ended with status 3 before it listened: no such module; "):
        await create(plugin, "web")
    assert bench.plugins.state()[0]["restarts"] >= 1
    said.write_text("no such file\n")
    await bench.becomes(lambda: "no such file" in lines)

    assert lines == ["no such module", "no such file"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/no/such"], "cannot start /no/such: No such file or directory"),
        (["/etc/passwd"], "cannot start /etc/passwd: Permission denied"),
        (["sh", "-c", "echo no"], "it is not a plugin of Holdfast"),
    ],
)
async def test_what_cannot_be_a_plugin_fails_its_resources_and_is_tried_again(bench, command, told, monkeypatch):
    """It is used soon after it was fixed."""
    monkeypatch.setattr(supervisor, "REST", 0.05)
    plugin = await bench.use(command=command)
    for _ in range(2):
        with pytest.raises(Permanent, match=told):
            await create(plugin, "web")
    assert told in bench.told
    plugin = await bench.use()
    assert (await create(plugin, "web")).id == "web"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
@pytest.mark.parametrize(("setting", "user"), [(None, "nobody"), (ME, ME)], ids=["package", "setting"])
async def test_a_package_says_which_user_it_needs_unless_the_settings_do(bench, setting, user):
    """Without either, the plugin has a user of its own."""
    (bench.directory / "schema.json").write_text(to_json(dataclasses.replace(NOTES, user="nobody")))
    plugin = await bench.use(command=["sh", "-c", "echo I am $(id -un)"], user=setting)
    with pytest.raises(Permanent, match=f"it wrote 'I am {user}"):
        await create(plugin, "web")


async def test_a_plugin_that_hangs_is_ended_after_a_call_was_not_answered(bench, monkeypatch):
    """The plugin's event loop is blocked, so it does not answer health checks either."""
    monkeypatch.setattr(supervisor, "ANSWER", 0.2)
    plugin = await bench.use()
    await create(plugin, "web")
    pid = bench.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(Temporary, match="no answer in time"):
        await create(plugin, "mail", timeout=0.2)

    await bench.becomes(lambda: "it does not answer, and was ended" in bench.told)
    assert (await create(plugin, "mail")).id == "mail"
    assert bench.pid != pid


async def test_a_call_that_takes_long_does_not_end_the_plugin(bench, monkeypatch):
    """Meanwhile, the plugin answers health checks."""
    monkeypatch.setattr(supervisor, "PROBE", 0.05)
    plugin = await bench.use()
    await create(plugin, "web")
    pid = bench.pid
    with pytest.raises(Temporary, match="no answer in time"):
        await create(plugin, "create-hangs", timeout=0.4)
    assert (await plugin.read(item("web"))).exists
    assert bench.pid == pid


async def test_changed_settings_replace_the_process(bench):
    """Unchanged settings do not replace it."""
    plugin = await bench.use()
    await create(plugin, "web")
    pid = bench.pid
    await bench.use()
    assert bench.pid == pid
    assert await bench.use(environment={"PYTHONPATH": os.pathsep.join(sys.path), "A": "b"}) is plugin
    assert (await plugin.read(item("web"))).exists

    assert bench.pid != pid
    assert not Path(f"/proc/{pid}").exists()


async def test_a_failure_of_a_plugin_that_nothing_needs_is_no_condition_of_health(bench):
    """Only a function of the plugin was called, and the caller gets the error."""
    plugin = await bench.use()
    bench.plugins.keep(())
    with pytest.raises(Temporary, match=ENDED):
        await create(plugin, "create-crashes")
    await bench.becomes(lambda: bench.plugins.state()[0]["state"] == "stopped")

    assert bench.told == ""


async def test_a_call_that_comes_with_the_end_of_all_plugins_does_not_wait(bench):
    """The start of the plugin had not begun."""
    plugin = await bench.use()
    waiting = asyncio.ensure_future(create(plugin, "web"))
    while bench.plugins.get("notes").supervisor._task is None:
        await asyncio.sleep(0)
    await bench.plugins.stop()
    with pytest.raises(Temporary, match="it was ended"):
        await asyncio.wait_for(waiting, DEADLINE)


async def test_a_plugin_that_leaves_the_settings_is_not_started_again(bench):
    """Waiting calls fail temporarily; the next graph has none of its resources."""
    plugin = await bench.use(command=["sh", "-c", "exit 3"])
    waiting = asyncio.ensure_future(create(plugin, "web"))
    await bench.becomes(lambda: "ended with status 3" in bench.told)
    await bench.plugins.use({})
    with pytest.raises(Temporary):
        await waiting
    with pytest.raises(Temporary, match="it was ended, because its settings have changed"):
        await create(plugin, "web")
    with pytest.raises(Permanent, match="no plugin provides notes: name one under `plugins`"):
        bench.plugins.get("notes")


async def test_a_schema_that_changes_is_used_once_both_ends_have_it(bench, monkeypatch):
    """Until then, calls fail."""
    monkeypatch.setattr(supervisor, "REST", 0.0)
    plugin = await bench.use()
    await create(plugin, "web")
    newer = bench.directory / "newer.json"
    newer.write_text(to_json(dataclasses.replace(NOTES, version="1.1.0")))
    plugin = await bench.use(schema=newer)
    with pytest.raises(Permanent, match=r"version 1\.0\.0 of the package .* the agent has version 1\.1\.0"):
        await create(plugin, "web")
    (bench.directory / "schema.json").write_text(newer.read_text())

    assert (await create(plugin, "web")).id == "web"


async def test_a_configuration_that_the_plugin_refuses_is_told(bench):
    """The error has the location. The agent itself has found no mistake."""
    provider = (bench.directory / "provider.py").read_text()
    raising = 'raise plugin.Permanent("no such directory: " + str(config["directory"]))'
    changed = provider.replace('self.directory = Path(config["directory"])', raising)
    (bench.directory / "provider.py").write_text(changed)
    with pytest.raises(Permanent, match="plugin notes: it cannot use its configuration: no such directory"):
        await create(await bench.use(), "web")


async def test_one_stream_serves_all_watches_and_is_resumed(bench, monkeypatch):
    """After a restart the provider reports what may have changed since the last revision."""
    plugin = await bench.use()
    watching(bench)
    first, second = plugin.watch(TOKEN, lambda: "web"), plugin.watch(TOKEN, lambda: "mail")
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(anext(first), anext(second))
        (bench.directory / "notes/event").write_text("web 5")
        await anext(first)
        (bench.directory / "notes/event").write_text("mail 6")
        await anext(second)
        waiting = [asyncio.ensure_future(anext(each)) for each in (first, second)]
        os.kill(bench.pid, signal.SIGKILL)
        await asyncio.gather(*waiting)
    assert (bench.directory / "notes/resumed").read_text() == "6"
    await asyncio.gather(first.aclose(), second.aclose())


async def test_after_changed_settings_all_watched_resources_are_checked(bench):
    """The plugin may use another server now, which does not know the revision."""
    plugin = await bench.use()
    watching(bench)
    first, second = plugin.watch(TOKEN, lambda: "web"), plugin.watch(TOKEN, lambda: "mail")
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(anext(first), anext(second))
        (bench.directory / "notes/event").write_text("web 5")
        await anext(first)
        await bench.use(environment={"PYTHONPATH": os.pathsep.join(sys.path), "A": "b"})
        await asyncio.gather(anext(first), anext(second))
    assert not (bench.directory / "notes/resumed").exists()
    await asyncio.gather(first.aclose(), second.aclose())


def watching(bench: Bench) -> None:
    """Make the provider report the content of a file, and record the revision from which it resumes."""
    provider = bench.directory / "provider.py"
    text = provider.read_text()
    old = text[text.index('        yield "", ""\n') : text.index("    async def upgrade")]
    new = (
        '        yield "", ""\n'
        "        if revision:\n"
        '            (self.directory / "resumed").write_text(revision)\n'
        '            yield "", revision\n'
        "        while True:\n"
        "            await asyncio.sleep(0.005)\n"
        '            event = self.directory / "event"\n'
        "            if event.exists() and (said := event.read_text().split()):\n"
        "                event.unlink()\n"
        "                yield said[0], said[1]\n\n"
    )
    provider.write_text(text.replace(old, new))


async def test_a_resource_is_not_watched_while_the_plugin_cannot_be_used(bench, monkeypatch):
    """The agent shows this. Once the plugin can be used, the watch is armed at once."""
    monkeypatch.setattr(supervisor, "REST", 0.0)
    plugin = await bench.use(command=["/no/such"])
    events = plugin.watch(TOKEN, lambda: "web")
    async with asyncio.timeout(DEADLINE):
        first = await anext(events)
        polled = asyncio.ensure_future(plugin.poll(4 * DEADLINE))
        await bench.use()
        again = await anext(events)
        missed = await polled
    await events.aclose()

    assert isinstance(first, Unwatched)
    assert "cannot start /no/such" in first.why
    assert (again, missed) == (None, True)


async def test_an_agent_that_only_observes_says_so_to_the_plugin(bench):
    """The plugin is notified, too, if this changes while it runs."""
    plugin = await bench.use()
    events = plugin.watch(TOKEN, lambda: "noop")
    async with asyncio.timeout(DEADLINE):
        await anext(events)
        await bench.plugins.use({"notes": bench.declared()}, noop=True)
        told = [await anext(events), await anext(events)]
    await events.aclose()

    assert told == [None, None]  # armed again, and the provider's event that confirms noop


async def test_a_plugin_that_runs_elsewhere_is_used_and_found_again(bench, tmp_path, monkeypatch):
    """The connection uses TLS, and the plugin has its operator's configuration.

    The agent neither starts nor ends it.
    """
    monkeypatch.setattr(supervisor, "ANSWER", 0.5)
    (tmp_path / "certificates").mkdir()
    certificates = make_certificates(tmp_path / "certificates")
    (tmp_path / "config.yaml").write_text(f"directory: {tmp_path}/notes\n")
    (tmp_path / "config.yaml").chmod(0o600)
    async with serving(tmp_path, certificates, "127.0.0.1:0") as address:
        given = {"command": (), "address": address, "ca": certificates / "ca.pem", "cert": certificates / "own.pem"}
        given |= {"schema": bench.directory / "schema.json", "key": certificates / "own.key"}
        declared = PluginLoader().load({"notes": PluginSettings.model_validate(given)})
        await bench.plugins.use(declared)
        bench.plugins.keep({"notes"})
        plugin = bench.plugins.get("notes")
        assert (await create(plugin, "web")).id == "web"
        plugin.checked.put(TOKEN, b"given", b"made")
    with pytest.raises(Temporary, match=ENDED):
        await create(plugin, "mail")
    await bench.becomes(lambda: "it has gone or was restarted" in bench.told)
    async with serving(tmp_path, certificates, address):
        async with asyncio.timeout(DEADLINE):
            while True:
                with suppress(Temporary):
                    assert (await create(plugin, "mail")).id == "mail"
                    break
                await asyncio.sleep(0.1)
        assert (bench.directory / "notes/mail").exists()
    assert plugin.checked.get(TOKEN, b"given") is None  # another process may give another answer


async def test_a_bug_of_the_agent_leaves_no_call_waiting(bench, monkeypatch):
    """The resource reports the bug, and the next call tries again."""
    monkeypatch.setattr(supervisor, "REST", 0.0)
    plugin = await bench.use()
    monkeypatch.setattr(plugin.supervisor, "_start", broken)
    for _ in range(2):
        with pytest.raises(Permanent, match="plugin notes: internal error: ZeroDivisionError"):
            await create(plugin, "web")


async def broken() -> Any:
    """Raise an error that plugins never raise."""
    raise ZeroDivisionError


@asynccontextmanager
async def serving(directory: Path, certificates: Path, address: str) -> AsyncIterator[str]:
    """Run a plugin that listens at an address; yield the address."""
    words = [sys.executable, f"{directory}/provider.py", f"--listen={address}", f"--config={directory}/config.yaml"]
    words += [f"--certificate={certificates}/own.pem", f"--key={certificates}/own.key"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        *words, f"--authority={certificates}/ca.pem", stdout=asyncio.subprocess.PIPE, env=environment
    )
    async with asyncio.timeout(DEADLINE):
        line = (await process.stdout.readline()).decode()
    try:
        yield line.rpartition(" at ")[2].strip()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE)


async def test_calls_wait_while_there_are_as_many_as_the_settings_allow(bench):
    """The limit keeps a slow service from being flooded."""
    plugin = await bench.use(calls=1)
    await create(plugin, "web")
    slow = asyncio.ensure_future(create(plugin, "create-hangs", timeout=0.3))
    await asyncio.sleep(0)
    reading = asyncio.ensure_future(plugin.read(item("web")))
    done, _ = await asyncio.wait([slow, reading], return_when=asyncio.FIRST_COMPLETED)

    assert done == {slow}
    assert isinstance(slow.exception(), Temporary)
    assert (await reading).exists


async def test_a_plugin_that_says_that_it_cannot_work_is_a_condition_of_health(bench, monkeypatch):
    """The condition ends when the plugin reports that it can work; this needs no restart."""
    monkeypatch.setattr(supervisor, "PROBE", 0.02)
    monkeypatch.setattr(supervisor, "STEADY", 0.01)
    provider = bench.directory / "provider.py"
    unwell = (
        "from holdfast.agent.plugins.servicer import Servicer, message\n"
        "async def health(self, _):\n"
        "    ill = Path(sys.argv[0]).with_name('ill').exists()\n"
        "    return message['HealthResponse'](serving=not ill, message='the database is away' if ill else '')\n"
        "Servicer._health = health\n"
    )
    provider.write_text(
        provider.read_text().replace('if __name__ == "__main__":', f'{unwell}\nif __name__ == "__main__":')
    )
    (bench.directory / "ill").touch()
    plugin = await bench.use()
    await create(plugin, "web")
    pid = bench.pid
    await bench.becomes(lambda: "plugin notes says that it cannot work: the database is away" in bench.told)
    (bench.directory / "ill").unlink()

    await bench.becomes(lambda: not bench.told)
    assert bench.pid == pid


def test_a_flood_of_lines_is_counted(monkeypatch):
    """The log of the agent stays readable, and says how many lines are missing."""
    from holdfast.agent.plugins.log_lines import BURST, BoundedLog

    now, said = [0.0], []
    log = BoundedLog(lambda level, fields: said.append((level, fields["message"])), lambda data: data, lambda: now[0])
    for number in range(BURST + 300):
        log("info", {"message": str(number)})
    assert len(said) == BURST
    now[0] = 1.0
    log("error", {"message": "x" * 100_000})

    assert said[BURST] == ("warning", "300 lines were dropped: it logs more than 20 in a second")
    assert len(said[-1][1]) == 4000
