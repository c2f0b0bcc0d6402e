"""Exit codes are defined in one table; documents and verbs agree with it."""

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

import click
import pytest

from deadline import DEADLINE
from holdfast.agent import verbs
from holdfast.agent.cli.exits import ExitCode
from holdfast_process import COMMAND, environment, in_process
from strangers import UID, open_directory

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


def table(text: str) -> dict[int, str]:
    """Return the first table of exit codes in a document."""
    rows, _, _ = text.partition("| exit code | |\n|---|---|\n")[2].partition("\n\n")
    return {int(number): meaning for number, meaning in ROW.findall(rows)}


@contextmanager
def answering(directory: Path, answer: bytes) -> Iterator[None]:
    """Listen on the socket of an agent, and send one answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "control.sock"))
        listener.listen()
        listener.settimeout(DEADLINE)

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
            thread.join(DEADLINE)


@pytest.mark.parametrize("page", ["README.md", "docs/engine.md"])
def test_the_documents_have_the_codes_of_the_program(page: str) -> None:
    """The table of a document has each code with its meaning, word for word, and no other code."""
    assert table((ROOT / page).read_text()) == {code.value: code.meaning for code in ExitCode}


@pytest.mark.parametrize("page", ["docs/lint.md", "docs/fmt.md"])
def test_pages_of_single_verbs_have_only_codes_of_the_table(page: str) -> None:
    """These pages describe in their own words what a code means for the verb."""
    found = table((ROOT / page).read_text())
    assert found
    assert found.keys() <= {code.value for code in ExitCode}


def commands() -> list[tuple[str, ...]]:
    """Return the words of each verb, and of the verbs in a group."""
    found = []
    for verb in verbs.names():
        command = verbs.command(verb)
        inner = command.commands if isinstance(command, click.Group) else {}
        found += [(verb,), *((verb, name) for name in inner)]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_help_of_a_verb_has_only_codes_of_the_table(words: tuple[str, ...]) -> None:
    """Each number after `Exit codes:` is in the table. The verbs for records have them all."""
    said = in_process(*words, "--help", check=0).stdout.partition("Exit codes:")[2].partition("Options:")[0]
    found = {int(number) for number in re.findall(r"\b\d+\b", said)}
    assert found <= {code.value for code in ExitCode}
    assert words[0] not in ("db", "drift", "history") or words in {("db",), ("drift",)} or found >= {0, 1, 77}


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
    ids=["not the protocol", "not understood", "not permitted", "an unknown code", "no answer"],
)
def test_the_exit_code_of_status_tells_why_the_agent_gave_no_status(
    tmp_path: Path, answer: bytes, code: ExitCode
) -> None:
    """`status` exits with 1 only if an agent answered that the host has not converged, or refused."""
    with answering(tmp_path, answer):
        assert len(in_process("status", "--state-dir", tmp_path, check=code).stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_permitted() -> None:
    """A user without permission to ask the agent gets a code of its own, not that of a host that has not converged."""
    with socket.socket(socket.AF_UNIX) as listener, open_directory() as top:
        listener.bind(str(top / "control.sock"))
        (top / "control.sock").chmod(0o600)
        code = (
            "import os, sys\nfrom holdfast.agent.cli.main import main\n"
            "from holdfast.agent.cli import resource_table, exits\n"
            "import holdfast.agent.paths, holdfast.agent.settings, holdfast.agent.control.client, "
            "holdfast.agent.cli.terminal\n"
            f"os.setgid({UID}); os.setuid({UID})\nmain(sys.argv[1:])"
        )
        done = subprocess.run(
            [*COMMAND[:3], "-c", code, "status", "--state-dir", str(top)],
            capture_output=True, text=True, env=environment(), timeout=DEADLINE, check=False,
        )  # fmt: skip
    assert done.returncode == ExitCode.NOT_PERMITTED, done.stderr
    assert "permission denied; only root and the agent's own user may" in done.stderr
