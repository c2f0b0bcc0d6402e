"""The top file: which state files apply to this host."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from holdfast.states.errors import CompileError, Problem
from holdfast.states.high import Reference, shown
from holdfast.states.marks import Document, Map, Mark, Seq, Spot
from holdfast.states.match import BadExpression, Host, matches


def chosen(document: Document, data: Any, env: str, host: Host) -> tuple[list[Reference], list[Problem]]:
    """The SLS names (or globs) that a top file gives this host, in the order of their first mention; and warnings.

    Raises `CompileError` with everything that is wrong with the file.
    """
    reader = _Top(document, env, host)
    if data is not None and data != {}:
        reader.read(data)
    if reader.problems:
        raise CompileError(reader.problems)
    first: dict[str, Reference] = {}
    for reference in reader.found:
        first.setdefault(reference.name, reference)
    return list(first.values()), reader.warnings


class _Top:
    """The work of `chosen`, with what it collects."""

    def __init__(self, document: Document, env: str, host: Host) -> None:
        self.document, self.env, self.host = document, env, host
        self.found: list[Reference] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def read(self, data: Any) -> None:
        """Go through the environments."""
        if not isinstance(data, Map):
            self._problem(
                None,
                f"a top file must be a mapping of environments, but this is {shown(data)}",
                "write 'base:', below it a target, and below that a list of names",
            )
            return
        for env, targets in data.items():
            mark = data.marks.get(env)
            if env != self.env and isinstance(targets, Seq):
                self._problem(
                    mark, f"{env!r} is taken as an environment, not as a target", f"put '{self.env}:' above it, and indent what is below"
                )
            elif env != self.env:
                text = f"the environment {env!r} has no effect: this host's is {self.env!r}"
                self.warnings.append(self.document.problem(mark, "top-environment", text, f"if it is a target, put '{self.env}:' above it"))
            elif isinstance(targets, Map):
                self._targets(targets)
            elif targets is not None:
                self._problem(
                    mark, f"the environment {env} must be a mapping of targets, but this is {shown(targets)}", "write \"'*':\" below it"
                )

    def _targets(self, targets: Map) -> None:
        for target, items in targets.items():
            mark = targets.marks.get(target)
            if not isinstance(target, str):
                self._problem(mark, f"a target must be text, but this is {shown(target)}", f'quote it: "{target}"')
            elif not isinstance(items, Seq):
                self._problem(
                    mark,
                    f"the target {target!r} must have a list of names, but this is {shown(items)}",
                    "write each name as an item: '- name'",
                )
            else:
                self._apply(target, items, mark)

    def _apply(self, target: str, items: Seq, mark: Mark | None) -> None:
        """Take the names of one target, if this host is meant."""
        kind = next((item["match"] for item in items if isinstance(item, Map) and isinstance(item.get("match"), str)), "compound")
        references = list(self._references(items, mark))
        try:
            if matches(kind, target, self.host):
                self.found += references
        except BadExpression as error:
            self._problem(mark, f"the target cannot be read: {error}", "")

    def _references(self, items: Seq, mark: Mark | None) -> Iterator[Reference]:
        for index, item in enumerate(items):
            spot = Spot(self.document, items.marks[index] if items.marks else mark)
            if isinstance(item, str):
                yield Reference(item, spot, env=self.env)
            elif not isinstance(item, Map) or len(item) != 1 or not all(isinstance(part, str) for part in (*item, *item.values())):
                self._problem(spot.mark, f"an item must be the name of a state file, but this is {shown(item)}", "write '- name'")
            elif "match" not in item:
                ((env, name),) = item.items()
                if fnmatch.fnmatchcase(self.env, env):
                    yield Reference(name, spot, env=self.env)
                else:
                    self._problem(
                        spot.mark,
                        f"there is no environment {env!r}",
                        f"this host's is {self.env!r}; a matcher is chosen with '- match: kind'",
                    )

    def _problem(self, mark: Mark | None, message: str, hint: str) -> None:
        self.problems.append(self.document.problem(mark, "top-shape", message, hint))
