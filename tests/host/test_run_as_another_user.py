"""Commands of users who are up to no good: where they are run, and what they can hold up."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.agent.host import starting
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.run import run
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources import paths
from holdfast.resources.accounts import account
from holdfast.resources.errors import Permanent, Temporary

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

USER = "daemon"


async def sh(script: str, **options):
    """Run a shell script."""
    return await run(CommandSpec(("/bin/sh", "-c", script), **options), Blocking())


@pytest.fixture(autouse=True)
async def _fork_server():
    """Start the fork server before the test, as for any command but the first: its socket does not count as leaked."""
    await sh("true")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody may pass, with one of root's that nobody else may enter, and one of the user's."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "secret").mkdir(mode=0o700)
        (top / "users").mkdir()
        os.chown(top / "users", account(USER).uid, -1)
        yield top


def link(path: Path, target: Path) -> Path:
    """A link that the user has made."""
    path.symlink_to(target)
    os.chown(path, account(USER).uid, -1, follow_symlinks=False)
    return path


@pytest.mark.parametrize("linked", [True, False])
async def test_directory_that_the_user_cannot_enter(place, linked):
    """It is not entered with root's rights, neither by its own path nor through a link of the user's."""
    cwd = str(link(place / "users/cwd", place / "secret") if linked else place / "secret")

    with pytest.raises(Permanent) as caught:
        await sh("pwd", cwd=cwd, user=USER)

    assert str(caught.value) == f"cannot run /bin/sh: {cwd}: Permission denied"


async def test_home_that_the_user_cannot_enter(place, monkeypatch):
    """The command runs in / instead, as it does where there is no home."""
    home = link(place / "users/home", place / "secret")
    monkeypatch.setattr(starting, "account", lambda name: account(name)._replace(home=str(home)))

    assert (await sh("pwd -P; echo $HOME", user=USER)).stdout.split() == ["/", str(home)]


async def test_home_and_directory_of_the_user(place, monkeypatch):
    """They are entered as ever, closed to others or not, and umask, group and input are as told."""
    (place / "users").chmod(0o700)
    monkeypatch.setattr(starting, "account", lambda name: account(name)._replace(home=str(place / "users")))

    done = await sh("pwd; umask; id -gn; cat", user=USER, group="bin", umask=0o027, stdin="fed\n")

    assert done.stdout.splitlines() == [str(place / "users"), "0027", "bin", "fed"]
    assert (await sh("pwd", user=USER, cwd=str(place / "users"))).stdout.strip() == str(place / "users")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            CommandSpec(("no-such-command-here",)),
            "cannot run no-such-command-here: No such file or directory; is it installed?",
        ),
        (CommandSpec(("true",), cwd="/no/such/dir"), "cannot run true: /no/such/dir: No such file or directory"),
        (CommandSpec(("true",), cwd="/a\0b"), "cannot run true: embedded null byte"),
        (CommandSpec(("/etc/passwd",)), "cannot run /etc/passwd: Permission denied"),
        (CommandSpec(("passwd",), env={"PATH": "/nowhere:/etc:/nowhere"}), "cannot run passwd: Permission denied"),
        (CommandSpec(("true", "a\0b")), "cannot run true: embedded null byte"),
        (CommandSpec(("true", "x" * (1 << 18))), "cannot run true: Argument list too long"),
    ],
)
async def test_what_cannot_be_started_says_why(command, told):
    """The same line as for a command of root's; no descriptor is left."""
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(Permanent) as caught:
        await run(replace(command, user=USER), Blocking())

    assert str(caught.value) == told
    assert sorted(Path("/proc/self/fd").iterdir()) == before


async def test_programs_are_looked_for_in_path(place):
    """Also where the first directories of PATH do not have it, and in the directory that it runs in."""
    tool = place / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    env = {"PATH": "/nowhere::/usr/bin"}

    assert (await run(CommandSpec(("tool",), cwd=str(place), env=env, user=USER), Blocking())).stdout == "mine\n"


async def test_nothing_of_the_agent_is_inherited():
    """No descriptor but the three, and no group of root's."""
    descriptor = os.open("/etc/shadow", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        done = await sh("ls /proc/self/fd; id -G", user=USER)
    finally:
        os.close(descriptor)
    assert done.stdout.split() == [
        "0",
        "1",
        "2",
        "3",
        *(str(gid) for gid in account(USER).groups),
    ]  # 3: that of ls itself


class Held:
    """A program of the user's that cannot be executed: the user holds a lease on it, and does not give that up.

    A file system of the user's own, which never answers, does the same.
    """

    def __init__(self, path: Path) -> None:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        self.asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGIO, self.asked.set)
        self._file = path.open("rb+")
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def close(self) -> None:
        """Give it up."""
        self._file.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)


@pytest.fixture
async def held(place):
    """One of those."""
    found = Held(place / "users/held")
    yield found
    found.close()


async def test_user_who_holds_up_the_start_holds_up_nothing_else(place, held):
    """The event loop goes on, and the time that the command has is kept."""
    task = asyncio.create_task(run(CommandSpec((str(place / "users/held"),), user=USER, timeout=0.5), Blocking()))
    await held.asked.wait()

    with pytest.raises(Temporary, match=r"still ran after 0.5 s and was killed"):
        await task


async def test_signal_to_a_command_that_has_not_started_is_none_to_the_agent(place, held):
    """Its user may signal it as soon as it runs as that user; it has none of the agent's handlers and descriptors."""
    told, pid, loop = asyncio.Event(), asyncio.Future(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    try:
        task = asyncio.create_task(
            run(CommandSpec((str(place / "users/held"),), user=USER, timeout=0.5, on_start=pid.set_result), Blocking())
        )
        await held.asked.wait()
        os.kill(await pid, signal.SIGTERM)
        with pytest.raises(Permanent, match="was killed by SIGTERM"):
            await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

    assert not told.is_set()


async def test_root_is_not_led_elsewhere_by_a_link(place):
    """A command of root's is not run where a user's link leads, unless all behind it is that user's."""
    cwd = link(place / "users/cwd", place / "secret")
    with pytest.raises(
        paths.Unsafe, match=f"cannot follow {cwd}, which belongs to user {USER} and leads to {place / 'secret'}"
    ):
        await sh("pwd", cwd=str(cwd))

    (place / "users/own").mkdir()
    os.chown(place / "users/own", account(USER).uid, -1)
    own = link(place / "users/link", place / "users/own")
    assert (await sh("pwd -P", cwd=str(own))).stdout.strip() == str(place / "users/own")


async def test_root_enters_what_was_looked_at(place, monkeypatch):
    """A user who exchanges a directory after the look does not have root run a command elsewhere."""
    cwd = place / "users/cwd"
    cwd.mkdir()

    def exchanged(path):
        found = paths.walk.directory(path)
        cwd.rename(place / "users/old")
        cwd.symlink_to(place / "secret")
        return found

    monkeypatch.setattr(paths, "directory", exchanged)

    assert (await sh("pwd -P", cwd=str(cwd))).stdout.strip() == str(place / "users/old")


async def test_home_of_root_that_a_user_leads_elsewhere(place, monkeypatch):
    """Without a directory given, the command runs in / then."""
    monkeypatch.setenv("HOME", str(link(place / "users/home", place / "secret")))
    assert (await sh("pwd -P")).stdout.strip() == "/"
