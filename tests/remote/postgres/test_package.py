"""The files of the package are what its sources give, and little of it is written by hand."""

from __future__ import annotations

from pathlib import Path

from holdfast_process import in_process

HOME = Path(__file__).parents[3] / "resources/remote/postgres"


def test_the_generated_files_are_those_of_the_sources():
    """`holdfast idl compile --target python,docs` of the package renews them; it gives the files that are there."""
    outputs = ("--out-pack", HOME / "pack", "--out-provider", HOME / "provider")

    in_process("idl", "compile", HOME / "idl", *outputs, "--target", "python,docs", "--check", check=0)
