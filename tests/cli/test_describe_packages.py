"""`describe` and the completion of the shell know the functions of packages, as `call` does."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from holdfast.agent.cli import completion
from holdfast_process import in_process
from notes_package import SCHEMA


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings that name the package of notes."""
    (tmp_path / "schema.json").write_text(SCHEMA)
    plugin = {"schema": f"{tmp_path}/schema.json", "command": ["/x"], "config": {"directory": str(tmp_path)}}
    path = tmp_path / "agent.yaml"
    path.write_text(json.dumps({"plugins": {"notes": plugin}, "state_dir": str(tmp_path / "state")}))
    return path


def test_a_function_is_described_with_its_arguments_and_its_result(config):
    """Secrets are named as such; the whole module has one line for each function."""
    page = in_process("describe", "notes.count", "--config", config, check=0).stdout
    module = in_process("describe", "notes", "--config", config, check=0).stdout

    assert page.startswith("notes.count\n\nCount the notes of an owner.\n")
    assert "\nArguments:\n  owner (text, required)\n" in page
    assert "  password (text, secret)\n" in page
    assert "\nResult:\n  total (number, required)\n" in page
    assert module == "notes, package notes 1.0.0\n\ncount(owner, password)\n    Count the notes of an owner.\n"


def test_all_modules_are_listed_with_those_of_packages(config):
    """Modules of packages come last."""
    shown = in_process("describe", "--config", config, check=0).stdout.splitlines()
    data = json.loads(in_process("describe", "--config", config, "--format", "json", check=0).stdout)

    assert shown[-1] == "notes  1 function of the package notes 1.0.0"
    assert "pkg" in {each["module"] for each in data}
    assert [each["function"] for each in data[-1]["functions"]] == ["count"]


def test_a_function_that_does_not_exist_is_refused(config):
    """The error suggests the most similar function."""
    assert "did you mean count?" in in_process("describe", "notes.counted", "--config", config, check=64).stderr
    assert "available: count" in in_process("describe", "notes.x", "--config", config, check=64).stderr
    one = json.loads(in_process("describe", "notes.count", "--config", config, "--format", "json", check=0).stdout)
    assert [each["name"] for each in one["parameters"]] == ["owner", "password"]


def test_the_shell_completes_functions_of_packages(config):
    """Modules are completed first, and then functions. Without the settings, only those of interfaces are known."""
    known = click.Context(click.Command("call"))
    known.params = {"config": config}
    other = click.Context(click.Command("call"))
    other.params = {"config": config.with_name("missing.yaml")}

    assert {"notes.", "pkg."} <= {*completion.functions(known, "")}
    assert completion.functions(known, "notes.") == ["notes.count"]
    assert completion.functions(known, "pkg.inst")[0] == "pkg.install"
    assert completion.functions(other, "pk") == ["pkg."]
    assert completion.described(known, "not") == ["notes"]
