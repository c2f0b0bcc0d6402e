"""`git.latest` with the real git, on repositories of this host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from git_remote import GitRemote, Here, git
from holdfast.resources.errors import Permanent


@pytest.fixture
def remote(tmp_path: Path) -> GitRemote:
    """A remote repository with one commit."""
    remote = GitRemote(tmp_path / "remote")
    remote.commit({"index.html": "one\n", "css/a.css": "a\n"})
    return remote


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """The host of the tests."""
    return Here(tmp_path)


@pytest.fixture
def target() -> Iterator[Path]:
    """The directory of the clone, which does not exist; all users may enter those above it."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory) / "clones" / "site"


def run(directory: Path, command: str) -> None:
    """Run a command in a directory."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(command.split(), cwd=directory, check=True, env=env)


@contextmanager
def git_at_work(directory: Path) -> Iterator[None]:
    """Run git in a directory during the block."""
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=directory, stdin=subprocess.PIPE) as process:
        yield
        process.stdin.close()


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return inode, time and content of everything below a path."""
    return {
        str(each): (each.lstat().st_ino, each.lstat().st_mtime_ns, each.read_bytes() if each.is_file() else b"")
        for each in sorted(path.rglob("*"))
    }


async def test_a_clone_is_made_and_follows_the_branch(remote, here, target):
    """A new commit is a fast-forward; nothing else changes; a plan changes nothing at all."""
    first = remote.head()
    changes = await here.settle("git.latest", remote.url, target=str(target), rev="main")
    assert changes == {"new": f"{remote.url} => {target}"}
    assert (target / "index.html").read_text() == "one\n"
    assert git(target, "status", "--porcelain", "--branch") == "## main...origin/main"
    assert git(target, "symbolic-ref", "refs/remotes/origin/HEAD") == "refs/remotes/origin/main"

    (target / "upload.txt").write_text("kept\n")
    second = remote.commit({"index.html": "two\n"})
    before = tree(target)
    assert not await here.check("git.latest", remote.url, target=str(target), rev="main", apply=False)
    assert tree(target) == before
    assert here.report.changes == {"revision": {"old": first, "new": second}}
    changes = await here.settle("git.latest", remote.url, target=str(target), rev="main")

    assert changes == {"revision": {"old": first, "new": second}}
    assert here.report.comment == f"changed {target} (fetch from origin, fast-forward to {second[:7]})"
    assert (target / "upload.txt").read_text() == "kept\n"


async def test_a_branch_of_the_remote_is_not_the_local_one(remote, here, target):
    """As in Salt, without `branch` the local branch keeps its name, and follows the declared one."""
    git(remote.path, "checkout", "-q", "-b", "dev")
    dev = remote.commit({"index.html": "dev\n"})
    git(remote.path, "checkout", "-q", "main")
    await here.settle("git.latest", remote.url, target=str(target), rev="dev")
    assert git(target, "status", "--porcelain", "--branch") == "## main...origin/dev"
    assert git(target, "rev-parse", "HEAD") == dev

    changes = await here.settle("git.latest", remote.url, target=str(target), rev="dev", branch="dev")
    assert changes["branch"] == {"old": "main", "new": "dev"}
    assert git(target, "status", "--porcelain", "--branch") == "## dev...origin/dev"
    await here.settle("git.latest", remote.url, target=str(target), rev="main", branch="main", force_reset=True)
    assert git(target, "status", "--porcelain", "--branch") == "## main...origin/main"


@pytest.mark.parametrize("annotated", [True, False])
async def test_a_tag_is_checked_out(remote, here, target, annotated):
    """The branch then follows none. A tag that moves is followed; a tag that the remote loses is removed."""
    git(remote.path, "tag", *(["-a", "-m", "x"] if annotated else []), "v1")
    tagged = remote.head()
    remote.commit({"index.html": "two\n"})
    await here.settle("git.latest", remote.url, target=str(target), rev="v1")
    assert (git(target, "rev-parse", "HEAD"), git(target, "status", "-bs")) == (tagged, "## main")

    git(remote.path, "tag", "-f", *(["-a", "-m", "x"] if annotated else []), "v1")
    git(remote.path, "tag", "v2")
    await here.settle("git.latest", remote.url, target=str(target), rev="v1")
    assert git(target, "rev-parse", "HEAD") == remote.head()
    git(remote.path, "tag", "-d", "v2")
    assert (await here.settle("git.latest", remote.url, target=str(target), rev="v1")) == {"deleted_tags": ["v2"]}


