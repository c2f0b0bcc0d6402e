"""dpkg's database, as the apt provider reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.results import Pkg

ADMIN = Path("/var/lib/dpkg")
LISTS = Path("/var/lib/apt/lists")
FORMAT = "${Package}\t${Architecture}\t${db:Status-Abbrev}\t${Version}\t${Provides}\n"


@dataclass(frozen=True, slots=True)
class DpkgStatus:
    """The content of dpkg's database, read by one command."""

    installed: Mapping[str, list[Pkg]] = field(default_factory=dict)
    """By name, and by `name:architecture`."""
    provided: Mapping[str, list[Pkg]] = field(default_factory=dict)
    """Name of a virtual package -> packages that provide it."""
    held: frozenset[str] = frozenset()
    residual: frozenset[str] = frozenset()
    """Removed packages whose configuration files are left."""
    unfinished: frozenset[str] = frozenset()
    """Unpacked or half-configured packages: an installation was interrupted."""
    halved: frozenset[str] = frozenset()
    """Those of `unfinished` that are not even unpacked: only another installation completes them."""

    def find(self, name: str) -> list[Pkg]:
        """Return the installed packages that a name stands for."""
        return self.installed.get(name) or self.provided.get(name, [])

    def known(self, names: Iterable[str]) -> object:
        """Return all data of these packages (default: of all), to be compared with those of another read."""
        marks = (self.held, self.residual, self.unfinished, self.halved)
        return [(self.find(name), *[name in mark for mark in marks]) for name in names] or self

    def versions(self) -> dict[str, str]:
        """Return the installed versions by name; those of several architectures are joined by commas."""
        return {
            name: ",".join(sorted({pkg.version for pkg in found}))
            for name, found in self.installed.items()
            if ":" not in name
        }


def parse(text: str) -> DpkgStatus:
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
            installed.setdefault(f"{name}:{arch}", []).append(pkg)
            for virtual in re.findall(r"(?:^|, )([^ ,(]+)", provides):
                provided.setdefault(virtual, []).append(pkg)
    return DpkgStatus(installed, provided, **{mark: frozenset(names) for mark, names in marks.items()})


class Dpkg:
    """The database, read again only after a change."""

    def __init__(self, host: ProviderHost) -> None:
        self._host = host
        self._admin = host.system_path(ADMIN)
        self._stamp: tuple[int, ...] = ()
        self._database = DpkgStatus()
        self._reading = asyncio.Lock()

    async def read(self) -> DpkgStatus:
        """Return the present database. Concurrent calls share one read: all watches report the same change."""
        async with self._reading:
            stamp = self._look()
            if stamp != self._stamp or not stamp:
                done = await self._host.run("dpkg-query", "--show", f"--showformat={FORMAT}", limit=1 << 26)
                self._database, self._stamp = parse(done.stdout), stamp
            return self._database

    @property
    def last(self) -> DpkgStatus | None:
        """The database as last read, however long ago."""
        return self._database if self._stamp else None

    def was_interrupted(self) -> bool:
        """Return whether a dpkg was interrupted.

        Its changes are not in the status file yet, and apt refuses all work.
        """
        return any((self._admin / "updates").iterdir())

    def _look(self) -> tuple[int, ...]:
        """Return values of which at least one changes whenever the database changes.

        While dpkg runs, its changes are in separate files.
        """
        try:
            found = (self._admin / "status").stat()
            return (found.st_ino, found.st_mtime_ns, found.st_size, (self._admin / "updates").stat().st_mtime_ns)
        except OSError:
            return ()


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


def differences(before: DpkgStatus, after: DpkgStatus) -> dict[str, dict[str, str]]:
    """Return the changes between two reads: name -> {old, new}; as in Salt, an empty text means "not installed"."""
    old, new = before.versions(), after.versions()
    return {
        name: {"old": old.get(name, ""), "new": new.get(name, "")}
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    }


PLANNED = re.compile(r"^(Inst|Remv|Purg) (\S+)(?: \[([^\]]*)\])?(?: \((\S+))?", re.MULTILINE)


def planned(text: str) -> dict[str, dict[str, str]]:
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
