"""The control socket over real connections: who may connect, the answers, and what no client can do to the agent."""

import asyncio
import json
import os
import socket
import stat
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from deadline import DEADLINE
from holdfast.agent.cli.exits import ExitCode, code_of
from holdfast.agent.control import answers, log_stream
from holdfast.agent.control.client import ask, ask_until_stopped, follow
from holdfast.agent.control.decoding import decode_request, requests
from holdfast.agent.control.schema import ControlError, ControlResponse, encode
from holdfast.agent.control.server import CLIENTS, ControlServer
from holdfast.agent.logs import Logs
from holdfast.agent.settings import LogSettings
from holdfast.agent.verbs.log import LogLines
from holdfast.agent.verbs.pause import Pause
from holdfast.agent.verbs.recheck import Recheck
from holdfast.agent.verbs.reload import Reload
from holdfast.agent.verbs.resume import Resume
from holdfast.agent.verbs.status import Status
from holdfast.agent.verbs.trigger import Trigger
from holdfast.resources.secrets import MASK, Redactor
from strangers import as_a_stranger


class Agent:
    """The parts of an agent, which record each request."""

    paused = False
    path = Path("/nonexistent/records.db")

    def __init__(self, logs):
        self.done = []
        self.logs = logs
        self.asks = []
        self.engine = self.pausing = self.queue = self.recorder = self.reloads = self.status = self.triggers = self

    def with_rows(self, _most):
        """Return the rows of one resource."""
        return {"resources": [{"identity": "file.managed[x]"}]}

    async def settle(self):
        """Write nothing: there are no records."""

    async def pause(self, words, reason, seconds):
        """Record the call."""
        self.done.append(("pause", words, reason, seconds))
        return {"text": "paused"}

    async def resume(self, words):
        """Record the call."""
        self.done.append(("resume", words))
        return {"text": "resumed"}

    async def reload(self):
        """Report one problem."""
        return {"problems": ["one"]}

    def recheck(self):
        """Record the call."""
        self.done.append("recheck")

    def asked(self, by, identity=""):
        """Record the request and its sender."""
        self.asks.append((by["uid"], identity))

    def note(self, what, about, text, by):
        """Record what an operator did."""
        self.asks.append((by["uid"], what, about, text))

    async def trigger(self, identity, asked):
        """Record the identity; only `cmd.run[x]` exists."""
        asked(identity)
        if identity != "cmd.run[x]":
            raise ControlError(f"cannot trigger {identity}: there is no such resource")
        self.done.append(identity)
        return {"text": "ran", "result": True}


@pytest.fixture
def logs(tmp_path):
    """Yield a log that writes to a file."""
    with (tmp_path / "log").open("wb") as file:
        log = Logs(LogSettings(format="console"), file.fileno())
        yield log
        log.close()
    structlog.reset_defaults()


@pytest.fixture
def short():
    """Yield a directory with a short path, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
async def control(short, logs):
    """Yield the path of a server, and its agent."""
    agent, path = Agent(logs), short / "run/control.sock"
    server = ControlServer(path, agent)
    await server.start()
    yield path, agent
    await server.stop()


async def asked(path, request):
    """Send a request from a thread, and return the data of the response."""
    return await asyncio.to_thread(ask, path, request)


async def until(condition):
    """Let other tasks run until the condition holds."""
    while not condition():
        await asyncio.sleep(0)


async def raw(path, data):
    """Send bytes, and return the complete response."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_each_request_reaches_its_part_of_the_agent(control):
    """The values of its fields arrive, and the data of the answer come back."""
    path, agent = control

    assert (await asked(path, Status()))["resources"][0]["identity"] == "file.managed[x]"
    assert await asked(path, Reload()) == {"problems": ["one"]}
    await asked(path, Pause(["x", "y"], "upgrade", 1.5))
    await asked(path, Resume(["x"]))
    assert await asked(path, Recheck()) == {"paused": False}
    await asked(path, Trigger("cmd.run[x]"))
    assert agent.done == [("pause", ["x", "y"], "upgrade", 1.5), ("resume", ["x"]), "recheck", "cmd.run[x]"]
    me = os.getuid()
    assert agent.asks == [
        (me, "pause", ["x", "y"], "paused"),
        (me, "resume", ["x"], "resumed"),
        (me, ""),
        (me, "cmd.run[x]"),
    ]


@pytest.mark.parametrize("size", [0, 1, answers.ROWS, 3 * answers.ROWS + 1])
@pytest.mark.parametrize("head", [{}, {"status": "converged"}])
async def test_all_rows_arrive_with_secrets_redacted(control, logs, size, head):
    """The response is sent in slices, whose limits depend on the number of rows."""
    path, agent = control
    logs.redactor = Redactor({"password": "opensesame"})
    agent.with_rows = lambda _most: {
        **head,
        "resources": ({"id": f"{number} opensesame", "ok": True} for number in range(size)),
    }

    assert await asked(path, Status()) == {
        **head,
        "resources": [{"id": f"{number} {MASK}", "ok": True} for number in range(size)],
    }