async def test_a_commit_is_checked_out(remote, here, target):
    """A commit may be given by its first digits."""
    first = remote.head()
    remote.commit({"index.html": "two\n"})
    await here.settle("git.latest", remote.url, target=str(target), rev=first[:12])
    assert git(target, "rev-parse", "HEAD") == first

    with pytest.raises(Permanent, match=rf"cannot find {'e' * 40} in .*: the fetch did not bring it"):
        await here.check("git.latest", remote.url, target=str(target), rev="e" * 40, apply=True)
    with pytest.raises(Permanent, match=r"cannot find nope in .*: it has no branch or tag with this name"):
        await here.check("git.latest", remote.url, target=str(target), rev="nope", apply=True)


async def test_changes_of_files_are_told_and_discarded_only_if_declared(remote, here, target):
    """Without `force_reset`, changes stay while the commit is right, and prevent an update."""
    await here.settle("git.latest", remote.url, target=str(target))
    (target / "index.html").write_text("mine\n")
    (target / "css/a.css").unlink()
    (target / "upload.txt").write_text("kept\n")
    assert await here.check("git.latest", remote.url, target=str(target), apply=True)
    assert "uncommitted changes (D css/a.css, M index.html)" in here.report.comment
    assert "-mine\n+one\n" in here.report.diff
    assert await here.check("git.latest", remote.url, target=str(target), apply=True, force_reset="remote-changes")

    changes = await here.settle("git.latest", remote.url, target=str(target), force_reset=True)
    assert changes == {"forced update": True, "discarded": ["D css/a.css", "M index.html"]}
    assert "-mine\n+one\n" in here.report.diff
    assert (target / "index.html").read_text() == "one\n"

    (target / "index.html").write_text("mine\n")
    remote.commit({"index.html": "two\n"})
    with pytest.raises(Permanent, match=r"tracked files have uncommitted changes \(M index.html\).*force_reset: true"):
        await here.check("git.latest", remote.url, target=str(target), apply=True)
    assert "-mine\n+one\n" in here.report.diff
    await here.settle("git.latest", remote.url, target=str(target), force_reset="remote-changes")
    assert (target / "index.html").read_text() == "two\n"
    assert (target / "upload.txt").read_text() == "kept\n"


async def test_what_others_cannot_read_is_not_shown(remote, here, target):
    """The diff shows neither files of a private directory nor private files."""
    await here.settle("git.latest", remote.url, target=str(target))
    (target / "index.html").write_text("secret\n")
    for path, mode in ((target, 0o700), (target / "index.html", 0o600)):
        former = path.stat().st_mode
        path.chmod(mode)
        assert not await here.check("git.latest", remote.url, target=str(target), apply=False, force_reset=True)
        assert "secret" not in here.report.diff
        path.chmod(former)
    assert not await here.check("git.latest", remote.url, target=str(target), apply=False, force_reset=True)
    assert "-secret\n" in here.report.diff


async def test_the_lock_of_a_killed_git_is_removed(remote, here, target):
    """The lock is not removed while git works in the clone, or while the lock is young."""
    await here.settle("git.latest", remote.url, target=str(target))
    lock = target / ".git/index.lock"
    declared = {"target": str(target), "force_reset": True, "apply": True}
    (target / "index.html").write_text("mine\n")
    lock.touch()
    with pytest.raises(Permanent, match=r"index.lock': File exists; another git is running there, or a killed git"):
        await here.check("git.latest", remote.url, **declared)
    os.utime(lock, (1, 1))
    with git_at_work(target), pytest.raises(Permanent, match=r"index.lock': File exists"):
        await here.check("git.latest", remote.url, **declared)
    assert not await here.check("git.latest", remote.url, **declared)
    assert (target / "index.html").read_text() == "one\n"
    assert not lock.exists()


