"""The base of the kinds that manage single entries of a configuration file, by a small kind of its own."""

from __future__ import annotations

import os
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.host.host import LocalHost
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds.file.append import Append
from holdfast.resources.kinds.file.base import Ownership


class Port(ConfigEntry):
    """A line `PORT name`."""

    path: str
    port: str

    def file(self) -> str:
        """Return the path."""
        return self.path

    def desired(self):
        """Return the port."""
        return {"port": self.port}

    def read(self, text):
        """Return the port of the first line that ends with the name."""
        found = [line.split() for line in text.split("\n") if line.endswith(f" {self.name}")]
        return {"port": found[0][0]} if found else None

    def edited(self, text):
        """Return the text with the line in its place, or at the end."""
        lines = [line for line in text.split("\n") if not line.endswith(f" {self.name}")]
        return "\n".join([f"{self.port} {self.name}", *lines])

    async def verify(self, ctx, path):
        """Refuse port 0."""
        if self.port == "0":
            raise Permanent(f"cannot use {self.name}: port 0")


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    (tmp_path / "states").mkdir()
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host


@pytest.fixture
def file(tmp_path):
    """A configuration file, only for its owner and group."""
    path = tmp_path / "ports"
    path.write_bytes(b"# \xff mine\r\n80 www\n\n1 a")
    path.chmod(0o640)
    return path


def port(file, number="22"):
    """Return the declared entry."""
    return Port.declare("ssh", path=str(file), port=number)


async def test_an_entry_is_added_and_everything_else_is_kept(host, file):
    """Other lines keep each byte, the file its mode; a second run changes nothing."""
    assert not await port(file).check_apply(host.context("a"), True)
    assert file.read_bytes() == b"22 ssh\n# \xff mine\r\n80 www\n\n1 a"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    before = file.stat()
    assert await port(file).check_apply(host.context("b"), True)
    assert file.stat().st_ino == before.st_ino


async def test_a_plan_shows_the_diff_and_changes_nothing(host, file):
    """The diff is shown only if everyone may read the file."""
    file.write_text("80 www\n")
    file.chmod(0o644)
    before, ctx = file.read_bytes(), host.context("a")

    assert not await port(file).check_apply(ctx, False)

    assert "+22 ssh\n" in ctx.report.diff
    assert file.read_bytes() == before
    file.chmod(0o640)
    closed = host.context("b")
    assert not await port(file).check_apply(closed, False)
    assert closed.report.diff == ""


async def test_a_missing_file_is_made_with_its_mode_and_a_missing_directory_is_an_error(host, tmp_path):
    """The directory is not made, unless the kind does so."""
    assert not await port(tmp_path / "new").check_apply(host.context("a"), True)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644
    with pytest.raises(Permanent, match=f"directory {tmp_path}/no does not exist"):
        await port(tmp_path / "no/new").check_apply(host.context("b"), True)


async def test_what_fails_its_check_is_not_put_in_place(host, file):
    """The file stays as it is, and no temporary file is left."""
    before = file.read_bytes()
    with pytest.raises(Permanent, match="port 0"):
        await port(file, "0").check_apply(host.context("a"), True)
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["ports", "states"]


async def test_a_change_by_another_program_during_the_edit_is_not_lost(host, file, monkeypatch):
    """Another attempt follows at once."""

    async def meanwhile(self, ctx, path):
        file.write_text("90 other\n")

    monkeypatch.setattr(Port, "verify", meanwhile)
    with pytest.raises(ChangedMeanwhile, match="another program has changed"):
        await port(file).check_apply(host.context("a"), True)
    assert file.read_text() == "90 other\n"


