"""Links, public names and documents of the repository are as CONTRIBUTING.md and ARCHITECTURE.md say."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
LINKED = ("agent", "resources", "states", "config", "systemd")


@pytest.mark.parametrize("name", LINKED)
def test_the_links_of_the_package_are_symbolic(name: str) -> None:
    """`holdfast.<name>` is a link to the top-level folder, not a copy."""
    link = ROOT / "src" / "holdfast" / name

    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def test_the_version_is_defined_once() -> None:
    """The build reads it from the package; the changelog has a section for unreleased changes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/holdfast/__init__.py"
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()


def test_every_public_name_exists() -> None:
    """`from holdfast import ...` provides each name of `__all__`, and no others."""
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)
    with pytest.raises(AttributeError):
        holdfast.no_such_name  # noqa: B018 - the access itself is tested


def test_importing_the_package_is_cheap() -> None:
    """The command line starts without pydantic."""
    code = "import sys, holdfast; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_the_architecture_page_is_short_and_correct() -> None:
    """The page has at most 150 lines. Every folder and module in it exists; every module of the engine is in it."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.partition("## Where things are")[2].partition("\n## ")[0]
    shallow = [path for pattern in ("*", "src/*", "tests/*") for path in ROOT.glob(pattern)]
    deep = [path for folder in ("agent", "resources", "states") for path in (ROOT / folder).rglob("*")]
    found = {path.stem for path in [*shallow, *deep]}
    named = {name.rpartition("/")[2] for name in re.findall(r"`([a-z_/]+)`", table)}
    engine = {path.stem for path in (ROOT / "agent" / "engine").rglob("*.py")} - {"__init__"}

    assert len(text.splitlines()) <= 150, "shorten ARCHITECTURE.md"
    for name in re.findall(r"`((?:agent|resources|states|config|systemd|tests|bench)/[a-z_/]*)`", text):
        assert (ROOT / name).exists(), name
    assert named - found - {""} == set()
    assert engine - named == set()


def test_the_glossary_has_each_word_once() -> None:
    """The page has at most 60 lines, in alphabetical order."""
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    words = [word for row in rows for word in row.split(", ")]

    assert len(lines) <= 60
    assert rows == sorted(rows, key=str.lower)
    assert len(words) == len(set(words))


def test_the_composite_in_contributing_works(tmp_path: Path) -> None:
    """Its parts are created and shown; its command runs once."""
    _, block, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    for directory in ("resources", "states"):
        (tmp_path / directory).mkdir()
    (tmp_path / "resources" / "site.py").write_text(block)
    (tmp_path / "agent.yaml").write_text("{}\n")
    (tmp_path / "states" / "www.sls").write_text(f"www:\n  site.up:\n    - name: {tmp_path}/www\n    - page: hello\n")
    command = [sys.executable, "-m", "holdfast.agent.cli.main"]
    options = ["--config", str(tmp_path / "agent.yaml"), "--state-dir", str(tmp_path)]
    first, second, low = (
        subprocess.run([*command, *verb, *options], capture_output=True, text=True, check=False)
        for verb in (["apply", "--detailed-exitcode"], ["apply", "--detailed-exitcode"], ["show", "low"])
    )

    assert (first.returncode, second.returncode) == (2, 0), first.stderr
    assert "file.managed[www/page]" in first.stdout
    assert (tmp_path / "www" / "index.html").read_text() == "hello\n"
    assert (tmp_path / "www" / "updated").exists()
    assert low.stdout.count("__id__") == 1


def test_the_kind_in_contributing_works(tmp_path: Path) -> None:
    """Copied into a directory, it is applied, is idempotent, and reports wrong arguments."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "note.py").write_text(block[1])
    (tmp_path / "states").mkdir()
    (tmp_path / "agent.yaml").write_text("{}\n")
    state = tmp_path / "states" / "note.sls"
    command = [
        sys.executable,
        "-m",
        "holdfast.agent.cli.main",
        "apply",
        "--detailed-exitcode",
        "--config",
        str(tmp_path / "agent.yaml"),
        "--state-dir",
        str(tmp_path),
    ]
    state.write_text(f"{tmp_path}/remember:\n  note.present:\n    - text: buy milk\n")
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    second = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (first.returncode, second.returncode) == (2, 0), first.stderr
    assert (tmp_path / "remember").read_text() == "buy milk\n"

    state.write_text(f"{tmp_path}/remember:\n  note.present:\n    - txt: buy milk\n")
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)

    assert wrong.returncode == 3
    assert "note.sls:3" in wrong.stderr
    assert "did you mean 'text'?" in wrong.stderr


def test_no_two_tests_of_a_file_have_the_same_name() -> None:
    """The second one would silently replace the first."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        names = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        assert len(names) == len(set(names)), path


def modules() -> list[Path]:
    """Return all modules of the repository."""
    return [file for folder in (*LINKED, "tests", "bench") for file in (ROOT / folder).rglob("*.py")]


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    """A module has one idea, in at most 400 lines; one of the tests has the cases of one behaviour, in at most 600."""
    generated = ("*/pack/*", "*/pack/*/*", "*_stub.py")
    lines = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8").count("\n")
        for file in modules()
        if not any(map(file.match, generated))
    }

    long = {name: n for name, n in lines.items() if n > (600 if name.startswith("tests/") else 400)}
    assert not long, "split the module: move what is an idea of its own into another one"


def test_no_line_of_code_is_longer_than_120_columns() -> None:
    """The limit includes lines that end with a pragma, which ruff ignores."""
    files = modules()
    found = [
        f"{file}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]

    assert files
    assert not found, "break the line"


def test_no_paragraph_of_a_document_has_a_line_of_more_than_120_columns() -> None:
    """Tables, code and the pages that are generated from classes may have longer lines."""
    found = [
        f"{page}:{number}"
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for number, line in enumerate(
            re.sub(r"(?ms)^```.*?^```", in_blank, page.read_text(encoding="utf-8")).split("\n"), 1
        )
        if len(line) > 120 and not line.startswith(("|", "    "))
    ]

    assert not found, "break the line"


def test_no_line_of_typescript_has_more_than_120_columns() -> None:
    """The formatter leaves comments as they are. Schemas of packages may have longer texts."""
    found = [
        f"{page}:{number}"
        for folder in ("agent", "resources", "tests")
        for page in (ROOT / folder).rglob("*.ts")
        if page.name != "package.ts" and not {"node_modules", "holdfast-runtime"} & {*page.parts}
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1)
        if len(line) > 120
    ]

    assert not found, "break the line"


def in_blank(block: re.Match[str]) -> str:
    """Return as many empty lines as a block has lines."""
    return "\n" * block[0].count("\n")
