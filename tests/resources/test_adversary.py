"""A user who owns a directory on the way exchanges each component before each system call of each kind.

Nothing outside changes.

A run makes the same calls each time. On CI, every exchange is tried before each of them, in ten thousand runs, which
take minutes. Elsewhere, each run of the tests tries some of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from extent import sample
from holdfast.agent.host import files
from holdfast.agent.host.host import LocalHost
from holdfast.resources import paths, registry
from holdfast.resources.errors import HoldfastError
from holdfast.resources.traits import Reversible
from hostile_archives import Entry, directory, link, tar
from meddling import Adversary, state_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has what a user could gain")

USER = 12345
SECRET = b"the secret of root"
"""The content of files that the user cannot read."""
ARCHIVE = tar(directory("d"), Entry("d/f", b"new\n"), Entry("d/e/g", b"new\n"), link("d/l", "f"), Entry("f", b"new\n"))

DIRECTORIES = [
    ("outside", 0, 0o755),
    ("outside/d", 0, 0o755),
    ("home", USER, 0o755),
    ("home/moved", 0, 0o700),
    ("home/sub", USER, 0o755),
    ("home/sub/d", USER, 0o755),
    ("home/sub/d/empty", USER, 0o755),
    ("source", 0, 0o755),
    ("source/d", 0, 0o755),
]
"""Path, owner and mode of each directory of a scene."""
FILES = [
    *((f"outside/{name}", 0, 0o600, SECRET) for name in ("f", "d/f", "other")),
    *((f"home/moved/{name}", 0, 0o600, SECRET) for name in ("f", "kept")),
    *((f"home/sub/{name}", USER, 0o644, b"#here = 1\n") for name in ("f", "other", "d/f")),
    ("home/sub/hash", USER, 0o644, hashlib.sha256(b"new\n").hexdigest().encode()),
    *((f"source/{name}", 0, 0o644, b"new\n") for name in ("f", "d/g")),
    ("archive", 0, 0o644, ARCHIVE),
]
"""Path, owner, mode and content of each file."""


class Scene:
    """A directory of root that must not change, and beside it a directory of the user, which has the managed path."""

    def __init__(self, top: Path) -> None:
        self.outside, self.home = top / "outside", top / "home"
        self.sub = self.home / "sub"
        for name, owner, mode in DIRECTORIES:
            os.mkdir(path := f"{top}/{name}", mode)  # noqa: PTH102 - ten thousand scenes: no `Path` is made
            os.chown(path, owner, owner)
        for name, owner, mode, content in FILES:
            descriptor = os.open(f"{top}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            os.write(descriptor, content)
            os.fchown(descriptor, owner, owner)
            os.close(descriptor)
        self.before = state_of(top)

    def demand_untouched(self, top: Path) -> None:
        """Check that nothing outside has changed, that nothing is left behind, and that the user can read no secret.

        In root's directory that the user moved, only the managed file itself may be replaced, removed or created.
        """
        now = state_of(top)
        outside = [{name: each[name] for name in each if name.startswith("outside")} for each in (self.before, now)]
        assert outside[0] == outside[1]
        (kept,) = [name for name in now if name.startswith("home/") and name.endswith("/kept")]
        assert now[kept] == self.before["home/moved/kept"]
        assert now[kept.removesuffix("/kept")] == self.before["home/moved"]
        for name, entry in now.items():
            assert ".holdfast-" not in name
            if stat.S_ISREG(entry.mode) and SECRET in entry.content:
                assert entry.uid == 0
                assert not entry.mode & 0o077


def swap_for_link(path: Path, target: Path) -> Callable[[], None]:
    """Move an entry away, and put a link of the user in its place."""

    def act() -> None:
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".away"))
        with suppress(OSError):
            path.symlink_to(target)
            os.lchown(path, USER, USER)

    return act


def swap_for(path: Path, other: Path, *, link: bool) -> Callable[[], None]:
    """Move an entry away, and put another one in its place, by a rename or as a hard link."""

    def act() -> None:
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".away"))
        with suppress(OSError):
            if link:
                os.link(other, path)
            else:
                other.rename(path)

    return act


def swap_temporaries(scene: Scene) -> Callable[[], None]:
    """Return a function that puts a link to root's file in place of each temporary."""

    def act() -> None:
        for path in [*scene.home.rglob(".*.holdfast-*")]:
            directory = path.is_dir() and not path.is_symlink()
            if directory:
                path.rename(path.with_name("taken"))
            else:
                path.unlink()
            path.symlink_to(scene.outside / ("d" if directory else "f"))

    return act


