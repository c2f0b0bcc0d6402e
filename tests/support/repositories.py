"""The functions of `pkg` for repositories, with files below a directory of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import ChangeSet, Repo
from holdfast.resources.providers._apt_repos import FileEdits, known_repos, remove_repo, set_repo, write_edit
from holdfast.resources.providers._rpm_repos import known_repos as known_sections
from holdfast.resources.providers._rpm_repos import remove_repo as remove_section
from holdfast.resources.providers._rpm_repos import set_repo as set_section


class Apt:
    """The functions of `pkg` for repositories, with the files of apt's provider below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.refreshed: list[str] = []
        self.fails = ""

    def place(self, path: Path) -> Path:
        """Return where a file is."""
        return self.root / str(path).lstrip("/")

    async def repos(self) -> dict[str, Repo]:
        """Return the configured repositories."""
        found = known_repos(self.place(Path("/etc/apt")))
        await asyncio.sleep(0)  # other states may run meanwhile
        return found

    async def repo_set(self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Any = None) -> Any:
        """Change a repository, or refuse with the text of `fails` before anything is written."""
        edit = set_repo(self.place, repo, options or {}, Path("/tried"))
        return self._done(edit, repo.id if refresh else "", test=test)

    async def repo_remove(self, name: str, *, test: bool = False, options: Any = None) -> ChangeSet:
        """Remove a repository."""
        return self._done(remove_repo(self.place, name, options or {}), "", test=test)

    def repo_files(self) -> tuple[str, ...]:
        """Return the files to watch."""
        return ("/etc/apt/sources.list.d",)

    def _done(self, edit: FileEdits, refreshed: str, *, test: bool) -> ChangeSet:
        if edit.changes and not test:
            if self.fails:
                raise Permanent(self.fails)
            self.refreshed += [refreshed] if refreshed else []
            write_edit(self.place, edit)
        return ChangeSet(changes=edit.changes)

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.place(Path(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read(self, path: str) -> str | None:
        """Return the content of a file; None if there is none."""
        file = self.place(Path(path))
        return file.read_text() if file.exists() else None


class Rpm(Apt):
    """The same functions, with the files of the providers of dnf and zypper."""

    async def repos(self) -> dict[str, Repo]:
        """Return the configured repositories."""
        return known_sections(self.root)

    async def repo_set(self, repo: Repo, refresh: bool = False, *, test: bool = False, options: Any = None) -> Any:
        """Change a section."""
        return ChangeSet(changes=set_section(self.root, repo, test=test))

    async def repo_remove(self, name: str, *, test: bool = False, options: Any = None) -> ChangeSet:
        """Remove a section."""
        return ChangeSet(changes=remove_section(self.root, name, self.root, test=test))
