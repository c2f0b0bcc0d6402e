"""Parsers for the files of pacman's library and for the output of pacman's commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.resources.interfaces.results import FileDeviation, Pkg, PkgInfo
from holdfast.resources.providers._pkg_database import PackageDatabase, by_name

STATE = Path("/var/lib/pacman")
LOCAL = STATE / "local"
"""The installed packages: a directory for each, with its description in `desc`."""
SYNC = STATE / "sync"
"""The lists of packages, one file for each repository."""
LOCK = STATE / "db.lck"
"""Exists while a program changes packages; that program keeps it open."""


def installed(local: Path) -> PackageDatabase:
    """Read the installed packages. Blocks."""
    pkgs: list[Pkg] = []
    provided: dict[str, list[Pkg]] = {}
    for entry in entries(local):
        pkg = Pkg(name=entry["NAME"][0], version=entry["VERSION"][0], arch=entry.get("ARCH", [None])[0])
        pkgs.append(pkg)
        for name in entry.get("PROVIDES", ()):
            provided.setdefault(re.split("[<=>]", name)[0], []).append(pkg)
    return PackageDatabase(by_name(pkgs), provided)


def descriptions(local: Path) -> dict[str, PkgInfo]:
    """Read the descriptions of the installed packages, by name. Blocks."""
    return {entry["NAME"][0]: _description(entry) for entry in entries(local)}


def _description(entry: dict[str, list[str]]) -> PkgInfo:
    one = {field: lines[0] for field, lines in entry.items()}
    return PkgInfo(
        name=one["NAME"],
        version=one["VERSION"],
        arch=one.get("ARCH"),
        summary=one.get("DESC"),
        license=", ".join(entry.get("LICENSE", ())) or None,
        url=one.get("URL"),
        size=int(one.get("SIZE", 0)),
        installed_at=float(one["INSTALLDATE"]) if "INSTALLDATE" in one else None,
        extra={
            "packager": one.get("PACKAGER"),
            "groups": entry.get("GROUPS", []),
            "explicit": one.get("REASON", "0") == "0",
        },
    )


def entries(local: Path) -> Iterator[dict[str, list[str]]]:
    """Yield field -> its lines for each package; a package that is being removed or installed is left out."""
    for file in sorted(local.glob("*/desc")):
        with suppress(OSError):
            blocks = [block.strip().split("\n") for block in file.read_text(errors="replace").split("\n\n")]
            entry = {name.strip("%"): lines for name, *lines in blocks if lines}
            if "NAME" in entry and "VERSION" in entry:
                yield entry


def opener(file: Path) -> int:
    """Return the id of a process that has a file open; 0 for none. Blocks for milliseconds."""
    wanted = str(file)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for descriptor in os.scandir(process / "fd"):
                if os.readlink(descriptor) == wanted:  # noqa: PTH115 - one of thousands
                    return int(process.name)
    return 0


def offered(text: str) -> dict[str, list[str]]:
    """Parse the output of `pacman --sync --info`: name -> versions, in the order of the repositories."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^Name +: (\S+)\nVersion +: (\S+)$", text, re.MULTILINE):
        found.setdefault(name, []).append(version)
    return found


PROBLEM = re.compile(r"^:: (?!.*(?:\?|\.\.\.))(.+)|^(.+ exists in .+)$", re.MULTILINE)
"""A line of pacman's standard output that says why a transaction is impossible; no question and no progress."""


def problems(stdout: str, stderr: str) -> str:
    """Return why a command of pacman failed, in its own words, on one line; empty if it says nothing."""
    lines = [line.removeprefix("error: ").strip() for line in stderr.splitlines() if not line.startswith("warning: ")]
    lines += [left or right for left, right in PROBLEM.findall(stdout)]
    return "; ".join(dict.fromkeys(filter(None, lines)))


DEVIATION = re.compile(r"^(warning|backup file): (\S+): (/.*) \(([^()]+)\)$", re.MULTILINE)
WHAT = {
    "No such file or directory": "missing",
    "Modification time mismatch": "mtime",
    "Size mismatch": "size",
    "MD5 checksum mismatch": "digest",
    "SHA256 checksum mismatch": "digest",
    "Permissions mismatch": "mode",
    "File type mismatch": "mode",
    "UID mismatch": "owner",
    "GID mismatch": "group",
    "Symlink path mismatch": "link",
}
"""Words of `pacman --query --check --check` -> those of `FileDeviation`."""


def deviations(text: str) -> dict[str, list[FileDeviation]]:
    """Parse the output of `pacman --query --check --check`: name of the package -> its files that differ."""
    found: dict[tuple[str, str, bool], set[str]] = {}
    for kind, name, path, why in DEVIATION.findall(text):
        found.setdefault((name, path, kind == "backup file"), set()).add(WHAT.get(why, "unreadable"))
    by_package: dict[str, list[FileDeviation]] = {}
    for (name, path, backup), what in sorted(found.items()):
        deviation = FileDeviation(path=path, what=tuple(sorted(what)), configuration=backup)
        by_package.setdefault(name, []).append(deviation)
    return by_package
