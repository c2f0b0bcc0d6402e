"""Commands of states, which really run."""

from __future__ import annotations

import os
import time

import pytest
from pydantic import ValidationError

from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.traits import Refreshable


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    (tmp_path / "states").mkdir()
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host


async def run(host: LocalHost, kind: str, name: str, **arguments):
    """Return the context of one run that did something."""
    ctx = host.context(f"{kind}[x]")
    assert await registry.find(kind).declare(name, **arguments).check_apply(ctx, True) is False
    return ctx


async def test_what_it_did_is_reported_and_published(host, tmp_path):
    """Output, status and process id are changes and values for receivers; shell, cwd and env are as declared."""
    ctx = await run(host, "cmd.run", 'echo "$A-$B"; pwd; echo bad >&2', cwd=str(tmp_path), env=[{"A": 1}, "B=2"])

    changes = ctx.report.changes
    assert (changes["stdout"], changes["stderr"], changes["retcode"]) == (f"1-2\n{tmp_path}", "bad", 0)
    assert changes["pid"] > 1
    assert ctx.report.sent["stdout"] == changes["stdout"]


async def test_flood_is_cut_with_a_note(host):
    """Output beyond the limit is dropped, and the report says so."""
    ctx = await run(host, "cmd.run", "head -c 2000000 /dev/zero | tr '\\0' x")
    assert ctx.report.changes["stdout"].endswith("\n[output cut]")
    assert len(ctx.report.changes["stdout"]) < (1 << 20) + 20


async def test_timeout(host):
    """A command that does not end is killed; the failure is temporary."""
    began = time.monotonic()
    with pytest.raises(Temporary, match=r"^'sleep 99' exceeded its timeout of 0\.2 s and was killed$"):
        await run(host, "cmd.run", "sleep 99", timeout=0.2)
    assert time.monotonic() - began < DEADLINE


async def test_stop_signal_comes_first(host, tmp_path):
    """A command that cleans up on SIGINT has time for this."""
    script = f"trap 'echo asked >{tmp_path}/told; exit' INT; while :; do sleep 0.01; done"
    with pytest.raises(Temporary, match="was killed"):
        await run(host, "cmd.run", script, timeout=0.3, stop_signal="SIGINT")
    assert (tmp_path / "told").read_text() == "asked\n"


@pytest.mark.parametrize(
    ("written", "name"), [("INT", "INT"), ("sigint", "INT"), (2, "INT"), ("15", "TERM"), ("KILL", "KILL")]
)
def test_signals_are_named_in_several_ways(written, name):
    """A signal may be written with or without SIG, in capital or small letters, or as a number."""
    assert registry.find("cmd.run").declare("true", stop_signal=written).stop_signal == name


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("SIGTREM", "'SIGTREM' is not a signal: did you mean TERM?"),
        ("interrupt", "'interrupt' is not a signal: write a name such as INT, TERM or QUIT"),
        (99, "99 is not a signal: write a name such as INT, TERM or QUIT"),
        (True, "True is not a signal"),
        ("STOP", "'STOP' does not end a command; write a signal such as INT, TERM or QUIT"),
    ],
)
def test_wrong_signals_are_refused_with_a_hint(written, told):
    """Wrong signals are refused before anything runs."""
    with pytest.raises(ValidationError) as caught:
        registry.find("cmd.run").declare("true", stop_signal=written)
    assert told in str(caught.value)


async def test_command_that_is_timed_out_is_named_by_its_beginning(host):
    """The error shows neither the shell nor the whole of a long script."""
    with pytest.raises(Temporary, match=r"^'sleep 99; : x{67}…' exceeded its timeout"):
        await run(host, "cmd.run", f"sleep 99; : {'x' * 500}", timeout=0.1)


async def test_prepend_path_umask_and_no_shell(host, tmp_path):
    """PATH is prepended; the umask holds; without a shell the command is words only."""
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    assert (await run(host, "cmd.run", "tool", prepend_path=str(tmp_path))).report.changes["stdout"] == "mine"
    assert (await run(host, "cmd.run", "umask", umask="077")).report.changes["stdout"] == "0077"
    assert (await run(host, "cmd.run", "echo '$HOME' \"a b\"", python_shell=False)).report.changes[
        "stdout"
    ] == "$HOME a b"


