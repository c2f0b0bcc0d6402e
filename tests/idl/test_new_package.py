"""`holdfast idl new` makes a package that compiles, whose provider works and is tested and typed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from holdfast_process import in_process


def run(folder, *words):
    """Run a module of Python in a folder; return its exit code and all that it printed."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A new package."""
    folder = tmp_path_factory.mktemp("packages") / "de mo"
    in_process("idl", "new", "demo", "--to", str(folder), check=0)
    return folder


def test_its_tests_pass(folder):
    """And fail when the provider is damaged."""
    code, told = run(folder / "provider", "unittest")
    assert code == 0, told
    assert "Ran 3 tests" in told
    main = folder / "provider/main.py"
    text = main.read_text()
    try:
        main.write_text(text.replace(".unlink(", ".exists() or print("))
        assert run(folder / "provider", "unittest")[0] == 1
    finally:
        main.write_text(text)


def test_its_types_are_right(folder):
    """Strictly; mypy takes a second or two."""
    code, told = run(folder / "provider", "mypy", "--cache-dir=/dev/null", "--strict", ".")
    assert code == 0, told


def test_its_outputs_are_fresh(folder):
    """No file of people counts as generated."""
    targets = ("--target", "python,jsonschema,docs")
    outputs = ("--out-pack", str(folder / "pack"), "--out-provider", str(folder / "provider"), *targets)
    assert "up to date" in in_process("idl", "compile", str(folder / "idl"), *outputs, "--check", check=0).stdout
    assert {each.name for each in (folder / "pack").iterdir()} >= {"notes.py", "notes.md", "states.schema.json"}


def test_no_word_is_left_to_be_filled_in(folder):
    """Paths may have spaces."""
    texts = [path.read_text() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    settings = yaml.safe_load((folder / "example/agent.yaml").read_text())

    assert not [text for text in texts if "@NAME@" in text or "@USER@" in text]
    assert settings["plugins"]["demo"]["command"] == [sys.executable, str(folder / "provider/main.py")]


def test_a_folder_that_exists_is_left_alone(folder):
    """So is a name that no package can have."""
    before = sorted(folder.iterdir())

    assert "exists" in in_process("idl", "new", "demo", "--to", str(folder), check=64).stderr
    assert "no name of a package" in in_process("idl", "new", "De-mo", "--to", str(folder / "x"), check=64).stderr
    assert sorted(folder.iterdir()) == before
