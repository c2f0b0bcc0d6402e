"""A git repository that others clone, with commits made by the tests, and a runner of resources on this host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.report import Report

WHO = {
    f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in (("NAME", "A"), ("EMAIL", "a@b"))
}
ENVIRONMENT = {**os.environ, **WHO, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git(directory: Path, *words: str) -> str:
    """Run git in a directory; return its output without blanks around it."""
    argv = ("git", "-C", str(directory), *words)
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout.strip()


class GitRemote:
    """A repository with a work tree; `main` is its branch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        git(path, "init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        """URL for a clone."""
        return str(self.path)

    def commit(self, files: dict[str, str] | None = None, *, amend: bool = False, remove: str = "") -> str:
        """Make a commit with these files; return it."""
        for name, text in (files or {}).items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if remove:
            (self.path / remove).unlink()
        git(self.path, "add", "--all")
        git(self.path, "commit", "--quiet", "--allow-empty", "-m", "x", *(["--amend"] if amend else []))
        return self.head()

    def head(self) -> str:
        """Return the commit of HEAD."""
        return git(self.path, "rev-parse", "HEAD")


class Here:
    """Runs resources on this host."""

    def __init__(self, tmp: Path) -> None:
        (tmp / "states").mkdir()
        self.host = LocalHost(states=tmp / "states", var_dir=tmp / "var", durable=False)
        self.report = Report()

    async def check(self, kind: str, name: str, *, apply: bool, **arguments: Any) -> bool:
        """Run a resource once; `report` then has what it reports. Return whether it was as declared."""
        cls = registry.find(kind)
        assert cls is not None
        ctx = self.host.context(f"{kind}[{name}]")
        ctx.report = self.report = Report()
        return await cls.declare(name, **arguments).check_apply(ctx, apply)

    async def settle(self, kind: str, name: str, **arguments: Any) -> dict[str, Any]:
        """Plan, apply and apply again: the plan changes nothing on the disk is for others; the last finds nothing.

        Return the changes of the apply.
        """
        assert not await self.check(kind, name, apply=False, **arguments)
        assert not await self.check(kind, name, apply=True, **arguments)
        report = self.report
        assert await self.check(kind, name, apply=True, **arguments), self.report.comment
        self.report = report
        return report.changes
