"""dpkg's database, as the apt provider reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cmp_to_key
from pathlib import Path
from typing import Any, Literal

from holdfast.resources.interfaces.results import Pkg, PkgInfo
from holdfast.resources.providers._pkg_database import Changes, PackageDatabase

ADMIN = Path("/var/lib/dpkg")
LISTS = Path("/var/lib/apt/lists")
ETC = Path("/etc/apt")
FORMAT = "${Package}\t${Architecture}\t${db:Status-Abbrev}\t${Version}\t${Provides}\n"


def parse(text: str) -> PackageDatabase:
    """Parse the output of `dpkg-query` in `FORMAT`."""
    installed: dict[str, list[Pkg]] = {}
    provided: dict[str, list[Pkg]] = {}
    marks: dict[str, set[str]] = {"held": set(), "residual": set(), "unfinished": set(), "halved": set()}
    for line in text.splitlines():
        name, arch, status, version, provides = line.split("\t", 4)
        want, state = status[0], status[1]
        if want == "h":
            marks["held"].add(name)
        if state == "c":
            marks["residual"].add(name)
        elif state in "UFH":
            marks["unfinished"].add(name)
            if state == "H":
                marks["halved"].add(name)
        elif state in "iWt":
            pkg = Pkg(name=name, version=version, arch=arch)
            installed.setdefault(name, []).append(pkg)
            for virtual in re.findall(r"(?:^|, )([^ ,(]+)", provides):
                provided.setdefault(virtual, []).append(pkg)
    return PackageDatabase(installed, provided, **{mark: frozenset(names) for mark, names in marks.items()})


FIELDS = re.compile(r"^(Package|Source|Depends|Pre-Depends): (.*)$", re.MULTILINE)


def families(status: str, names: Iterable[str]) -> dict[str, set[str]]:
    """Return package -> the package and its direct and indirect dependencies from the same source."""
    known: dict[str, tuple[str, set[str]]] = {}
    for paragraph in status.split("\n\n"):
        fields: dict[str, str] = dict(FIELDS.findall(paragraph))
        if name := fields.get("Package"):
            needs = f"{fields.get('Depends', '')}, {fields.get('Pre-Depends', '')}"
            words = {word.strip().partition(" ")[0].partition(":")[0] for word in re.split(r"[,|]", needs)}
            known[name] = (fields.get("Source", name).partition(" ")[0], words)
    found: dict[str, set[str]] = {}
    for name in names:
        source, todo, family = known.get(name, ("", set()))[0], [name], {name}
        while todo:
            more = {
                other
                for other in known.get(todo.pop(), ("", set()))[1] - family
                if other in known and known[other][0] == source
            }
            family |= more
            todo += more
        found[name] = family
    return found


class Files:
    """The packages that ship a path, from dpkg's lists; `arch` is the architecture of the host."""

    def __init__(self, arch: str = "", admin: Path = ADMIN) -> None:
        self._arch, self._info, self._status = arch, admin / "info", admin / "status"
        self._stamp: tuple[int, frozenset[str]] = (-1, frozenset())
        """Time and packages of the status file that `_families` comes from."""
        self._families: dict[str, set[str]] = {}
        self._asked: frozenset[str] = frozenset()
        self._known: dict[str, tuple[int, frozenset[str]]] = {}
        """Package -> time of its list, and which of the requested paths it ships."""

    def owners(self, names: Iterable[str], paths: frozenset[str]) -> dict[str, list[str]]:
        """Return path -> those of the packages that ship it. Paths of `base-files` are common to all and left out."""
        if not paths <= self._asked:
            self._asked = paths
            self._known.clear()
        common = self._shipped("base-files")
        found: dict[str, list[str]] = {}
        for name, family in self._of_one_source(frozenset(names)).items():
            for path in frozenset().union(*map(self._shipped, family)) - common:
                found.setdefault(path, []).append(name)
        return {path: sorted(owners) for path, owners in found.items()}

    def _of_one_source(self, names: frozenset[str]) -> dict[str, set[str]]:
        """Return package -> the package and its dependencies from the same source.

        `nginx-light` has its configuration from `nginx-common`.
        """
        try:
            stamp = (self._status.stat().st_mtime_ns, names)
            if stamp != self._stamp:
                self._families = families(self._status.read_text(errors="replace"), names)
                self._stamp = stamp
        except OSError:
            self._families, self._stamp = {name: {name} for name in names}, (-1, frozenset())
        return self._families

    def _shipped(self, name: str) -> frozenset[str]:
        """Return which of the requested paths a package ships; none if it is not installed."""
        for file in (self._info / f"{name}.list", self._info / f"{name}:{self._arch}.list"):
            try:
                stamp = file.stat().st_mtime_ns
                known = self._known.get(name)
                if known is None or known[0] != stamp:
                    shipped = self._asked.intersection(file.read_text(errors="surrogateescape").split("\n"))
                    known = self._known[name] = (stamp, shipped)
            except OSError:
                continue
            return known[1]
        return frozenset()