ATTACKS: dict[str, Callable[[Scene], Callable[[], None]]] = {
    "the directory is a link to root's": lambda scene: swap_for_link(scene.sub, scene.outside),
    "the directory within is a link to root's": lambda scene: swap_for_link(scene.sub / "d", scene.outside / "d"),
    "the directory is one of root's": lambda scene: swap_for(scene.sub, scene.home / "moved", link=False),
    "the directory within is one of root's": lambda scene: swap_for(scene.sub / "d", scene.home / "moved", link=False),
    "the file is a link to root's": lambda scene: swap_for_link(scene.sub / "f", scene.outside / "f"),
    "the file is a hard link of root's": lambda scene: swap_for(scene.sub / "f", scene.outside / "f", link=True),
    "the file is one of root's": lambda scene: swap_for(scene.sub / "f", scene.home / "moved" / "f", link=False),
    "the temporary is a link to root's": swap_temporaries,
}
"""What the user may do at one moment."""
ONE_IN = 7
"""Outside CI, one in so many exchanges is tried. It must not be a divisor of the number of attacks."""


WORDS = {
    "serializer": "keyvalue",
    **{key: {"separator": " "} for key in ("serializer_opts", "deserializer_opts")},
}
"""Arguments with which the secret is data that could be merged."""
PATHS = ("acl.", "file.", "archive.", "ini.")
"""Families whose names are paths."""
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("file.managed", "sub/f", {"contents": "new", "user": str(USER), "mode": "0644"}),
    ("file.managed", "sub/f", {"contents": "new"}),
    ("file.managed", "sub/f", {"contents": "new", "user": str(USER), "replace": False, "mode": "0666"}),
    ("file.managed", "sub/f", {"contents": "#here = 1", "user": str(USER), "mode": "0666", "follow_symlinks": False}),
    ("file.managed", "sub/f", {"contents": "new", "user": str(USER), "follow_symlinks": True, "backup": "minion"}),
    ("file.managed", "sub/d/e/f", {"contents": "new", "user": str(USER), "makedirs": True}),
    ("file.directory", "sub", {"user": str(USER), "mode": "0777", "recurse": ["user", "mode"]}),
    ("file.directory", "sub/new/er", {"user": str(USER), "makedirs": True}),
    ("file.directory", "sub", {"user": str(USER), "clean": True}),
    ("file.directory", "sub/f", {"user": str(USER), "force": True}),
    ("file.directory", "sub/f", {"user": str(USER), "backupname": "{home}/sub/g"}),
    ("file.recurse", "sub", {"source": "{top}/source", "user": str(USER), "clean": True}),
    ("file.append", "sub/f", {"text": "more"}),
    ("file.prepend", "sub/f", {"text": "more", "backup": ".bak"}),
    ("file.line", "sub/f", {"mode": "ensure", "content": "line", "after": "here"}),
    ("file.replace", "sub/f", {"pattern": "here", "repl": "there"}),
    ("file.uncomment", "sub/f", {"regex": "here"}),
    ("file.blockreplace", "sub/f", {"content": "block", "append_if_not_found": True}),
    ("file.keyvalue", "sub/f", {"key": "here", "value": "2", "uncomment": "#"}),
    ("file.serialize", "sub/f", {"dataset": {"a": 1}, "user": str(USER)}),
    ("file.serialize", "sub/f", {"dataset": {"a": 1}, "user": str(USER), "merge_if_exists": True, **WORDS}),
    ("ini.options_present", "sub/f", {"sections": {"a": {"b": 1}}}),
    ("file.absent", "sub/f", {}),
    ("file.absent", "sub", {}),
    ("file.symlink", "sub/l", {"target": "f", "user": str(USER)}),
    ("file.symlink", "sub/f", {"target": "other", "user": str(USER), "force": True}),
    ("file.touch", "sub/f", {"mtime": 5}),
    ("file.touch", "sub/d/new/f", {"makedirs": True}),
    ("file.copy", "sub/copy", {"source": "{home}/sub/f", "user": str(USER)}),
    ("file.copy", "../copied", {"source": "{home}/sub/f", "mode": "0644"}),
    ("file.rename", "sub/g", {"source": "{home}/sub/f"}),
    ("file.managed", "../new", {"source": "{home}/sub/f", "mode": "0644"}),
    ("file.managed", "../new", {"source": "{top}/source/f", "source_hash": "{home}/sub/hash", "mode": "0644"}),
    ("file.recurse", "../new", {"source": "{home}/sub", "file_mode": "keep"}),
    ("sysctl.present", "kernel.ostype", {"value": "Linux", "config": "{home}/sub/f"}),
    ("hostname.system", "web1", {"config": "{home}/sub/f", "apply_hostname": False}),
    ("mount.fstab_present", "x", {"fs_file": "/x", "fs_vfstype": "ext4", "config": "{home}/sub/f", "mount": False}),
    ("locale.system", "C.UTF-8", {"config": "{home}/sub/f"}),
    ("file.pruned", "sub/d", {"recurse": True, "ignore_errors": True}),
    ("archive.extracted", "sub", {"source": "{top}/archive", "user": str(USER), "enforce_toplevel": False}),
    ("archive.extracted", "sub/new", {"source": "{top}/archive", "user": str(USER), "enforce_toplevel": False}),
    ("ssh_auth.present", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", {"user": "root", "config": "{home}/sub/f"}),
    ("ssh_auth.present", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", {"user": "root", "config": "{home}/sub/d/new/f"}),
    ("acl.present", "sub/f", {"acl_type": "user", "acl_name": "0", "perms": "rw"}),
    ("acl.present", "sub", {"acl_type": "user", "acl_name": str(USER), "perms": "rX", "recurse": True}),
    ("alias.present", "a", {"target": "b", "config": "{home}/sub/f"}),
    ("host.present", "a", {"ip": "192.0.2.1", "config": "{home}/sub/f"}),
    ("ssh_known_hosts.present", "a", {"key": "AAAAC3NzaC1lZDI1NTE5AAAA", "config": "{home}/sub/f"}),
]


async def _run(top: Path, kind: str, name: str, arguments: dict[str, Any], adversary: Adversary) -> bool:
    """Return whether a run succeeded. A refused run must raise an error of Holdfast."""
    given = {
        key: value.format(home=top / "home", top=top) if isinstance(value, str) else value
        for key, value in arguments.items()
    }
    cls = registry.find(kind)
    assert cls is not None
    resource = cls.declare(os.path.normpath(top / "home" / name) if kind.startswith(PATHS) else name, **given)
    paths.forget()
    files._swept.clear()
    async with LocalHost(states=top / "source", var_dir=top / "var", durable=False) as host:
        ctx = host.context("x")
        _ = ctx.var_dir
        with adversary.at_work():
            try:
                if isinstance(resource, Reversible):
                    await resource.inverse(ctx)
                await resource.check_apply(ctx, True)
            except HoldfastError:
                return False
    return True


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory: creating ten thousand scenes on a disk would take longer than everything else."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.mark.parametrize(
    ("kind", "name", "arguments"), KINDS, ids=[f"{number}-{kind}" for number, (kind, _, _) in enumerate(KINDS)]
)
def test_no_exchange_at_any_moment_changes_anything_outside(memory, kind, name, arguments):
    """Each exchange is tried before each call.

    Without an exchange the kind does its work, so the calls are those of a real run.
    """

    def one(number: int, attack: str | None) -> tuple[bool, int]:
        top = memory / f"{number}-{attack}".replace(" ", "-").replace("'", "")
        top.mkdir()
        scene = Scene(top)
        adversary = Adversary(number, ATTACKS[attack](scene) if attack else lambda: None)
        done = runner.run(_run(top, kind, name, arguments, adversary))
        try:
            scene.demand_untouched(top)
        except AssertionError as error:
            raise AssertionError(f"{attack} before call {number} of {kind}: {error}") from error
        shutil.rmtree(top)
        return done, adversary.calls

    with asyncio.Runner() as runner:
        done, calls = one(-1, None)
        assert done
        for number, attack in sample([*itertools.product(range(calls), ATTACKS)], ONE_IN):
            one(number, attack)
