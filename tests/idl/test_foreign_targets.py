"""Targets of other distributions, which are found by their entry points."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from idl_package import write_package

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "holdfast-listing"
version = "1.0"

[project.entry-points."holdfast.idl.targets"]
listing = "holdfast_listing:TARGET"
failing = "holdfast_listing:FAILING"
escaping = "holdfast_listing:ESCAPING"
missing = "holdfast_listing:MISSING"
python = "holdfast_listing:FAILING"

[tool.hatch.build.targets.wheel]
packages = ["holdfast_listing"]
"""
TARGETS = '''
"""Lists the kinds of a package."""


class Listing:
    name = "listing"

    def pack(self, package):
        kinds = [kind.name for module in package.modules for kind in module.resources]
        return {"kinds.md": "".join(f"- {kind}\\n" for kind in kinds)}

    def provider(self, package):
        return {}


class Failing(Listing):
    name = "failing"

    def pack(self, package):
        raise KeyError("something")


class Escaping(Listing):
    name = "escaping"

    def pack(self, package):
        return {"../kinds.md": ""}


TARGET, FAILING, ESCAPING = Listing(), Failing(), Escaping()
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A distribution with targets, installed by pip into a directory of its own, which takes a second or two."""
    folder = tmp_path_factory.mktemp("targets")
    (folder / "source/holdfast_listing").mkdir(parents=True)
    (folder / "source/pyproject.toml").write_text(PROJECT)
    (folder / "source/holdfast_listing/__init__.py").write_text(TARGETS)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, str(folder / "source")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "site"


@pytest.fixture
def compiled(installed, tmp_path):
    """A function that compiles a package to a target, in a process that sees the distribution."""
    write_package(tmp_path / "idl", a="class A(idl.Resource): pass\n")

    def call(target):
        words = ["idl", "compile", str(tmp_path / "idl"), "--target", target]
        outputs = ["--out-pack", str(tmp_path / "pack"), "--out-provider", str(tmp_path / "provider")]
        return subprocess.run(
            [sys.executable, "-m", "holdfast.agent.cli.main", *words, *outputs],
            env={**os.environ, "PYTHONPATH": f"{installed}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_a_target_of_another_distribution_is_used_by_its_name(compiled, tmp_path):
    """Its files get a header; a built-in target of the same name as a foreign one is the one that is used."""
    assert compiled("listing,python").returncode == 0
    header, _, text = (tmp_path / "pack/kinds.md").read_text().partition("\n")

    assert header == "<!-- Made by `holdfast idl compile` from the package demo, target listing. Do not edit it. -->"
    assert text == "- demo.a\n"
    assert (tmp_path / "pack/a.py").exists()


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("failing", 3, "the target 'failing' fails: KeyError: 'something'"),
        ("escaping", 3, "the path '../kinds.md' is already used, or leads out of the directory"),
        ("missing", 64, "the target 'missing' cannot be loaded"),
        ("listng", 64, "there is no target 'listng'; did you mean 'listing'?"),
    ],
)
def test_a_target_that_cannot_be_used_is_an_error(compiled, tmp_path, target, code, told):
    """The error has no traceback, and nothing is written."""
    done = compiled(target)

    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert told in done.stderr
    assert not (tmp_path / "pack").exists()


def test_all_targets_that_fail_are_reported(compiled, tmp_path):
    """Together."""
    told = compiled("escaping,python,failing").stderr

    assert told.count("[idl-target]") == 2
    assert not (tmp_path / "pack").exists()
