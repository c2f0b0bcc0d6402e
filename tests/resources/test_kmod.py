"""Kernel modules, with recorded answers of modprobe and rmmod, because the tests cannot load modules."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import kmod, sysctl
from holdfast.resources.kinds.kmod import Absent, Present
from holdfast.resources.testing import FakeContext


class Kernel:
    """A directory in place of /sys/module, which modprobe and rmmod change."""

    def __init__(self, tmp_path):
        self.loaded, self.modules = tmp_path / "sys", tmp_path / "modules"
        self.loaded.mkdir()
        release = self.modules / os.uname().release
        release.mkdir(parents=True)
        (release / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\nkernel/drivers/loop-back.ko.zst\n")
        self.load("old", "")
        (self.loaded / "with_options").mkdir()
        self.ctx = FakeContext(tmp_path)
        self.ctx.commands = {
            "modprobe one": lambda: self.load("needed", "one"),
            "rmmod one": lambda: self.unload("one"),
            "rmmod old": {"retcode": 1, "stderr": "rmmod: ERROR: Module old is in use by: other\n"},
        }

    def load(self, *names):
        """Load modules. A module that has only options is built in and has no state."""
        for name in filter(None, names):
            (self.loaded / name).mkdir(exist_ok=True)
            (self.loaded / name / "initstate").write_text("live\n")
        return ""

    def unload(self, name):
        """Remove a module."""
        shutil.rmtree(self.loaded / name)
        return ""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel with the module `old`."""
    monkeypatch.setattr(kmod, "LOADED", str(tmp_path / "sys"))
    monkeypatch.setattr(kmod, "BUILT_IN", str(tmp_path / "modules"))
    monkeypatch.setattr(kmod, "BOOTED", str(tmp_path))
    monkeypatch.setattr(kmod, "OWN_FILE", str(tmp_path / "load.d/own.conf"))
    monkeypatch.setattr(kmod, "SALT_FILE", str(tmp_path / "load.d/salt.conf"))
    return Kernel(tmp_path)


async def test_a_module_is_loaded_and_kept(kernel, tmp_path):
    """A second apply changes nothing. A removal of the module, and an edit of the file, are repaired."""
    wanted = Present.declare("one", persist=True)
    assert not await wanted.check_apply(kernel.ctx, False)
    assert kernel.ctx.calls == []
    assert not await wanted.check_apply(kernel.ctx, True)
    assert kernel.ctx.report.changes == {"one": "loaded"}
    assert (tmp_path / "load.d/own.conf").read_text() == "one\n"
    assert await wanted.check_apply(kernel.ctx, True)
    kernel.unload("one")
    assert not await wanted.check_apply(kernel.ctx, True)
    (tmp_path / "load.d/own.conf").write_text("# one\n")
    assert not await wanted.check_apply(kernel.ctx, True)
    assert (tmp_path / "load.d/own.conf").read_text() == "one\n"
    assert kernel.ctx.calls == ["modprobe one", "modprobe one"]


@pytest.mark.parametrize("name", ["ext4", "loop-back", "with_options", "old"])
async def test_what_is_built_in_counts_as_loaded(kernel, name):
    """Salt fails for such a module. As in Salt, `absent` reports no error for a module that is built in."""
    assert await Present.declare(name).check_apply(kernel.ctx, True)
    if name != "old":
        assert await Absent.declare(name).check_apply(kernel.ctx, True)


async def test_a_module_in_use_is_told(kernel):
    """The error has the words of the tool."""
    with pytest.raises(Permanent, match=r"cannot remove kernel module old: Module old is in use by: other$"):
        await Absent.declare("old").check_apply(kernel.ctx, True)


async def test_a_kernel_without_modules_is_told(kernel):
    """A container, or a host after an upgrade of its kernel, has no modules."""
    shutil.rmtree(kernel.modules)
    kernel.ctx.commands["modprobe two"] = {"retcode": 1, "stderr": "modprobe: FATAL: Module two not found.\n"}
    with pytest.raises(
        Permanent, match=r"Module two not found; .* does not exist: in a container, load it on the host"
    ):
        await Present.declare("two").check_apply(kernel.ctx, True)


async def test_salts_file_is_used_where_it_is_or_where_its_names_are_wanted(kernel, tmp_path):
    """Holdfast treats other files of Salt in the same way."""
    kernel.ctx.salt_names = True
    await Present.declare("old", persist=True).check_apply(kernel.ctx, True)
    assert (tmp_path / "load.d/salt.conf").read_text() == "old\n"
    kernel.ctx.salt_names = False
    await Present.declare("ext4", persist=True).check_apply(kernel.ctx, True)
    assert (tmp_path / "load.d/salt.conf").read_text() == "old\next4\n"


async def test_it_is_undone(kernel, tmp_path):
    """A reversal removes only modules that were not loaded before."""
    wanted = Present.declare("x", mods=["old", "one"])
    before = await wanted.inverse(kernel.ctx)
    assert before.kind == "kmod.absent"
    assert before.arguments["mods"] == ["one"]
    await wanted.check_apply(kernel.ctx, True)
    again = await Absent.declare(**before.arguments).inverse(kernel.ctx)
    assert again.kind == "kmod.present"
    await Absent.declare(**before.arguments).check_apply(kernel.ctx, True)
    assert not (kernel.loaded / "one").exists()
    assert await Absent.declare("one").inverse(kernel.ctx) is None
    assert await Present.declare("old").inverse(kernel.ctx) is None


async def test_both_are_watched(kernel):
    """The watch follows messages of the kernel and, with `persist`, the file."""
    await anext(Present.declare("one").watch(kernel.ctx))
    assert kernel.ctx.watched == ["modules"]
    await anext(Present.declare("one", persist=True).watch(kernel.ctx))
    assert kernel.ctx.watched[1:] == ["modules", kmod.OWN_FILE]


def test_a_parameter_waits_for_its_module():
    """An automatic edge orders them; a parameter without a known module does not wait."""
    parameter = sysctl.Present.declare("net.bridge.bridge-nf-call-iptables", value=1)
    assert [need[:2] for need in parameter.dependencies()] == [*Present.declare("br-netfilter").offers()]
    assert sysctl.Present.declare("net.ipv4.ip_forward", value=1).dependencies() == ()
    assert Absent.declare("br_netfilter").offers() == ()


@pytest.mark.parametrize("name", ["bonding mode=4", "-r", "a/b", "a\n", "", "ä", "a.ko"])
def test_what_is_no_name_of_a_module_is_refused(name):
    """Options belong into a file of modprobe."""
    for arguments in ({"name": name}, {"name": "x", "mods": [name]}):
        with pytest.raises(ValidationError, match=r"write options of a module into"):
            Present.declare(**arguments)


@given(st.lists(st.sampled_from(["# one", "one", "two # x", "", ";one", "#two", "other"])))
def test_other_lines_of_the_file_are_kept(lines):
    """Other lines stay when modules are added or removed; a second edit changes nothing."""
    text = "\n".join(lines)
    for wanted in (
        Present.declare("x", mods=["one", "two"]),
        Absent.declare("x", mods=["one", "two"]),
        Absent.declare("x", mods=["one", "two"], comment=False),
    ):
        new = wanted.edited(text)
        assert wanted.edited(new) == new
        assert [line for line in new.split("\n") if "other" in line] == [line for line in lines if line == "other"]
        assert wanted.read(new) == {"persisted": ("one", "two") if isinstance(wanted, Present) else ()}
