"""git as root, in clones that other users can write: it runs nothing of theirs, and writes nothing elsewhere.

A test takes more than a second, as it runs git some fifty times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from git_remote import GitRemote, Here, git
from holdfast.resources.diff import PRIVATE
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.git.trusted import demand_same

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root works for other users")

OTHER = 12345
REDIRECTED = r"git must not change .* as root, because other users could redirect it: .*/{}: it belongs to uid 12345"


@pytest.fixture
def remote(tmp_path: Path) -> GitRemote:
    """A remote repository with a directory."""
    remote = GitRemote(tmp_path / "remote")
    remote.commit({"index.html": "one\n", "css/a.css": "a\n"})
    return remote


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """The host of the tests."""
    return Here(tmp_path)


@pytest.fixture
def target() -> Iterator[Path]:
    """The directory of the clone; all users may enter those above it."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory) / "site"


def given_away(path: Path) -> Path:
    """Create a directory if it does not exist, and give it to another user."""
    path.mkdir(exist_ok=True)
    os.chown(path, OTHER, OTHER)
    return path


def latest(remote: GitRemote, target: Path, **arguments: Any) -> dict[str, Any]:
    """Return arguments of `git.latest` for `Here`."""
    return {"kind": "git.latest", "name": remote.url, "target": str(target), "rev": "main", **arguments}


async def test_root_does_not_work_where_others_can_write(remote, here, target):
    """Git would run programs that other users have configured, or check out their content."""
    await here.settle(**latest(remote, target))
    refused = "cannot run git as root in .*, because other users could make it run"
    inside = [target / ".git" / name for name in ("config", "objects", "refs", "index", "HEAD")]
    for path in (target, target / ".git", *inside):
        mode = path.stat().st_mode
        for uid, gid, bits in ((OTHER, OTHER, 0o755), (0, OTHER, 0o775), (0, 0, 0o777)):
            os.chown(path, uid, gid)
            path.chmod(bits)
            with pytest.raises(Permanent, match=refused):
                await here.check(**latest(remote, target), apply=False)
        os.chown(path, 0, 0)
        path.chmod(mode)
    with pytest.raises(
        Permanent, match=r"cannot run git as nobody in .*: it belongs to root; change its owner to nobody"
    ):
        await here.check(**latest(remote, target), user="nobody", apply=False)
    with pytest.raises(Permanent, match="cannot run git as nobody-here: the user does not exist"):
        await here.check(**latest(remote, target), user="nobody-here", apply=False)
    assert await here.check(**latest(remote, target), apply=True)


@pytest.mark.parametrize(
    "path",
    [
        "hooks/post-checkout",
        "refs/heads/main",
        "info/attributes",
        "objects/ab/cd",
        "worktrees/x/config.worktree",
        "modules/a/b/config",
    ],
)
async def test_root_does_not_work_where_a_file_of_git_is_another_user_s(remote, here, target, path):
    """The file may be at any depth: a hook would run, and a reference or an object would change what is checked out."""
    await here.settle(**latest(remote, target))
    file = target / ".git" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    os.chown(file, OTHER, OTHER)
    with pytest.raises(Permanent, match=f"cannot run git as root in .*: {file}: it belongs to uid {OTHER}"):
        await here.check(**latest(remote, target), apply=True)


async def test_root_does_not_work_with_objects_or_hooks_of_another_user_elsewhere(remote, here, target):
    """These may be alternate objects, a link to hooks, or a common directory, and may refer to each other."""
    await here.settle(**latest(remote, target))
    common = target.parent / "common"
    (common / "info").mkdir(parents=True)
    (common / "info/alternates").write_text("../common\n")
    (target / ".git/objects/info/alternates").write_text(f"# ours\n{common}\n")
    assert await here.check(**latest(remote, target), apply=True)
    os.chown(common / "info", OTHER, OTHER)
    told = f"{common}/info: it belongs to uid {OTHER}"
    with pytest.raises(Permanent, match=told):
        await here.check(**latest(remote, target), apply=True)
    (target / ".git/objects/info/alternates").unlink()
    (target / ".git/hooks").mkdir(exist_ok=True)
    (target / ".git/hooks/more").symlink_to(common)
    with pytest.raises(Permanent, match=told):
        await here.check(**latest(remote, target), apply=True)
    (target / ".git/hooks/more").unlink()
    assert await here.check(**latest(remote, target), apply=True)
    (target / ".git/commondir").write_text(f"{common}\n")
    with pytest.raises(Permanent, match=told):
        await here.check(**latest(remote, target), apply=True)


