"""Keys of users: sshd's format of lines, the home directory of a real user, and refused arguments."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.resources import accounts, registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._ssh_keys import lines, parsed

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIB3sXPLuOc7KKPTqVI4ewBaDIM1bBYNWnsLGST047Hn1"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7"
UID = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


def declare(kind="present", name=f"ssh-ed25519 {KEY} alice", **arguments):
    """Return a resource of the family."""
    return registry.find(f"ssh_auth.{kind}").declare(name, **{"user": "alice", **arguments})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home directory of alice, an account that only this test knows."""
    path = tmp_path / "alice"
    path.mkdir()
    os.chown(path, UID, UID)
    known = {"alice": accounts.Account("alice", UID, UID, (), str(path), "/bin/sh")}
    monkeypatch.setattr(accounts, "account", known.get)
    return path


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    (tmp_path / "states").mkdir()
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host


def seen(path):
    """Return owner and mode."""
    status = path.stat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


@as_root
async def test_a_new_directory_and_file_belong_to_the_user_alone(host, home):
    """They have the modes that sshd demands. A plan creates neither."""
    assert not await declare().check_apply(host.context("a"), False)
    assert list(home.iterdir()) == []
    assert not await declare().check_apply(host.context("a"), True)

    assert seen(home / ".ssh") == (UID, 0o700)
    assert seen(home / ".ssh/authorized_keys") == (UID, 0o600)
    assert (home / ".ssh/authorized_keys").read_text() == f"ssh-ed25519 {KEY} alice\n"
    assert await declare().check_apply(host.context("b"), True)


@as_root
async def test_what_others_may_write_is_corrected(host, home):
    """Sshd ignores a file in such a directory. The home directory itself is not changed."""
    home.chmod(0o775)
    await declare().check_apply(host.context("a"), True)
    (home / ".ssh").chmod(0o777)
    (home / ".ssh/authorized_keys").chmod(0o660)
    ctx = host.context("b")

    assert not await declare().check_apply(ctx, True)

    assert ctx.report.changes == {f"{home}/.ssh": {"mode": "go-w"}, f"{home}/.ssh/authorized_keys": {"mode": "go-w"}}
    assert ctx.report.comment == "changed access rights of alice to the keys"
    assert seen(home / ".ssh") == (UID, 0o755)
    assert seen(home / ".ssh/authorized_keys") == (UID, 0o640)
    assert seen(home)[1] == 0o775


@as_root
async def test_no_home_directory_is_made(host, home):
    """A home directory that root made would lack what the account needs."""
    home.rmdir()
    with pytest.raises(Permanent, match=f"the home directory {home} does not exist"):
        await declare().check_apply(host.context("a"), True)


@as_root
async def test_a_link_of_the_user_is_not_followed_to_files_of_root(host, home, tmp_path):
    """The target is neither read nor written."""
    (tmp_path / "secret").write_text("")
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").symlink_to(tmp_path / "secret")
    for path in (home / ".ssh", home / ".ssh/authorized_keys"):
        os.chown(path, UID, UID, follow_symlinks=False)
    with pytest.raises(Permanent, match="cannot follow"):
        await declare().check_apply(host.context("a"), True)
    assert (tmp_path / "secret").read_text() == ""


async def test_a_file_outside_of_the_home_directory_is_not_the_users(host, home, tmp_path):
    """Otherwise, a user could add keys to the file of the administrator."""
    entry = declare(config=f"{tmp_path}/keys/%u")
    await entry.check_apply(host.context("a"), True)
    assert seen(tmp_path / "keys/alice") == (os.geteuid(), 0o644)
    assert seen(tmp_path / "keys") == (os.geteuid(), 0o755)


async def test_paths_are_those_of_sshd(host, home):
    """Relative paths start at the home directory."""
    for config, path in {"k": f"{home}/k", "%h/.ssh/k": f"{home}/.ssh/k", "/etc/k/%u%%": "/etc/k/alice%"}.items():
        assert await declare(config=config).located(host.context("a")) == path
    assert declare(config="/etc/k/%u").file() == "/etc/k/alice"
    assert declare().file() == "/home/alice/.ssh/authorized_keys"


