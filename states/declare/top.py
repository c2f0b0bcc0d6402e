"""The top file: which state files apply to this host."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from holdfast.states.declare.high import Reference, shown
from holdfast.states.declare.include import SlsNames
from holdfast.states.declare.normalise import normalise, text_pair
from holdfast.states.errors import CompileError, Problem
from holdfast.states.parse.marks import Document, Map, Mark, Seq, Spot
from holdfast.states.source.files import TOP, Tree
from holdfast.states.template.render import Renderer
from holdfast.states.view.match import BadExpression, TargetHost, matches


def chosen(renderer: Renderer, tree: Tree, env: str, host: TargetHost) -> tuple[list[Reference], list[Problem]]:
    """Return the SLS names (or globs) that the top file assigns to this host, by first mention; and warnings.

    An included top file counts as if it were appended. Raises `CompileError` with all problems.
    """
    reader = _Top(env, host)
    spot = Spot(Document(str(tree.root / f"{TOP}.sls"), ""))
    names = SlsNames(tree, env, reader.problems)
    todo, seen = [(Reference(TOP, spot), tree.root / f"{TOP}.sls")], {TOP}
    for reference, path in todo:  # the list grows during the loop
        try:
            rendered = renderer.render(path, reference.name)
        except CompileError as error:
            reader.problems += error.problems
            continue
        included = reader.read(rendered.document, rendered.data)
        for name in names.included(included, path):
            file = tree.find(name)
            if name not in seen and file is not None:
                seen.add(name)
                todo.append((Reference(name, spot), file))
    if reader.problems:
        raise CompileError(reader.problems)
    first: dict[str, Reference] = {}
    for reference in reader.references():
        first.setdefault(reference.name, reference)
    return list(first.values()), reader.warnings


OPTIONS = ("match", "order", "ignore_missing")
"""Keys of a target that are not SLS names: its matcher, its order, and whether its names must exist."""


class _Top:
    """State of one call of `chosen`."""

    def __init__(self, env: str, host: TargetHost) -> None:
        self.env, self.host = env, host
        self.document = Document("", "")
        self.found: list[tuple[float, list[Reference]]] = []
        """The `order` of each target that matches this host, and its names."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def references(self) -> Iterator[Reference]:
        """Yield all names of all targets, those with a lower `order` first."""
        for _, references in sorted(self.found, key=lambda pair: pair[0]):
            yield from references

    def read(self, document: Document, data: Any) -> list[Reference]:
        """Read the environments of one file; returns its includes."""
        self.document = document
        included: list[Reference] = []
        if data is None or data == {}:
            return included
        if not isinstance(data, Map):
            self._problem(
                document.beginning(data),
                f"a top file must be a mapping of environments, but this is {shown(data)}",
                "write 'base:', below it a target, and below that a list of names",
            )
            return included
        for env, targets in data.items():
            mark = data.marks.get(env)
            if env == self.env:
                self._targets(targets, mark)
            elif env == "include":
                unit = normalise(document, Map({env: targets}, {} if mark is None else {env: mark}), TOP, self.env)
                self.problems += unit.problems
                included += unit.includes
            else:
                self._other_environment(env, targets, mark)
        return included

    def _other_environment(self, env: object, targets: object, mark: Mark | None) -> None:
        """Report an environment that is not this host's: it has no effect, or is meant as a target."""
        if isinstance(targets, Seq):
            message = f"{env!r} is taken as an environment, not as a target"
            self._problem(mark, message, f"put '{self.env}:' above it, and indent what is below")
        else:
            message = f"the environment {env!r} has no effect: this host's is {self.env!r}"
            hint = f"if it is a target, put '{self.env}:' above it"
            self.warnings.append(self.document.problem(mark, "top-environment", message, hint))

    def _targets(self, targets: object, mark: Mark | None) -> None:
        """Apply all targets of this host's environment."""
        if not isinstance(targets, Map):
            if targets is not None:
                message = f"the environment {self.env} must be a mapping of targets, but this is {shown(targets)}"
                self._problem(mark, message, "write \"'*':\" below it")
            return
        for target, items in targets.items():
            mark = targets.marks.get(target)
            if not isinstance(target, str):
                self._problem(mark, f"a target must be text, but this is {shown(target)}", "quote it")
            elif not isinstance(items, Seq):
                self._problem(
                    mark,
                    f"the target {target!r} must have a list of names, but this is {shown(items)}",
                    "write each name as an item: '- name'",
                )
            else:
                self._apply(target, items, mark)

    def _apply(self, target: str, items: Seq, mark: Mark | None) -> None:
        """Add the names of one target, if it matches this host."""
        options = _options(items)
        kind = options.get("match", "compound")
        order = options.get("order", 0)
        references = list(self._references(items, mark, optional=options.get("ignore_missing") is True))
        if not isinstance(kind, str) or isinstance(order, bool) or not isinstance(order, (int, float)):
            self._problem(
                mark,
                f"the target {target!r} has an invalid order or matcher",
                "write '- match: glob', '- order: 1'",
            )
            return
        try:
            if matches(kind, target, self.host):
                self.found.append((order, references))
        except BadExpression as error:
            self._problem(mark, f"the target cannot be read: {error}", "")

    def _references(self, items: Seq, mark: Mark | None, *, optional: bool) -> Iterator[Reference]:
        for index, item in enumerate(items):
            spot = Spot(self.document, items.marks[index] if items.marks else mark)
            if isinstance(item, str):
                yield Reference(item, spot, env=self.env, optional=optional)
            elif isinstance(item, Map) and len(item) == 1 and next(iter(item)) in OPTIONS:
                continue
            elif (pair := text_pair(item)) is None:
                message = f"an item must be the name of a state file, but this is {shown(item)}"
                self._problem(spot.mark, message, "write '- name'")
            elif fnmatch.fnmatchcase(self.env, pair[0]):
                yield Reference(pair[1], spot, env=self.env, optional=optional)
            else:
                hint = f"this host's is {self.env!r}; a matcher is chosen with '- match: kind'"
                self._problem(spot.mark, f"there is no environment {pair[0]!r}", hint)

    def _problem(self, mark: Mark | None, message: str, hint: str) -> None:
        self.problems.append(self.document.problem(mark, "top-shape", message, hint))


def _options(items: Seq) -> dict[str, Any]:
    """Return the options among the items of a target: `match: glob`, `order: 1`, `ignore_missing: true`."""
    pairs = (pair for item in items if isinstance(item, Map) and len(item) == 1 for pair in item.items())
    return {key: value for key, value in pairs if key in OPTIONS}
