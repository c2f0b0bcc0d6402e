"""The tests run the keeper without an agent; `tests/plugins/test_process.py` tests both."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path

from deadline import DEADLINE
from holdfast.agent.host import keeper, processes
from holdfast.agent.host.forkserver import program


def test_an_agent_that_dies_before_the_process_has_started_leaves_nothing_behind(tmp_path: Path) -> None:
    """The keeper cannot report the process to an agent, but ends it and removes its directory."""
    home = tmp_path / "home"
    home.mkdir()
    (report, told), (life, lifeline), (passed, rest) = os.pipe(), os.pipe(), os.pipe()
    streams = os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_WRONLY)
    request = os.memfd_create("request", 0)
    kept = keeper.Kept([b"sleep", b"60"], {b"PATH": b"/usr/bin:/bin"}, None, 0, 64, streams, passed, bytes(home), 0.1)
    os.write(request, marshal.dumps(tuple(kept)))
    for descriptor in (report, lifeline):
        os.close(descriptor)

    inherited = [request, life, told, *streams, passed]
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-", *map(str, (request, life, told))],
        input=program(processes, keeper, start="module.keep(*map(int, sys.argv[1:]))"),
        capture_output=True,
        pass_fds=inherited,
        timeout=DEADLINE,
        check=False,
    )
    for descriptor in (*inherited, rest):
        os.close(descriptor)

    assert (found.returncode, found.stderr) == (0, b"")
    assert not home.exists()
