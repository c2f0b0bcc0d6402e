"""A plugin as a process of its own: its start, its secret, its log and its end. A start takes half a second."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pwd
import re
import signal
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.conftest import Caller

from deadline import DEADLINE
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.plugins import connecting, log_lines, process, server
from holdfast.agent.plugins.client import Client, shake_hands
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.masking import redactor_of
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.process import PluginProcess, launch
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.secrets import MASK
from notes_package import HOME, NOTES, SCHEMA

ME = pwd.getpwuid(os.geteuid()).pw_name
HEALTH = message["HealthRequest"]()
WEB = {"name": "web", "owner": "me"}


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    """The provider beside its schema, in a directory that others can read."""
    for name in ("provider.py", "notes_stub.py"):
        (tmp_path / name).write_text((HOME / name).read_text())
    (tmp_path / "schema.json").write_text(SCHEMA)
    return tmp_path / "provider.py"


@pytest.fixture
def below() -> Iterator[Path]:
    """A directory for the directories of plugins, whose path is short, as those of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="plugins-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def log() -> list[tuple[str, Any]]:
    """What the plugin has logged."""
    return []


@pytest.fixture
async def plugin(provider: Path, log: list[Any], below: Path) -> AsyncIterator[PluginProcess]:
    """A plugin that runs."""
    found = await started([sys.executable, str(provider)], below, log)
    yield found
    await found.stop()


async def started(command: list[str], below: Path, log: list[Any], **more: Any) -> PluginProcess:
    """Start a plugin."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    wanted = Launch("notes", command, environment=environment, **{"user": ME, **more})
    return await launch(wanted, lambda level, said: log.append((level, said)), below)


async def test_a_plugin_answers_over_its_socket(plugin, tmp_path):
    """The plugin answers as it does within one process."""
    caller = Caller(plugin.client)
    await shake_hands(plugin.client, Schema(NOTES))
    await caller.configure(tmp_path)
    created = await caller("Create", inputs=WEB)
    events = plugin.client.watch(["notes:note:Note"], "")

    assert (created.id, created.failure.code) == ("web", "")
    assert (await caller.read("web")).state == created.state
    assert (await anext(events)).armed
    await events.aclose()


async def test_nobody_without_the_secret_of_this_start_is_answered(plugin, below):
    """The secret is neither in the arguments nor in the environment.

    Only the plugin's user can connect to the socket.
    """
    path = next(below.iterdir())
    stranger = Client.local("notes", str(path / "socket"), "guess")
    with pytest.raises(Permanent, match="refused the secret"):
        await stranger.call("Health", HEALTH)
    await stranger.close()
    pid = plugin.pid
    told = Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()

    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert plugin.client._metadata[0][1] not in told


async def test_a_plugin_ends_with_its_agent(provider, log, below):
    """The plugin's standard input ends however the agent has died."""
    found = await started([sys.executable, str(provider)], below, log)
    found.close_input()

    assert await asyncio.wait_for(found.ended, DEADLINE) == "ended with status 0"
    assert [*below.iterdir()] == []
    await found.client.close()


async def test_a_stop_that_is_cancelled_goes_on(provider, log, below):
    """The agent's loop may end meanwhile. The process ends, its exit status is read, and its directory is removed."""
    found = await started([sys.executable, str(provider)], below, log)
    stopping = asyncio.ensure_future(found.stop())
    while found.ended.done() or not found._keeping.lifeline.closed:
        await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    assert await asyncio.wait_for(asyncio.shield(found.ended), DEADLINE) == "ended with status 0"
    assert found._keeping.process.returncode == 0
    assert [*below.iterdir()] == []


@pytest.mark.parametrize("name", ["read-crashes", "read-hangs"])
async def test_a_call_fails_for_now_when_the_plugin_crashes_or_hangs(plugin, tmp_path, name):
    """The failure is temporary, because the next process may answer."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    with pytest.raises(Temporary, match=r"plugin notes: Read: (the plugin has ended|no answer in time)"):
        await caller.read(name, timeout=0.5 if "hangs" in name else DEADLINE)


async def test_a_watch_fails_for_now_when_the_plugin_is_killed(plugin):
    """The agent resumes it after the next start."""
    events = plugin.client.watch(["notes:note:Note"], "")
    assert (await anext(events)).armed
    os.kill(plugin.pid, signal.SIGKILL)

    with pytest.raises(Temporary, match="plugin notes: Watch: the plugin has ended"):
        await anext(events)
    assert await asyncio.wait_for(plugin.ended, DEADLINE) == "was ended by SIGKILL"


async def test_calls_and_watches_fail_for_now_when_their_connection_is_closed(plugin, tmp_path):
    """The tasks that wait for them are not cancelled."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    events = plugin.client.watch(["notes:note:Note"], "")
    assert (await anext(events)).armed
    waiting = [asyncio.ensure_future(caller.read("read-hangs")), asyncio.ensure_future(anext(events))]
    await asyncio.wait(waiting, timeout=0.1)
    await plugin.client.close()
    waiting += [asyncio.ensure_future(anext(plugin.client.watch(["notes:note:Note"], "")))]
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [str(each) for each in results] == ["plugin notes: the connection is closed"] * 3
    assert {type(each) for each in results} == {Temporary}


