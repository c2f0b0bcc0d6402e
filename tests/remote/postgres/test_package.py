"""The generated files of the package are up to date."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft7Validator

from holdfast_process import in_process

HOME = Path(__file__).parents[3] / "resources/remote/postgres"


def test_the_generated_files_are_those_of_the_sources():
    """`holdfast idl compile --target python,docs` updates the files of the package; this test compares them."""
    outputs = ("--out-pack", HOME / "pack", "--out-provider", HOME / "provider")

    in_process("idl", "compile", HOME / "idl", *outputs, "--target", "python,docs", "--check", check=0)


def test_editors_complete_and_check_states_of_the_package(tmp_path):
    """Once agent.yaml names the plugin; nothing else has to be installed, and no server is asked."""
    (tmp_path / "agent.yaml").write_text("plugins:\n  postgres: {}\n")
    schema = json.loads(in_process("schema", "states", "--config", tmp_path / "agent.yaml", check=0).stdout)
    validator = Draft7Validator(schema)

    assert validator.is_valid({"shop": {"postgres.database": [{"owner": {"ref": "alice"}}]}})
    assert not validator.is_valid({"shop": {"postgres.database": [{"ownr": "alice"}]}})
    assert not validator.is_valid(
        {"a": {"postgres.grant": [{"schema": "shop"}, {"role": "x"}, {"privileges": ["usage"]}]}}
    )
