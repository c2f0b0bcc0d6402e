"""Pages of documentation in Markdown: docs/calls.md, docs/kinds/<family>.md and docs/interfaces/<name>.md.

`python -m holdfast.agent.generators.pages docs` writes them; `scripts/reference` calls it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from holdfast.agent.generators.calls_page import calls_page
from holdfast.agent.generators.interface_page import interface_page
from holdfast.agent.generators.markdown import abilities, example, fields_table, listed, table
from holdfast.agent.model.build import build
from holdfast.agent.model.model import KindModel, SystemModel
from holdfast.resources import registry
from holdfast.resources.builtin import INTERFACES, KIND_MODULES

GENERATED = "<!-- Written by scripts/reference from the classes; change these instead. -->"


def pages() -> dict[str, str]:
    """Return the text of each page, by its path below docs/."""
    model = build(filter(None, map(registry.find, sorted(KIND_MODULES))), sorted(INTERFACES))
    found = {"calls.md": calls_page(), "kinds/every-state.md": _every_state(model)}
    for family, kinds in groupby(model.kinds, key=lambda kind: kind.name.partition(".")[0]):
        found[f"kinds/{family}.md"] = _family(family, tuple(kinds))
    for interface in model.interfaces:
        found[f"interfaces/{interface.name}.md"] = interface_page(interface, model.records)
    return {path: re.sub(r"\n{3,}", "\n\n", f"{GENERATED}\n\n{text.rstrip()}\n") for path, text in found.items()}


def write(docs: Path) -> None:
    """Write all pages, and remove pages of families and interfaces that do not exist."""
    new = pages()
    for folder in ("kinds", "interfaces"):
        (docs / folder).mkdir(exist_ok=True)
        for old in (docs / folder).glob("*.md"):
            if f"{folder}/{old.name}" not in new:
                old.unlink()
    for path, text in new.items():
        (docs / path).write_text(text, encoding="utf-8")


def _family(family: str, kinds: Iterable[KindModel]) -> str:
    lines = [f"# `{family}`", "", "Each of these states also takes [the arguments of every state](every-state.md)."]
    for kind in kinds:
        lines += ["", *_kind(kind)]
    return "\n".join(lines)


def _kind(kind: KindModel) -> Iterator[str]:
    yield f"## `{kind.name}`"
    for paragraph in (kind.docs.summary, *kind.docs.text):
        yield from (paragraph, "")
    for text in kind.docs.examples:
        yield from (*example(text), "")
    yield from fields_table("argument", kind.fields)
    former = {name: f"use `{present}`" for name, present in kind.former.items()}
    yield from listed("Accepted without effect", kind.ignored)
    yield from listed("Refused", kind.refused)
    yield from listed("Former names", former)
    yield from listed("Behaviour", abilities(kind), code=False)


def _every_state(model: SystemModel) -> str:
    requisites: list[Mapping[str, str]] = [
        {
            "requisite": f"`{each.name}`",
            "written at the target": f"`{each.reversed_form}`" if each.reversed_form else "",
            "meaning": each.doc,
        }
        for each in model.requisites
    ]
    return "\n".join(
        [
            "# Arguments of every state",
            "",
            "If a kind has an argument of the same name, that one applies. `name`, `names` and `order` exist, too.",
            "",
            *fields_table("argument", model.meta),
            "## Requisites",
            *table(requisites),
        ]
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
