"""Parsers for the output of dnf 5, where it differs from that of dnf 4."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from itertools import chain

from holdfast.resources.interfaces.results import Patch
from holdfast.resources.providers.pkg_base import Outcome

REPLACED = re.compile(r"^ +replacing +(\S+) +\S+ +(\S+) ", re.MULTILINE)
"""A package that the one above it replaces: name, architecture, version."""
PROGRESS = re.compile(r"^ (\S.*?) +(\d+|\?+)% \|", re.MULTILINE)
"""The progress of one repository: its name, which may be shortened, and how much of it was read."""
COMPLAINT = re.compile(r"^>>> (.*?) *$", re.MULTILINE)
NOISE = re.compile(
    r"^(Updating and loading repositories:|Repositories loaded\.|Failed to resolve the transaction:"
    r"|You can try to add to command line:|  --skip-.*| .*\d% \|.*|\[\d+/\d+\] .*|-+|Running transaction"
    r"|Warning: skipped OpenPGP checks .*|Total size of .*|After this operation, .*)$\n?",
    re.MULTILINE,
)
"""Lines that do not say why a command failed."""


def enabled(text: str) -> dict[str, str]:
    """Parse `dnf5 repolist --json`: id -> name of the enabled repositories."""
    return {repo["id"]: repo["name"] for repo in json.loads(text or "[]")}


def repositories(progress: str, known: Mapping[str, str]) -> dict[str, Outcome]:
    """Parse the progress of `dnf5 makecache`: id of a repository -> outcome.

    dnf 5 does not say whether a repository has changed.
    """
    found: dict[str, Outcome] = {}
    for shown, percent in PROGRESS.findall(progress):
        ids = [number for number, name in known.items() if name.startswith(shown)]
        found |= dict.fromkeys(ids, "updated" if percent == "100" else "failed")
    return found


def complaints(text: str) -> str:
    """Return the messages about repositories that cannot be read, on one line."""
    return "; ".join(dict.fromkeys(COMPLAINT.findall(text)))


def without_progress(text: str) -> str:
    """Return the lines that say why a command failed."""
    return NOISE.sub("", text)


def locked(text: str) -> frozenset[str]:
    """Parse the list of locks: the names of the packages that stay at one version."""
    return frozenset(
        lock["name"]
        for lock in tomllib.loads(text).get("packages", ())
        if any(condition.get("comparator") == "=" for condition in lock.get("conditions", ()))
    )


def groups(text: str) -> dict[str, list[str]]:
    """Parse `dnf5 group info`: name -> packages, sorted. The second and later packages are on lines without a key."""
    found: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        fields: dict[str, list[str]] = {}
        key = ""
        for line in block.splitlines():
            said, _, value = line.partition(" : ") if " : " in line else line.partition(":")
            key = said.strip() or key
            fields.setdefault(key, []).append(value.strip())
        if name := "".join(fields.get("Name", ())):
            packages = (values for key, values in fields.items() if key.endswith("packages"))
            found[name] = sorted({*chain.from_iterable(packages)})
    return found


def patches(there: str, listed: str, told: str) -> dict[str, Patch]:
    """Parse `dnf5 advisory list --installed`, `list --all` and `info --all`, all with `--json`: id -> patch."""
    installed = {(each["name"], each["nevra"]) for each in json.loads(there or "[]")}
    packages: dict[str, set[str]] = {}
    for each in json.loads(listed or "[]"):
        packages.setdefault(each["name"], set()).add(each["nevra"])
    info = json.loads(told or "{}")
    return {
        number: Patch(
            id=number,
            summary=info[number]["Title"],
            category=info[number]["Type"],
            severity=info[number]["Severity"] if info[number]["Severity"] != "None" else None,
            packages=tuple(sorted(corrected)),
            installed=all((number, package) in installed for package in corrected),
        )
        for number, corrected in packages.items()
        if number in info
    }
