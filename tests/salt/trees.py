"""The trees that both are asked about: the designed ones, read from `trees/*.yaml`, and the generated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from generate import generated
from stage import Job


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree of states: all that its outcome depends on, and nothing of the outcome.

    `/DIR` in any text stands for a directory of its own.
    """

    name: str
    files: Mapping[str, str]
    sls: tuple[str, ...] = ()
    """What is applied; empty: what its top file says."""
    pillar: Mapping[str, str] = field(default_factory=dict)
    """Files of the pillar."""
    grains: Mapping[str, Any] = field(default_factory=dict)
    """Beside `stage.GRAINS`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that both know by the same name."""
    disk: Mapping[str, Any] = field(default_factory=dict)
    """What /DIR holds before: name -> text, or {text:, mode:}, {link:}, {mode:} for a directory."""
    modes: tuple[str, ...] = ("real", "test")
    """How it is applied; empty: it is only compiled."""
    differs: tuple[str, ...] = ()
    """Names of the differences it shows: `differences.yaml`."""

    def job(self) -> Job:
        """What the two sides are handed."""
        return asdict(self)


def read(directory: Path) -> Iterator[Tree]:
    """The designed trees; a file `x.yaml` holds a list of them."""
    for path in sorted(directory.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            files = case["files"] if isinstance(case["files"], dict) else {"site.sls": case["files"]}
            sls = case.get("sls", [] if "top.sls" in files else ["site"])
            lists = {key: tuple(case[key]) for key in ("modes", "differs") if key in case}
            given = {key: case[key] for key in ("pillar", "grains", "options", "disk") if key in case}
            yield Tree(name=f"{path.stem}: {case['name']}", files=files, sls=tuple(sls), **given, **lists)


TREES = (*read(Path(__file__).with_name("trees")), *(Tree(**values) for values in generated(300)))