async def test_a_long_status_lets_other_callbacks_run_in_between(control, monkeypatch):
    """Slow rows are made ten at a time."""
    path, agent = control
    monkeypatch.setattr(answers, "SLICE", 0.0)
    ticks, made = 0, Counter()

    def rows():
        for number in range(500):
            made[ticks] += 1
            yield {"id": number}

    async def others():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    agent.with_rows = lambda _most: {"resources": rows()}
    beside = asyncio.create_task(others())
    assert len((await asked(path, Status()))["resources"]) == 500
    beside.cancel()
    assert max(made.values()) <= answers.ROWS


async def test_a_refusal_of_the_agent_is_an_error(control):
    """The error has the text of the agent."""
    with pytest.raises(ControlError, match=r"cannot trigger cmd.run\[y\]"):
        await asked(control[0], Trigger("cmd.run[y]"))


async def test_a_handler_that_raises_is_reported_as_a_bug(control, monkeypatch):
    """The client gets the name of the error without its text, which the log has; the next request is answered."""
    path, agent = control
    logged = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(str(context["exception"])))
    with monkeypatch.context() as broken:
        broken.setattr(agent, "recheck", lambda: {}["a secret"])
        with pytest.raises(ControlError, match="failed to answer 'recheck': KeyError; this is a bug") as caught:
            await asked(path, Recheck())

    assert "secret" not in str(caught.value)
    assert (caught.value.code, code_of(caught.value), logged) == ("bug", ExitCode.BUG, ["'a secret'"])
    await asked(path, Recheck())
    assert "recheck" in agent.done


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"verb": "sing"}\n',
        b'{"verb": ["x"]}\n',
        b'{"verb": {"x": 1}}\n',
        b"[" * 60_000 + b"\n",
        b'{"verb": ' + b"[" * 60_000 + b"\n",
        b"\xff\n",
        b"\n",
        b"",
        b'{"verb": "log", "lines": "x"}\n',
        b'{"verb": "status", "more": 1}\n',
        b"x" * 70_000 + b"\n",
    ],
    ids=[
        *("not JSON", "not an object", "unknown verb", "list as verb", "mapping as verb", "deep", "deep verb"),
        *("not text", "empty", "nothing", "wrong type", "unknown field", "too long"),
    ],
)
async def test_an_invalid_request_is_refused_with_a_sentence(control, logs, data):
    """The client gets one clear error, nothing is logged, and the server answers the next request."""
    answer = json.loads(await raw(control[0], data))

    assert answer["ok"] is False
    assert answer["error"].startswith("cannot ")
    await asked(control[0], Status())
    assert list(logs.buffer) == []


async def test_the_socket_has_mode_0600(control):
    """Other users cannot connect."""
    assert stat.S_IMODE(control[0].stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_peer_credentials_are_checked(control):
    """Another user who can connect in spite of the mode is refused."""
    path = control[0]
    path.chmod(0o666)
    for directory in path.parents[:2]:
        directory.chmod(directory.stat().st_mode | 0o011)

    def asks():
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(DEADLINE)
            stranger.connect(str(path))
            stranger.sendall(b'{"verb": "status"}\n')
            return stranger.recv(1000).decode()

    answer = await asyncio.to_thread(as_a_stranger, asks)

    assert "cannot serve uid 12345" in json.loads(answer)["error"]


async def test_a_client_that_loses_its_slot_is_told_so(control):
    """Its request may be on its way: without an answer, it would think that the agent has stopped."""
    path, _ = control
    silent = [await asyncio.open_unix_connection(str(path)) for _ in range(CLIENTS)]

    await asked(path, Status())
    answer = json.loads(await silent[0][0].read())
    for _, writer in silent:
        writer.close()

    assert (answer["ok"], answer["code"]) == (False, "busy")


def test_a_refusal_before_the_request_is_understood(short):
    """A busy agent answers and closes the connection without reading; the client still tells the reason."""
    path, closed = short / "control.sock", threading.Event()

    class Late:
        """A request that is sent after the agent has closed the connection."""

        def message(self):
            """Return the request after the connection was closed."""
            closed.wait(DEADLINE)
            return {"verb": "status"}

    def refuse(listener):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b'{"ok": false, "error": "cannot serve more clients", "code": "busy"}\n')
        closed.set()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for way in (ask, ask_until_stopped):
            closed.clear()
            thread = threading.Thread(target=refuse, args=[listener])
            thread.start()
            with pytest.raises(ControlError, match="cannot serve more clients") as refused:
                way(path, Late(), 30)
            thread.join()
            assert refused.value.code == "busy"


