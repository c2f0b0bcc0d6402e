"""Parsers for the output of dnf 4, and the arguments of the commands of dnf 4 and dnf 5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers import _rpm
from holdfast.resources.providers.pkg_base import Outcome, Transaction

DECLINED = "Operation aborted"
"""dnf's message if `--assumeno` has declined a transaction; its exit status is that of an error."""
SECTION = re.compile(r"^(\S.*):\n((?:[ ].*\n?)*)", re.MULTILINE)
"""A heading of the table of a transaction, and its rows. A long value is followed by a line break."""
ROW = re.compile(r"^ (\S+)\s+\S+\s+(\S+)\s+\S+\s+[\d.]+", re.MULTILINE)
"""A row: name, architecture, version, repository, size."""
REPLACED = re.compile(r"^ +replacing +(\S+)\.\w+ (\S+)$", re.MULTILINE)
"""A package that the one above it makes obsolete."""


def arguments(transaction: Transaction, unlocked: str) -> list[str]:
    """Return the arguments of dnf for a transaction; `unlocked` is the switch that ignores locks of versions."""
    if transaction.verb == "remove":
        return ["remove", "--noautoremove", *transaction.names]
    if transaction.verb == "upgrade":
        return ["upgrade", *transaction.names]
    wanted = [pkg.source or "-".join(filter(None, (pkg.name, pkg.version))) for pkg in transaction.pkgs]
    verb = "upgrade" if transaction.options.get("only_upgrade") else "install"
    return [verb, "--best", *_switches(transaction.options, unlocked), *wanted]


def _switches(options: Mapping[str, Any], unlocked: str) -> list[str]:
    """Return the switches for the options of `install`."""
    switches = [f"--repo={options['fromrepo']}"] if options.get("fromrepo") else []
    if options.get("skip_verify"):
        switches.append("--nogpgcheck")
    if options.get("update_holds"):
        switches.append(unlocked)
    if options.get("install_recommends") is not None:
        switches.append(f"--setopt=install_weak_deps={bool(options['install_recommends'])}")
    return switches


def planned(text: str, replaced: re.Pattern[str]) -> _rpm.PlannedPackages:
    """Parse the table of a transaction; `replaced` finds the packages that others replace."""
    found = _rpm.PlannedPackages([], [], [])
    for title, rows in SECTION.findall(text):
        pkgs = ROW.findall(rows)
        if title.startswith("Installing"):
            found.installed.extend(pkgs)
        elif title.startswith(("Upgrading", "Downgrading")):
            found.upgraded.extend(pkgs)
        elif title.startswith("Removing"):
            found.removed.extend(pkgs)
        found.removed.extend(replaced.findall(rows))
    return found


def repositories(out: str, err: str) -> dict[str, Outcome]:
    """Parse the output of `dnf --verbose makecache`: id of a repository -> outcome."""
    found: dict[str, Outcome] = dict.fromkeys(re.findall(r"^(\S+): using metadata from", out, re.MULTILINE), "updated")
    found |= dict.fromkeys(re.findall(r"'(\S+)' can be revived", out), "unchanged")
    return found | dict.fromkeys(re.findall(r"Failed to download metadata for repo '(\S+?)'", out + err), "failed")


def locked(text: str) -> frozenset[str]:
    """Parse the list of the plugin `versionlock`, lines like `tiny-0:1.0-1.*`: the names."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return frozenset(line.rsplit("-", 2)[0] for line in lines if line.count("-") > 1 and not line.startswith("!"))


def groups(text: str) -> dict[str, list[str]]:
    """Parse `dnf group info`: name -> packages, sorted. Groups of groups (environments) are left out."""
    found = {}
    for name, rest in re.findall(r"^Group: (.*)\n((?: .*\n?)*)", text, re.MULTILINE):
        found[name] = sorted(set(re.findall(r"^   (\S+)$", rest, re.MULTILINE)))
    return found


LISTED = re.compile(r"^(i?) *(\S+) +(\S+) +(\S+)$", re.MULTILINE)
"""A line of `dnf updateinfo list --all`: whether it is installed, id, category and severity, package."""
TITLED = re.compile(r"^=+\n +(.*)\n=+\n +Update ID: (\S+)\n +Type: (\S+)\n", re.MULTILINE)
SEVERITY = re.compile(r"^ +Severity: (\S+)$", re.MULTILINE)


def patches(listed: str, told: str) -> dict[str, Patch]:
    """Parse `dnf updateinfo list --all` and `dnf updateinfo info --all`: id -> patch."""
    packages: dict[str, dict[str, bool]] = {}
    for installed, number, _, package in LISTED.findall(listed):
        packages.setdefault(number, {})[package] = bool(installed)
    found = {}
    for block in re.split(r"\n(?==+\n +\S.*\n=+\n)", told):
        title, severity = TITLED.search(block), SEVERITY.search(block)
        if title and title[2] in packages:
            corrected = packages[title[2]]
            found[title[2]] = Patch(
                id=title[2],
                summary=title[1].strip(),
                category=title[3],
                severity=severity[1] if severity and severity[1] != "None" else None,
                packages=tuple(sorted(corrected)),
                installed=all(corrected.values()),
            )
    return found
