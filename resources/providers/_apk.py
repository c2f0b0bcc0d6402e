"""Parsers for the output and the database of apk 2 and apk 3."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from holdfast.resources.interfaces.results import FileDeviation, PkgInfo
from holdfast.resources.providers.pkg_base import Outcome

Entry = dict[str, list[str]]
"""A package of the database: letter -> values, and `paths` -> the installed paths."""

STEP = re.compile(r"^\( *\d+/\d+\) (\w+) ([^\s@]+)(?:@\S+)? \((?:(\S+) -> )?(\S+)\)$", re.MULTILINE)
"""A step of a transaction: `( 1/12) Upgrading tiny@edge (1.0-r0 -> 2.0-r0)`."""
INDEX = r"(?:/[^/\s]+/(?:APKINDEX\.tar\.gz|Packages\.adb))?"
"""The path of an index in its repository, which apk 3 shows and apk 2 leaves out."""
FETCHED = re.compile(rf"^fetch (\S+?)/?{INDEX}$", re.MULTILINE)
"""A repository that apk 2 reads from a server."""
READ = re.compile(rf"^.*\[(\S+?)/?{INDEX}\]$", re.MULTILINE)
"""A repository that apk 3 has read."""
UNREAD = re.compile(rf"^WARNING: (?:updating and )?opening (\S+?)/?{INDEX}: (.*)$", re.MULTILINE)
"""A repository that could not be read, and why."""
FILE = re.compile(r"^(?:- (mode=.*)\n)?(?:\+ (mode=.*)\n)?([MmUXxe]) (.+?)/?$", re.MULTILINE)
"""A file of `apk audit --details`: its properties by the database, those on disk, the kind of difference, the path."""
KINDS = {"X": "missing", "U": "digest", "x": "capabilities", "e": "unreadable"}
PROPERTIES = {"mode": "mode", "uid": "owner", "gid": "group", "hash": "digest"}
CONFIGURATION = "/etc/"
"""Directory whose files apk does not overwrite by default if they were changed."""


def entries(text: str) -> Iterator[Entry]:
    """Yield the packages of apk's database."""
    for block in text.split("\n\n"):
        entry: Entry = {}
        directory = ""
        for line in block.splitlines():
            letter, _, value = line.partition(":")
            entry.setdefault(letter, []).append(value)
            if letter == "F":
                directory = f"/{value}" if value else ""
                entry.setdefault("paths", []).extend([directory] if value else [])
            elif letter == "R":
                entry.setdefault("paths", []).append(f"{directory}/{value}")
        if "P" in entry:
            yield entry


def description(entry: Entry) -> PkgInfo:
    """Return the description of a package of the database."""
    one = {letter: values[0] for letter, values in entry.items()}
    return PkgInfo(
        name=one["P"],
        version=one["V"],
        arch=one.get("A"),
        summary=one.get("T"),
        license=one.get("L"),
        url=one.get("U"),
        size=int(one["I"]) if "I" in one else None,
        extra={"maintainer": one.get("m"), "origin": one.get("o")},
    )


def offers(text: str) -> dict[str, list[str]]:
    """Parse `apk policy`: name -> versions, the newest first.

    The database and repositories with a tag (`@edge`), which apk does not use by default, offer nothing.
    """
    policies = re.findall(r"^(\S+) policy:\n((?:  .*\n?)*)", text, re.MULTILINE)
    return {name: list(reversed(list(_offered(versions)))) for name, versions in policies}


def _offered(text: str) -> Iterator[str]:
    for version, sources in re.findall(r"^  (\S+):\n((?:    .*\n?)*)", text, re.MULTILINE):
        if any(not source.strip().startswith(("@", "lib/apk/db")) for source in sources.splitlines()):
            yield version


def repositories(out: str, err: str, configured: Collection[str]) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Parse `apk update`: the outcomes by repository, and the reasons of those that failed.

    apk 3 names all repositories. apk 2 does not name local ones; these are taken from `configured`. A repository on a
    server counts as updated, because apk does not say whether its index was new.
    """
    why = dict(UNREAD.findall(err))
    known = dict.fromkeys([*(name.rstrip("/") for name in configured), *FETCHED.findall(out), *READ.findall(out), *why])
    outcomes: dict[str, Outcome] = {
        name: "failed" if name in why else "updated" if "://" in name else "unchanged" for name in known
    }
    return outcomes, why


def configured(text: str) -> list[str]:
    """Parse `/etc/apk/repositories` of apk 2: the repositories, without their tags."""
    return [line.split()[-1] for line in text.splitlines() if line.strip() and line[0] != "#"]


def deviations(text: str) -> dict[str, FileDeviation]:
    """Parse `apk audit --details`: path -> deviation. The path of a directory ends in `/` there."""
    found = {}
    for shipped, present, kind, name in FILE.findall(text):
        old, new = (dict(word.split("=") for word in line.split()) for line in (shipped, present))
        what = [meaning for word, meaning in PROPERTIES.items() if new and old.get(word) != new.get(word)]
        found[f"/{name}"] = deviation(f"/{name}", *what, *KINDS.get(kind, "").split())
    return found


def deviation(path: str, *what: str) -> FileDeviation:
    """Return a deviation. Files of `/etc` count as configuration."""
    return FileDeviation(path=path, what=tuple(sorted({*what})), configuration=path.startswith(CONFIGURATION))
