"""Random trees, the same in each run: states of `test.*` in a few files, with requisites of all kinds.

Requisites follow a hidden order, so that there are no cycles. Intended differences (`differences.yaml`) occur only in
the designed trees.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

FUNCTIONS = (
    *("test.nop", "test.succeed_with_changes", "test.fail_without_changes", "test.fail_with_changes") * 2,
    "test.succeed_with_changes",
    "cmd.run",
    "cmd.wait",
    "file.managed",
)
KINDS = (
    *("require", "watch", "onchanges", "onfail") * 3,
    "require_any",
    "watch_any",
    "onchanges_any",
    "onfail_any",
    "listen",
)
ORDERS = (1, 5, 5, 7, 10002, "first", "last", -1, -3)

State = dict[str, Any]
"""`id`, `type`, `function`, `arguments` (a list), `file` (number)."""


def generated(count: int) -> Iterator[dict[str, Any]]:
    """Return this many trees, as arguments of `trees.Tree`; each depends only on its number."""
    for number in range(count):
        yield {"name": f"generated {number}", "files": _Generator(number).files(), "sls": ("part0",)}


class _Generator:
    """Generates one tree."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.parts = self.random.randint(1, 3)
        self.listener = ""
        self.states = [self._state(number) for number in range(self.random.randint(3, 10))]

    def files(self) -> dict[str, str]:
        """Return the files; the first one includes the others."""
        hidden = self.random.sample(self.states, len(self.states))
        for place, state in enumerate(hidden):
            for _ in range(self.random.choice((0, 0, 1, 1, 2, 3)) if place else 0):
                self._relate(state, hidden[:place])
        files = {f"part{part}.sls": self._file(part) for part in range(self.parts)}
        return {name: json.dumps(content, indent=1) for name, content in files.items()}

    def _state(self, number: int) -> State:
        id_, function = f"s{number}", self.random.choice(FUNCTIONS)
        type_, _, name = function.partition(".")
        arguments: list[Any] = []
        if type_ == "cmd":
            arguments = [{"name": f"echo {id_} >> /DIR/log" + self.random.choice(("", "", "; false"))}]
        elif type_ == "file":
            arguments = [
                {"name": f"/DIR/{id_}"},
                {"contents": id_},
                *([{"makedirs": True}] if self.random.random() < 0.3 else []),
            ]
        elif self.random.random() < 0.15:
            arguments = [
                {"names": [f"{id_}{letter}" for letter in self.random.sample("xyz", self.random.randint(1, 3))]}
            ]
        for chance, argument in (
            (0.07, {"onlyif": self.random.choice(("true", "false"))}),
            (0.07, {"unless": self.random.choice(("true", "false"))}),
            (0.12, {"order": self.random.choice(ORDERS)}),
        ):
            if self.random.random() < chance:
                arguments.append(argument)
        return {
            "id": id_,
            "type": type_,
            "function": name,
            "arguments": arguments,
            "file": self.random.randrange(self.parts),
        }

    def _relate(self, state: State, before: list[State]) -> None:
        """Add a requisite on one or two earlier states, at either end."""
        kind = self.random.choice(KINDS)
        if kind == "listen":
            if state["type"] == "file" or self.listener not in {"", state["id"]}:
                return  # a file has no refresh action, and the order of several listeners is another one
            self.listener = state["id"]
        for other in self.random.sample(before, min(len(before), self.random.choice((1, 1, 2)))):
            if kind in {"require", "watch", "onchanges", "onfail", "listen"} and self.random.random() < 0.25:
                _append(other, f"{kind}_in", {state["type"]: state["id"]})
            else:
                _append(state, kind, self._target(other, kind))

    def _target(self, other: State, kind: str) -> Any:
        exact = {other["type"]: other["id"]}
        return (
            self.random.choice((exact, exact, exact, other["id"], {"id": other["id"]})) if kind != "listen" else exact
        )

    def _file(self, part: int) -> dict[str, Any]:
        content: dict[str, Any] = {}
        included = [
            f".part{other}" if self.random.random() < 0.3 else f"part{other}" for other in range(part + 1, self.parts)
        ]
        if included:
            content["include"] = self.random.sample(included, len(included))
        for state in self.states:
            if state["file"] == part:
                content[state["id"]] = self._body(state)
        return content

    def _body(self, state: State) -> dict[str, Any]:
        """Write the requisite in one of the possible ways."""
        if self.random.random() < 0.3:
            return {state["type"]: [state["function"], *state["arguments"]]}
        return {f"{state['type']}.{state['function']}": state["arguments"]}


def _append(state: State, key: str, item: Any) -> None:
    """Add to a list of requisites, or start one."""
    for argument in state["arguments"]:
        if key in argument:
            argument[key].append(item)
            return
    state["arguments"].append({key: [item]})
