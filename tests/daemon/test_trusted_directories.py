"""The agent keeps its own files only in directories where no other user could replace them."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent import once
from holdfast.agent.cli.main import main
from holdfast.agent.configuration_files import ConfigurationFiles
from holdfast.agent.control.client import ask
from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.server import ControlServer
from holdfast.agent.install import InstallError, install, uninstall
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import private_directory
from holdfast.agent.verbs.status import Status
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")

USER = 12345


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory of root that all users may pass, as all above it."""
    paths.forget()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)
    paths.forget()


@pytest.fixture
def home(top: Path) -> Path:
    """A directory of another user."""
    path = top / "home"
    path.mkdir()
    os.chown(path, USER, USER)
    return path


def owner(home: Path) -> str:
    """Return the text of a refusal: the wrong directory and its owner."""
    return f"{home} belongs to user {USER}"


def test_a_state_directory_below_that_of_a_user_is_refused(home: Path) -> None:
    """The user could replace the journal. The directory is not created."""
    with pytest.raises(
        HoldfastError, match=f"cannot keep state in {home}/a/state: {owner(home)}; use another --state-dir"
    ):
        private_directory(home / "a/state")

    assert list(home.iterdir()) == []


def test_a_state_directory_behind_the_link_of_a_user_is_refused(top: Path, home: Path) -> None:
    """The directory itself belongs to root."""
    (top / "real").mkdir(mode=0o700)
    (home / "state").symlink_to(top / "real")

    with pytest.raises(HoldfastError, match="cannot keep state in"):
        private_directory(home / "state")


async def test_the_temporary_journal_of_a_run_needs_a_trusted_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may name any directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(home))

    with pytest.raises(HoldfastError, match="belongs to user"):
        async with once._memory(Settings.model_validate({"engine": {"noop": True}}), lambda _: None):
            pass


def server(path: Path) -> ControlServer:
    """Return a server that would listen at this path."""
    return ControlServer(path, object())  # type: ignore[arg-type] # no client asks


def test_a_control_socket_below_the_directory_of_a_user_is_refused(home: Path) -> None:
    """The socket of the user is not removed, and none of root is created."""
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(home / "x.sock"))
        with pytest.raises(HoldfastError, match=f"cannot listen at {home}/x.sock: {owner(home)}"):
            asyncio.run(server(home / "x.sock").start())

    assert (home / "x.sock").is_socket()


def test_the_socket_of_a_user_in_a_sticky_directory_is_kept(top: Path) -> None:
    """Only an old socket of the agent's own user is removed."""
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    path = top / "tmp/x.sock"
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(path))
        os.chown(path, USER, USER)
        with pytest.raises(OSError, match="in use"):
            asyncio.run(server(path).start())

    assert path.lstat().st_uid == USER


@pytest.mark.parametrize("place", ["home", "sticky", "link"])
def test_root_asks_no_agent_at_a_socket_that_a_user_could_create(top: Path, home: Path, place: str) -> None:
    """Such an agent could give any answer."""
    sticky = top / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    path = {"home": home / "x.sock", "sticky": sticky / "x.sock", "link": top / "link.sock"}[place]
    with socket.socket(socket.AF_UNIX) as his:
        his.bind(str(home / "y.sock" if place == "link" else path))
        his.listen()
        if place == "sticky":
            os.chown(path, USER, USER)
        if place == "link":
            path.symlink_to(home / "y.sock")
        with pytest.raises(ControlError, match=f"cannot ask the agent at {path}: .*user {USER}"):
            ask(path, Status(), timeout=0.2)


def test_installation_into_the_directory_of_a_user_is_refused(home: Path) -> None:
    """No file is created there."""
    with pytest.raises(InstallError, match=f"{owner(home)}; chown it"):
        list(install(home / "root", start=False))

    assert list(home.iterdir()) == []


def test_uninstalling_from_the_directory_of_a_user_is_refused(top: Path, home: Path) -> None:
    """Otherwise the user could choose what root removes."""
    kept = top / "etc/systemd/system"
    kept.mkdir(parents=True)
    (kept / "holdfast.service").touch()
    (home / "etc").symlink_to(top / "etc")

    with pytest.raises(InstallError, match="cannot install or remove"):
        list(uninstall(home))
    assert (kept / "holdfast.service").exists()


def test_installation_with_one_directory_of_a_user_is_refused(top: Path) -> None:
    """/var/lib of another system belongs to a user, below a root directory that is safe."""
    (top / "var/lib").mkdir(parents=True)
    os.chown(top / "var/lib", USER, USER)

    with pytest.raises(InstallError, match=f"{top}/var/lib belongs to user {USER}"):
        list(install(top, start=False))
    assert not (top / "etc").exists()


def test_fmt_changes_no_file_that_a_user_could_replace(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Root rewrites no file in the directory of a user, and follows no link of a user."""
    file = home / "a.sls"
    file.write_text("a:   \n  test.nop\n")
    os.chown(file, USER, USER)
    (home / "b.sls").symlink_to("/etc/shadow")
    os.lchown(home / "b.sls", USER, USER)

    with pytest.raises(SystemExit):
        main(["fmt", str(file), str(home / "b.sls")])
    said = capsys.readouterr().err
    assert "cannot write the file" in said
    assert "cannot follow" in said
    assert file.read_text() == "a:   \n  test.nop\n"
    assert sorted(path.name for path in home.iterdir()) == ["a.sls", "b.sls"]


def test_directories_of_users_below_the_states_are_not_read(top: Path) -> None:
    """None of their files is used. A change of their owner is noticed."""
    states = top / "states"
    below = states / "below"
    below.mkdir(parents=True)
    (below / "x.sls").touch()
    os.chown(below, USER, USER)
    (states / "link").symlink_to(below)
    watched = ConfigurationFiles((states,), ())

    assert set(watched.signature()) == {str(states), str(below), str(states / "link")}
    os.chown(below, 0, 0)
    assert str(below / "x.sls") in watched.signature()
