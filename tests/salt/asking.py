"""The client of a Salt worker: all jobs are sent at once, and answers arrive as they are ready."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stage import Job


class Asking:
    """A worker that is given these jobs, in this order."""

    def __init__(self, python: Path, directory: Path, jobs: Sequence[Job]) -> None:
        questions, self._said = directory / "jobs", directory / "said"
        questions.write_text("".join(json.dumps(job) + "\n" for job in jobs), encoding="utf-8")
        self._names = [job["name"] for job in jobs]
        self._answers: dict[str, dict[str, Any]] = {}
        with questions.open() as given, self._said.open("w") as said:
            argv = [python, "-W", "ignore", Path(__file__).with_name("worker.py"), directory / "salt"]
            self._process = subprocess.Popen(argv, stdin=given, stdout=subprocess.PIPE, stderr=said, text=True)

    def answer(self, name: str) -> dict[str, Any]:
        """Wait for the answer about one tree, and return it."""
        assert self._process.stdout is not None
        while name not in self._answers:
            line = self._process.stdout.readline()
            assert line, f"Salt's worker has ended: {self._said.read_text()[-2000:]}"
            self._answers[self._names[len(self._answers)]] = json.loads(line)
        return self._answers[name]

    def close(self) -> None:
        """End the worker, whether or not all answers have arrived."""
        self._process.kill()
        self._process.communicate()
