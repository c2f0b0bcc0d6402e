"""The trees that are compared: designed ones from `trees/*.yaml`, and generated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from generate import generated
from stage import Job

from holdfast.resources.case_files import parsed


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree of states: everything that determines its outcome.

    `/DIR` in any text stands for a directory of the tree.
    """

    name: str
    files: Mapping[str, str]
    sls: tuple[str, ...] = ()
    """The SLS to apply; if empty, those of the top file."""
    pillar: Mapping[str, str] = field(default_factory=dict)
    """Files of the pillar."""
    grains: Mapping[str, Any] = field(default_factory=dict)
    """Grains in addition to `stage.GRAINS`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings with the same name in both."""
    disk: Mapping[str, Any] = field(default_factory=dict)
    """The content of /DIR before the run: name -> text, or {text:, mode:}, {link:}, {mode:} for a directory."""
    modes: tuple[str, ...] = ("real", "test")
    """How the tree is applied; if empty, it is only compiled."""
    differs: tuple[str, ...] = ()
    """Names of the differences that it shows; see `differences.yaml`."""

    def job(self) -> Job:
        """Return the tree as JSON for both sides."""
        return asdict(self)


def read(directory: Path) -> Iterator[Tree]:
    """Read the designed trees; each file `x.yaml` has a list of them."""
    for path in sorted(directory.glob("*.yaml")):
        for case in parsed(path.read_text(encoding="utf-8")):
            files = case["files"] if isinstance(case["files"], dict) else {"site.sls": case["files"]}
            sls = case.get("sls", [] if "top.sls" in files else ["site"])
            lists = {key: tuple(case[key]) for key in ("modes", "differs") if key in case}
            given = {key: case[key] for key in ("pillar", "grains", "options", "disk") if key in case}
            yield Tree(name=f"{path.stem}: {case['name']}", files=files, sls=tuple(sls), **given, **lists)


TREES = (*read(Path(__file__).with_name("trees")), *(Tree(**values) for values in generated(300)))