DESCRIPTION = "\t".join(
    f"${{{field}}}"
    for field in (
        "Package", "Version", "Architecture", "db:Status-Abbrev", "Homepage", "Origin", "Installed-Size",
        "db-fsys:Last-Modified", "Maintainer", "Section", "source:Package", "binary:Summary",
    )
) + "\\n"  # fmt: skip


def descriptions(text: str) -> Iterator[PkgInfo]:
    """Parse the output of `dpkg-query` in `DESCRIPTION`, and yield the installed packages."""
    for line in text.splitlines():
        name, version, arch, status, url, vendor, size, time, *more = line.split("\t", 11)
        if status[1] in "iWt":
            yield PkgInfo(
                name=name,
                version=version,
                arch=arch,
                summary=more[3] or None,
                url=url or None,
                vendor=vendor or None,
                size=int(size) * 1024 if size else None,
                installed_at=float(time) if time else None,
                extra=dict(zip(("maintainer", "section", "source"), more, strict=False)),
            )


ALIASES = re.compile(r"^(/usr)?(?=/(?:s?bin|lib(?:32|64|o32|x32)?)/)")
"""The directories that Debian has merged: /bin is a link to /usr/bin. dpkg knows a file by either path."""


def shippers(admin: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return path -> the first package whose list has it, also by its other path in a merged directory. Blocks."""
    wanted: dict[str, set[str]] = {}
    for path in paths:
        wanted.setdefault(path, set()).add(path)
        wanted.setdefault(_alias(path), set()).add(path)
    found: dict[str, str] = {}
    for file in sorted((admin / "info").glob("*.list")):
        for alias in wanted.keys() & set(file.read_text(errors="surrogateescape").split("\n")):
            for path in wanted[alias]:
                found.setdefault(path, file.name.removesuffix(".list").partition(":")[0])
    return found


def _alias(path: str) -> str:
    """Return the other path of a file in a directory that Debian has merged, or the same path."""
    match = ALIASES.match(path)
    if match is None:
        return path
    return path.removeprefix("/usr") if match[1] else f"/usr{path}"


def shipped(admin: Path, pkg: Pkg) -> list[str]:
    """Return the paths that an installed package ships, sorted. Blocks."""
    for name in (f"{pkg.name}.list", f"{pkg.name}:{pkg.arch}.list"):
        with suppress(OSError):
            lines = (admin / "info" / name).read_text(errors="surrogateescape").split("\n")
            return sorted(line for line in lines if line not in ("", "/."))
    return []


PLANNED = re.compile(r"^(Inst|Remv|Purg) (\S+)(?: \[([^\]]*)\])?(?: \((\S+))?", re.MULTILINE)


def planned(text: str) -> Changes:
    """Parse what `apt-get --simulate` would change."""
    return {name: {"old": old, "new": new if word == "Inst" else ""} for word, name, old, new in PLANNED.findall(text)}


def policies(text: str) -> Iterator[tuple[str, str | None, list[str]]]:
    """Parse `apt-cache policy NAME...`: name, candidate and all versions, the newest first."""
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        name, _, rest = block.partition(":\n")
        candidate = re.search(r"^  Candidate: (\S+)$", rest, re.MULTILINE)
        if candidate:
            versions = re.findall(r"^ (?:\*\*\*|   ) (\S+) -?\d+$", rest, re.MULTILINE)
            yield name, None if candidate[1] == "(none)" else candidate[1], versions


def compare_versions(a: str, b: str) -> Literal[-1, 0, 1]:
    """Compare two versions by Debian's rules (deb-version(7)): -1 if `a` is older, 1 if it is newer."""
    return _order(_version(a), _version(b))


def _order(one: Any, two: Any) -> Literal[-1, 0, 1]:
    return -1 if one < two else 1 if one > two else 0


def _version(text: str) -> tuple[int, Any, Any]:
    """Return epoch, upstream version and revision as values that can be compared."""
    epoch, colon, rest = text.strip().partition(":")
    if not colon or not epoch.isdecimal():
        epoch, rest = "0", text.strip()
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _PART(upstream), _PART(revision)


def _compare_parts(one: str, two: str) -> int:
    """Compare words and numbers in turn; `~` sorts before everything, also before the end."""
    while one or two:
        (word, number, one), (other_word, other_number, two) = _split(one), _split(two)
        if order := _order((word, number), (other_word, other_number)):
            return order
    return 0


def _split(text: str) -> tuple[list[int], int, str]:
    """Return the first word of a text, as weights of its letters, the number after it, and the rest."""
    word = re.match(r"[^0-9]*", text)[0]  # type: ignore[index] # the pattern matches always
    digits = re.match(r"[0-9]*", text[len(word) :])[0]  # type: ignore[index] # the same
    weights = [-1 if char == "~" else ord(char) if char.isalpha() else ord(char) + 256 for char in word]
    return [*weights, 0], int(digits or 0), text[len(word) + len(digits) :]


_PART = cmp_to_key(_compare_parts)
