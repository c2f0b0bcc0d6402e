"""Resolves SLS names (requested, in top files, in `include`) to existing state files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.resources.spelling import nearest
from holdfast.states.declare.high import Reference
from holdfast.states.errors import Problem
from holdfast.states.parse.marks import Document, Spot
from holdfast.states.source.files import Tree


class SlsNames:
    """Resolves the SLS names of one states directory. Names that do not exist are added to `problems`."""

    def __init__(self, tree: Tree, env: str, problems: list[Problem]) -> None:
        self.tree, self.env, self.problems = tree, env, problems

    def of(self, reference: Reference) -> list[str]:
        """Return the SLS names that a reference matches: its name, or the names that its glob matches."""
        if reference.env not in ("", self.env):
            self._problem(
                reference,
                "include-environment",
                f"there is no environment {reference.env!r}",
                f"this host's is {self.env!r}",
            )
            return []
        names = self.tree.match(reference.name)
        if not names and "/" in reference.name and (names := self.tree.match(reference.name.replace("/", "."))):
            message = f"{reference.name!r} has a slash where the name of an SLS has a dot"
            self.problems.append(
                reference.spot.accepted(
                    "include-shape", message, "it is read as one", f"write {reference.name.replace('/', '.')!r}"
                )
            )
            return names
        if not names and not reference.optional:
            path = reference.name.removesuffix(".sls").replace(".", "/")
            near = nearest(path.replace("/", "."), self.tree.names())
            hint = (
                f"did you mean {near}?" if near else f"looked for {path}.sls and {path}/init.sls below {self.tree.root}"
            )
            self._problem(reference, "sls-missing", f"there is no state file for {reference.name!r}", hint)
        return names

    def included(self, references: Iterable[Reference], path: Path) -> Iterator[str]:
        """Iterate over the SLS names that the file `path` includes; each is resolved when it is requested."""
        for reference in references:
            absolute = self._absolute(reference, path)
            if absolute is not None:
                yield from self.of(absolute)

    def _absolute(self, reference: Reference, path: Path) -> Reference | None:
        """Return the full name of a relative include.

        `.x` is in the directory of this file; each further dot is one directory up.
        """
        rest = reference.name.lstrip(".")
        dots = len(reference.name) - len(rest)
        if not dots:
            return reference
        parts = path.relative_to(self.tree.root).with_suffix("").parts
        if dots > len(parts):
            self._problem(
                reference,
                "include-outside",
                f"the include {reference.name!r} leads out of the states directory",
                "use fewer dots, or the full name",
            )
            return None
        return Reference(".".join([*parts[:-dots], *filter(None, [rest])]), reference.spot, env=reference.env)

    def _problem(self, reference: Reference, code: str, message: str, hint: str) -> None:
        self.problems.append(reference.spot.problem(code, message, hint))


def everything(tree: Tree) -> list[Reference]:
    """Return all files that apply without a top file, sorted by path: those whose names do not begin with `_`."""
    return requested(tree, tree.public())


def requested(tree: Tree, names: Iterable[str]) -> list[Reference]:
    """Return the references for names that are not written in a file."""
    spot = Spot(Document(str(tree.root), ""))
    return [Reference(name, spot) for name in names]