async def test_a_stale_socket_is_replaced(short, logs):
    """An agent that was killed leaves its socket behind."""
    path = short / "control.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    server = ControlServer(path, Agent(logs))
    await server.start()
    await asked(path, Status())
    await server.stop()

    assert not path.exists()


async def test_a_file_that_is_not_a_socket_is_not_replaced(tmp_path, logs):
    """A setting may name a file by mistake. The file is kept."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        await ControlServer(precious, Agent(logs)).start()
    assert precious.read_text() == "mine"


async def test_a_long_path_works(tmp_path, logs):
    """The path of the socket may be longer than a socket address."""
    path = tmp_path / ("d" * 120) / "control.sock"
    server = ControlServer(path, Agent(logs))
    await server.start()
    await asked(path, Status())
    await server.stop()


async def test_without_an_agent_the_error_says_what_to_check(tmp_path):
    """The error names the options that select the agent."""
    with pytest.raises(ControlError, match="is it running, with this --config and --state-dir"):
        await asked(tmp_path / "none.sock", Status())


async def test_log_sends_past_lines(control):
    """Without `follow`, the response ends after the last lines."""
    for number in range(5):
        structlog.get_logger("x").info("line", number=number)

    def read():
        return list(follow(control[0], LogLines(lines=2)))

    assert [entry["number"] for entry in await asyncio.to_thread(read)] == [3, 4]


async def test_log_follows(control, logs):
    """Each new line arrives as it is written, until the client disconnects."""
    seen, first = [], threading.Event()

    def read():
        for entry in follow(control[0], LogLines(lines=0, follow=True)):
            seen.append(entry["event"])
            first.set()
            if entry["event"] == "last":
                return

    reading = asyncio.create_task(asyncio.to_thread(read))
    async with asyncio.timeout(DEADLINE):
        await until(lambda: logs.followers)
        structlog.get_logger("x").info("first")
        await asyncio.to_thread(first.wait)
        structlog.get_logger("x").info("last")
        await reading
        await until(lambda: not logs.followers)

    assert seen == ["first", "last"]


async def test_a_slow_follower_is_dropped(control, logs, monkeypatch):
    """At most `QUEUE` entries wait for a client that does not read. Then the client is disconnected with an error."""
    monkeypatch.setattr(log_stream, "QUEUE", 10)
    reader, writer = await asyncio.open_unix_connection(str(control[0]))
    writer.write(b'{"verb": "log", "lines": 0, "follow": true}\n')
    async with asyncio.timeout(DEADLINE):
        await until(lambda: logs.followers)
        for _ in range(20):
            structlog.get_logger("x").info("flood")
        answer = await reader.read()
    writer.close()

    assert not logs.followers
    assert "cannot keep up" in json.loads(answer.splitlines()[-1])["error"]


async def test_stop_disconnects_clients_that_follow_the_log(short, logs):
    """The agent stops although a client follows its log."""
    server = ControlServer(short / "s", Agent(logs))
    await server.start()
    reader, writer = await asyncio.open_unix_connection(str(short / "s"))
    writer.write(b'{"verb": "log", "follow": true}\n')
    async with asyncio.timeout(DEADLINE):
        await until(lambda: logs.followers)
        await server.stop()
        await reader.read()
    writer.close()


@pytest.mark.parametrize("answer", [b"hello\n", b"[1]\n", b"\xff\n", b"[" * 50_000 + b"\n", b"5\n"])
async def test_a_client_reports_an_answer_that_it_does_not_understand(short, answer):
    """Another program may listen there, or an agent of another version."""

    async def serve(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, short / "other.sock"):
        with pytest.raises(ControlError, match="cannot understand the answer at"):
            await asked(short / "other.sock", Status())


LINES = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode()),
    st.dictionaries(
        st.sampled_from(["verb", "identity", "lines", "follow", "x"]),
        st.sampled_from([*requests(), "", "x", None, True, -1, 10**400, 1.5, [], {}, "\ud800"]),
    ).map(lambda value: json.dumps(value).encode()),
)


@given(LINES)
def test_any_line_is_a_request_or_refused_with_a_text_that_can_be_sent(line):
    """No other exception is raised, and the text names no internals."""
    said = ""
    try:
        assert decode_request(line).verb in requests()
    except ControlError as error:
        said = str(error)
        encode(ControlResponse(ok=False, error=said))
    assert said.startswith("cannot ") or not said
    assert "__init__" not in said
    assert "argument after **" not in said
