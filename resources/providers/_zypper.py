"""Parsers for the output of zypper, mostly XML (`--xmlout`), and the arguments of its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers._rpm import PlannedPackages
from holdfast.resources.providers.pkg_base import Outcome, Transaction

DONE = (0, 100, 101, 102, 103, 106)
"""Exit status of success; those above 99 announce updates, a necessary reboot, or an unusable repository."""
FOUND = (*DONE, 104)
"""Exit status of a search; 104: nothing was found."""
NEW = ("to-install", "to-upgrade", "to-downgrade", "to-change-arch")
WHOLE = {"type", "match_type", "case_sensitive", "solvable_name"}
"""Keys of a lock of a whole package; any other one restricts it."""
LINES = 12
"""Greatest number of lines of an error."""
SYSTEM = "(System Packages)"
"""Name in the column of the repository for an installed version that no repository offers."""


def arguments(transaction: Transaction, *more: str) -> list[str]:
    """Return the arguments of zypper for a transaction; `more` are further switches of the subcommand."""
    if transaction.verb == "remove":
        return ["remove", *more, "--no-clean-deps", *transaction.names]
    if transaction.verb == "upgrade":
        return ["update", *more, *transaction.names]
    pkgs, options = transaction.pkgs, transaction.options
    wanted = [pkg.source or "=".join(filter(None, (pkg.name, pkg.version))) for pkg in pkgs]
    before = ["--no-gpg-checks"] if options.get("skip_verify") else []
    if options.get("only_upgrade"):
        return [*before, "update", *more, *_switches(options), *wanted]
    switches = [f"--from={options['fromrepo']}"] if options.get("fromrepo") else []
    if any(pkg.version or pkg.source for pkg in pkgs):
        switches.append("--oldpackage")
    if any(pkg.source for pkg in pkgs):
        switches.append("--allow-unsigned-rpm")  # only those that are given as files
    return [*before, "install", *more, *switches, *_switches(options), *wanted]


def _switches(options: Mapping[str, Any]) -> list[str]:
    """Return the switches that `install` and `update` share."""
    if options.get("install_recommends") is None:
        return []
    return ["--recommends" if options["install_recommends"] else "--no-recommends"]


def _elements(text: str, *tags: str) -> Iterator[ET.Element]:
    """Yield the elements with these tags, in their order; none if the text is not XML (zypper was killed)."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - zypper's own text, which has no entities
    except ET.ParseError:
        return
    yield from (element for element in root.iter() if element.tag in tags)


def offered(text: str) -> Iterator[tuple[str, str]]:
    """Parse `zypper search --details`: yield name and version of each package that a repository offers."""
    for found in _elements(text, "solvable"):
        if found.get("repository") != SYSTEM:
            yield found.get("name", ""), found.get("edition", "")


def planned(text: str) -> PlannedPackages:
    """Parse the summary of a transaction."""
    found = PlannedPackages([], [], [])
    for section in _elements(text, *NEW, "to-remove"):
        pkgs = [
            (each.get("name", ""), each.get("edition", ""))
            for each in section.iter("solvable")
            if each.get("type") == "package"
        ]
        {"to-install": found.installed, "to-remove": found.removed}.get(section.tag, found.upgraded).extend(pkgs)
    return found


def enabled(text: str) -> dict[str, str]:
    """Parse `zypper repos`: alias -> name of the enabled repositories."""
    repos = [repo.attrib for repo in _elements(text, "repo")]
    return {repo["alias"]: repo["name"] for repo in repos if repo.get("enabled") == "1"}


def repositories(text: str, enabled: Mapping[str, str]) -> dict[str, Outcome]:
    """Parse `zypper refresh`: alias of an enabled repository -> outcome."""
    said = [message.text or "" for message in _elements(text, "message")]
    found: dict[str, Outcome] = {}
    for alias, name in enabled.items():
        about = [line for line in said if f"'{name}'" in line]
        failed = any("Skipping" in line or "invalid" in line for line in about)
        current = any("up to date" in line for line in about)
        found[alias] = "failed" if failed else "unchanged" if current else "updated"
    return found


def complaint(text: str) -> str:
    """Return zypper's errors, and the problems that it would ask about, on one line."""
    said = [
        (element.findtext("description") if element.tag == "prompt" else element.text) or ""
        for element in _elements(text, "message", "prompt")
        if element.tag == "prompt" or element.get("type") == "error"
    ]
    lines = [line.strip() for part in said for line in part.splitlines()]
    return "; ".join([line for line in dict.fromkeys(lines) if line][:LINES])


def locked(text: str) -> frozenset[str]:
    """Parse zypper's file of locks, paragraphs of `key: value`: names of packages that are locked as a whole."""
    found = set()
    for paragraph in re.split(r"\n\s*\n", text):
        lock = dict(re.findall(r"^(\w+): *(.*?) *$", paragraph, re.MULTILINE))
        name = lock.get("solvable_name", "")
        if lock.get("type") == "package" and name and lock.keys() <= WHOLE and not set("*?[") & set(name):
            found.add(name)
    return frozenset(found)


def column(text: str, title: str) -> list[str]:
    """Return a column of a table that zypper prints, without its title."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
    titles = next((number for number, row in enumerate(rows) if title in row), None)
    return [] if titles is None else [row[rows[titles].index(title)] for row in rows[titles + 1 :]]


def downloads(text: str) -> dict[str, str]:
    """Parse `zypper download`: name -> path of the package file."""
    return {
        found.findtext("solvable/name", ""): file.get("path", "")
        for found in _elements(text, "download-result")
        for file in found.iter("localfile")
    }


def patterns(text: str) -> list[str]:
    """Parse `zypper patterns`: the names."""
    return [*dict.fromkeys(pattern.get("name", "") for pattern in _elements(text, "pattern"))]


def contents(text: str) -> dict[str, list[str]]:
    """Parse `zypper info --type pattern`: name -> packages, sorted."""
    found = {}
    for message in _elements(text, "message"):
        if name := re.search(r"^Name +: (\S+)$", message.text or "", re.MULTILINE):
            _, _, table = (message.text or "").rpartition("\nContents ")
            found[name[1]] = sorted({*re.findall(r"^ +\S* *\| (\S+) +\| package +\|", table, re.MULTILINE)})
    return found


def patches(text: str) -> dict[str, Patch]:
    """Parse `zypper list-patches --all`: id -> patch. Patches that concern no installed package are left out."""
    found = {}
    for update in _elements(text, "update"):
        if update.get("status") != "not-needed":
            severity, number = update.get("severity"), update.get("name", "")
            found[number] = Patch(
                id=number,
                summary=update.findtext("summary") or None,
                category=update.get("category"),
                severity=None if severity in (None, "none", "unspecified") else severity,
                installed=update.get("status") == "applied",
            )
    return found
