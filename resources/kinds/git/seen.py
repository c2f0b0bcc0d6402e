"""The content of a repository on this host and of a remote repository, as git reports it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from holdfast.resources.context import Completed
from holdfast.resources.kinds.git import nested
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.trusted import is_root

HEADS, TAGS, PEELED = "refs/heads/", "refs/tags/", "^{}"
HASH = re.compile(r"[0-9a-fA-F]{4,40}|[0-9a-fA-F]{64}")
"""Matches what may be the beginning of a commit hash."""
SHORT = 7
"""Number of digits of a commit hash in messages."""


@dataclass(frozen=True)
class RemoteReferences:
    """The references of a remote repository."""

    refs: Mapping[str, str]
    """Name -> object. The commit of an annotated tag is under the name of the tag with `^{}`."""
    default: str | None = None
    """Name of the default branch."""

    @property
    def tags(self) -> dict[str, str]:
        """Name of each tag -> its object."""
        found = self.refs.items()
        return {name[len(TAGS) :]: sha for name, sha in found if name.startswith(TAGS) and not name.endswith(PEELED)}


@dataclass(frozen=True)
class SeenRepository:
    """A repository on this host."""

    refs: Mapping[str, str]
    """Name -> object."""
    url: str | None
    """URL of the remote; None if there is no such remote."""
    bare: bool
    head: str | None = None
    """The commit of the work tree; None if there is none yet."""
    branch: str | None = None
    """The branch of the work tree; None if there is none, or in a bare repository."""
    upstream: str | None = None
    """The branch that it follows, such as `origin/main`."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Path of each tracked file that differs from the commit -> git's two letters for the difference."""
    submodules: tuple[str, ...] = ()
    """Paths of submodules that are not at the commit of the work tree."""

    @property
    def tags(self) -> dict[str, str]:
        """Name of each tag -> its object."""
        return {name[len(TAGS) :]: sha for name, sha in self.refs.items() if name.startswith(TAGS)}

    @property
    def heads(self) -> dict[str, str]:
        """Name of each branch -> its commit."""
        return {name[len(HEADS) :]: sha for name, sha in self.refs.items() if name.startswith(HEADS)}


def short(sha: str | None) -> str:
    """Return a shortened commit hash for messages."""
    return sha[:SHORT] if sha else "nothing"


def bare_url(url: str) -> str:
    """Return a URL without its user and password, for messages and comparisons of http URLs."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if parts.scheme in {"http", "https"} else url


async def look(git: Git, remote: str, *, submodules: bool) -> SeenRepository | None:
    """Return the content of the repository; None if git finds no repository in this directory."""
    refs, url, (links, tree) = await asyncio.gather(
        git.run("for-each-ref", "--format=%(refname) %(objectname)", check=False),
        git.run("config", "--local", "--get", f"remote.{remote}.url", check=False),
        _status(git, submodules=submodules),
    )
    bare = False
    if tree.retcode != 0 or ":" in git.directory:  # with a colon, git may find a repository above the directory
        kind = await git.run("rev-parse", "--is-bare-repository", "--show-prefix", check=False)
        said, _, prefix = kind.stdout.partition("\n")
        if kind.retcode != 0 or prefix.strip():  # a prefix: the directory is in the work tree of another repository
            if "dubious ownership" in kind.stderr:
                raise git.failure("work", kind)
            return None
        bare = said == "true"
    names = dict(line.split(" ", 1) for line in git.demand(refs).splitlines())
    found = url.stdout.rstrip("\n") if url.retcode == 0 else None
    if bare:
        return SeenRepository(names, found, bare=True)
    parsed = parse_status(item for item in git.demand(tree).split("\0") if item)
    differ = any(name in parsed["changed"] for name in links)
    outdated = await nested.outdated(git, links, differ=differ) if submodules else ()
    return SeenRepository(names, found, bare=False, **parsed, submodules=outdated)


async def commit_in(git: Git, seen: SeenRepository, revision: str) -> str | None:
    """Return the commit that a revision means; None if the repository does not have it."""
    return seen.head if revision == seen.head else await git.commit_of(revision)


async def _status(git: Git, *, submodules: bool) -> tuple[list[str], Completed]:
    """Return the submodules, and the status of the work tree, with that of submodules if they matter."""
    ignore = "none" if submodules else "all"
    words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=no", f"--ignore-submodules={ignore}")
    if not submodules:
        return [], await git.run(*words, check=False)
    if await git.ctx.blocking(is_root, git.user):
        return await nested.links(git), await git.run(
            *words, check=False
        )  # this first makes sure that git may run there
    return await asyncio.gather(nested.links(git), git.run(*words, check=False))


def parse_status(items: Iterable[str]) -> dict[str, Any]:
    """Parse the output of `git status --porcelain=v2 --branch -z` into fields of `SeenRepository`."""
    found: dict[str, Any] = {}
    changed: dict[str, str] = {}
    left = iter(items)
    for item in left:
        word, _, rest = item.partition(" ")
        if word == "#":
            key, _, value = rest.partition(" ")
            name = {"branch.oid": "head", "branch.head": "branch", "branch.upstream": "upstream"}.get(key)
            if name and value not in {"(initial)", "(detached)"}:
                found[name] = value
        elif word in {"1", "2", "u"}:
            fields = item.split(" ", {"1": 8, "2": 9, "u": 10}[word])
            changed[fields[-1]] = fields[1]
            if word == "2":
                next(left, None)  # the former path of a renamed file
    return {**found, "changed": changed}


async def ask(git: Git, *patterns: str) -> RemoteReferences:
    """Return the references of the remote repository that match, or all. Raises `Permanent` or `Temporary`."""
    done = await git.run("ls-remote", "--symref", "--", git.url, *patterns, at="/", network=True)
    return parse_remote(done.stdout)


def parse_remote(text: str) -> RemoteReferences:
    """Parse the output of `git ls-remote --symref`."""
    refs: dict[str, str] = {}
    default = None
    for line in text.splitlines():
        sha, _, name = line.partition("\t")
        if sha.startswith("ref: "):
            default = sha[5:].removeprefix(HEADS) if name == "HEAD" and sha.startswith(f"ref: {HEADS}") else default
        elif name:
            refs[name] = sha
    return RemoteReferences(refs, default)
