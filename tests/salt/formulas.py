"""Compiles public formulas with Salt and with Holdfast, and counts what prevents Holdfast from applying them.

    scripts/formulas DIRECTORY [NAME...]

The directory contains a git repository for each formula of `formulas.yaml`, under its name; a bare one is enough.
Missing formulas are left out. Each formula is read at its commit and compiled twice, without a pillar and with its
`pillar.example` (two trees), always for the same host and leniently, as states of others. Without Salt (see
`scripts/test --salt`) only Holdfast is used.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ours
from asking import Asking
from compare import differences
from stage import GRAINS, Job, plain_umask
from trees import Tree

from holdfast.agent.phrases import number_of
from holdfast.resources.case_files import parsed
from holdfast.resources.visible import clean

LIST = Path(__file__).with_name("formulas.yaml")
SALT = Path(__file__).parents[2] / ".venv-salt-3007" / "bin" / "python"
EXAMPLE = "pillar.example"
HOST = {
    **GRAINS,
    "cpuarch": "x86_64",
    "domain": "example.com",
    "fqdn": "web1.example.com",
    "fqdn_ip4": ["10.0.0.7"],
    "init": "systemd",
    "ip4_interfaces": {"lo": ["127.0.0.1"], "eth0": ["10.0.0.7"]},
    "kernelrelease": "6.1.0-18-amd64",
    "lsb_distrib_codename": "bookworm",
    "mem_total": 3924,
    "nodename": "web1",
    "num_cpus": 2,
    "osarch": "amd64",
    "oscodename": "bookworm",
    "osfinger": "Debian-12",
    "osfullname": "Debian GNU/Linux",
    "osmajorrelease": 12,
    "osrelease_info": [12],
    "pythonversion": [3, 11, 2, "final", 0],
    "saltversion": "3007.17",
    "saltversioninfo": [3007, 17],
    "systemd": {"version": "252", "features": ""},
    "virtual": "physical",
}
"""All formulas are compiled for this host, a Debian 12."""

Reason = tuple[str, str]
"""Code and message of an error, as `general` writes it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of both for one tree."""

    name: str
    salt: bool | None
    """Whether Salt compiles it; None without Salt."""
    differs: str | None
    """How the low data differ, empty if they are equal; None if they are not compared."""
    reasons: frozenset[Reason]
    """Errors that prevent Holdfast from applying it."""

    @property
    def formula(self) -> str:
        """The formula, which is ready if all of its trees are that Salt compiles."""
        return self.name.partition(" ")[0]

    def __str__(self) -> str:
        """Return one line."""
        salt = {True: "Salt compiles it", False: "Salt refuses it", None: "Salt was not asked"}[self.salt]
        low = "" if self.differs is None else f"; low data {'differ' if self.differs else 'are equal'}"
        return f"{self.name}: {salt}{low}; " + (
            f"{number_of(len(self.reasons), 'reason')} why not to apply it here"
            if self.reasons
            else "ready to apply here"
        )


def read(repository: Path, commit: str) -> dict[str, str]:
    """Return the files of a formula as path -> text. Raise `CalledProcessError` if git cannot read that commit."""
    archive = subprocess.run(["git", "-C", repository, "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        files = [(member.name, members.extractfile(member)) for member in members if member.isfile()]
        return {name: file.read().decode(errors="replace") for name, file in files if file}


def trees(name: str, files: Mapping[str, str]) -> Iterator[Tree]:
    """Return the states of a formula: all top-level folders that have an `init.sls`, together."""
    folders = sorted(
        path.removesuffix("/init.sls") for path in files if path.count("/") == 1 and path.endswith("/init.sls")
    )
    states = {path: text for path, text in files.items() if path.partition("/")[0] in folders}
    common: dict[str, Any] = {
        "sls": tuple(folders),
        "grains": HOST,
        "options": {"template_commands": True, "lenient": ["*"]},
        "modes": (),
    }
    yield Tree(name, states, **common)
    if EXAMPLE in files:
        pillar = {"top.sls": "base: {'*': [example]}\n", "example.sls": files[EXAMPLE]}
        yield Tree(f"{name} with {EXAMPLE}", states, pillar=pillar, **common)


def found(directory: Path, names: Sequence[str]) -> Iterator[Tree]:
    """Return the trees of the existing formulas, or of those that are named; report formulas that cannot be read."""
    for name, commit in parsed(LIST.read_text(encoding="utf-8")).items():
        if (directory / name).exists() and (not names or name in names):
            try:
                yield from trees(name, read(directory / name, commit))
            except subprocess.CalledProcessError as error:
                print(f"{name}: left out: {clean(error.stderr.decode(errors='replace').strip())}", file=sys.stderr)


def verdicts(jobs: Sequence[Job], directory: Path) -> Iterator[Verdict]:
    """Compile each tree with both; Salt runs ahead in a process of its own."""
    with ExitStack() as stack:
        salt = None
        if SALT.exists():
            salt = Asking(SALT, directory, jobs)
            stack.callback(salt.close)
        for job in jobs:
            yield judge(job, salt.answer(job["name"]) if salt else None, directory)


def judge(job: Job, salt: Mapping[str, Any] | None, directory: Path) -> Verdict:
    """Compare Salt's answer about a tree with that of Holdfast.

    Low data that a second run of Salt makes differently, by a random number or the time, are not compared.
    """
    base = directory / "ours"
    own = ours.answer(base, job)
    differs = None
    if salt and "low" in salt and "low" in own:
        differs = "\n".join(text for _, text in differences(salt, {"low": own["low"]}, ()))
        if differs and _asked_again(job, directory / "again") != salt["low"]:
            differs = None
    reasons = frozenset((problem["code"], general(problem["message"], base)) for problem in own.get("problems", ()))
    return Verdict(job["name"], None if salt is None else "errors" not in salt, differs, reasons)


def _asked_again(job: Job, directory: Path) -> Any:
    """Return the low data of a tree as another run of Salt makes them."""
    directory.mkdir(exist_ok=True)
    salt = Asking(SALT, directory, [job])
    try:
        return salt.answer(job["name"])["low"]
    finally:
        salt.close()


def general(message: str, base: Path) -> str:
    """Return a message without its particulars: X for names of resources, N for lines, no places."""
    if message.startswith("requisites form a cycle"):
        return "requisites form a cycle"
    placeless = re.sub(rf" \({re.escape(str(base))}[^)]*\)", "", message)
    return clean(re.sub(r"\bline \d+", "line N", re.sub(r"[\w.]+\[[^\]]*\]", "X", placeless)))


def report(judged: Sequence[Verdict]) -> Iterator[str]:
    """Yield the counts, then the reasons by code, most frequent first. Trees that Salt refuses are not counted."""
    counted = [verdict for verdict in judged if verdict.salt is not False]
    compared = [verdict for verdict in counted if verdict.differs is not None]
    yield f"{len(judged)} trees; {sum(bool(verdict.salt) for verdict in counted)} compile with Salt"
    yield f"{sum(not verdict.differs for verdict in compared)} of {len(compared)} compared have the same low data"
    formulas = {verdict.formula for verdict in counted}
    stopped = sorted({verdict.formula for verdict in counted if verdict.reasons})
    yield f"{len(formulas) - len(stopped)} of {len(formulas)} formulas are ready to apply with Holdfast" + (
        f"; these are not: {', '.join(stopped)}" if stopped else ""
    )
    ready = sum(not verdict.reasons for verdict in counted)
    yield f"{ready} of {len(counted)} trees are ready; the others are stopped by (number of trees):"
    yield from reasons(counted)


def reasons(counted: Sequence[Verdict]) -> Iterator[str]:
    """Yield the reasons that stop trees by code, and the messages of each code, most frequent first."""
    messages = Counter(reason for verdict in counted for reason in verdict.reasons)
    codes = [frozenset(code for code, _ in verdict.reasons) for verdict in counted]
    for code, count in Counter(code for several in codes for code in several).most_common():
        yield f"{count:5}  {code} ({codes.count(frozenset({code}))} of them are stopped by nothing else)"
        yield from (f"       {count:5}  {message}" for (of, message), count in messages.most_common() if of == code)


def main() -> None:
    """Print a line for each tree, with differences of its low data, and then the report."""
    if len(sys.argv) < 2:
        sys.exit("usage: scripts/formulas DIRECTORY [NAME...]")
    plain_umask()
    jobs = [tree.job() for tree in found(Path(sys.argv[1]), sys.argv[2:])]
    if not jobs:
        sys.exit(f"no formula of {LIST} is in {sys.argv[1]}; clone some of them there, each under its name")
    judged = []
    with tempfile.TemporaryDirectory() as directory:
        for verdict in verdicts(jobs, Path(directory)):
            judged.append(verdict)
            print(verdict, *filter(None, [clean(verdict.differs or "")]), sep="\n", flush=True)
    print("", *report(judged), sep="\n")


if __name__ == "__main__":
    main()