@pytest.mark.parametrize(
    "lead",
    [
        lambda at, to: at.symlink_to(to),
        lambda at, to: at.write_text(f"gitdir: {to}\n"),
        lambda at, to: at.write_text(f"gitdir: ../{to.parent.name}/{to.name}\n"),
    ],
)
async def test_a_repository_kept_elsewhere_must_be_roots(
    remote: GitRemote, here: Here, target: Path, lead: Callable[[Path, Path], object]
) -> None:
    """`.git` may be a link or a file that names the repository, whose directory is checked, too."""
    await here.settle(**latest(remote, target))
    kept = target.parent / "kept"
    kept.mkdir()
    (target / ".git").rename(kept / "site.git")
    lead(target / ".git", kept / "site.git")
    assert await here.check(**latest(remote, target), apply=True)

    for path in (kept, kept / "site.git", kept / "site.git/config"):
        os.chown(path, OTHER, OTHER)
        with pytest.raises(Permanent, match=r"cannot run git as root in .*: it belongs to uid 12345"):
            await here.check(**latest(remote, target), apply=True)
        os.chown(path, 0, 0)


async def test_root_changes_no_work_tree_in_which_others_own_directories_of_tracked_files(remote, here, target):
    """They could replace one by a link while git works. If nothing has to be changed, nothing is refused."""
    await here.settle(**latest(remote, target))
    given_away(target / "css")
    assert await here.check(**latest(remote, target, force_reset=True), apply=True)
    (target / "css/a.css").write_text("mine\n")
    for force in ("remote-changes", False):
        assert await here.check(**latest(remote, target, force_reset=force), apply=True)
        assert here.report.diff == PRIVATE
    for apply in (False, True):
        with pytest.raises(Permanent, match=REDIRECTED.format("css")):
            await here.check(**latest(remote, target, force_reset=True), apply=apply)
    (target / "css/a.css").write_text("a\n")
    remote.commit({"index.html": "two\n"})
    for kind in ("git.latest", "git.detached"):
        with pytest.raises(Permanent, match=REDIRECTED.format("css")):
            await here.check(**{**latest(remote, target), "kind": kind}, apply=True)
    assert (target / "index.html").read_text() == "one\n"
    git(target, "branch", "other", "HEAD")
    for kind in ("git.latest", "git.cloned"):
        with pytest.raises(Permanent, match=REDIRECTED.format("css")):
            await here.check(kind, remote.url, target=str(target), branch="other", apply=True)


async def test_directories_of_others_without_tracked_files_are_left_alone(remote, here, target):
    """Files that users write there stay, and clones are updated. A commit that needs the directory is refused."""
    await here.settle(**latest(remote, target))
    (given_away(target / "uploads") / "x").write_text("kept\n")
    remote.commit({"index.html": "two\n"})
    await here.settle(**latest(remote, target, force_reset=True))
    remote.commit({"uploads/y": "y\n"})
    with pytest.raises(Permanent, match=REDIRECTED.format("uploads")):
        await here.check(**latest(remote, target, force_reset=True), apply=True)
    remote.commit(remove="uploads/y")
    (remote.path / "uploads").rmdir()
    await here.settle(**latest(remote, target))
    remote.commit({"uploads": "a file\n"})
    with pytest.raises(Permanent, match=REDIRECTED.format("uploads")):
        await here.check(**latest(remote, target, force_reset=True), apply=True)
    assert (target / "uploads/x").read_text() == "kept\n"


async def test_root_runs_nothing_of_a_submodule_of_others(remote, here, target, tmp_path):
    """Git runs git in submodules without a check of their owners, and their configuration can name programs."""
    part = GitRemote(tmp_path / "part")
    part.commit({"inside": "one\n", ".gitattributes": "* filter=x\n"})
    git(remote.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.url, "part")
    remote.commit()
    await here.settle(**latest(remote, target))
    git(target, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    assert await here.check(**latest(remote, target, submodules=True), apply=True)

    ran = tmp_path / "ran"
    config = target / ".git/modules/part/config"
    git(target / "part", "config", "filter.x.clean", f"touch {ran}; cat")
    for path in (config, config.parent, target / "part"):
        os.chown(path, OTHER, OTHER)
        (target / "part/inside").write_text("one\n")  # git reads its content, because it is newer
        with pytest.raises(Permanent, match=r"cannot run git as root in .*part.*: it belongs to uid 12345"):
            await here.check(**latest(remote, target, submodules=True), apply=True)
        os.chown(path, 0, 0)
    assert not ran.exists()


async def test_nobody_can_take_the_place_of_a_new_clone(remote, here, target, monkeypatch):
    """In a directory such as /tmp, another user replaces the new directory by a link before it has any content."""
    target.parent.chmod(0o1777)
    elsewhere = given_away(target.parent / "elsewhere")

    def exchanged(*arguments: Any) -> None:
        target.rmdir()
        target.symlink_to(elsewhere)
        os.lchown(target, OTHER, OTHER)
        demand_same(*arguments)

    monkeypatch.setattr("holdfast.resources.kinds.git.making.demand_same", exchanged)
    with pytest.raises(Permanent, match=r"cannot follow .*site: it is a link to .* that belongs to user 12345"):
        await here.check(**latest(remote, target), apply=True)
    assert list(elsewhere.iterdir()) == []
