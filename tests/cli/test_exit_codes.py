"""Exit codes stand in one place, and the documents and the verbs tell the same."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.agent import verbs
from holdfast.agent.cli.exits import ExitCode
from holdfast_process import COMMAND, environment, holdfast

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


def table(text: str) -> dict[int, str]:
    """The first table of exit codes of a document."""
    rows, _, _ = text.partition("| exit code | |\n|---|---|\n")[2].partition("\n\n")
    return {int(number): meaning for number, meaning in ROW.findall(rows)}


@contextmanager
def answering(directory: Path, answer: bytes) -> Iterator[None]:
    """Something that listens where the agent of this directory does, and answers one request."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "control.sock"))
        listener.listen()
        listener.settimeout(20)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(20)


@pytest.mark.parametrize("page", ["README.md", "docs/engine.md"])
def test_the_documents_have_the_codes_of_the_program(page: str) -> None:
    """Each code with its meaning, word for word, and no other."""
    assert table((ROOT / page).read_text()) == {code.value: code.meaning for code in ExitCode}


@pytest.mark.parametrize("page", ["docs/lint.md", "docs/fmt.md"])
def test_pages_of_single_verbs_have_no_codes_of_their_own(page: str) -> None:
    """They say in their own words what a code means there."""
    found = table((ROOT / page).read_text())
    assert found
    assert found.keys() <= {code.value for code in ExitCode}


@pytest.mark.parametrize("verb", verbs.names())
def test_the_help_of_a_verb_has_no_codes_of_its_own(verb: str) -> None:
    """Each number after `Exit codes:` is in the table."""
    said = holdfast(verb, "--help", check=0).stdout.partition("Exit codes:")[2].partition("Options:")[0]
    assert {int(number) for number in re.findall(r"\b\d+\b", said)} <= {code.value for code in ExitCode}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ExitCode.FOREIGN),
        (
            json.dumps({"ok": False, "error": "cannot do 'status'", "code": "not-understood"}).encode() + b"\n",
            ExitCode.FOREIGN,
        ),
        (
            json.dumps({"ok": False, "error": "cannot serve uid 7", "code": "not-permitted"}).encode() + b"\n",
            ExitCode.NOT_PERMITTED,
        ),
        (json.dumps({"ok": False, "error": "no", "code": "of a later version"}).encode() + b"\n", ExitCode.FAILED),
        (b"", ExitCode.NO_AGENT),
    ],
    ids=["no agent's words", "not understood", "not permitted", "an unknown code", "no answer"],
)
def test_why_the_agent_was_not_asked_is_told_by_the_code(tmp_path: Path, answer: bytes, code: ExitCode) -> None:
    """`status` ends with 1 only where an agent has said that the host has not converged, or said no."""
    with answering(tmp_path, answer):
        assert len(holdfast("status", "--state-dir", tmp_path, check=code).stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_not_permitted(tmp_path: Path) -> None:
    """A monitoring user who may not ask the agent learns that, not that the host has not converged."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        (tmp_path / "control.sock").chmod(0o600)
        for parent in (tmp_path, *tmp_path.parents[:3]):
            parent.chmod(parent.stat().st_mode | 0o011)
        code = (
            "import os, sys\nfrom holdfast.agent.cli.main import main\n"
            "from holdfast.agent.cli import resource_table, exits\n"
            "import holdfast.agent.paths, holdfast.agent.settings, holdfast.agent.control.client, "
            "holdfast.agent.cli.terminal\n"
            "os.setgid(12345); os.setuid(12345)\nmain(sys.argv[1:])"
        )
        done = subprocess.run(
            [*COMMAND[:3], "-c", code, "status", "--state-dir", str(tmp_path)],
            capture_output=True, text=True, env=environment(), timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == ExitCode.NOT_PERMITTED, done.stderr
    assert "permission denied; only root and the agent's own user may" in done.stderr
