"""The files in which update-alternatives of Debian, SUSE and Red Hat stores its groups.

A file contains the mode, the link of the group, the name and link of each slave, an empty line, and for each
alternative its path, its priority and the path of each slave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

ADMIN = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives", "/var/lib/rpm/alternatives")
"""Possible directories of these files; a host has one of them."""
CHOSEN = "/etc/alternatives"
"""Directory of the links to the chosen alternatives."""
PRIORITY = re.compile(r"(?:@[^@]*@)?(-?\d+)(?:\s.*)?")
"""Matches a priority; on Red Hat, a family may precede it, and the name of a service may follow."""


class Alternative(NamedTuple):
    """One alternative of a group."""

    priority: int
    slaves: tuple[str, ...]
    """Path of each slave of the group; an empty path if the alternative does not have the slave."""


class AlternativesGroup(NamedTuple):
    """One group of alternatives."""

    mode: str
    """`auto` or `manual`."""
    link: str
    slaves: tuple[tuple[str, str], ...]
    """Name and link of each slave."""
    alternatives: Mapping[str, Alternative]
    """Path -> alternative."""

    @property
    def best(self) -> str | None:
        """The path with the highest priority; of several such paths, the one that was added first."""
        return max(self.alternatives, key=lambda path: self.alternatives[path].priority, default=None)

    def slaves_of(self, path: str) -> list[tuple[str, str, str]]:
        """Return link, name and path of each slave that an alternative has."""
        known = self.alternatives.get(path)
        paths = known.slaves if known is not None else ()
        return [(link, name, target) for (name, link), target in zip(self.slaves, paths, strict=False) if target]


def parse(text: str) -> AlternativesGroup:
    """Parse a file. Raises `ValueError` if it is cut off or has an unknown format."""
    head, _, body = text.partition("\n\n")
    mode, link, *rest = head.splitlines() if len(head.splitlines()) > 1 else ("", "")
    if mode not in ("auto", "manual") or not link.startswith("/") or len(rest) % 2:
        raise ValueError("its format is unknown")
    slaves = tuple(zip(rest[::2], rest[1::2], strict=True))
    lines, found, size = body.splitlines(), dict[str, Alternative](), 2 + len(slaves)
    for start in range(0, len(lines), size):
        part = lines[start : start + size]
        if not part[0]:
            break
        priority = PRIORITY.fullmatch(part[1]) if len(part) == size else None
        if priority is None:
            raise ValueError(f"the alternative {part[0]} is incomplete")
        found[part[0]] = Alternative(int(priority[1]), tuple(part[2:]))
    return AlternativesGroup(mode, link, slaves, found)
