"""`holdfast call` with a running agent and without one: order, records, callers that end, many calls at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.agent_calls import MOST, REMAINS, AgentCalls
from holdfast.agent.cli.calling import answer
from holdfast.agent.cli.options import ConfigurationSource
from holdfast.agent.control.connection import Peer
from holdfast.agent.control.schema import ControlError, encode
from holdfast.agent.function_calls import CallRequest
from holdfast.agent.verbs.call import CallFunction
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.secrets import MASK
from holdfast_process import COMMAND, Agent, Tree, environment, holdfast
from strangers import as_a_stranger, open_directory
from things_interface import with_things

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root calls functions")


@pytest.fixture(autouse=True)
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the providers that verbs in this process have registered, so that they serve only this test."""
    monkeypatch.setattr(Provider, "registered", [*Provider.registered])


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a configuration with an interface, a provider and a kind of its own."""
    return with_things(tmp_path)


@contextlib.contextmanager
def calling(tree: Tree, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that makes a call; end it at the end."""
    command = [*COMMAND, "call", *words, "--config", str(tree.config)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def wait(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.01)


def began(tree: Tree) -> list[str]:
    """Return the things that calls have begun to write."""
    path = tree.host / "began"
    return path.read_text().split() if path.exists() else []


@pytest.fixture(params=[True, False], ids=["agent", "alone"])
def either(request: pytest.FixtureRequest, tree: Tree) -> Iterator[Tree]:
    """Yield the configuration with a running agent, and without one."""
    with Agent(tree) if request.param else contextlib.nullcontext():
        yield tree


def test_a_call_prints_its_result(either: Tree) -> None:
    """The result is text or JSON; arguments are words or JSON on standard input.

    One call runs in a process of its own.
    """
    assert either("call", "zthings.write", "a", "value=new", check=0).stdout == "a: none -> new\n"
    assert either("call", "zthings.read", "a", check=0).stdout == "a: new\n"
    assert either.json("call", "zthings.read", "-", input='{"name": "a"}') == {"a": "new"}
    assert either("call", "zthings.write", "a", "x", "--test", check=0).stdout == "would change a: none -> x\n"
    assert (either.host / "a").read_text() == "new"
    assert holdfast("call", "zthings.read", "b", "--config", either.config, check=0).stdout == "b: none\n"


def test_secrets_in_results_are_masked(either: Tree) -> None:
    """Masked are fields that are marked as secret or named like one, also in results of a provider's own functions.

    Names of things do not count as names of fields: a package may be called `passwd`.
    """
    (either.host / "tokens").write_text("plain")
    shown = {"key": MASK, "extra": {"password": MASK, "colour": "red"}}
    assert either.json("call", "zthings.look", "passwd", "tokens") == {"passwd": [shown], "tokens": [shown]}
    assert either.json("call", "zthings.read", "tokens") == {"tokens": "plain"}
    assert either.json("call", "zthings.write", "passwd", "x")["changes"] == {"passwd": {"old": None, "new": "x"}}
    assert either.json("call", "zthings.told") == {"password": MASK}


def test_what_the_table_says_decides_the_answer(either: Tree) -> None:
    """The answer has the word of the table and the reason, and the verb has an exit code."""
    for function, code, said in (
        ("zthings.lacking", 1, "cannot call zthings.lacking: it is not implemented by ztool"),
        ("zthings.foreign", 1, "it is not supported by ztool: kernel is Linux, only Plan9 can have it"),
        ("zthings.wrong", 1, "its result is not what the interface promises"),
        ("zthings.reed", 64, "there is no such function; did you mean read?"),
        ("zthing.read", 64, "did you mean zthings?"),
        ("zthings.describe", 64, "there is no such function"),
        ("zthings._private", 64, "there is no such function"),
        ("zthings", 64, "write MODULE.FUNCTION"),
        ("pkg.version", 64, "only states and templates use this name of Salt's; call pkg.list_installed"),
        ("shadow.set_password", 64, "only states and templates use this name of Salt's; call user.set_password"),
        ("test.ping", 64, "cannot bind test: no provider serves such an interface; available: gem, group, "),
        ("zthings.read", 64, "it needs 'name'"),
        ("zthings.leave", 1, "internal error in zthings.leave: SystemExit: 3"),
        ("zthings.endless", 1, "internal error in zthings.endless: RecursionError: "),
        ("zthings.strange x", 1, "internal error in zthings.strange: NameError: name 'Unknown' is not defined"),
        ("ztool1.all names=-x", 64, "cannot call ztool1.all: '-x' begins with '-', so that ztool1 would read it as"),
        ("ztool1.bad", 1, "cannot use ztool1.bad: its result is not what the interface promises"),
        ("user.add no-such-user colour=red", 64, "there is no field colour; the fields are "),
        ("user.add no-such-user uid=one", 64, "cannot add user no-such-user: the uid must be a number, not 'one'"),
        ("user.add no-such-user groups=a,b", 64, "the groups must be a list of names, not 'a,b'"),
        ("user.add no:user", 64, "cannot add user no:user: invalid user name"),
    ):
        done = either("call", *function.split(), check=code)
        assert said in done.stderr
        assert done.stdout == ""
    assert either("call", "zthings.idle", check=0).stdout == "nothing was changed\n"
    assert either("call", "zthings.own", check=0).stdout == "mine\n"
    assert either("call", "zthings.put", "old", "name", check=0).stdout == "old: none -> name\n"
    assert (
        "it has no parameter 'test', and would change something"
        in either("call", "zthings.stir", "--test", check=64).stderr
    )
    assert "it changes nothing" in either("call", "zthings.own", "--test", check=64).stderr
    assert "it changes nothing" in either("call", "zthings.read", "a", "--test", check=64).stderr
    answer = json.loads(either("call", "zthings.foreign", "--format", "json", check=1).stdout)
    assert answer["code"] == "missing"
    assert answer["state"] == "not supported"
    assert answer["provider"] == "ztool"
    assert "not JSON" in either("call", "zthings.read", "-", input="{", check=64).stderr
    assert "must be a JSON mapping" in either("call", "zthings.read", "-", input="[]", check=64).stderr


def test_the_tool_is_the_module_of_an_interface_that_callers_choose(either: Tree) -> None:
    """For example, `pip` is a tool for language packages. The interface itself cannot be called."""
    assert either("call", "ztool1.all", "a", "b", check=0).stdout == "a\nb\n"
    assert either("call", "ztool1.all", check=0).stdout == "nothing\n"
    assert "cannot bind znamed without a tool: write ztool1" in either("call", "znamed.all", check=64).stderr
    said = either("describe", "zthings", check=0).stdout
    assert (
        "provider ztool: of those that fit it has the highest priority, 0\nnot zspare: it fits, with priority -1\n"
        in said
    )
    assert "provider ztool1: callers choose it by its name\n" in either("describe", "ztool1", check=0).stdout
    assert (
        "\nztool1   a tool of the interface znamed, which callers choose by its name\n"
        in either("describe", check=0).stdout
    )


def test_arguments_must_be_utf_8(either: Tree) -> None:
    """Arguments are sent as JSON, which needs UTF-8."""
    assert (
        r"'\udcff' is not UTF-8"
        in either("call", "zthings.read", b"\xff".decode(errors="surrogateescape"), check=64).stderr
    )


def test_a_secret_argument_appears_nowhere(tree: Tree) -> None:
    """It appears neither in the error nor in the log, even within a mapping whose key names it."""
    with Agent(tree) as agent:
        given = {"value": "swordfish", "options": {"api_key": "swordtail", "colour": "red"}}
        done = tree("call", "zthings.hide", "a", "-", input=json.dumps(given), check=1)
        agent.wait_log("called zthings.hide")

        assert f"the tool said {MASK}, {{'api_key': '{MASK}', 'colour': 'red'}}" in done.stderr
        shown = f'value={MASK} options={{"api_key": "{MASK}", "colour": "red"}} name=a'
        assert f"called zthings.hide {shown} (by uid 0 (root), process " in agent.log
        assert "swordfish" not in agent.log + done.stderr
        assert "swordtail" not in agent.log + done.stderr


def test_a_call_waits_for_the_run_of_the_resource(tree: Tree) -> None:
    """Log and history of the resource record the call with its caller. The resource then repairs its thing."""
    (tree.host / "apply").unlink()
    (tree.host / "a").write_text("right")
    tree.sls("a", "a:\n  zthing.present: []\n")
    with Agent(tree) as agent:
        (tree.host / "a").write_text("drifted")
        agent.wait((tree.host / "applying").exists, "the repair")
        with (
            calling(tree, "zthings.write", "a", "called") as process,
            calling(tree, "zthings.write", "b", "x") as other,
        ):
            assert other.wait(DEADLINE) == 0
            assert began(tree) == ["b"]
            (tree.host / "apply").touch()
            out, err = process.communicate(timeout=DEADLINE)
        assert out == "a: none -> called\n"
        assert "managed by zthing.present[a]: the agent restores what is declared" in err
        agent.wait(lambda: (tree.host / "a").read_text() == "right", "the repair after the call")
        line = next(line for line in tree("log").stdout.splitlines() if "called zthings.write name=a" in line)
        assert f"by uid 0 (root), process {process.pid} (" in line
        assert line.endswith("changed a")
        history = tree.json("why", "a")["history"]

    called = next(entry for entry in history if entry["what"] == "called")
    assert called["comment"].startswith("zthings.write name=a value=called (by uid 0 (root), process ")


def test_a_call_that_concerns_no_resource_is_in_the_history(tree: Tree) -> None:
    """The history has the caller and the name of the changed thing. Calls with `--test`, and queries, are not in it."""
    with Agent(tree) as agent:
        tree("call", "zthings.write", "a", "new", "--test", check=0)
        tree("call", "zthings.read", "a", check=0)
        tree("call", "zthings.write", "a", "new", check=0)
        agent.wait(lambda: "called" in tree("history").stdout, "the record of the call")
        told = tree("history", check=0).stdout
        assert told.count("called") == 1
        assert "called zthings.write name=a value=new: changed a\n" in told
        assert f", pid {os.getpid()}, user root\n" in told
        assert "called zthings.write" in tree("history", "--resource", "zthings[a]", check=0).stdout
        assert "called" not in tree("history", "--resource", "zthings[b]", check=0).stdout
        assert "called zthings.write test=true name=a value=new" not in agent.log
        assert "name=a value=new test=true (by uid 0 (root), process " in agent.log
        assert "): would change a\n" in agent.log


def test_a_resource_waits_for_the_end_of_a_call(tree: Tree) -> None:
    """Other resources do not wait."""
    tree.sls("a", "a:\n  zthing.present: []\nb:\n  zthing.present: []\n")
    with Agent(tree) as agent:
        (tree.host / "go").unlink()
        with calling(tree, "zthings.write", "a", "called") as process:
            agent.wait(lambda: began(tree) == ["a"], "the call")
            for name in ("a", "b"):
                (tree.host / name).write_text("drifted")
            agent.wait(lambda: (tree.host / "b").read_text() == "right", "the repair of b")
            assert [wait["code"] for wait in tree.json("why", "a")["waits"]] == ["call"]
            assert (tree.host / "a").read_text() == "drifted"
            (tree.host / "go").touch()
            assert process.wait(DEADLINE) == 0
        agent.wait(lambda: (tree.host / "a").read_text() == "right", "the repair of a")


def test_a_function_that_only_the_provider_has_waits_for_all_things_of_its_kind(tree: Tree) -> None:
    """Such a function may change anything, because no interface says what it does."""
    (tree.host / "go").unlink()
    with Agent(tree) as agent:
        with calling(tree, "zthings.write", "a", "x") as first:
            agent.wait(lambda: began(tree) == ["a"], "the first call")
            assert tree("call", "zthings.own", check=0).stdout == "mine\n"
            tree("call", "zthings.stir", "--timeout", "0.5", check=4)
            assert began(tree) == ["a"]
            (tree.host / "go").touch()
            assert first.wait(DEADLINE) == 0
        assert tree("call", "zthings.stir", check=0).stdout == "stirred\n"
        assert began(tree) == ["a", "all"]


def test_a_change_continues_when_its_caller_is_killed(tree: Tree) -> None:
    """A call that only waits for its turn ends with its caller."""
    (tree.host / "go").unlink()
    with Agent(tree) as agent:
        with calling(tree, "zthings.write", "a", "first") as first:
            agent.wait(lambda: began(tree) == ["a"], "the first call")
            with socket.socket(socket.AF_UNIX) as second:
                second.connect(str(ConfigurationSource(tree.config).socket()))
                second.sendall(encode(CallFunction("zthings.write", ["a", "second"]).message()))
            first.kill()
        agent.wait_log("value=second (by uid 0 (root), process ")
        agent.wait_log("zthings.write was interrupted")
        (tree.host / "go").touch()
        agent.wait_log("called zthings.write name=a value=first")

        assert "value=first (by uid 0 (root), process " in agent.log
        assert (tree.host / "a").read_text() == "first"
        assert began(tree) == ["a"]


@pytest.mark.parametrize("way", ["Ctrl-C", "--timeout"])
def test_a_call_can_be_ended(either: Tree, way: str) -> None:
    """Ctrl-C or the timeout ends a call, also in the middle of a change. The next call starts at once."""
    (either.host / "go").unlink()
    options = ["--timeout", "1"] if way == "--timeout" else []
    with calling(either, "zthings.write", "a", "x", *options) as process:
        wait(lambda: began(either) == ["a"], "the call")
        if way == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == (130 if way == "Ctrl-C" else 4)
    if way == "--timeout":
        assert "zthings.write did not end within 1 s" in err
    (either.host / "go").touch()
    assert not (either.host / "a").exists()
    either("call", "zthings.write", "a", "y", check=0)


@pytest.mark.parametrize("way", ["Ctrl-C", "--timeout"])
def test_a_change_in_a_thread_keeps_its_turn_after_its_call(tree: Tree, way: str) -> None:
    """The caller gets the answer at once. Other calls for the same thing wait until the thread has ended."""
    (tree.host / "go").unlink()
    options = ["--timeout", "1"] if way == "--timeout" else []
    with Agent(tree) as agent:
        with calling(tree, "zthings.block", "a", *options) as process:
            wait(lambda: began(tree) == ["a"], "the call")
            if way == "Ctrl-C":
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == (130 if way == "Ctrl-C" else 4)
        said = agent.log if way == "Ctrl-C" else err
        assert REMAINS in said
        with calling(tree, "zthings.write", "a", "later") as later:
            tree("call", "zthings.write", "b", "x", "--test", check=0)
            tree("call", "zthings.write", "a", "x", "--timeout", "0.5", check=4)
            assert began(tree) == ["a"]
            (tree.host / "go").touch()
            assert later.wait(DEADLINE) == 0
        assert (tree.host / "a").read_text() == "later"
        assert "the change of zthings.block name=a has ended, " in agent.log


def test_a_blocked_change_does_not_keep_the_agent_from_stopping(tree: Tree) -> None:
    """The agent waits for the change for `stop_timeout`, reports that it is interrupted, and ends."""
    tree.settings("resources: resources\nengine:\n  stop_timeout: 0.5\n")
    (tree.host / "go").unlink()
    with Agent(tree) as agent:
        tree("call", "zthings.block", "a", "--timeout", "0.5", check=4)
        agent.signal(signal.SIGTERM)
        assert agent.process.wait(DEADLINE) == 0
        assert "the change of zthings.block name=a is interrupted: the agent stops" in agent.log
    assert not (tree.host / "a").exists()


def test_a_change_in_a_thread_ends_with_a_process_of_its_own(tree: Tree) -> None:
    """Without an agent, the caller gets the message that the change was interrupted, and the lock is free again."""
    (tree.host / "go").unlink()
    with calling(tree, "zthings.block", "a", "--timeout", "0.5") as process:
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 4
    assert "zthings.block did not end within 0.5 s; its change was interrupted" in err
    (tree.host / "go").touch()
    assert not (tree.host / "a").exists()
    tree("call", "zthings.write", "a", "x", check=0)


def test_200_calls_at_once_all_have_their_turn(tree: Tree) -> None:
    """Meanwhile, other requests are answered: calls do not use all connections of the control socket."""
    program = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from holdfast.agent.cli.calling import answer\n"
        "from holdfast.agent.cli.options import ConfigurationSource\n"
        "from holdfast.agent.verbs.call import CallFunction\n"
        "source = ConfigurationSource(Path(sys.argv[1]))\n"
        "found = []\n"
        "def call(number):\n"
        "    request = CallFunction('zthings.write', ['a', str(number)])\n"
        "    found.append(answer(source, request, None, None))\n"
        "threads = [threading.Thread(target=call, args=[number]) for number in range(200)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(sum(each.get('result', {}).get('changes', {}).keys() == {'a'} for each in found))\n"
    )
    (tree.host / "go").unlink()
    with Agent(tree) as agent:
        command = [COMMAND[0], "-c", program, str(tree.config)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            agent.wait(lambda: began(tree), "the first call")
            agent.wait(lambda: tree("status").returncode == 0, "an answer to `status`")
            assert began(tree) == ["a"]
            (tree.host / "go").touch()
            out, _ = process.communicate(timeout=3 * DEADLINE)
        assert out == "200\n"
        assert len(began(tree)) == 200
        assert MOST < 200


def test_calls_without_an_agent_exclude_each_other(tree: Tree) -> None:
    """A change waits for the lock of the state directory, and names the process that holds it.

    A query does not wait.
    """
    (tree.host / "go").unlink()
    with calling(tree, "zthings.write", "a", "x") as first:
        wait(lambda: began(tree) == ["a"], "the first call")
        with calling(tree, "zthings.write", "b", "y") as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            tree("call", "zthings.read", "a", check=0)
            assert f"waiting: cannot make a call that changes something: process {first.pid} holds" in said
            assert began(tree) == ["a"]
            late = tree("call", "zthings.write", "c", "z", "--timeout", "0.5", check=4)
            (tree.host / "go").touch()
            assert (first.wait(DEADLINE), second.wait(DEADLINE)) == (0, 0)
    assert f"process {first.pid} holds" in late.stderr
    assert began(tree) == ["a", "b"]


def test_the_agent_lets_calls_end_before_it_stops(tree: Tree) -> None:
    """A change is not interrupted. The caller gets the message that the agent has stopped."""
    (tree.host / "go").unlink()
    with Agent(tree) as agent, calling(tree, "zthings.write", "a", "x") as process:
        agent.wait(lambda: began(tree) == ["a"], "the call")
        agent.signal(signal.SIGTERM)
        agent.wait_log("stopping")
        _, err = process.communicate(timeout=DEADLINE)
        (tree.host / "go").touch()
        assert agent.process.wait(DEADLINE) == 0
        assert "has stopped" in err
        assert process.returncode == 69
        assert (tree.host / "a").read_text() == "x"


def test_only_root_calls() -> None:
    """Other users are refused, by the agent (even if they can reach its socket) and without one."""
    with open_directory() as top:
        tree = with_things(top)
        (top / "state").mkdir(mode=0o711)
        source, request = ConfigurationSource(tree.config), CallFunction("zthings.read", ["a"])

        def called() -> object:
            return answer(source, request, None, request.here)

        assert "result" in called()  # imports modules that other users may not be able to read
        assert as_a_stranger(called, ControlError) == (
            "not-permitted: cannot call functions without a running agent: only root may"
        )
        with Agent(tree):
            assert "not-permitted: cannot ask the agent" in as_a_stranger(called, ControlError)
            source.socket().chmod(0o666)
            assert as_a_stranger(called, ControlError).startswith("not-permitted: cannot serve uid 12345: only root")


async def test_only_root_calls_whatever_the_socket() -> None:
    """Even a socket that other users may use refuses calls."""
    calls: Any = AgentCalls(None, None, None)  # type: ignore[arg-type]
    stranger: Any = SimpleNamespace(peer=Peer(pid=7, uid=12345))
    with pytest.raises(ControlError, match="only root may") as refused:
        await calls.serve(CallRequest("zthings.read"), stranger)

    assert refused.value.code == "not-permitted"


def test_the_caller_of_a_deprecated_call_is_the_command_line(tree: Tree) -> None:
    """The caller is not the line of source code that makes the call."""
    (tree.host / "go").touch()
    done = holdfast("call", "zthings.put", "a", "x", "--config", tree.config, check=0)
    assert "deprecated call" in done.stderr
    assert "caller=holdfast call\n" in done.stderr


def test_deprecated_calls_are_counted(tree: Tree) -> None:
    """Calls are counted by module and function since the start of the agent."""
    with Agent(tree):
        for _ in range(2):
            tree("call", "zthings.put", "a", "x", check=0)
        tree("call", "zthings.own", check=0)
        text = tree("metrics").stdout

    assert '\nholdfast_deprecated_calls_total{module="zthings",function="put"} 2\n' in text
    assert '\nholdfast_deprecated_calls_total{module="zthings",function="own"} 1\n' in text
