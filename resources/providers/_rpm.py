"""Parsers for rpm's output, and rpm's comparison of versions, for all package managers that install rpm packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from itertools import zip_longest
from typing import Literal, NamedTuple

from holdfast.resources.interfaces.results import Pkg, PkgInfo
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase, by_name, joined

Order = Literal[-1, 0, 1]
VERSION = "%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"
FORMAT = f"%{{NAME}}\\t{VERSION}\\t%{{ARCH}}\\t[%{{PROVIDENAME}} ]\\n"
KEY = "gpg-pubkey"
"""Name under which rpm's database keeps the keys of repositories; they are no packages."""
SEGMENTS = re.compile(r"[0-9]+|[A-Za-z]+|~|\^")
"""Parts of a version that count; all other characters only separate them."""
EPOCH = re.compile("[0-9]*")


# -- versions ----------------------------------------------------------------------------------------------------


def compare(a: str, b: str) -> Order:
    """Compare two versions in rpm's form, `[epoch:]version[-release]`.

    A missing epoch is 0, and a version without a release is older than the same version with one.
    """
    (*older, released), (*newer, other) = _parts(a), _parts(b)
    for left, right in zip(older, newer, strict=True):
        if order := compare_part(left, right):
            return order
    if released is None or other is None:
        return 0 if released == other else -1 if released is None else 1
    return compare_part(released, other)


def _parts(version: str) -> tuple[str, str, str | None]:
    """Split a version into epoch, version and release, None if there is no release."""
    epoch, found, rest = version.partition(":")
    if not found or not EPOCH.fullmatch(epoch):
        epoch, rest = "0", version
    number, found, release = rest.rpartition("-")
    return (epoch or "0", number, release) if found else (epoch or "0", rest, None)


def compare_part(a: str, b: str) -> Order:
    """Compare two versions without epoch and release, segment by segment.

    A number is newer than letters, `~` is older than the end, and `^` is newer than the end and older than the rest.
    """
    for left, right in zip_longest(SEGMENTS.findall(a), SEGMENTS.findall(b), fillvalue=""):
        mine, other = _weight(left), _weight(right)
        if mine != other:
            return 1 if mine > other else -1
    return 0


def _weight(segment: str) -> tuple[int, int, str]:
    """Return a value that sorts segments as rpm does."""
    if segment.isdigit():
        return (4, int(segment), "")
    kind = {"~": 0, "": 1, "^": 2}.get(segment, 3)
    return (kind, 0, segment)


def newest_first(versions: Iterable[str]) -> list[str]:
    """Return the different versions, the newest first."""
    return sorted(set(versions), key=cmp_to_key(compare), reverse=True)


def plain(version: str) -> str:
    """Return a version without an epoch of 0, which some tools print and others do not."""
    return version.removeprefix("0:")


def offers(lines: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return name -> versions, the newest first, from pairs of name and version."""
    found: dict[str, set[str]] = {}
    for name, version in lines:
        found.setdefault(name, set()).add(plain(version))
    return {name: newest_first(versions) for name, versions in found.items()}


# -- rpm's output ------------------------------------------------------------------------------------------------


def parse(text: str) -> PackageDatabase:
    """Parse the output of `rpm --query --all` in `FORMAT`. Features such as `config(x)` are no names of packages."""
    pkgs: list[Pkg] = []
    provided: dict[str, list[Pkg]] = {}
    for line in text.splitlines():
        name, version, arch, provides = line.split("\t")
        if name == KEY:
            continue
        pkg = Pkg(name=name, version=plain(version), arch=arch)
        pkgs.append(pkg)
        for virtual in {*provides.split()} - {name}:
            if "(" not in virtual:
                provided.setdefault(virtual, []).append(pkg)
    return PackageDatabase(by_name(pkgs), provided)


TAGS = (
    "NAME", VERSION, "ARCH", "URL", "VENDOR", "LICENSE", "LONGSIZE", "INSTALLTIME", "GROUP", "PACKAGER", "SOURCERPM",
    "SUMMARY",
)  # fmt: skip
DESCRIPTION = "\\t".join(tag if "%" in tag else f"%{{{tag}}}" for tag in TAGS) + "\\n"
NONE = "(none)"
"""What rpm prints for a missing value."""


def descriptions(text: str) -> Iterator[PkgInfo]:
    """Parse the output of `rpm --query` in `DESCRIPTION`."""
    for line in text.splitlines():
        if "\t" not in line:
            continue
        name, version, arch, url, vendor, licence, size, time, *more, summary = [
            None if value == NONE else value for value in line.split("\t", len(TAGS) - 1)
        ]
        if name and name != KEY:
            yield PkgInfo(
                name=name,
                version=plain(version or ""),
                arch=arch,
                summary=summary,
                license=licence,
                url=url,
                vendor=vendor,
                size=int(size or 0),
                installed_at=float(time or 0),
                extra=dict(zip(("group", "packager", "source"), more, strict=True)),
            )


class PlannedPackages(NamedTuple):
    """The packages of a planned transaction, each with its version."""

    installed: list[tuple[str, str]]
    """Packages that are installed beside others of the same name: a new kernel does not replace the present one."""
    upgraded: list[tuple[str, str]]
    """Packages that replace those with the same name; the version may be an older one."""
    removed: list[tuple[str, str]]


def changed(database: PackageDatabase, planned: PlannedPackages) -> Changes:
    """Return the changes if a transaction is made."""
    old = {name: {pkg.version for pkg in found} for name, found in database.installed.items()}
    new = {name: {*versions} for name, versions in old.items()}
    for name, version in planned.removed:
        new.get(name, set()).discard(plain(version))
    for name, version in planned.upgraded:
        new[name] = {plain(version)}
    for name, version in planned.installed:
        new.setdefault(name, set()).add(plain(version))
    names = dict.fromkeys(name for pkgs in planned for name, _ in pkgs)
    changes = {name: {"old": joined(old.get(name, ())), "new": joined(new.get(name, ()))} for name in names}
    return {name: change for name, change in changes.items() if change["old"] != change["new"]}
