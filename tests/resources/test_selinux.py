"""`selinux` of managed files.

Labels are compared and set if SELinux is on; otherwise they are refused with the reason.

No machine of the tests has SELinux. Root can set the attribute of labels anyway; only the check that SELinux is on is
faked.
"""

from __future__ import annotations

import os
import shlex
import sys

import pytest
from pydantic import ValidationError

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file import label
from holdfast.resources.paths.attributes import LABEL

all(registry.kinds())  # imported now, because the user of the tests may not be able to read the modules later
WHOLE = {"seuser": "system_u", "serole": "object_r", "setype": "etc_t", "serange": "s0-s0:c0.c1023"}


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        yield host


@pytest.fixture
def on(monkeypatch, tmp_path):
    """SELinux is on for the kind."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a label is an attribute that only root may set")
    switch = tmp_path / "enforce"
    switch.write_text("1")
    monkeypatch.setattr(label, "SWITCH", str(switch))


async def managed(host, path, *, apply=True, **arguments):
    """Return (changes, whether the file was as declared) of one run."""
    ctx = host.context("file.managed[x]")
    right = await registry.find("file.managed").declare(str(path), **arguments).check_apply(ctx, apply)
    return ctx.report.changes, right


def labelled(path, text=None):
    """Return the label of a file, set first if one is given."""
    if text is not None:
        os.setxattr(path, LABEL, text.encode() + b"\0")
    return os.getxattr(path, LABEL).rstrip(b"\0").decode()


async def test_a_new_file_has_its_label_before_it_is_in_its_place(host, tmp_path, on):
    """No process can open the file without its label; a second run changes nothing."""
    path, seen = tmp_path / "f", tmp_path / "seen"
    look = f"import os, sys; open({str(seen)!r}, 'wb').write(os.getxattr(sys.argv[1], {LABEL!r}))"
    declared = {"contents": "x", "selinux": WHOLE}
    await managed(host, path, check_cmd=shlex.join([sys.executable, "-c", look]), **declared)

    assert seen.read_bytes().rstrip(b"\0").decode() == labelled(path) == ":".join(WHOLE.values())
    assert await managed(host, path, **declared) == ({}, True)


async def test_one_part_is_put_right_and_the_others_stay(host, tmp_path, on):
    """Only the label is changed; the file is not replaced.

    The report has the whole label, and a plan changes nothing.
    """
    path = tmp_path / "f"
    path.write_text("x\n")
    labelled(path, "user_u:object_r:tmp_t:s0")
    inode, declared = path.stat().st_ino, {"selinux": {"setype": "etc_t"}}

    assert await managed(host, path, apply=False, **declared) == ({"selinux": "user_u:object_r:etc_t:s0"}, False)
    assert labelled(path) == "user_u:object_r:tmp_t:s0"
    assert await managed(host, path, **declared) == ({"selinux": "user_u:object_r:etc_t:s0"}, False)
    assert (labelled(path), path.stat().st_ino) == ("user_u:object_r:etc_t:s0", inode)


async def test_other_content_and_another_label_come_together(host, tmp_path, on):
    """The new file keeps the undeclared parts of the former label."""
    path = tmp_path / "f"
    path.write_text("old\n")
    labelled(path, "user_u:object_r:tmp_t:s0:c1")
    await managed(host, path, contents="new", selinux={"setype": "etc_t"})

    assert (path.read_text(), labelled(path)) == ("new\n", "user_u:object_r:etc_t:s0:c1")


async def test_too_little_for_a_file_without_a_label(host, tmp_path, on):
    """The error names the missing parts, and nothing is changed."""
    path = tmp_path / "f"
    path.write_text("x\n")
    with pytest.raises(Permanent, match="has no label yet; set seuser and serole, too"):
        await managed(host, path, selinux={"setype": "etc_t"})


async def test_where_selinux_is_not_on_it_is_refused(host, tmp_path, monkeypatch):
    """Without SELinux, a label would not protect the file, so the file is not created."""
    monkeypatch.setattr(label, "SWITCH", str(tmp_path / "missing"))
    with pytest.raises(Permanent, match=r"SELinux is off on this host .* turn it on, or remove selinux"):
        await managed(host, tmp_path / "f", contents="x", selinux=WHOLE)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    "given", [{}, {"type": "etc_t"}, {"setype": "a:b"}, {"setype": ""}, {"seuser": "a b"}, "etc_t"]
)
def test_what_is_no_label_is_refused_when_it_is_read(given):
    """The error has the accepted words."""
    with pytest.raises(ValidationError):
        registry.find("file.managed").declare("/x", selinux=given)