async def test_local_commits_are_discarded_only_if_declared(remote, here, target):
    """The error says how many there are."""
    await here.settle("git.latest", remote.url, target=str(target), rev="main")
    (target / "index.html").write_text("mine\n")
    git(target, "commit", "-aqm", "mine")
    with pytest.raises(Permanent, match="it lacks 1 commits of the clone; force_reset: true discards them"):
        await here.check("git.latest", remote.url, target=str(target), rev="main", apply=True)

    changes = await here.settle("git.latest", remote.url, target=str(target), rev="main", force_reset=True)
    assert changes["forced update"] is True
    assert changes["revision"]["new"] == remote.head()


async def test_a_rewritten_branch_needs_force(remote, here, target):
    """`force_fetch` lets git take it, `force_reset` lets the work tree follow it."""
    await here.settle("git.latest", remote.url, target=str(target), rev="main")
    remote.commit({"index.html": "other\n"}, amend=True)
    with pytest.raises(Permanent, match="a branch was rewritten; set force_fetch: true"):
        await here.check("git.latest", remote.url, target=str(target), rev="main", apply=True, force_reset=True)
    await here.settle("git.latest", remote.url, target=str(target), rev="main", force_reset=True, force_fetch=True)
    assert git(target, "rev-parse", "HEAD") == remote.head()


async def test_an_untracked_file_in_the_way_is_kept(remote, here, target):
    """It is replaced only with `force_reset`, and the run reports this."""
    await here.settle("git.latest", remote.url, target=str(target), rev="main")
    (target / "new.txt").write_text("mine\n")
    remote.commit({"new.txt": "theirs\n"})
    with pytest.raises(Permanent, match="untracked working tree files would be overwritten"):
        await here.check("git.latest", remote.url, target=str(target), rev="main", apply=True)
    assert (target / "new.txt").read_text() == "mine\n"
    changes = await here.settle("git.latest", remote.url, target=str(target), rev="main", force_reset=True)
    assert changes["discarded"] == ["?? new.txt"]


DAMAGES = (
    "rm .git/index",
    "rm .git/refs/heads/main",
    "git -c user.name=a -c user.email=b commit -qam mine --allow-empty",
    "git checkout -q --detach",
    "git rm -q index.html",
    "git config remote.origin.url https://elsewhere.example.org/",
    "git remote remove origin",
    "rm -r .git/refs/remotes",
    "git branch --unset-upstream",
    "chmod +x index.html",
    "ln -sf /etc/passwd index.html",
    "rm -r css",
)


async def test_damage_is_repaired(remote, here, target):
    """With `force_reset` and `branch`, everything is again as in a new clone.

    The test is slow, because git runs 400 times.
    """
    declared = {"target": str(target), "rev": "main", "branch": "main", "force_reset": True}
    await here.settle("git.latest", remote.url, **declared)
    for damage in DAMAGES:
        run(target, damage)
        assert await here.settle("git.latest", remote.url, **declared), damage

        assert git(target, "status", "--porcelain", "--branch") == "## main...origin/main", damage
        assert git(target, "rev-parse", "HEAD") == remote.head(), damage
        assert git(target, "config", "remote.origin.url") == remote.url, damage


async def test_only_the_fetch_without_update_head(remote, here, target):
    """The work tree stays where it is."""
    await here.settle("git.latest", remote.url, target=str(target), rev="main")
    first, second = remote.head(), remote.commit({"index.html": "two\n"})
    assert not await here.check("git.latest", remote.url, target=str(target), rev="main", update_head=False, apply=True)
    assert (git(target, "rev-parse", "HEAD"), git(target, "rev-parse", "origin/main")) == (first, second)
    assert await here.check("git.latest", remote.url, target=str(target), rev="main", update_head=False, apply=True)


async def test_a_directory_with_other_content_is_refused(remote, here, target):
    """`force_clone` removes the content, once everything has been fetched."""
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("mine\n")
    with pytest.raises(Permanent, match="the directory is not empty and is not a git repository; set force_clone"):
        await here.check("git.latest", remote.url, target=str(target), apply=True)
    with pytest.raises(Permanent, match="cannot find nope"):
        await here.check("git.latest", remote.url, target=str(target), rev="nope", force_clone=True, apply=True)
    assert (target / "mine.txt").exists()

    changes = await here.settle("git.latest", remote.url, target=str(target), force_clone=True)
    assert changes == {"new": f"{remote.url} => {target}", "forced clone": True}
    assert sorted(each.name for each in target.iterdir()) == [".git", "css", "index.html"]


