"""What a local user may put on a managed path, and the required result.

A `Case` is one resource with a trap. It has three directories: `$H` below the user's home, `$V` of root with victims,
and `$O` of root, which everybody can read. Shell scripts and arguments use these names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

USER, HOME, VICTIMS, OUT = "u", "/home/u", "/srv/victims", "/srv/out"
OPEN = "key=1\n# old=1\n#-- start\n#-- end\nanchor\n"
"""The victim that everybody can read; each kind that edits would find something to change in it."""
TRAP = "ln -s $V l"
"""A link of the user to a directory of root."""


@dataclass(frozen=True)
class Case:
    """One resource and one trap."""

    name: str
    kind: str
    arguments: Mapping[str, Any]
    planted: str = ""
    """A shell script that the user runs in `$H` before the agent runs."""
    given: str = ""
    """A shell script that root runs in `$H` before `planted`: files that the user got by other means."""
    refused: str | None = None
    """Text that the error must contain, usually the path component. None: the resource must succeed."""
    either: bool = False
    """The resource may fail or succeed; only damage counts."""
    after: str = ""
    """A shell script that root runs in `$H` afterwards; it fails unless everything is as required."""

    def filled(self, text: str) -> str:
        """Return a text with the directories in place of `$H`, `$V` and `$O`."""
        return (
            text.replace("$H", f"{HOME}/{self.name}")
            .replace("$V", f"{VICTIMS}/{self.name}")
            .replace("$O", f"{OUT}/{self.name}")
        )

    def state(self) -> dict[str, Any]:
        """Return the state of this resource; its ID is the name of the case."""
        arguments: dict[str, Any] = json.loads(self.filled(json.dumps({"name": "$H/f", **self.arguments})))
        return {self.name: {self.kind: [{key: value} for key, value in arguments.items()]}}

    def script(self, text: str) -> str:
        """Return one of the scripts for a shell that continues with the next script after a failure."""
        return f"(set -eu; cd {HOME}/{self.name}; {self.filled(text)}\n) || echo 'failed: {self.name}'\n"


def states(cases: Iterable[Case]) -> str:
    """Return a state file with all cases."""
    together: dict[str, Any] = {}
    for case in cases:
        together |= case.state()
    return json.dumps(together, indent=1)


def stat(path: str, wanted: str, form: str = "%U %a") -> str:
    """Return a shell command that compares the status of a path."""
    return (
        f'test "$(stat -c "{form}" {path})" = "{wanted}" || {{ stat -c "%n: {form}, not {wanted}" {path}; exit 1; }}\n'
    )


def holds(path: str, wanted: str) -> str:
    """Return a shell command that compares the content of a regular file."""
    return f'test -f {path} -a ! -L {path} && test "$(cat {path})" = "{wanted}" || {{ ls -l {path}; exit 1; }}\n'


OURS: dict[str, Any] = {"contents": "new", "user": USER}
"""A file that belongs to the user and that root maintains, like `authorized_keys`."""
ROOTS = {"contents": "new"}
