"""Files of kernel parameters in directories in which a user can replace them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import sysctl
from holdfast.resources.kinds.sysctl import Present
from holdfast.resources.testing import FakeContext

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")

UID, OTHER = 12345, 12346
LINE = "kernel.ostype = Linux\n"


@pytest.fixture
def users(tmp_path) -> Path:
    """A directory of a user."""
    path = tmp_path / "users"
    path.mkdir()
    os.chown(path, UID, -1)
    return path


async def keep(tmp_path: Path, config: Path, *, persist: bool = True) -> None:
    """Store a parameter whose value the kernel has already."""
    wanted = Present.declare("kernel.ostype", value="Linux", config=str(config), persist=persist)
    assert not await wanted.check_apply(FakeContext(tmp_path), True)


@pytest.mark.parametrize("linked", ["the file", "its directory"])
@pytest.mark.parametrize("persist", [True, False])
async def test_unsafe_link_is_not_followed(tmp_path, users, linked, persist):
    """Root's file is neither written nor removed through a user's link."""
    (tmp_path / "roots").mkdir()
    target = tmp_path / "roots/k.conf"
    text = LINE if not persist else "mine\n"
    target.write_text(text)
    link, to = (users / "k.conf", target) if linked == "the file" else (users / "d", tmp_path / "roots")
    link.symlink_to(to)
    os.chown(link, UID, -1, follow_symlinks=False)
    config = link if linked == "the file" else link / "k.conf"

    with pytest.raises(Permanent, match=f"cannot follow {link}, which belongs to user {UID}"):
        await keep(tmp_path, config, persist=persist)

    assert target.read_text() == text


async def test_file_of_the_user_keeps_no_more_than_it_should(tmp_path, users):
    """Root's new file has no set-uid bit, and no other user may write it; a private file stays private."""
    for name, mode, after in (("loose", 0o4777, 0o644), ("closed", 0o600, 0o600)):
        config = users / name
        config.write_text("vm.swappiness = 1\n")
        os.chown(config, UID, -1)
        config.chmod(mode)

        await keep(tmp_path, config)

        assert config.read_text() == f"vm.swappiness = 1\n{LINE}"
        assert (config.stat().st_uid, config.stat().st_mode & 0o7777) == (0, after)
        await keep_another(tmp_path, config)


async def keep_another(tmp_path: Path, config: Path) -> None:
    """Root's file in the user's directory is still edited."""
    config.write_text(config.read_text().replace("Linux", "VMS"))
    await keep(tmp_path, config)
    assert config.read_text().endswith(LINE)


@pytest.mark.parametrize("hard", [True, False])
async def test_file_of_another_user_is_not_copied(tmp_path, users, hard):
    """A user who links another user's file into a directory cannot read the content in this way."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    os.chown(secret, OTHER, -1)
    secret.chmod(0o600)
    config = users / "k.conf"
    if hard:
        config.hardlink_to(secret)
    else:
        secret.rename(config)

    with pytest.raises(Permanent, match=f"it belongs to user {OTHER}, but {users} belongs to user {UID}"):
        await keep(tmp_path, config)

    assert config.read_text() == "password\n"


async def test_directories_that_are_missing_are_made_where_the_path_leads(tmp_path, users):
    """The directories belong to root, and the parameter is stored there."""
    await keep(tmp_path, users / "a/b/k.conf")

    assert (users / "a/b/k.conf").read_text() == LINE
    assert [path.stat().st_uid for path in (users / "a", users / "a/b", users / "a/b/k.conf")] == [0, 0, 0]


def test_parameter_is_written_through_no_link(tmp_path, monkeypatch):
    """/proc/sys contains no links, so a link is not followed."""
    monkeypatch.setattr(sysctl, "KERNEL", str(tmp_path))
    (tmp_path / "real").write_text("1\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(OSError, match="symbolic links"):
        sysctl.write(str(tmp_path / "link"), "2")
    sysctl.write(str(tmp_path / "real"), "3")
    assert (tmp_path / "real").read_text() == "3\n"


async def test_what_is_read_is_not_shown_in_a_file_that_is_exchanged_meanwhile(tmp_path, users, monkeypatch):
    """A user moves root's file to the path, and then puts a readable file there.

    The new file is as private as the one that was read.
    """
    config = users / "k.conf"
    config.write_text("password\n")
    config.chmod(0o600)
    real = sysctl.content

    def exchanged(place):
        found = real(place)
        config.rename(users / "moved")
        config.write_text("")
        os.chown(config, UID, -1)
        config.chmod(0o666)
        return found

    monkeypatch.setattr(sysctl, "content", exchanged)
    await keep(tmp_path, config)

    assert config.read_text() == f"password\n{LINE}"
    assert (config.stat().st_uid, config.stat().st_mode & 0o777) == (0, 0o600)