async def test_refresh_runs_it_again_and_wait_only_then(host):
    """cmd.run and cmd.wait run when what they watch has changed; in a plan they say so."""
    for kind in ("cmd.run", "cmd.wait"):
        resource, ctx = registry.find(kind).declare("echo refreshed"), host.context("x")
        assert isinstance(resource, Refreshable)
        assert await resource.refresh(ctx, False) is False
        assert ctx.report.changes == {"cmd": "echo refreshed"}
        assert await resource.refresh(ctx, True) is False
        assert ctx.report.changes["stdout"] == "refreshed"
    assert registry.find("cmd.run").declare("x").action()
    assert not registry.find("cmd.wait").declare("x").action()


@pytest.mark.parametrize(
    "verdict", ['{"changed": true, "comment": "did it", "rows": 3}', "changed=yes comment='did it' rows=3"]
)
async def test_stateful(host, verdict):
    """The last line of a stateful command's output is its own report."""
    ctx = await run(host, "cmd.run", f"echo working; echo {__import__('shlex').quote(verdict)}", stateful=True)
    assert ctx.report.comment == "did it"
    assert str(ctx.report.changes["rows"]) == "3"


async def test_stateful_without_a_verdict(host):
    """A stateful command that says nothing fails."""
    with pytest.raises(Permanent, match="is stateful, but"):
        await run(host, "cmd.run", "echo done", stateful=True)


async def test_script(host, tmp_path):
    """A script runs with the interpreter of its first line, and with its arguments; it leaves no file."""
    (tmp_path / "states" / "s.py").write_text("#!/usr/bin/env python3\nimport sys; print(sys.argv[1:])\n")
    (tmp_path / "states" / "s.sh").write_text("echo {{ word }} $1\n")

    assert (await run(host, "cmd.script", "salt://s.py", args="--to 'a b'")).report.changes[
        "stdout"
    ] == "['--to', 'a b']"
    ctx = await run(
        host, "cmd.script", "named", source="salt://s.sh", args="1", template="jinja", context={"word": "hi"}
    )
    assert ctx.report.changes["stdout"] == "hi 1"
    assert (await run(host, "cmd.script", "salt://s.py inline")).report.changes["stdout"] == "['inline']"
    assert (await run(host, "cmd.script", "salt://s.py")).report.changes["stdout"] == "[]"
    assert list(ctx.var_dir.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_as_another_user(host, tmp_path):
    """Commands and scripts may run as another user."""
    (tmp_path / "states" / "who").write_text("id -un\n")
    assert (await run(host, "cmd.run", "id -un; pwd", runas="daemon", cwd="/")).report.changes["stdout"] == "daemon\n/"
    assert (await run(host, "cmd.script", "salt://who", runas="daemon", cwd="/")).report.changes["stdout"] == "daemon"


def test_wrong_arguments_are_told_together():
    """One error has all mistakes of a state."""
    with pytest.raises(ValidationError) as caught:
        registry.find("cmd.run").declare("x", umask="9", env=[1], timeout=-1, nonsense=1)
    assert {error["loc"][0] for error in caught.value.errors()} == {"umask", "env", "timeout", "nonsense"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_script_of_another_user_is_closed_to_others(host, tmp_path):
    """The script may contain a password from the pillar, so only its user can read it."""
    (tmp_path / "states" / "mode").write_text("stat -c '%a %U' \"$0\"\n")
    assert (await run(host, "cmd.script", "salt://mode", runas="daemon")).report.changes["stdout"] == "500 daemon"
    assert (await run(host, "cmd.script", "salt://mode")).report.changes["stdout"] == "500 root"


async def test_script_may_remove_itself(host, tmp_path):
    """The state succeeds although the script has removed itself."""
    (tmp_path / "states" / "s").write_text('rm "$0"; echo gone\n')
    assert (await run(host, "cmd.script", "salt://s")).report.changes["stdout"] == "gone"


async def test_script_of_nobody(host, tmp_path):
    """The error says that the user does not exist."""
    (tmp_path / "states" / "s").write_text("true\n")
    with pytest.raises(Permanent, match=r"as no-such-user: there is no such user"):
        await run(host, "cmd.script", "salt://s", runas="no-such-user")
