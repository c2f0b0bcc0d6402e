"""A one-shot run imports only what its states use: most of the time of a small run is spent on imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
RUN = (
    "import sys; from holdfast.agent.cli.main import main\ntry: main(sys.argv[1:])\n"
    "finally: print(*sorted(sys.modules), file=sys.stderr)"
)


def loaded(tmp_path: Path, text: str) -> set[str]:
    """Return the names of the modules that a run imports when it applies these states."""
    (tmp_path / "states").mkdir(exist_ok=True)
    (tmp_path / "states" / "a.sls").write_text(text)
    words = ["apply", "--states", str(tmp_path / "states"), "--state-dir", str(tmp_path / "state")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stdout + done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "library",
    [
        "jinja2",
        "structlog",
        "rich",
        "asyncinotify",
        "watchdog",
        "dbus_fast",
        "urllib.request",
        "psutil",
        "pickle",
        "difflib",
        "holdfast.agent.beside",
        "holdfast.agent.control.schema",
        "holdfast.agent.host.system_events",
        "holdfast.agent.configuration_files",
        "holdfast.agent.cli.progress",
        "holdfast.resources.interfaces.base",
        "holdfast.states.compile.selection",
        "holdfast.states.template.jinja",
        "holdfast.states.filters",
        "holdfast.states.helpers",
        "holdfast.resources.kinds.cmd.command",
        "holdfast.resources.kinds.file.directory",
        "holdfast.resources.kinds.file.edit",
        "holdfast.agent.host.path_watcher",
        "holdfast.agent.northbound.model",
        "holdfast.agent.records.world",
    ],
)
def test_a_run_with_one_file_does_not_import(library: str, a_file: set[str]) -> None:
    """A run that writes one file uses no template, no event and no log, and imports nothing for these."""
    assert library not in a_file


@pytest.fixture(scope="module")
def a_file(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the modules that a run with one file imports."""
    base = tmp_path_factory.mktemp("one")
    found = loaded(base, f"{base}/file:\n  file.managed:\n    - contents: x\n")
    assert (base / "file").read_text() == "x\n"
    return found


def test_a_run_that_finds_nothing_to_do_does_not_import_the_records(tmp_path: Path) -> None:
    """The run before it, which writes the file, records that and imports them."""
    state = f"{tmp_path}/file:\n  file.managed:\n    - contents: x\n"
    first, second = loaded(tmp_path, state), loaded(tmp_path, state)
    records = {"holdfast.agent.records.recorder", "holdfast.agent.northbound.drivers.sqlite"}

    assert records <= first
    assert not records & second


def test_a_template_imports_jinja_but_no_helper_that_it_does_not_call(tmp_path: Path) -> None:
    """A state file with template marks imports Jinja, and only the helpers that the template calls."""
    found = loaded(tmp_path, f"{tmp_path}/file:\n  file.managed:\n    - contents: {{{{ grains['id'] }}}}\n")

    assert {"jinja2", "holdfast.states.template.jinja"} <= found
    assert "holdfast.states.helpers.facts" not in found


def test_output_before_an_error_is_written(tmp_path: Path) -> None:
    """The process exits at once after an error or an interruption, but first writes its buffered output."""
    code = (
        "import sys; from holdfast.agent.cli import main as m\n"
        "def cli(**_):\n    print('said before')\n    raise {error}\n"
        "m.cli = cli; sys.argv[1:] = ['check']; m.main()"
    )
    for error, status in (("KeyboardInterrupt", 130), ("OSError(2, 'gone', 'f')", 1)):
        done = subprocess.run(
            [sys.executable, "-c", code.replace("{error}", error)],
            env={**os.environ, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (status, "said before\n"), done.stderr


def test_all_output_is_written_before_the_exit(tmp_path: Path) -> None:
    """The process exits at once, but a pipe receives all of a long report. A full device is an error."""
    (tmp_path / "a.sls").write_text("".join(f"s{number}:\n  test.nop: []\n" for number in range(2000)))
    words = [sys.executable, "-m", "holdfast", "plan", "--states", str(tmp_path), "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    whole = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    with Path("/dev/full").open("w") as full:
        failed = subprocess.run(words, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert whole.count('"test"') == 2000
    assert whole.rstrip().endswith("}")
    assert failed.returncode == 1
    assert failed.stderr == "holdfast: cannot continue: No space left on device\n"
