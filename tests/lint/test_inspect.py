"""A complete inspection reports all errors, then warnings; nothing for good trees. It is fast for large ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from effort import effort
from holdfast.agent.plugins.declared import PluginLoader
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.shipped import FOLDER, completed
from holdfast.agent.remote.declared import declare_kinds
from holdfast.resources import registry

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "config/examples").iterdir())


@pytest.fixture
def packages():
    """Load the kinds of the packages of Holdfast, which examples name in agent.yaml."""
    plugins = completed(dict.fromkeys(path.name for path in FOLDER.iterdir() if (path / "provider").is_dir()))
    settings = {name: PluginSettings.model_validate(each) for name, each in plugins.items() if each}
    declare_kinds(PluginLoader().load(settings))
    yield
    declare_kinds({})


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.usefixtures("packages")
def test_examples_are_clean(name, tmp_path, look):
    """Projects that start from an example start without warnings."""
    files = {
        str(path.relative_to(ROOT / "config/examples" / name / "states")): path.read_text()
        for path in (ROOT / "config/examples" / name / "states").rglob("*")
        if path.is_file()
    }
    grains = {"id": "web1", "os_family": "Debian", "nodename": "web1", "osfullname": "Debian", "num_cpus": 2}
    pillar = {"root": "/srv/x"}
    for path in (ROOT / "config/examples" / name / "pillar").glob("*.sls"):
        if path.stem != "top" and "{" not in path.read_text():
            pillar |= yaml.safe_load(path.read_text())
    report = look(files, pillar=pillar, grains=grains)

    assert (report.errors, report.warnings) == ((), ())
    assert report.states > 0
    shutil.rmtree(tmp_path / "states")


def test_errors_of_all_stages_that_are_no_consequence_of_others(look):
    """An unreadable file does not hide mistakes in others, and its consequences are not reported."""
    report = look(
        {
            "a.sls": "x: [\n",
            "b.sls": "y:\n  test.nop:\n    - {{ gone }}\n",
            "c.sls": (
                "z:\n  cmd.run:\n    - nmae: make\n    - creates: /x\n"
                "    - require: [{test: x}]\nw:\n  file.mangaed: []\n"
            ),
            "d.sls": "t:\n  test.show_notification: []\n",
        }
    )

    assert [(error.location.file[-5:], error.code) for error in report.errors] == [
        ("a.sls", "yaml-syntax"),
        ("b.sls", "template-undefined"),
        ("c.sls", "unknown-argument"),
        ("c.sls", "unknown-function"),
    ]


def test_warnings_of_other_files_are_told_beside_errors_in_rendering(look):
    """The report has warnings about one call at a time, but none that an unread file could prove wrong."""
    report = look(
        {
            "a.sls": "x: [\n",
            "b.sls": "{{ gone }}\n",
            "c.sls": (
                "z:\n  file.managed:\n    - name: /x\n    - tmp_dir: /y\n"
                "    - template: jinja\nw:\n  cmd.run:\n    - name: make\n"
            ),
            "d.sls": "u:\n  cmd.run:\n    - name: make\n    - creates: /x\n    - env: [{DB_PASSWORD: hunter2}]\n",
            "e.sls": "v:\n  file.managed:\n    - name: /z\n    - source: salt://nowhere\n",
        }
    )

    assert [error.code for error in report.errors] == ["yaml-syntax", "template-undefined", "source-absent"]
    assert [(warning.location.file[-5:], warning.code) for warning in report.warnings] == [
        ("c.sls", "argument-ignored"),
        ("d.sls", "secret-plain"),
    ]
    assert report.states == 0


def test_every_error_is_told_once(look):
    """The report has each error once, also one that the last stage finds."""
    report = look("z:\n  cmd.run:\n    - nmae: make\n")

    assert [error.code for error in report.errors] == ["unknown-argument"]


def test_warnings_are_told_beside_errors(look):
    """The report has warnings about all files that were read."""
    report = look("z:\n  cmd.run:\n    - nmae: make\n    - order: soon\n{% if false %}{{ gone }}{% endif %}\n")

    assert [error.code for error in report.errors] == ["unknown-argument"]
    assert [warning.code for warning in report.warnings] == ["order-word", "template-name"]


def test_states_directory_that_is_not_there(look, tmp_path):
    """A missing directory is an error without a location in a file."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states").rmdir()
    report = look({}, "nothing")

    assert [error.code for error in report.errors] == ["sls-missing"]


def test_five_thousand_states_are_looked_at_in_about_a_second(look):
    """The test measures processor time, which does not depend on the load of the host."""
    text = "".join(
        f"/srv/{n}:\n  file.managed:\n    - contents: number {n}\n    - mode: '0644'\n"
        f"run {n}:\n  cmd.run:\n    - name: echo {n}\n    - onchanges:\n      - file: /srv/{n}\n"
        for n in range(2500)
    )
    report = look(text)

    assert (report.states, report.errors, report.warnings) == (5000, (), ())
    assert effort(lambda: look(text), 120) < 120


def test_a_kind_that_raises_when_it_is_asked_is_no_traceback(look, monkeypatch):
    """The rules ignore a kind that raises, which may be an operator's own."""

    def err(_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(registry.find("cmd.run"), "action", err)

    assert look("x:\n  cmd.run:\n    - name: /bin/true\n").errors == ()


def test_modules_for_salt_among_the_states_are_told(warnings):
    """The report has each directory of modules once, with the replacement. It has no directory without Python files."""
    files = {
        "site.sls": "x:\n  test.nop: []\n",
        "_modules/a.py": "",
        "_modules/b.py": "",
        "_grains/c.py": "",
        "_utils/README": "",
    }

    found = warnings(files)
    assert [(warning.code, warning.location.file.rpartition("/")[2]) for warning in found] == [
        ("extension-ignored", "_grains"),
        ("extension-ignored", "_modules"),
    ]
    assert "grains_file" in found[0].hint