async def test_the_inverse_is_the_present_line(host, home):
    """The inverse has the present line, or declares that there is none; for `manage` it has all lines."""
    ctx = host.context("a")
    (home / ".ssh").mkdir()
    assert (await declare().inverse(ctx)).kind == "ssh_auth.absent"
    (home / ".ssh/authorized_keys").write_text(f"# x\nno-pty ssh-ed25519 {KEY} old\n")
    assert (await declare().inverse(ctx)).arguments["name"] == f"no-pty ssh-ed25519 {KEY} old"
    managed = await declare("manage", ssh_keys=[]).inverse(ctx)
    assert managed.arguments["ssh_keys"] == [f"no-pty ssh-ed25519 {KEY} old"]
    assert await declare(source="salt://x").inverse(ctx) is None


async def test_the_watch_follows_the_home_directory(host, home, tmp_path, monkeypatch):
    """The watch of the accounts notices a user that is added later; the file is watched from then on."""
    passwd = tmp_path / "passwd"
    passwd.write_text("")
    monkeypatch.setattr(accounts, "PASSWD", str(passwd))
    known = accounts.account
    monkeypatch.setattr(accounts, "account", lambda _: None)
    watch = declare().watch(host.context("a"))
    async with asyncio.timeout(DEADLINE), aclosing(watch):
        await anext(watch)
        monkeypatch.setattr(accounts, "account", known)
        passwd.write_text("alice\n")
        await anext(watch)
        (home / ".ssh").mkdir()
        (home / ".ssh/authorized_keys").write_text("x")
        await anext(watch)


@as_root
@pytest.mark.parametrize("kind", ["present", "absent"])
async def test_a_source_on_this_host_is_watched(host, home, tmp_path, kind):
    """A change of the keys in the source is a change of the user's keys."""
    (tmp_path / "keys").write_text("")
    watch = declare(kind, source=str(tmp_path / "keys")).watch(host.context("a"))
    async with asyncio.timeout(DEADLINE), aclosing(watch):
        await anext(watch)
        (tmp_path / "keys").write_text(f"ssh-ed25519 {KEY}\n")
        await anext(watch)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "ssh-ed25519"}, None),
        ({"name": "two words of text"}, None),
        ({"name": "a b\nc"}, "one line"),
        ({"name": 'command="x'}, "public key"),
        ({"options": 'command="x'}, "not have blanks outside"),
        ({"options": ["no-pty no-x11"]}, "not have blanks outside"),
        ({"options": 'command="a\nb"'}, "not have blanks outside"),
        ({"comment": "a\nb"}, "one line"),
        ({"enc": "ed448"}, "not a key type"),
        ({"source": "http://example.org/keys"}, "is not a source"),
        ({"source": "keys"}, "is not a source"),
        ({"config": "%x/keys"}, "%h is the home directory"),
        ({"config": " "}, "the path of a file"),
        ({"kind": "manage", "ssh_keys": [], "config": "a b"}, "config must be one file"),
        ({"user": "-a"}, "name of an account"),
    ],
)
def test_what_cannot_be_written_exactly_is_refused(arguments, told):
    """The error has the line of the argument.

    Data that may be a key are checked at run time, because examples contain such data.
    """
    if told is None:
        assert declare(**arguments)
        return
    with pytest.raises(ValidationError, match=told):
        declare(**arguments)


def test_states_that_differ_in_one_key_contradict_each_other():
    """States that agree do not contradict each other."""
    one = declare()
    assert one.contradicts(declare(name=f"no-pty ssh-ed25519 {KEY} alice")) == "options differs"
    assert one.contradicts(declare(name=KEY, comment="bob")) == "comment differs"
    assert one.contradicts(declare("manage", ssh_keys=[f"ssh-ed25519 {KEY} alice", OTHER])) is None
    assert one.contradicts(declare("absent"))
    assert one.uids() == declare("absent").uids()


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f"ssh-ed25519 {KEY} a", ""),
        (f'command="a \\"b\\" c",no-pty ssh-ed25519 {KEY}', 'command="a \\"b\\" c",no-pty'),
        (f'command="ssh-ed25519 {OTHER} x"\t ssh-ed25519 {KEY}', f'command="ssh-ed25519 {OTHER} x"'),
        (f'from="a,b" sk-ssh-ed25519@openssh.com {KEY} c', 'from="a,b"'),
    ],
)
def test_options_end_as_for_sshd(line, options):
    """Options end at the first blank outside of quotes; a quote after a backslash does not count."""
    assert parsed(line).options == options
    assert parsed(line).key == KEY


