"""The kinds of the first shelf: the table `shelf.yaml`, and snapshots of a host before and after their states."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lab import Host, digest

from holdfast.resources import registry
from holdfast.resources.case_files import parsed
from holdfast.resources.traits import Reversible

TABLE = parsed((Path(__file__).parent / "shelf.yaml").read_text())
STATES = "/etc/holdfast/states/site.sls"
CONFIGURED = ("etc", "home", "srv", "root", "opt/lamp", "usr/bin", "var/spool", "var/lib/dpkg/alternatives")
"""Directories in which the states of the shelf change something."""
OWN = ("/etc/holdfast", "/var/lib/holdfast", "/var/log/journal")
"""Files that the agent and the journal write for themselves."""
DERIVED = ("/etc/aliases.db", "/var/spool/cron/crontabs/root")
"""Files that contain times or have no fixed order; `told` returns their content in a comparable form."""
PASSING = "/tmp"
"""A directory whose time changes with each temporary file."""
Declared = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""ID -> kind -> arguments."""


@dataclass(frozen=True)
class Row:
    """One kind; the head of `shelf.yaml` says what its fields are."""

    kind: str
    states: Declared
    right: str
    damages: tuple[str, ...] = ()
    removed: Declared | None = None
    gone: str = ""
    slow: str = ""
    times: int = 2
    calm: float = 0.05
    action: bool = False
    left: str = ""

    @property
    def reversible(self) -> bool:
        """Whether a removed state of it is undone."""
        return is_reversible(self.kind) and not self.left


def is_reversible(kind: str) -> bool:
    """Return whether a kind can restore the state before it."""
    found = registry.find(kind)
    assert found is not None, kind
    return issubclass(found, Reversible)


def with_keys(text: str) -> str:
    """Return a script with the public key in place of its name."""
    return text.replace("KEY", TABLE["key"])


def row(kind: str, damages: Iterable[str] = (), **fields: Any) -> Row:
    """Return a row of the table."""
    return Row(kind, damages=tuple(map(with_keys, damages)), **fields)


ROWS = tuple(row(kind, **fields) for kind, fields in TABLE["rows"].items())
PREPARE = with_keys(TABLE["prepare"])


def sls(declared: Iterable[Declared], *, reverse: bool = False) -> str:
    """Return the state file with these states; with `reverse`, the reversible ones are undone when they are removed."""
    states = {}
    for each in declared:
        for name, kinds in each.items():
            states[name] = {
                kind: [{argument: value} for argument, value in arguments.items()]
                + ([{"reverse": True}] if reverse and is_reversible(kind) else [])
                for kind, arguments in kinds.items()
            }
    return yaml.safe_dump(states, sort_keys=False)


def kernel(host: Host) -> tuple[str, ...]:
    """Return the state of the kernel that states change: the name of the host, its mounts and its swap space."""
    mounts = host.sh("grep ' /srv/' /proc/self/mountinfo | cut -d' ' -f5- || true")
    return host.sh("hostname"), mounts, host.sh("awk '/lab-swap/ {print $1, $2, $3, $5}' /proc/swaps")


def told(host: Host) -> str:
    """Return the content of `DERIVED` as programs read it."""
    return host.sh("crontab -l; postalias -s /etc/aliases | grep -v LAST_MODIFIED | sort")


def configuration(host: Host) -> dict[str, str]:
    """Return path -> digest of all entries of `CONFIGURED` that are not the agent's own."""
    root = Path(f"/proc/{host.pid}/root")
    found = {path: told(host) for path in DERIVED}
    for top in CONFIGURED:
        for directory, directories, files in os.walk(root / top):
            for name in (*directories, *files):
                path = Path(directory, name)
                if not f"/{path.relative_to(root)}".startswith((*OWN, *DERIVED)):
                    found[f"/{path.relative_to(root)}"] = digest(path)
    return found


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the paths at which two snapshots differ, without those of the agent and the journal."""
    paths = {path for path, _ in before.items() ^ after.items() if not path.startswith(OWN) and path != PASSING}
    return {path: (before.get(path), after.get(path)) for path in sorted(paths)}