async def test_a_plugin_that_floods_its_log_is_answered_and_bounded(plugin, tmp_path, log):
    """A line of a megabyte is dropped; the log of a failure has its place, and no secret."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    assert not (await caller.read("read-floods")).exists
    inputs = {**WEB, "name": "create-raises", "password": process.secrets.token_hex(8)}
    assert (await caller("Create", inputs=inputs)).failure.code == "fault"
    async with asyncio.timeout(DEADLINE):
        while not log:
            await asyncio.sleep(0)

    level, said = log[-1]
    assert level == "error"
    assert "Create has failed: KeyError" in said["message"]
    assert "provider.py" in said["message"]
    assert inputs["password"] not in repr(log)
    assert max(len(repr(each)) for each in log) < log_lines.LINE


def test_only_what_both_starts_begin_with_is_left_out_of_the_log():
    """Each line is logged after the first difference, and after the plugin has started."""
    lines: list[str] = []
    log = log_lines.StartLog(lambda _, said: lines.append(said["message"]))
    for start in ("abc", "abc", "abx", "bx", "bx"):
        log.begins()
        for line in start:
            log("info", {"message": line})
        lines.append("|")
    log.succeeded()
    for line in "bx":
        log("info", {"message": line})

    assert "".join(lines) == "abc||x|bx||bx"


LISTENING = (
    "import os,socket,sys\ns=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
    "print('holdfast-plugin ready',flush=True)\n"
)


async def test_any_line_of_a_plugin_is_logged_unless_it_is_too_long(log, below):
    """No line stops the reading of the log. Lines on standard output are logged, too."""
    code = (
        "say=lambda text: os.write(2, text.encode() + b'\\n')\n"
        "say('[' * 60000); say('x' * 70000); say('y' * 300000); print('printed', flush=True); say('last')\n"
        "sys.stdin.read()"  # the agent checks who listens after the process has reported that it does
    )
    found = await started([sys.executable, "-c", LISTENING + code], below, log)
    await asyncio.wait_for(found.stop(), DEADLINE)

    assert sorted(said["message"][:9] for _, said in log) == ["[" * 9, "last", "printed"]


@pytest.mark.parametrize(
    ("command", "error", "told"),
    [
        (["/nonexistent/plugin"], Permanent, "cannot start /nonexistent/plugin: No such file or directory"),
        (["/etc/passwd"], Permanent, "cannot start /etc/passwd: Permission denied; .* user .* of /etc/passwd"),
        (["sh", "-c", "echo hello"], Permanent, "it wrote 'hello', not 'holdfast-plugin ready'"),
        (["sh", "-c", "exit 3"], Temporary, "it ended with status 3 before it listened"),
        (["sh", "-c", "head -c 100000 /dev/zero"], Permanent, "it is not a plugin of Holdfast"),
        (["sh", "-c", "echo holdfast-plugin ready; read _"], Temporary, "socket does not answer: No such file"),
    ],
)
async def test_what_cannot_be_started_says_why(command, error, told, log, below):
    """The error has the reason, and nothing is left behind."""
    with pytest.raises(error, match=f"plugin notes: .*{told}"):
        await started(command, below, log)
    assert [*below.iterdir()] == []


NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/opt/notes/main.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ([sys.executable, "-c", "import no_such"], "status 1 before it listened: .*No module named 'no_such'$"),
        (["sh", "-c", 'printf %s "$0" >&2', NODE], "listened: Error: Cannot find module '/opt/notes/main.js'$"),
        (["sh", "-c", "echo the key is s3cret >&2"], f"listened: the key is {re.escape(MASK)}$"),
        (["sh", "-c", "printf '\\033[2J%1000d\\n' 7 >&2"], r"listened: \\x1b\[2J {193}$"),
    ],
)
async def test_a_plugin_that_ends_at_its_start_is_reported_with_its_last_words(command, told, log, below):
    """The error has no stack frame and no secret. A long line is cut, and control characters are escaped."""
    with pytest.raises(Temporary, match=told):
        await started(command, below, log, mask=redactor_of(["s3cret"]))


async def test_a_plugin_that_does_not_listen_in_time_is_ended(tmp_path, log, monkeypatch, below):
    """All processes that it has started are ended, too."""
    monkeypatch.setattr(process, "START", 0.2)
    with pytest.raises(Temporary, match=r"it does not listen within 0\.2 s"):
        await started(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid; wait"], below, log)
    pid = (tmp_path / "pid").read_text().strip()
    async with asyncio.timeout(DEADLINE):
        while lives(pid):
            await asyncio.sleep(0)


def lives(pid: str) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_another_process_that_listens_is_noticed(log, below):
    """For example, another program may listen at the same path."""
    code = (
        "import os,socket,sys,time\n"
        "if not os.fork():\n os.setsid()\n s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        " print('holdfast-plugin ready',flush=True); time.sleep(20)\n"
        "time.sleep(20)"
    )
    with pytest.raises(Permanent, match=r"another process .* listens on its socket"):
        await started([sys.executable, "-c", code], below, log)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
async def test_a_plugin_runs_as_its_user(log, below):
    """The plugin has none of the agent's rights, and has its own limits."""
    umask = os.umask(0o077)
    try:
        with pytest.raises(Permanent) as error:
            await started(["sh", "-c", "echo $(id -u) $(id -g) $(id -G) $(umask)"], below, log, user="nobody")
    finally:
        os.umask(umask)

    assert "65534 65534 65534 0077" in str(error.value)
    assert stat.S_IMODE(below.stat().st_mode) == 0o711


