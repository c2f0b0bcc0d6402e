"""docs/providers.md is followed word for word: its commands are run, its changes are made, its outputs appear."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE

PAGE = Path(__file__).parents[2] / "docs/providers.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

HOLDFAST = """#!/bin/sh
[ "$1" = plan ] || exec {python} -m holdfast.agent.cli.main "$@"
{python} -m holdfast.agent.cli.main "$@"
[ $? = 2 ]
"""
"""The program; a plan ends with 2 if something would change, which the page expects."""


class Reader:
    """A user who follows the page."""

    def __init__(self, home: Path) -> None:
        self.home = self.here = home
        tools = home / "bin"
        tools.mkdir()
        (tools / "holdfast").write_text(HOLDFAST.format(python=sys.executable))
        (tools / "holdfast").chmod(0o755)
        (tools / "python").symlink_to(sys.executable)
        sources = os.pathsep.join(each for each in sys.path if each)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": sources}
        self.agent: subprocess.Popen[bytes] | None = None
        self.commands = ""
        """The commands of the last block."""

    def sh(self, text: str) -> None:
        """Run commands; `cd` holds for all that follow, and the agent keeps running."""
        self.commands = text.rstrip("\n").split("\n")[-1]
        if text.startswith("holdfast run"):
            command = ["bash", "-c", f"exec {text}"]
            with (self.home / "agent.log").open("wb") as log:
                self.agent = subprocess.Popen(command, cwd=self.here, env=self.environment, stdout=log, stderr=log)
            return
        done = self.run(f'{text}pwd > "{self.home}/where"\n')
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        self.here = Path((self.home / "where").read_text().strip())

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run commands in the present directory."""
        command = ["bash", "-euc", text]
        return subprocess.run(command, cwd=self.here, env=self.environment, capture_output=True, text=True, check=False)

    def text(self, expected: str) -> None:
        """Expect the output of the last command; the agent may need a moment for it."""
        end = time.monotonic() + DEADLINE
        while (said := self.run(self.commands).stdout) != expected:
            assert time.monotonic() < end, f"{self.commands}: {said!r} instead of {expected!r}"
            assert self.agent is None or self.agent.poll() is None, (self.home / "agent.log").read_text()

    def diff(self, text: str) -> None:
        """Change files."""
        subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=text, text=True, cwd=self.here, check=True)

    def yaml(self, text: str) -> None:
        """Expect a file, whose name is in the first line."""
        comment, _, content = text.partition("\n")
        assert (self.here / comment.removeprefix("# In ").removesuffix(":")).read_text() == content

    def end(self) -> None:
        """End the agent."""
        if self.agent is not None:
            self.agent.send_signal(signal.SIGTERM)
            self.agent.wait(DEADLINE)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A user with an empty directory."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    found = Reader(tmp_path)
    yield found
    found.end()


def test_the_tutorial_works_word_for_word(reader: Reader) -> None:
    """Its last outputs are those of a provider that the reader has changed. It starts a dozen processes."""
    blocks = BLOCK.findall(PAGE.read_text())
    for kind, text in blocks:
        getattr(reader, kind)(text)

    assert [kind for kind, _ in blocks].count("text") >= 4
    assert [kind for kind, _ in blocks].count("diff") >= 4