@pytest.mark.parametrize("end", ["\0", "\0x", "\0 \0\r\n"])
def test_a_nul_character_does_not_hide_a_key(end):
    """A user could keep a key that is declared absent, because sshd reads a line only up to a NUL character."""
    assert parsed(f"ssh-ed25519 {KEY}{end}").key == KEY
    assert declare("absent").edited(f"ssh-ed25519 {KEY}{end}") == ""


@pytest.mark.parametrize("line", ["", "# ssh-ed25519 x", f'command="a ssh-ed25519 {KEY}', "ssh-ed25519", "no-pty"])
def test_what_sshd_ignores_is_no_key(line):
    """Comments, lines with open quotes, and types without a key are not keys."""
    assert parsed(line) is None


TEXT = st.lists(
    st.one_of(
        st.text(alphabet='ab "\\#\t\r,=é\udcff'),
        st.sampled_from([f"ssh-ed25519 {KEY}", f"no-pty  ssh-ed25519 {KEY}\tx", f"ssh-ed25519 {OTHER} y"]),
    )
).map("\n".join)


@given(TEXT)
def test_an_edit_keeps_all_other_lines_and_is_right_at_once(text):
    """For each kind, the lines of other keys, comments and broken lines keep each byte."""
    foreign = [line.rstrip("\n") for line, key in lines(text) if key is None or key.key != KEY]
    for kind, left in (("present", [f"ssh-ed25519 {KEY} alice"]), ("absent", [])):
        entry = declare(kind)
        new = entry.edited(text)
        kept = [line.rstrip("\n") for line, key in lines(new) if key is None or key.key != KEY]
        assert kept == foreign
        assert [key.line() for _, key in lines(new) if key and key.key == KEY] == left
        assert entry.edited(new) == new


@given(TEXT)
def test_manage_leaves_exactly_the_declared_keys(text):
    """Lines without a key stay, too."""
    entry = declare("manage", ssh_keys=[f"ssh-ed25519 {KEY} alice"])
    new = entry.edited(text)
    assert [key.key for _, key in lines(new) if key] == [KEY]
    assert [a.rstrip("\n") for a, key in lines(new) if not key] == [a.rstrip("\n") for a, key in lines(text) if not key]
    assert entry.read(new) == {KEY: f"ssh-ed25519 {KEY} alice", "others": []}


@as_root
async def test_of_several_files_the_first_gets_the_key_and_all_lose_it(host, home):
    """AuthorizedKeysFile may name several files, all of which sshd reads."""
    (home / "b").write_text(f"ssh-ed25519 {KEY} x\nssh-ed25519 {OTHER} y\n")
    os.chown(home / "b", UID, UID)
    several = {"config": "a  b %h/c"}
    await declare(**several).check_apply(host.context("a"), True)
    assert (home / "a").read_text() == f"ssh-ed25519 {KEY} alice\n"
    ctx = host.context("b")
    assert not await declare("absent", **several).check_apply(ctx, True)
    assert ctx.report.changes == {KEY: "Removed"}
    assert ((home / "a").read_text(), (home / "b").read_text()) == ("", f"ssh-ed25519 {OTHER} y\n")
    assert not (home / "c").exists()
    assert await declare("absent", **several).check_apply(host.context("c"), True)
    async with asyncio.timeout(DEADLINE), aclosing(declare("absent", **several).watch(host.context("d"))) as watch:
        await anext(watch)
        (home / "c").write_text(f"ssh-ed25519 {KEY}\n")
        await anext(watch)