async def test_another_schema_is_refused_with_what_to_do(plugin):
    """The agent never guesses types."""
    other = Schema(dataclasses.replace(NOTES, version="2.0.0"))
    with pytest.raises(
        Permanent, match=r"version 1\.0\.0 of the package with another schema; the agent has version 2\.0\.0"
    ):
        await shake_hands(plugin.client, other)


DEAF = """
import os, signal, socket, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    if not os.fork():
        open(sys.argv[1] + ".pid", "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists(sys.argv[1] + ".pid"): time.sleep(0.01)
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
print("holdfast-plugin ready", flush=True)
while True: time.sleep(1000)
"""
"""A plugin that ignores signals and the end of its input, and starts a process that leaves its session."""


def descendants(below: Path) -> list[str]:
    """Return the process of such a plugin that has left its group."""
    return [path.read_text() for path in below.glob("*/socket.pid")]


async def end_of(pids: list[str]) -> None:
    """Wait until processes have ended."""
    assert pids
    async with asyncio.timeout(DEADLINE):
        while any(map(lives, pids)):
            await asyncio.sleep(0.01)


async def test_what_ignores_its_end_is_killed_with_all_that_it_has_started(log, monkeypatch, below):
    """Also processes that have left its session, and whose parent has ended."""
    monkeypatch.setattr(process, "GRACE", 0.2)
    found = await started([sys.executable, "-c", DEAF], below, log)
    pids = [str(found.pid), *descendants(below)]
    await asyncio.wait_for(found.stop(), DEADLINE)

    await end_of(pids)
    assert [*below.iterdir()] == []


def test_an_agent_that_ends_has_time_for_its_runs_and_then_for_a_plugin_that_does_not_end():
    """Otherwise, systemd would kill the agent before its records are closed."""
    unit = (Path(__file__).parents[2] / "systemd/holdfast.service").read_text()
    runs = EngineOptions().stop_timeout + 1

    assert runs + connecting.CANCEL + process.GRACE < int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1])
    assert server.GRACE < process.GRACE * 0.8


async def test_a_plugin_that_crashes_takes_all_that_it_has_started_with_it(log, below):
    """No process is left when the plugin is started again."""
    found = await started([sys.executable, "-c", DEAF], below, log)
    pids = descendants(below)
    os.kill(found.pid, signal.SIGKILL)

    assert await asyncio.wait_for(found.ended, DEADLINE) == "was ended by SIGKILL"
    await end_of(pids)
    await found.client.close()


AGENT = """
import asyncio, os, sys
from pathlib import Path
from holdfast.agent.plugins import process
from holdfast.agent.plugins.launching import Launch
process.GRACE = 0.2
async def main():
    wanted = Launch("notes", [sys.executable, "-c", sys.argv[2]], user=sys.argv[3])
    plugin = await process.launch(wanted, print, Path(sys.argv[1]))
    print(plugin.pid, flush=True)
    await plugin.ended
asyncio.run(main())
"""


