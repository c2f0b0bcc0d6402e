"""Scripts that users could write, read or exchange."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import _commands

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

UID = 12345


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    (tmp_path / "states").mkdir()
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host


@pytest.fixture
def script(tmp_path) -> str:
    """A script in a user's directory."""
    path = tmp_path / "users/s"
    path.parent.mkdir()
    path.write_text("echo ran {{ word }}\n")
    for each in (path.parent, path):
        os.chown(each, UID, -1)
    return str(path)


async def run(host: LocalHost, name: str, **arguments) -> str:
    """Return the output of a script."""
    ctx = host.context("cmd.script[x]")
    await registry.find("cmd.script").declare(name, **arguments).check_apply(ctx, True)
    return str(ctx.report.changes["stdout"])


async def test_script_of_a_user_is_not_run_by_root(host, script):
    """The user who owns the script would become root. The script may run as another user."""
    for runas in (None, "root"):
        with pytest.raises(Permanent, match="it belongs to uid 12345"):
            await run(host, script, runas=runas)
    assert await run(host, script, runas="daemon") == "ran {{ word }}"


async def test_template_of_a_user_is_not_rendered(host, script):
    """The template would be rendered with root's rights, whichever user runs the result."""
    with pytest.raises(Permanent, match="it belongs to uid 12345"):
        await run(host, script, runas="daemon", template="jinja", context={"word": "hi"})


async def test_script_is_given_away_when_it_is_complete(monkeypatch, tmp_path):
    """Until then, the script belongs to root. Any error leaves no file."""
    seen = []

    def fchown(descriptor, uid, gid):
        seen.append((Path(f"/proc/self/fd/{descriptor}").read_text(), os.fstat(descriptor).st_uid, uid))
        raise KeyboardInterrupt

    monkeypatch.setattr(_commands.os, "fchown", fchown)
    with pytest.raises(KeyboardInterrupt):
        _commands.written(b"echo", str(tmp_path), UID)

    assert seen == [("echo", 0, UID)]
    assert list(tmp_path.iterdir()) == []


async def test_script_is_not_written_where_another_could_exchange_it(tmp_path):
    """In a /tmp without its sticky bit, any user could exchange the script."""
    tmp_path.chmod(0o777)
    with pytest.raises(
        Permanent, match=f"cannot trust {tmp_path}/holdfast-script-[0-9a-f]*: {tmp_path}: anyone may write it"
    ):
        _commands.written(b"echo", str(tmp_path), UID)
    assert list(tmp_path.iterdir()) == []


async def test_what_a_user_puts_in_place_of_a_script_does_no_harm(host, tmp_path):
    """A directory that the user has put there stays, and the result of the state is that of the script."""
    (tmp_path / "states/s").write_text('rm "$0"; mkdir "$0"; echo "$0"\n')
    left = Path(await run(host, "salt://s", runas="daemon"))

    assert left.parent == Path("/tmp")
    left.rmdir()
