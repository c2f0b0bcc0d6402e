"""`holdfast idl new --target typescript` makes a package that compiles, whose provider works and is tested.

tsc takes a few seconds. npm's packages are those of the tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

import typescript
from holdfast_process import in_process


def run(folder, *words):
    """Run a program in a folder; return its exit code and all that it printed."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def npm(provider, script):
    """Run a script of package.json."""
    command = json.loads((provider / "package.json").read_text())["scripts"][script]
    return run(provider, "sh", "-c", f"PATH=$PWD/node_modules/.bin:$PATH; {command}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A new package, compiled and tested."""
    typescript.node()
    folder = tmp_path_factory.mktemp("packages") / "de mo"
    in_process("idl", "new", "demo", "--to", str(folder), "--target", "typescript", check=0)
    (folder / "provider/node_modules").symlink_to(typescript.MODULES)
    code, told = npm(folder / "provider", "test")  # which compiles it first
    assert code == 0, told
    assert "# pass 3" in told
    return folder


def test_its_tests_pass_and_fail_when_the_provider_is_damaged(folder):
    """That they pass is shown where the package is made."""
    provider = folder / "provider"
    program = provider / "build/notes.js"
    text = program.read_text()
    try:
        program.write_text(text.replace("await rm(", "await stat("))
        assert run(provider, typescript.node(), "--test", "build/notes.test.js")[0] == 1
    finally:
        program.write_text(text)


def test_it_compiles_with_every_check(folder, tmp_path):
    """Those that its own settings do not ask for as well."""
    provider = folder / "provider"
    sources = {str(each.relative_to(provider)): each.read_text() for each in provider.glob("*.ts")}
    sources |= {f"holdfast-runtime/{each.name}": each.read_text() for each in provider.glob("holdfast-runtime/*.ts")}
    typescript.written(sources, tmp_path / "src")

    assert (typescript.compiled(tmp_path) / "main.js").exists()


def test_its_outputs_are_fresh(folder):
    """No file of people counts as generated, and what tsc has made is left alone; README.md has the command."""
    words = next(line for line in (folder / "README.md").read_text().split("\n") if "idl compile" in line).split()
    paths = [str(folder / each) if each in ("idl", "pack", "provider") else each for each in words[3:]]

    assert "up to date" in in_process("idl", "compile", *paths, "--check", check=0).stdout
    assert {each.name for each in (folder / "pack").iterdir()} >= {"notes.ts", "notes.md", "states.schema.json"}


def test_no_word_is_left_to_be_filled_in(folder):
    """No file that people edit has such a word."""
    written = [each for each in folder.rglob("*") if "node_modules" not in each.parts and each.is_file()]

    assert not [each for each in written if "@NAME@" in each.read_text() or "@TARGETS@" in each.read_text()]
    assert {each.name for each in written} >= {".gitignore", "package.json", "tsconfig.json"}


def test_an_agent_applies_its_state(folder):
    """The agent starts Node.js with the compiled program, and the note is a file; a plan then finds nothing."""
    config = ("--config", str(folder / "example/agent.yaml"))
    note = folder / "example/notes/shopping"
    try:
        in_process("apply", *config, check=0)
        assert note.read_text() == "milk\nbread\n"
        in_process("plan", *config, check=0)
    finally:
        shutil.rmtree(note.parent, ignore_errors=True)


def test_another_language_is_refused(tmp_path):
    """The error is raised before anything is written."""
    said = in_process("idl", "new", "demo", "--to", str(tmp_path / "x"), "--target", "cobol", check=64).stderr

    assert "'python', 'typescript'" in said
    assert not (tmp_path / "x").exists()
