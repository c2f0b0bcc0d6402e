"""The directories of one tree, created again for each run, and the content of its disk after the run.

Holdfast and Salt's worker both use this module, the latter with Salt's interpreter: it imports only the standard
library.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

DIR = "/DIR"
"""Replaces, in all texts of trees and answers, the directory that a tree may write to."""
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
"""All trees are for this host; a tree may add grains."""

Job = dict[str, Any]
"""A tree as JSON; see `trees.Tree`."""


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
        """Give the disk its content before a run."""
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
        """Return the content of the disk: name -> type, mode, content."""
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
        """Return data of the tree with its directory in place of `DIR`."""
        return json.loads(json.dumps(value).replace(DIR, str(self.disk)))

    def placeless(self, value: Any) -> Any:
        """Return an answer with `DIR` in place of the directory."""
        return json.loads(json.dumps(value, default=str).replace(str(self.disk), DIR))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text), encoding="utf-8")


def plain_umask() -> None:
    """Set the same umask on both sides."""
    os.umask(0o022)
