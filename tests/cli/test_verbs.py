"""A verb is one module, which declares all that the command line and the control socket need."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent import verbs
from holdfast.agent.control.decoding import decode_request, requests
from holdfast.agent.control.request import ControlRequest, declared
from holdfast_process import COMMAND, SRC, Agent, Tree, environment, in_process
from sample_requests import needed

NO_VERBS = {"internal", "table_requests"}
"""Modules of requests without a verb of a user."""
INTERNAL = {"apply", "plan", "graph", "keeps", "get", "list", "subscribe"}
"""Requests without a verb of a user; `apply` and `plan` begin the session of a one-shot run."""
HEAVY = (
    "asyncio",
    "pydantic",
    "jinja2",
    "structlog",
    "sqlite3",
    "holdfast.agent.engine.engine",
    "holdfast.states.lint",
)


@pytest.mark.parametrize("name", verbs.names())
def test_the_command_of_a_verb_has_the_name_of_its_module(name: str) -> None:
    """The first sentence of its help text is its line in the list of verbs."""
    command = verbs.command(name)

    assert command is not None
    assert command.name == name
    line = (command.help or "").partition(".")[0]
    assert " ".join(line.partition(";")[0].split()) in " ".join(in_process("--help", check=0).stdout.split())


@pytest.mark.parametrize("name", verbs.names())
def test_the_readme_names_each_verb(name: str) -> None:
    """In a line or in a text that shows `holdfast` with its verbs."""
    readme = (SRC.parent / "README.md").read_text()

    assert re.search(rf"holdfast (?:\S+ \| )*{name}\b", readme), f"add a line with `holdfast {name}` to README.md"


def test_each_verb_is_in_one_section() -> None:
    """`holdfast --help` lists each verb once."""
    listed = [command.name for commands in verbs.sections().values() for command in commands]

    assert sorted(map(str, listed)) == list(verbs.names())
    assert list(verbs.sections()) == list(verbs.SECTIONS)


def test_the_request_of_a_verb_is_in_the_module_of_the_verb() -> None:
    """The control socket understands only these requests and the internal ones."""
    modules = {verb: request.__module__.rpartition(".")[2] for verb, request in requests().items()}

    assert {verb: module for verb, module in modules.items() if module not in NO_VERBS} == {
        verb: verb for verb in modules.keys() - INTERNAL
    }
    assert {verb for verb, module in modules.items() if module in NO_VERBS} == INTERNAL


def test_a_request_equals_the_one_read_from_its_message() -> None:
    """Every request is checked; fields with their default are not sent."""
    for verb, request in requests().items():
        given = needed(request)
        made = request(**given)
        assert made.message() == {"verb": verb, **given}
        assert decode_request(json.dumps(made.message()).encode()) == made


def test_the_modules_of_verbs_import_no_large_library() -> None:
    """`--help`, completion and the agent import all of these modules."""
    code = "import sys; from holdfast.agent import verbs; verbs.sections(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=DEADLINE, check=True
    )

    assert not set(done.stdout.split()).intersection(HEAVY)


def test_one_module_is_enough_for_a_verb(tmp_path: Path) -> None:
    """The verb of CONTRIBUTING.md is added to a copy of the package: help, manual, completion and agent know it."""
    text = (SRC.parent / "CONTRIBUTING.md").read_text()
    (block,) = re.findall(r"^```python\n(\"\"\"`uptime`.*?)^```$", text, re.DOTALL | re.MULTILINE)
    copy = tmp_path / "copy/holdfast"
    shutil.copytree(SRC / "holdfast", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "agent/verbs/uptime.py").write_text(block)
    in_copy = {"PYTHONPATH": str(copy.parent)}

    def said(*words: str, **more: str) -> str:
        done = subprocess.run(
            [*COMMAND, *words], env={**environment(), **in_copy, **more}, capture_output=True, text=True, check=True
        )
        return done.stdout

    tree = Tree(tmp_path)
    tree.file()
    with Agent(tree, **in_copy):
        assert re.fullmatch(r"\d+ s\n", said("uptime", "--config", str(tree.config)))
    assert "  uptime     Show how long the agent has been running.\n" in said("--help")
    assert "--state-dir DIR" in said("uptime", "--help")
    completing = {"_HOLDFAST_COMPLETE": "bash_complete", "HOLDFAST_LINE": "holdfast up", "HOLDFAST_WORD": "up"}
    assert said(**completing) == "plain,uptime\n"
    page = (
        "from holdfast.agent.cli.manual import manual; from holdfast.agent.cli.main import cli; print(manual(cli, ''))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", page], env={**environment(), **in_copy}, capture_output=True, text=True, check=True
    ).stdout
    assert "Show how long the agent has been running." in shown
    assert "Ask how long the agent has been running." in shown


def test_two_requests_of_one_verb_are_refused() -> None:
    """A verb has one request."""
    with pytest.raises(ValueError, match="'why'"):

        @dataclass(frozen=True)
        class Again(ControlRequest, verb="why"):
            """A second request of this verb."""

            async def answer(self, agent: Any, client: Any) -> Any:
                """Answer nothing."""


def test_the_agent_imports_the_verbs_that_declare_requests() -> None:
    """Other verbs are not needed, and would take memory as long as the agent runs."""
    verbs.sections()  # imports all verbs
    asking = {each.__module__.rpartition(".")[2] for each in declared.values() if verbs.__name__ in each.__module__}
    assert asking == set(verbs.asking())