async def test_no_plugin_survives_an_agent_that_is_killed(below):
    """Not even one that ignores the end of its input; its directory is removed, too."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    agent = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", AGENT, str(below), DEAF, ME], stdout=asyncio.subprocess.PIPE, env=environment
    )
    async with asyncio.timeout(DEADLINE):
        pids = [(await agent.stdout.readline()).decode().strip(), *descendants(below)]
    agent.kill()
    await agent.wait()

    await end_of(pids)
    async with asyncio.timeout(DEADLINE):
        while [*below.iterdir()]:
            await asyncio.sleep(0.01)


async def test_a_plugin_whose_keeper_is_killed_ends(plugin, below):
    """For example, a person kills the keeper."""
    os.kill(plugin._keeping.process.pid, signal.SIGKILL)

    assert await asyncio.wait_for(plugin.ended, DEADLINE) == "ended with its keeper"
    await end_of([str(plugin.pid)])
    assert [*below.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
async def test_a_plugin_has_a_user_of_its_own_by_default(log, below):
    """Plugins cannot access each other, or anything of other users. The limits apply, too.

    The kernel takes a limit of 1 byte as the wish for no core at all, also where a program collects them.
    """
    told = []
    core = "sed -n 's/^Max core file size *//p' /proc/self/limits"
    for name in ("notes", "memos"):
        wanted = Launch(name, ["sh", "-c", f"echo $(id -u) $(id -G) $(ulimit -n) $({core})"], files=100)
        with pytest.raises(Permanent, match="holdfast-plugin ready") as error:
            await launch(wanted, lambda *_: None, below)
        told.append(re.search(r"wrote '(.*)', not", str(error.value))[1].split())

    assert {len(words) for words in told} == {6}
    assert told[0][0] == told[0][1] != told[1][0]
    assert all(2_100_000_000 <= int(words[0]) < 2**31 for words in told)
    assert {tuple(words[2:]) for words in told} == {("100", "1", "1", "bytes")}


ATTACKING = """
import os, signal, socket, subprocess, sys
path = sys.argv[1]
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
print("holdfast-plugin ready", flush=True)
while True:
    try:
        os.rename(path, path + ".old")
        os.symlink("/run/control.sock", path)
    except PermissionError:
        print("refused", flush=True)
        break
    except OSError:
        pass
signal.pause()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
async def test_the_user_of_a_plugin_cannot_redirect_the_agent_to_another_socket(tmp_path, log, monkeypatch, below):
    """The user loses the directory before the agent checks who listens. A link in place of the socket is refused."""
    monkeypatch.setattr(process, "GRACE", 0.2)
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    wanted = Launch("notes", ["/usr/bin/python3", "-c", ATTACKING], user="nobody")
    with suppress(Temporary):  # the attacker was faster, so the plugin has no socket
        plugin = await launch(wanted, lambda level, said: log.append(said["message"]), below)
        async with asyncio.timeout(DEADLINE):
            while not log:
                await asyncio.sleep(0.01)
        await plugin.stop()

        assert log == ["refused"]


async def test_a_program_that_others_could_have_written_is_not_started(tmp_path, log, below):
    """A script in the arguments of an interpreter is checked, too."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o777)
    for command in ([str(script)], [sys.executable, str(script)]):
        with pytest.raises(Permanent, match="anyone may write it; chmod o-w"):
            await started(command, below, log)


async def test_a_secret_in_what_is_no_greeting_is_masked(log, below):
    """It is masked even if the text is cut."""
    words = ["sh", "-c", f"echo {'x' * 73}correct-horse-battery"]
    with pytest.raises(Permanent) as error:
        await started(words, below, log, mask=redactor_of(["correct-horse-battery"]))

    assert "xxx*******', not" in str(error.value)


LIMITED = """
import asyncio, ctypes, os, resource, sys
from pathlib import Path
from holdfast.agent.plugins import process
from holdfast.agent.plugins.launching import Launch
from holdfast.resources.errors import Permanent
if os.geteuid() == 0:
    PR_CAPBSET_DROP, CAP_SYS_RESOURCE = 24, 24
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0)
resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for memory in (2**41, 2**80):
    try:
        asyncio.run(process.launch(Launch("notes", ["true"], sys.argv[2], memory=memory), print, Path(sys.argv[1])))
    except Permanent as error:
        print(error)
"""


async def test_a_limit_that_the_agent_may_not_set_is_named(below):
    """A container may have lower limits. The start is not repeated."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", LIMITED, str(below), ME]
    agent = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, env=environment)
    async with asyncio.timeout(DEADLINE):
        said, _ = await agent.communicate()

    told = "plugin notes: cannot set its limits: `files` or `memory`: Operation not permitted"
    assert said.decode().splitlines() == [told, told]


LAUNCHING = """
import asyncio, sys
from pathlib import Path
from holdfast.agent.plugins import process
from holdfast.agent.plugins.launching import Launch
from holdfast.resources.errors import Permanent
try:
    asyncio.run(process.launch(Launch("notes", ["true"]), print, Path(sys.argv[1])))
except Permanent as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
async def test_a_host_without_the_number_of_the_user_says_what_to_do(below):
    """A container may have few user IDs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-c", LAUNCHING, str(below)]
    agent = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, env=environment)
    async with asyncio.timeout(DEADLINE):
        said, _ = await agent.communicate()

    assert "plugin notes: cannot become its user, whom this host may not have: name another `user`" in said.decode()
    assert [*below.iterdir()] == []
