"""Commands of hostile users run only in permitted directories, and delay nothing else."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
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
    """Start the fork server before the test, so that its socket does not count as a leaked descriptor."""
    await sh("true")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a public directory that contains a private directory of root and a directory of the user."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "secret").mkdir(mode=0o700)
        (top / "users").mkdir()
        os.chown(top / "users", account(USER).uid, -1)
        yield top


def link(path: Path, target: Path) -> Path:
    """Create a link that belongs to the user."""
    path.symlink_to(target)
    os.chown(path, account(USER).uid, -1, follow_symlinks=False)
    return path


@pytest.mark.parametrize("linked", [True, False])
async def test_a_directory_that_the_user_cannot_enter(place, linked):
    """The command does not enter it with root's rights, neither by its own path nor through a link of the user."""
    cwd = str(link(place / "users/cwd", place / "secret") if linked else place / "secret")

    with pytest.raises(Permanent) as caught:
        await sh("pwd", cwd=cwd, user=USER)

    assert str(caught.value) == f"cannot run /bin/sh: {cwd}: Permission denied"


async def test_a_home_that_the_user_cannot_enter(place, monkeypatch):
    """The command runs in / instead, as for a user without a home."""
    home = link(place / "users/home", place / "secret")
    monkeypatch.setattr(starting, "account", lambda name: account(name)._replace(home=str(home)))

    assert (await sh("pwd -P; echo $HOME", user=USER)).stdout.split() == ["/", str(home)]


async def test_home_and_directory_of_the_user(place, monkeypatch):
    """The command enters them, also if they are closed to others; umask, group and input are as given."""
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
async def test_a_command_that_cannot_be_started_reports_the_reason(command, told):
    """The error is the same as for a command of root, and no descriptor is left."""
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(Permanent) as caught:
        await run(command._replace(user=USER), Blocking())

    assert str(caught.value) == told
    assert sorted(Path("/proc/self/fd").iterdir()) == before


async def test_programs_are_searched_in_path(place):
    """The search continues if the first directories of PATH lack the program, and includes the working directory."""
    tool = place / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    env = {"PATH": "/nowhere::/usr/bin"}

    assert (await run(CommandSpec(("tool",), cwd=str(place), env=env, user=USER), Blocking())).stdout == "mine\n"


async def test_nothing_of_the_agent_is_inherited():
    """The command has only its three descriptors, and no group of root."""
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
    ]  # 3 is the directory that ls itself has opened


class Held:
    """A program of the user that cannot be executed, because the user holds a lease on it.

    A file system of the user that never answers has the same effect.
    """

    def __init__(self, path: Path) -> None:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        self.asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGIO, self.asked.set)
        self._file = path.open("rb+")
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def close(self) -> None:
        """Release the lease."""
        self._file.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)


@pytest.fixture
async def held(place):
    """Yield such a program."""
    found = Held(place / "users/held")
    yield found
    found.close()


async def test_a_user_who_delays_the_start_delays_nothing_else(place, held):
    """The event loop stays free, and the timeout of the command holds."""
    task = asyncio.create_task(run(CommandSpec((str(place / "users/held"),), user=USER, timeout=0.5), Blocking()))
    await held.asked.wait()

    with pytest.raises(Temporary, match=r"exceeded its timeout of 0.5 s and was killed"):
        await task


async def test_a_signal_to_a_starting_command_does_not_reach_the_agent(place, held):
    """The user can signal the process before it is executed, but it has no handlers and descriptors of the agent."""
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


async def test_a_link_does_not_lead_root_elsewhere(place):
    """A command of root follows a user's link only if everything behind the link belongs to that user."""
    cwd = link(place / "users/cwd", place / "secret")
    with pytest.raises(
        paths.Unsafe, match=f"cannot follow {cwd}, which belongs to user {USER} and points to {place / 'secret'}"
    ):
        await sh("pwd", cwd=str(cwd))

    (place / "users/own").mkdir()
    os.chown(place / "users/own", account(USER).uid, -1)
    own = link(place / "users/link", place / "users/own")
    assert (await sh("pwd -P", cwd=str(own))).stdout.strip() == str(place / "users/own")


async def test_root_enters_the_directory_that_was_checked(place, monkeypatch):
    """A user who exchanges the directory after the check cannot make root run a command elsewhere."""
    cwd = place / "users/cwd"
    cwd.mkdir()

    def exchanged(path):
        found = paths.walk.directory(path)
        cwd.rename(place / "users/old")
        cwd.symlink_to(place / "secret")
        return found

    monkeypatch.setattr(paths, "directory", exchanged)

    assert (await sh("pwd -P", cwd=str(cwd))).stdout.strip() == str(place / "users/old")


async def test_an_unsafe_home_of_root(place, monkeypatch):
    """A command of root has the home of the account instead, and runs there: tools read settings in `HOME`."""
    link(place / "users/link", place / "secret")
    (place / "users/of-root").mkdir()
    for path in (place / "users", "/tmp", *(place / f"users/{name}" for name in ("link", "of-root", "missing"))):
        monkeypatch.setenv("HOME", str(path))
        assert (await sh("echo $HOME; pwd -P")).stdout.split() == [account("root").home] * 2
