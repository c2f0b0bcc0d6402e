"""Where one tree is played: directories of its own, laid out anew for each run, and what the disk holds afterwards.

Both sides use it, Salt's worker under Salt's own interpreter: only the standard library is imported.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

DIR = "/DIR"
"""Stands, in every text of a tree and in every answer, for the directory that the tree may write to."""
GRAINS = {
    "id": "web1",
    "host": "web1",
    "os": "Debian",
    "os_family": "Debian",
    "osrelease": "12",
    "kernel": "Linux",
    "roles": ["web", "db"],
    "ipv4": ["127.0.0.1", "10.0.0.7"],
    "ip_interfaces": {"lo": ["127.0.0.1"], "eth0": ["10.0.0.7"]},
    "network": {"gateway": "10.0.0.1"},
    "path": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "shell": "/bin/sh",
}
"""The host that all trees are for; a tree may add to it."""

Job = dict[str, Any]
"""A tree as JSON; `trees.Tree` says what is in it."""


class Stage:
    """The directories of one tree: `states`, `pillar`, and `disk`, which its states write to."""

    def __init__(self, base: Path, job: Job) -> None:
        self.states, self.pillar, self.disk, self.memory = (
            base / name for name in ("states", "pillar", "disk", "memory")
        )
        self._job = job
        for directory in (self.states, self.pillar, self.disk, self.memory):
            directory.mkdir(parents=True)
        for directory, files in ((self.states, job["files"]), (self.pillar, job["pillar"])):
            for name, text in files.items():
                self._write(directory / name, text)

    def set(self) -> None:
        """Make the disk what it is before a run."""
        shutil.rmtree(self.disk)
        self.disk.mkdir()
        for name, what in self._job["disk"].items():
            path = self.disk / name
            entry = {"text": what} if isinstance(what, str) else what
            if "text" in entry:
                self._write(path, entry["text"])
            elif "link" in entry:
                path.symlink_to(self.here(entry["link"]))
            else:
                path.mkdir(parents=True)
            if "mode" in entry:
                path.chmod(int(entry["mode"], 8))

    def found(self) -> dict[str, str]:
        """What the disk holds: name -> kind, mode, content."""
        known = {}
        for path in sorted(self.disk.rglob("*")):
            status = path.lstat()
            mode = f"{stat.S_IMODE(status.st_mode):o}"
            if path.is_symlink():
                what = f"link {path.readlink()}"
            elif path.is_dir():
                what = f"directory {mode}"
            else:
                what = f"file {mode} {path.read_bytes().decode(errors='backslashreplace')}"
            known[str(path.relative_to(self.disk))] = what
        return self.placeless(known)

    def here(self, value: Any) -> Any:
        """Data of the tree with its directory in place of the word for it."""
        return json.loads(json.dumps(value).replace(DIR, str(self.disk)))

    def placeless(self, value: Any) -> Any:
        """An answer with the word for its directory in place of it."""
        return json.loads(json.dumps(value, default=str).replace(str(self.disk), DIR))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text), encoding="utf-8")


def plain_umask() -> None:
    """New files have the same modes on both sides."""
    os.umask(0o022)