async def test_an_interrupted_clone_is_begun_anew(remote, here, target):
    """The leftovers of a killed run are recognised by their directory, and are removed."""
    target.mkdir(parents=True)
    (target / ".git.holdfast").mkdir()
    (target / "half.html").write_text("half")
    await here.settle("git.latest", remote.url, target=str(target))
    assert sorted(each.name for each in target.iterdir()) == [".git", "css", "index.html"]


@pytest.mark.parametrize("mirror", [True, False])
async def test_a_bare_repository_follows_the_remote(remote, here, target, mirror):
    """A mirror also loses what the remote loses."""
    declared = {"target": str(target), "mirror": True} if mirror else {"target": str(target), "bare": True}
    git(remote.path, "branch", "old")
    await here.settle("git.latest", remote.url, **declared)
    git(remote.path, "branch", "-D", "old")
    second = remote.commit({"index.html": "two\n"})
    git(remote.path, "tag", "v1")
    await here.settle("git.latest", remote.url, **declared)

    assert git(target, "rev-parse", "main", "v1").split() == [second, second]
    assert ("refs/heads/old" in git(target, "for-each-ref")) is not mirror
    assert git(target, "rev-parse", "--is-bare-repository") == "true"
    git(target, "update-ref", "-d", "refs/heads/main")
    await here.settle("git.latest", remote.url, **declared)
    with pytest.raises(Permanent, match="it is a bare repository"):
        await here.check("git.latest", remote.url, target=str(target), apply=True)


async def test_a_shallow_clone_has_only_the_declared_branch(remote, here, target):
    """`depth` needs a URL with a protocol; later updates keep the clone small."""
    for number in range(3):
        remote.commit({"index.html": f"{number}\n"})
    git(remote.path, "branch", "other")
    declared = {"target": str(target), "rev": "main", "depth": 1}
    await here.settle("git.latest", f"file://{remote.url}", **declared)
    assert git(target, "rev-list", "--count", "HEAD") == "1"
    assert "other" not in git(target, "for-each-ref")
    remote.commit({"index.html": "new\n"})
    await here.settle("git.latest", f"file://{remote.url}", **declared)
    assert git(target, "rev-list", "--count", "HEAD") == "2"


async def test_an_empty_repository_is_cloned(tmp_path, here, target):
    """Its first commit is then an update."""
    remote = GitRemote(tmp_path / "empty")
    await here.settle("git.latest", remote.url, target=str(target))
    remote.commit({"a": "a\n"})
    changes = await here.settle("git.latest", remote.url, target=str(target))
    assert changes["revision"] == {"old": None, "new": remote.head()}
    assert (target / "a").exists()


async def test_programs_of_the_repository_do_not_run(remote, here, target, tmp_path):
    """Neither hooks nor a file system monitor of the clone run, so nobody can make root run them."""
    await here.settle("git.latest", remote.url, target=str(target), rev="main")
    ran = tmp_path / "ran"
    script = target / ".git/hooks/post-merge"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (script.parent / name).symlink_to(script)
    git(target, "config", "core.fsmonitor", str(script))
    git(target, "config", "core.hooksPath", str(script.parent))
    git(target, "config", "diff.external", str(script))
    remote.commit({"index.html": "two\n"})
    (target / "css/a.css").write_text("mine")
    await here.settle("git.latest", remote.url, target=str(target), rev="main", force_reset=True)

    assert not ran.exists()


async def test_a_repository_around_the_target_is_not_meant(remote, here, tmp_path):
    """A directory in the work tree of another repository is not a clone."""
    outer = GitRemote(tmp_path / "outer")
    outer.commit({"site/a": "a\n"})
    with pytest.raises(Permanent, match="is not a git repository"):
        await here.check("git.latest", remote.url, target=str(outer.path / "site"), apply=True)
    link = tmp_path / "link"
    link.symlink_to(outer.path / "site")
    with pytest.raises(Permanent, match="is not a git repository"):
        await here.check("git.latest", remote.url, target=str(link), apply=True)
