"""Processes that do not descend from the tests, so the agent takes them for processes of other people."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Self

from holdfast.agent.host.fanotify import FanotifyGroup

LOOP = 'printf "%s\\n" $$ > "$1/out"; while read -r line; do eval "$line"; printf "done\\n" > "$1/out"; done < "$1/in"'

try:
    FanotifyGroup(processes=True).close()
    REFUSED = ""
except OSError as error:
    REFUSED = f"the kernel refuses a fanotify group: {error}"
"""Why this process cannot name who changes files; empty if it can."""


class Stranger:
    """A shell that runs lines for the tests and waits for the next one. A context manager, which ends it."""

    def __init__(self, directory: Path, *prefix: str) -> None:
        """`directory` is a new one for the pipes; `prefix` starts the shell (`setpriv`, `env`)."""
        directory.mkdir(mode=0o777)
        directory.chmod(0o777)
        for name in ("in", "out"):
            os.mkfifo(directory / name)
            (directory / name).chmod(0o666)
        argv = ["setsid", "--fork", *prefix, "sh", "-c", LOOP, "stranger", str(directory)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._directory = directory
        self.pid = int((directory / "out").read_text())
        self._lines = (directory / "in").open("w")

    def __enter__(self) -> Self:
        """Return the stranger, whose shell runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the shell."""
        self._lines.close()

    def does(self, line: str) -> None:
        """Run a line, and wait until it is done. The shell itself runs its built-in commands."""
        self.begins(line)
        (self._directory / "out").read_text()

    def begins(self, line: str) -> None:
        """Start a line without waiting for its end."""
        print(line, file=self._lines, flush=True)

    async def did(self, line: str) -> None:
        """Run a line, and wait for its end without blocking the event loop."""
        await asyncio.to_thread(self.does, line)
