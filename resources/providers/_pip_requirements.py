"""Finds the installed packages and the requirements of pip that they meet, by scripts for the Python of the target.

Only that Python knows its packages, its rules for markers, and the files that its user may read.
"""

from __future__ import annotations

from pydantic import BaseModel

UNMET = r"""
import json, os, re, site, sys
from importlib import metadata
from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

asked = json.load(sys.stdin)
path = [asked["directory"]] if asked["directory"] else [site.getusersitepackages()] if asked["user"] else sys.path
unmet, wrong = {}, {}
key = lambda name: re.sub(r"[-_.]+", "-", name).lower()
there = {}
for each in metadata.distributions(path=path):
    if each.metadata["Name"]:
        there.setdefault(key(each.metadata["Name"]), each)


def origin(dist):
    text = dist.read_text("direct_url.json")
    return json.loads(text) if text else {}


def met(wanted, seen=()):
    dist = there.get(key(wanted.name))
    if dist is None:
        return False
    if wanted.url:
        known = origin(dist)
        same = known.get("url") and wanted.url.partition("+")[2].startswith(known["url"])
        return bool(same or known.get("url") == wanted.url)
    if not wanted.specifier.contains(dist.version, prereleases=True):
        return False
    return all(extra_met(dist, extra, seen) for extra in wanted.extras)


def extra_met(dist, extra, seen):
    if (dist, extra) in seen:
        return True
    needed = [Requirement(line) for line in dist.requires or ()]
    own = [each for each in needed if each.marker and not each.marker.evaluate({"extra": ""})
           and each.marker.evaluate({"extra": extra})]
    return all(met(each, (*seen, (dist, extra))) for each in own)


def local(text):
    place = "file://" + os.path.realpath(text.partition("[")[0].removeprefix("file://"))
    return any(origin(dist).get("url") == place for dist in there.values())


def look(line, shown):
    editable = line.startswith("editable ")
    text = line.partition(" ")[2].strip() if editable else line
    named = re.search(r"[#&]egg=([\w.-]+)", text)
    if named:
        text = named[1]
    elif re.match(r"\.{0,2}/|file:", text) or editable:
        if not local(text):
            unmet[shown] = ""
        return
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        wrong[shown] = str(error).split("\n")[0]
        return
    if (wanted.marker is None or wanted.marker.evaluate({"extra": ""})) and not met(wanted):
        dist = there.get(key(wanted.name))
        unmet[shown] = dist.version if dist else ""


def read(file, shown, depth=0):
    with open(file, encoding="utf-8") as lines:
        text = re.sub(r"\\\n", " ", lines.read())
    for line in text.split("\n"):
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        line = re.sub(r"\s--(hash|config-settings|global-option)[ =]\S+", "", line).strip()
        nested = re.match(r"(?:-r|--requirement)[ =]*(\S+)", line)
        if nested and depth < 10:
            read(os.path.join(os.path.dirname(file), nested[1]), shown, depth + 1)
        elif line.startswith("-e "):
            look("editable " + line[3:], shown)
        elif line and line[0] != "-":
            look(line, shown)


for line in asked["requirements"]:
    if line.startswith("@"):
        try:
            read(line[1:], line)
        except OSError as error:
            wrong[line] = error.strerror
    else:
        look(line, line)
print(json.dumps({"unmet": unmet, "wrong": wrong}))
"""
"""Reads the requirements as JSON from stdin, and prints `Answered` as JSON."""
LIST = r"""import json, re, site, sys
from importlib import metadata
found = {}
for each in metadata.distributions(path=[site.getusersitepackages()] if sys.argv[1:] else sys.path):
    if each.metadata["Name"]:
        found.setdefault(re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(), each)
print(json.dumps({each.metadata["Name"]: each.version for each in found.values()}))"""
"""Prints name -> version of the installed packages; with an argument, those of the user.

pip has the same list, but takes five times as long to start.
"""
PLACES = """import json, site, sys
print(json.dumps([site.getusersitepackages()] if sys.argv[1:] else site.getsitepackages()))"""
"""Prints the directories in which pip installs; with an argument, that of the user."""


class Answered(BaseModel):
    """The answer of `UNMET`."""

    unmet: dict[str, str]
    """Requirement -> the installed version of its package; empty if there is none."""
    wrong: dict[str, str]
    """Requirement that cannot be understood -> why."""
