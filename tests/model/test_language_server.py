"""The YAML language server completes, explains and checks files by the schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from holdfast.agent.generators import schemas
from language_server import Client, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with the schemas of state files and of agent.yaml."""
    top = tmp_path_factory.mktemp("schemas")
    for name in ("states", "agent"):
        (top / f"{name}.json").write_text(json.dumps(schemas.SCHEMAS[name]()))
    with serving({top / "states.json": "*.sls", top / "agent.json": "agent.yaml"}) as client:
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
    assert server.problems("file:///x/right.sls", STATES) == []


def test_mistakes_are_reported_at_their_lines(server: Client) -> None:
    """Unknown kinds and arguments, wrong values, and missing and refused arguments have a message each."""
    text = (
        "a:\n  file.manged: []\nb:\n  file.directory:\n    - moode: '0644'\n    - makedirs: maybe\n"
        "c:\n  file.symlink:\n    - makedirs: true\nd:\n  file.managed:\n    - signature: x\n"
        "e:\n  file:\n    - line\n    - mode: ensre\n"
    )

    assert sorted(server.problems("file:///x/wrong.sls", text)) == [
        (1, "Property file.manged is not allowed."),
        (4, "Property moode is not allowed."),
        (5, "write true or false"),
        (8, "file.symlink needs the argument target"),
        (11, "refused: Holdfast does not check signatures; use source_hash"),
        (15, 'Value is not accepted. Valid values: "ensure", "insert", "replace", "delete".'),
    ]


def test_kinds_arguments_and_values_are_completed(server: Client) -> None:
    """Kinds below an ID, functions of a family, arguments of the kind and of every state, and choices."""
    offered = {}
    for name, text, line, column in (
        ("kinds", "a:\n  file.man\n", 1, 10),
        ("functions", "a:\n  file:\n    - man\n", 2, 9),
        ("arguments", "a:\n  file.managed:\n    - con\n", 2, 9),
        ("values", "a:\n  file.line:\n    - mode: \n", 2, 12),
        ("booleans", "a:\n  file.managed:\n    - makedirs: \n", 2, 16),
    ):
        server.problems(f"file:///x/{name}.sls", text)
        offered[name] = set(server.completions(f"file:///x/{name}.sls", line, column))

    assert {"file.managed", "pkg.installed", "service"} <= offered["kinds"]
    assert "managed" in offered["functions"]
    assert {"contents", "mode", "require", "onlyif"} <= offered["arguments"]
    assert not {"tmp_dir", "show_diff", "signature"} & offered["arguments"]
    assert offered["booleans"] == {"true", "false"}
    assert offered["values"] == {"ensure", "insert", "replace", "delete"}


def test_a_kind_and_an_argument_are_explained(server: Client) -> None:
    """The documentation of both is shown where the pointer is."""
    uri = "file:///x/hover.sls"
    server.problems(uri, "/etc/motd:\n  file.managed:\n    - contents: x\n")

    assert "A whole file: content, owner, mode." in server.hover(uri, 1, 5)
    assert "The content itself: text, or a list of lines." in server.hover(uri, 2, 8)


def test_settings_are_checked_and_completed(server: Client) -> None:
    """A wrong setting is reported; the levels of the log are offered."""
    uri = "file:///x/agent.yaml"

    assert (0, "Property staets is not allowed.") in server.problems(uri, "staets: x\nlog:\n  level: \n")
    assert set(server.completions(uri, 2, 9)) == {"debug", "info", "warning", "error"}
