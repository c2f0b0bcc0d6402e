"""Parameters of the kernel that a test cannot change in the real one: names, values, undoing, watching."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from deadline import DEADLINE
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import sysctl
from holdfast.resources.kinds.sysctl import Present
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A directory in place of the kernel's."""
    monkeypatch.setattr(sysctl, "KERNEL", str(tmp_path / "sys"))
    for name, value in {
        "net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "net/ipv4/conf/eth0.1/forwarding": "0\n",
    }.items():
        path = tmp_path / "sys" / name
        path.parent.mkdir(parents=True)
        path.write_text(value)
    return tmp_path / "sys"


@pytest.fixture
def ctx(tmp_path):
    """A context of its own."""
    return FakeContext(tmp_path)


async def test_blanks_and_tabs_are_the_same(kernel, ctx, tmp_path):
    """The kernel shows tabs. A value that differs only in white space is as declared, and is not written again."""
    wanted = Present.declare("net.ipv4.tcp_rmem", value="4096  131072 6291456", config=str(tmp_path / "k.conf"))

    assert not await wanted.check_apply(ctx, True)
    assert (kernel / "net/ipv4/tcp_rmem").read_text() == "4096\t131072\t6291456\n"
    assert await wanted.check_apply(ctx, False)


@pytest.mark.parametrize("name", ["net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"])
async def test_a_dot_in_a_name_is_a_slash_or_all_is_turned_round(kernel, ctx, tmp_path, name):
    """The rule is that of sysctl(8). Both spellings are the same resource."""
    wanted = Present.declare(name, value=1, config=str(tmp_path / "k.conf"))

    assert not await wanted.check_apply(ctx, True)
    assert (kernel / "net/ipv4/conf/eth0.1/forwarding").read_text() == "1\n"
    assert wanted.uids() == (("sysctl", "net.ipv4.conf.eth0/1.forwarding"),)


@pytest.mark.parametrize("kept", ["", "net.ipv4.tcp_rmem = 1 2 3\n", "vm.swappiness = 1\n"])
async def test_undone_it_is_as_before(kernel, ctx, tmp_path, kept):
    """The former value is restored, and the file has a line only if it had one before."""
    config = tmp_path / "k.conf"
    if kept:
        config.write_text(kept)
    wanted = Present.declare("net.ipv4.tcp_rmem", value="1 2 4", config=str(config))
    before = await wanted.inverse(ctx)
    await wanted.check_apply(ctx, True)

    ctx.report = Report()
    assert not await Present.declare(**before.arguments).check_apply(ctx, True)

    assert (kernel / "net/ipv4/tcp_rmem").read_text().split() == ["4096", "131072", "6291456"]
    if "tcp_rmem" in kept:
        assert config.read_text() == "net.ipv4.tcp_rmem = 4096 131072 6291456\n"
    else:
        assert (config.read_text() if config.exists() else "") == kept


async def test_a_change_that_no_event_tells_of_is_seen_by_a_look(kernel, ctx, monkeypatch):
    """The kernel changes some parameters itself, without an event, and a check finds this."""
    monkeypatch.setattr(sysctl, "PERIOD", 0.01)
    watch = Present.declare("net.ipv4.tcp_rmem", value=1).watch(ctx)
    await anext(watch)
    later = asyncio.ensure_future(anext(watch))
    (kernel / "net/ipv4/tcp_rmem").write_text("1 1 1\n")

    await asyncio.wait_for(later, DEADLINE)
    await watch.aclose()


async def test_what_cannot_be_read_is_told(kernel, ctx):
    """The error is a message, not a traceback."""
    path = kernel / "net/ipv4/tcp_rmem"
    path.unlink()
    path.mkdir()
    with pytest.raises(Permanent, match=r"cannot read net.ipv4.tcp_rmem: is a directory"):
        await Present.declare("net.ipv4.tcp_rmem", value=1).check_apply(ctx, False)


@pytest.mark.parametrize(
    ("name", "value"), [("net", "1"), ("net..ipv4", "1"), ("../etc/passwd", "1"), ("net.x", ""), ("net.x", "1\n2")]
)
def test_names_and_values_that_cannot_be_are_refused(name, value):
    """A name cannot lead to a file outside the kernel's directory."""
    with pytest.raises(ValidationError):
        Present.declare(name, value=value)


async def test_a_parameter_stays_in_the_file_that_has_it(kernel, ctx, tmp_path, monkeypatch):
    """Otherwise, Salt's file would take precedence at the next boot.

    A parameter that neither file has goes into Holdfast's file, or the one that the settings name.
    """
    salt, own = tmp_path / "99-salt.conf", tmp_path / "99-holdfast.conf"
    monkeypatch.setattr(sysctl, "SALT_FILE", str(salt))
    monkeypatch.setattr(sysctl, "OWN_FILE", str(own))
    monkeypatch.setattr(sysctl, "BOOTED", str(tmp_path))
    wanted = Present.declare("net.ipv4.conf.eth0/1.forwarding", value=1)

    assert not await wanted.check_apply(ctx, True)
    assert not salt.exists()
    assert own.read_text() == "net.ipv4.conf.eth0/1.forwarding = 1\n"
    own.rename(salt)
    assert await wanted.check_apply(ctx, True)
    assert not await Present.declare(wanted.name, value=0).check_apply(ctx, True)
    assert salt.read_text() == "net.ipv4.conf.eth0/1.forwarding = 0\n"
    assert not own.exists()
    salt.unlink()
    ctx.salt_names = True
    assert not await wanted.check_apply(ctx, True)
    assert salt.exists()
