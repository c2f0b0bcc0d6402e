"""`kill -9` at any moment: no written record is lost, and the database is never damaged."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import recording
from extent import CI
from holdfast_process import environment

LIVES = 100 if CI else 5
"""Processes that are killed one after the other."""


def live(parent: subprocess.Popen[str]) -> list[int]:
    """Start a process and kill it. Return what it has acknowledged."""
    assert parent.stdin
    assert parent.stdout
    print(file=parent.stdin, flush=True)
    pid = int(parent.stdout.readline())
    acknowledged = [int(parent.stdout.readline()) for _ in range(random.randint(1, 5))]
    os.kill(pid, signal.SIGKILL)
    return [*acknowledged, *map(int, iter(parent.stdout.readline, "killed\n"))]


def test_records_survive_a_process_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Takes some seconds: each life is a process. Each has all that it has acknowledged, and IDs grow."""
    path = tmp_path / "records.db"
    support = f"{environment()['PYTHONPATH']}:{Path(recording.__file__).parent}"
    known = 0
    with subprocess.Popen(
        [sys.executable, recording.__file__, str(tmp_path)],
        env={**environment(), "PYTHONPATH": support},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        for _ in range(LIVES):
            acknowledged = live(parent)
            with closing(sqlite3.connect(path)) as db:
                assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
                rows = db.execute("select data from rows where tbl = 'changes' order by id").fetchall()
            written = [int(json.loads(data)["comment"]) for (data,) in rows][known:]
            assert written == list(range(1, len(written) + 1))
            assert len(written) >= acknowledged[-1]
            known += len(written)
    assert not path.with_suffix(".damaged").exists()
