"""The YAML language server completes, explains and checks files by the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.generators import schemas
from holdfast.states.view.match import MATCHERS
from language_server import Client, serving

DOCUMENTED = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""The settings of an editor in docs/editors.md."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all schemas."""
    top = tmp_path_factory.mktemp("schemas")
    for name, schema in schemas.SCHEMAS.items():
        (top / f"{name}.json").write_text(json.dumps(schema()))
    return top


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Client]:
    """Yield a server that uses the schemas as docs/editors.md describes."""
    page = Path(__file__).parents[2] / "docs/editors.md"
    found = DOCUMENTED.search(page.read_text())
    assert found is not None
    documented = json.loads(found[1])["yaml.schemas"]
    with serving({folder / Path(path).name: globs for path, globs in documented.items()}) as client:
        yield client


STATES = """\
include:
  - common
/etc/motd:
  file.managed:
    - contents: Keep off the grass.
    - mode: '0644'
    - tmp_dir: /tmp
    - require:
        - pkg: nginx
nginx:
  pkg.installed: []
  service:
    - running
    - enable: yes
    - watch:
        - file: /etc/motd
anchor: test.nop
"""


def test_a_right_file_has_no_problems(server: Client) -> None:
    """Both forms of a state, requisites and arguments without effect are accepted; `yes` is a boolean."""
    assert server.problems("file:///x/states/right.sls", STATES) == []


def test_mistakes_are_reported_at_their_lines(server: Client) -> None:
    """Unknown kinds and arguments, wrong values, and missing and refused arguments have a message each."""
    text = (
        "a:\n  file.manged: []\nb:\n  file.directory:\n    - moode: '0644'\n    - makedirs: maybe\n"
        "c:\n  file.symlink:\n    - makedirs: true\nd:\n  file.managed:\n    - signature: x\n"
        "e:\n  file:\n    - line\n    - mode: ensre\n"
    )

    assert sorted(server.problems("file:///x/states/wrong.sls", text)) == [
        (1, "Property file.manged is not allowed."),
        (4, "Property moode is not allowed."),
        (5, "write true or false"),
        (8, "file.symlink needs the argument target"),
        (11, "refused: Holdfast does not check signatures; use source_hash"),
        (15, 'Value is not accepted. Valid values: "ensure", "insert", "replace", "delete".'),
    ]


def test_kinds_arguments_and_values_are_completed(server: Client) -> None:
    """The server offers kinds below an ID, functions of a family, arguments of the kind and of all states, choices."""
    offered = {}
    for name, text, line, column in (
        ("kinds", "a:\n  file.man\n", 1, 10),
        ("functions", "a:\n  file:\n    - man\n", 2, 9),
        ("arguments", "a:\n  file.managed:\n    - con\n", 2, 9),
        ("values", "a:\n  file.line:\n    - mode: \n", 2, 12),
        ("booleans", "a:\n  file.managed:\n    - makedirs: \n", 2, 16),
    ):
        server.problems(f"file:///x/states/{name}.sls", text)
        offered[name] = set(server.completions(f"file:///x/states/{name}.sls", line, column))

    assert {"file.managed", "pkg.installed", "service"} <= offered["kinds"]
    assert "managed" in offered["functions"]
    assert {"contents", "mode", "require", "onlyif"} <= offered["arguments"]
    assert not {"tmp_dir", "show_diff", "signature"} & offered["arguments"]
    assert offered["booleans"] == {"true", "false"}
    assert offered["values"] == {"ensure", "insert", "replace", "delete"}


def test_a_kind_and_an_argument_are_explained(server: Client) -> None:
    """The server shows the documentation of both at the pointer."""
    uri = "file:///x/states/hover.sls"
    server.problems(uri, "/etc/motd:\n  file.managed:\n    - contents: x\n")

    assert "A file has a declared content, owner and mode." in server.hover(uri, 1, 5)
    assert "The content itself: text, or a list of lines." in server.hover(uri, 2, 8)


def test_settings_are_checked_and_completed(server: Client) -> None:
    """A wrong setting is reported; the levels of the log are offered."""
    uri = "file:///x/agent.yaml"

    assert (0, "Property staets is not allowed.") in server.problems(uri, "staets: x\nlog:\n  level: \n")
    assert set(server.completions(uri, 2, 9)) == {"debug", "info", "warning", "error"}


def test_top_and_pillar_files_have_schemas_of_their_own(server: Client) -> None:
    """The documented settings choose the schema by the path of a file."""
    top = "base:\n  '*':\n    - match: globe\n"
    wrong = {(2, "Value is not accepted. Valid values: " + ", ".join(f'"{each}"' for each in sorted(MATCHERS)) + ".")}

    assert set(server.problems("file:///x/states/top.sls", top)) == wrong
    assert set(server.problems("file:///x/pillar/top.sls", top)) == wrong
    assert server.problems("file:///x/pillar/web/init.sls", "port: 80\ninclude:\n  - common\n") == []
    assert server.problems("file:///x/pillar/web/wrong.sls", "include: common\n") == [
        (0, 'Incorrect type. Expected "array".')
    ]


def test_a_comment_chooses_the_schema_of_a_file(server: Client, folder: Path) -> None:
    """The first line of a file can name its schema."""
    line = f"# yaml-language-server: $schema={folder / 'states.json'}\n"

    assert server.problems("file:///elsewhere/x.yaml", "a:\n  file.manged: []\n") == []
    assert server.problems("file:///elsewhere/y.yaml", f"{line}a:\n  file.manged: []\n") == [
        (2, "Property file.manged is not allowed.")
    ]