@pytest.mark.parametrize(("make", "told"), [(os.mkdir, "it is a directory"), (os.mkfifo, "it is a fifo")])
async def test_what_is_no_file_is_told(host, tmp_path, make, told):
    """A directory and a FIFO are reported, and not read."""
    make(tmp_path / "odd")
    with pytest.raises(Permanent, match=told):
        await port(tmp_path / "odd").check_apply(host.context("a"), False)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_the_file_of_a_user_stays_that_users_and_a_link_of_a_user_is_not_followed(host, tmp_path):
    """A file of root is not edited through a link of a user."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "f").write_text("")
    (tmp_path / "secret").write_text("")
    (home / "link").symlink_to(tmp_path / "secret")
    for path in (home, home / "f", home / "link"):
        os.chown(path, 12345, 12345, follow_symlinks=False)

    assert not await port(home / "f").check_apply(host.context("a"), True)
    assert (home / "f").stat().st_uid == 12345
    with pytest.raises(Permanent, match="cannot follow"):
        await port(home / "link").check_apply(host.context("b"), True)


def append(path):
    """Return `file.append` with one line."""
    return Append.declare(str(path), text="22 a")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize("entry", [port, append])
@pytest.mark.parametrize("apply", [False, True])
async def test_a_dangling_link_that_cannot_be_followed_afterwards_is_an_error(host, tmp_path, entry, apply):
    """One link belongs to a user, and would make root create a file for that user.

    The other leads to a missing directory.
    """
    users = tmp_path / "users"
    users.mkdir()
    os.chown(users, 12345, 12345)
    for link, target in ((users / "theirs", "new"), (tmp_path / "lost", tmp_path / "none/new")):
        link.symlink_to(target)
    os.chown(users / "theirs", 12345, 12345, follow_symlinks=False)
    with pytest.raises(Permanent, match="it is a dangling link, which user 12345 could replace; create its target"):
        await entry(users / "theirs").check_apply(host.context("a"), apply)
    assert not (users / "new").exists()
    with pytest.raises(Permanent, match=r"it is a dangling link to .*/none/new, whose directory does not exist"):
        await entry(tmp_path / "lost").check_apply(host.context("b"), apply)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_a_dangling_link_is_followed_where_the_new_file_is_its_owner_s(host, tmp_path, monkeypatch):
    """A user's file of keys may be a link into the same home; links of root may lead anywhere."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to("new")
    for path in (home, home / "link"):
        os.chown(path, 12345, 12345, follow_symlinks=False)

    async def owner_of_new(self, ctx):
        return Ownership(None, None, 12345, 12345, None)

    monkeypatch.setattr(Port, "owner_of_new", owner_of_new)
    assert not await port(home / "link").check_apply(host.context("a"), True)
    assert (home / "new").stat().st_uid == 12345
    assert await port(home / "link").check_apply(host.context("a"), True)

    (tmp_path / "link").symlink_to("made")
    assert not await append(tmp_path / "link").check_apply(host.context("b"), True)
    assert (tmp_path / "made").read_text() == "22 a\n"


@given(st.text(alphabet="ab \n#é\udcff"))
def test_an_edit_of_an_edited_text_changes_nothing(text):
    """After an edit, the kind above reads the declared value."""
    entry = port("/etc/x")
    assert entry.read(entry.edited(text)) == entry.desired()


async def test_the_diff_shows_the_edit_that_was_made(host, file, monkeypatch):
    """Another state has edited the file after the probe; the diff does not contain its edit."""
    file.write_text("80 www\n")
    file.chmod(0o644)
    ctx = host.context("a")
    foreseen = Port.apply

    async def after_another(self, ctx, delta):
        file.write_text("80 www\n443 tls\n")
        await foreseen(self, ctx, delta)

    monkeypatch.setattr(Port, "apply", after_another)
    assert not await port(file).check_apply(ctx, True)
    assert "+22 ssh\n 80 www\n 443 tls\n" in ctx.report.diff


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_a_secret_of_root_is_not_read_where_a_user_may_have_put_it(host, tmp_path):
    """A plan does not even compare the file, because the report could reveal its content to the user."""
    (tmp_path / "secret").write_text("80 www\n")
    (tmp_path / "secret").chmod(0o600)
    home = tmp_path / "home"
    home.mkdir()
    os.link(tmp_path / "secret", home / "ports")
    os.chown(home, 12345, 12345)
    with pytest.raises(Permanent, match="it belongs to root and is not for others to read"):
        await port(home / "ports").check_apply(host.context("a"), False)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize(("uid", "mode"), [(12345, 0o600), (0, 0o664)])
async def test_a_file_that_a_user_can_write_has_a_smaller_limit(host, file, uid, mode):
    """Otherwise, a user could keep the agent busy for a minute."""
    file.write_text("1 a\n" * (1 << 18) + "\n")
    assert not await port(file).check_apply(host.context("a"), False)
    os.chown(file, uid, 12345)
    file.chmod(mode)
    with pytest.raises(Permanent, match="it has more than 1 MB"):
        await port(file).check_apply(host.context("b"), False)


async def test_a_large_text_does_not_block_the_event_loop(host, file, monkeypatch):
    """Large texts are parsed and edited in threads."""
    threads = set()
    for name in ("read", "edited"):
        call = getattr(Port, name)
        monkeypatch.setattr(
            Port, name, lambda self, text, call=call: threads.add(threading.current_thread()) or call(self, text)
        )
    file.write_text("1 a\n" * (1 << 15))
    file.chmod(0o644)
    assert not await port(file).check_apply(host.context("a"), True)
    assert threads
    assert threading.main_thread() not in threads
