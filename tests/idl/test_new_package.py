"""`holdfast idl new` makes a package that compiles, whose provider works and is tested and typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml
from jsonschema import Draft7Validator

from holdfast_process import in_process
from strangers import UID, open_directory


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


@pytest.mark.parametrize(("target", "provider"), [("python", "main.py"), ("typescript", "notes.ts")])
def test_the_files_to_edit_are_named_and_the_generated_ones_counted(tmp_path, target, provider):
    """A list of all generated files would hide the two that matter."""
    folder = tmp_path / "new"
    counted, edited, last = in_process(
        "idl", "new", "demo", "--to", str(folder), "--target", target, check=0
    ).stdout.splitlines()

    assert counted.endswith(f" files generated in {folder}/pack and {folder}/provider")
    assert edited == (
        f"yours to edit: {folder}/idl/notes.py (the resource), {folder}/provider/{provider} (the provider)"
    )
    assert last.startswith(f"{folder}/README.md says ")
    assert (folder / "provider" / provider).exists()


def test_its_tests_pass(folder):
    """The tests pass, and fail when the provider is damaged."""
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


def test_without_the_libraries_of_plugins_its_tests_say_what_to_install(folder):
    """The command line makes packages without them."""
    program = "import sys, unittest; sys.modules['google'] = None; unittest.main(None, argv=['', 'discover'])"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=folder / "provider", capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "which is not installed: pip install 'holdfast[plugins]'" in done.stderr


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
    """A name that no package can have is refused before anything is written."""
    before = sorted(folder.iterdir())

    assert "exists" in in_process("idl", "new", "demo", "--to", str(folder), check=64).stderr
    for name, told in (
        ("De-mo", "not a valid name of a package"),
        ("", "not a valid name of a package"),
        ("file", "built-in kinds"),
    ):
        assert told in in_process("idl", "new", name, "--to", str(folder / "x"), check=64).stderr
    assert sorted(folder.iterdir()) == before


def test_its_kind_is_described_and_checked_without_the_provider(folder):
    """`doc` shows options, `schema` and `check` accept the example and refuse a mistake, at its line."""
    config = ("--config", str(folder / "example/agent.yaml"))
    shown = in_process("doc", "demo.note", *config, check=0).stdout
    schema = Draft7Validator(json.loads(in_process("schema", "states", *config, check=0).stdout))
    state = folder / "example/states/shopping.sls"
    text = state.read_text()

    assert "name (text, at most 200 characters, matches `[A-Za-z0-9][A-Za-z0-9._-]*`, default the ID)" in shown
    assert "The provider sets it" not in shown
    assert "A change replaces the resource." in shown
    assert "Set by the provider:\n  size (number)\n      Bytes of the file.\n" in shown
    assert schema.is_valid(yaml.safe_load(text))
    assert "no problems" in in_process("check", *config, check=0).stdout
    try:
        state.write_text(text.replace("milk", "5"))
        assert not schema.is_valid(yaml.safe_load(state.read_text()))
        assert "shopping.sls:4:" in in_process("check", *config, check=3).stdout
    finally:
        state.write_text(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_not_read_its_schema_is_told_so_and_sees_all_other_kinds():
    """Its own kinds are unknown then; those of another package are not."""
    plugins = {}
    with open_directory() as home:
        for name in ("demo", "open"):
            in_process("idl", "new", name, "--to", str(home / name), check=0)
            plugins[name] = {"schema": f"{home}/{name}/provider/schema.json", "command": ["/x"]}
            (home / f"{name}.yaml").write_text(json.dumps({"plugins": plugins}))
        (home / "demo/provider/schema.json").chmod(0o600)
        described, other, refused = (
            doc_of_another_user(kind, home) for kind in ("file.managed", "open.note", "demo.note")
        )

    for shown, kind in ((described, "file.managed"), (other, "open.note")):
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.startswith(kind)
        assert "demo/provider/schema.json: Permission denied" in shown.stderr
        assert "its kinds are not shown" in shown.stderr
    assert refused.returncode == 64
    assert "its kinds are not shown" in refused.stderr


def doc_of_another_user(kind, folder):
    """Run `doc` as an unprivileged user, after a run as root that has imported all modules."""
    program = f"""
import contextlib, difflib, io, os, sys
from holdfast.agent.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["doc", "demo.note", "--config", "{folder}/demo.yaml"])
os.setgid({UID}); os.setuid({UID})
main(["doc", "{kind}", "--config", "{folder}/open.yaml"])
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_its_declarations_give_states(folder):
    """A program that imports the generated module writes a state file that `check` accepts."""
    program = (
        "from pack.notes import Note; from holdfast import pack; "
        "print(pack.to_yaml({'shopping': Note(lines=['milk', '{{ no template }}'])}), end='')"
    )
    command = [sys.executable, "-c", program]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    state = folder / "example/states/shopping.sls"
    before = state.read_text()
    try:
        state.write_text(text)
        in_process("check", "--config", str(folder / "example/agent.yaml"), check=0)
    finally:
        state.write_text(before)
