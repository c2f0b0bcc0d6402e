"""Loads all files of a run: the requested names and, through their includes, one set of declarations.

Each file is loaded once, at its first mention. Included files are numbered before the file that includes them, but
listed after it. Both are Salt's rules; the order of the list decides which of two equal states comes first.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.states.declare.high import IdDeclaration, Reference, State, Unit
from holdfast.states.declare.include import SlsNames
from holdfast.states.declare.normalise import normalise
from holdfast.states.errors import CompileError, Problem
from holdfast.states.source.files import Tree
from holdfast.states.template.render import Rendered, Renderer

FIRST_NUMBER = 10000
"""First number of definition order."""


@dataclass(slots=True, eq=False, repr=False)
class Loaded:
    """All declarations of a run, and the includes of each file."""

    declarations: dict[str, IdDeclaration] = field(default_factory=dict)
    """The declarations of the cached units, except those that this run has changed: see `own`."""
    changed: set[str] = field(default_factory=set)
    """IDs whose declaration is a copy that belongs to this run."""
    first: dict[str, int] = field(default_factory=dict)
    """SLS -> the number of its first state in definition order; empty if states are not numbered."""
    extends: list[IdDeclaration] = field(default_factory=list)
    excludes: list[Reference] = field(default_factory=list)
    included: dict[str, list[str]] = field(default_factory=dict)
    """SLS -> its includes, except those that were being loaded already (a cycle)."""
    parent: dict[str, str] = field(default_factory=dict)
    """SLS -> the file that included it first."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def own(self, id_: str) -> IdDeclaration:
        """Return the declaration of an ID, in a copy that may be changed."""
        if id_ not in self.changed:
            self.changed.add(id_)
            self.declarations[id_] = self.declarations[id_].copy()
        return self.declarations[id_]

    def linked(self) -> list[IdDeclaration]:
        """Return the declarations that may have a `name`, or refer to other states; usually few."""
        return [declaration for declaration in self.declarations.values() if declaration.linked]

    def number(self, declaration: IdDeclaration, state: State) -> int | None:
        """Return the position of a state in definition order.

        None if it has an `order` of its own, or states are not numbered.
        """
        first = self.first.get(declaration.sls)
        return None if first is None or state.offset is None else first + state.offset

    def covered(self, sls: str) -> set[str]:
        """Return the files that an SLS in a requisite matches, and all their includes.

        These are its own file, or those of a glob.
        """
        found = {name for name in self.included if fnmatch.fnmatchcase(name, sls)}
        todo = [sls] if sls in self.included else []
        while todo:
            name = todo.pop()
            found.add(name)
            todo += [child for child in self.included[name] if child not in found]
        return found

    def chain(self, sls: str) -> list[str]:
        """Return the files that include an SLS, innermost first."""
        chain: list[str] = []
        while sls in self.parent:
            sls = self.parent[sls]
            chain.append(sls)
        return chain


class Loader:
    """Loads files at each compilation; caches the normalised form of unchanged files."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._units: dict[Path, tuple[Rendered, str, Unit]] = {}

    def load(self, tree: Tree, references: Iterable[Reference], env: str, *, numbered: bool = True) -> Loaded:
        """Load everything that the references name. The problems are in the result."""
        return _LoadRun(self, tree, env, numbered).load(references)

    def unit(self, path: Path, sls: str, env: str) -> Unit:
        """Return one normalised file. Raises `CompileError` if it cannot be read, rendered or parsed."""
        kept = self._units.get(path)
        spent = kept[0] if kept is not None and kept[1] == env else None
        rendered = self.renderer.render(path, sls, spent)
        if kept is None or rendered is not spent:
            unit = normalise(rendered.document, rendered.data, sls, env)
            kept = self._units[path] = (self.renderer.spend(path), env, unit)
        return kept[2]

    def forget(self, paths: Iterable[Path]) -> None:
        """Drop cached results of other files."""
        self._units = {path: self._units[path] for path in paths if path in self._units}


class _LoadRun:
    """State of one call of `load`."""

    def __init__(self, loader: Loader, tree: Tree, env: str, numbered: bool) -> None:
        self.loader, self.tree, self.env, self.numbered = loader, tree, env, numbered
        self.result = Loaded()
        self.names = SlsNames(tree, env, self.result.problems)
        self.next_number = FIRST_NUMBER
        self.active: set[str] = set()

    def load(self, references: Iterable[Reference]) -> Loaded:
        """Load everything that the references name."""
        for reference in references:
            for name in self.names.of(reference):
                if name not in self.result.included:
                    self._load(name)
        return self.result

    def _load(self, sls: str) -> None:
        """Load one file and its includes, depth first. An explicit stack allows chains of any length."""
        stack = [(sls, *self._enter(sls))]
        while stack:
            name, unit, includes = stack[-1]
            child = next(includes, None)
            if child is None:
                self._number(unit)
                self.active.discard(name)
                stack.pop()
                continue
            known = child in self.result.included
            if not known or child not in self.active:
                self.result.included[name].append(child)
            if not known:
                self.result.parent[child] = name
                stack.append((child, *self._enter(child)))

    def _enter(self, sls: str) -> tuple[Unit | None, Iterator[str]]:
        """Add the declarations of one file; returns the file and the names of its includes."""
        self.result.included[sls] = []
        self.active.add(sls)
        path = (
            self.tree.find(sls) or self.tree.root / f"{sls}.sls"
        )  # removed since it was matched: reading reports that
        try:
            unit = self.loader.unit(path, sls, self.env)
        except CompileError as error:
            self.result.problems += error.problems
            return None, iter(())
        self.result.problems += unit.problems
        self.result.warnings += unit.warnings
        self.result.extends += unit.extends
        self.result.excludes += unit.excludes
        known = self.result.declarations
        for declaration in unit.declarations:
            other = known.setdefault(declaration.id, declaration)
            if other is not declaration:
                self._repeated(declaration, other)
        return unit, self.names.included(unit.includes, path)

    def _repeated(self, declaration: IdDeclaration, first: IdDeclaration) -> None:
        message = f"the ID {declaration.id!r} is duplicated: first in {first.spot.location}"
        self.result.problems.append(
            declaration.spot.problem(
                "duplicate-id", message, "give one of them another ID, and the name as an argument"
            )
        )

    def _number(self, unit: Unit | None) -> None:
        """Assign numbers to the states of a file, after all of its includes have theirs."""
        if unit is not None and self.numbered:
            self.result.first[unit.sls] = self.next_number
            self.next_number += unit.count
