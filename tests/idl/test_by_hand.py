"""The same provider with the generator and without: both answer alike, and the first has a third of the lines."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from code_lines import BY_HAND, code_lines, hand_written
from holdfast.agent.plugins.client import shake_hands
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.process import launch
from holdfast.agent.plugins.schema import Schema
from holdfast_process import in_process

TOKEN = "demo:notes:Note"
STATE = b'{"name": "a", "lines": ["x"], "size": "2"}'
WRONG = [
    b"[]",
    b"{",
    b'{"name": 5, "lines": "x", "size": "1", "colour": 1}',
    b'{"name": "../x", "lines": ["a\\nb", 5, {"$unknown": true}]}',
    b'{"name": "' + b"x" * 201 + b'"}',
    b'{"name": "a", "lines": null}',
]
"""Payloads of inputs that break rules."""


def subject(id_="", token=TOKEN):
    """Return what a call is about."""
    return message["Subject"](token=token, id=id_)


def read(inputs, id_="", token=TOKEN):
    """Return a request that reads one note."""
    return message["ReadRequest"](items=[message["ReadItem"](subject=subject(id_, token), inputs=inputs)])


CALLS = [
    ("Health", message["HealthRequest"]()),
    ("CheckConfig", message["ConfigRequest"](config=b'{"directory": "notes", "colour": 1}')),
    ("CheckConfig", message["ConfigRequest"](config=b"{}")),
    *(("Check", message["CheckRequest"](subject=subject(), inputs=each)) for each in WRONG),
    ("Check", message["CheckRequest"](subject=subject(), inputs=b'{"name": "a"}')),
    ("Check", message["CheckRequest"](subject=subject(), inputs=b"{}", old_inputs=b'{"name": "old"}')),
    ("Check", message["CheckRequest"](subject=subject(), inputs=b'{"name": "a", "lines": {"$unknown": true}}')),
    ("Check", message["CheckRequest"](subject=subject(token="demo:notes:Other"), inputs=b"{}")),
    ("Read", read(b'{"name": "a"}')),
    ("Read", read(b'{"name": 5}')),
    ("Read", read(b"{}", token="demo:notes:Other")),
    ("Create", message["CreateRequest"](subject=subject(), inputs=b'{"name": "a", "lines": ["x"]}', dry_run=True)),
    ("Create", message["CreateRequest"](subject=subject(), inputs=b'{"name": "a", "lines": ["x"]}')),
    ("Read", read(b"{}", "a")),
    ("Diff", message["DiffRequest"](subject=subject("a"), state=STATE, inputs=b'{"name": "b", "lines": []}')),
    ("Diff", message["DiffRequest"](subject=subject("a"), state=STATE, inputs=b'{"name": "a", "lines": ["x"]}')),
    ("Update", message["UpdateRequest"](subject=subject("a"), state=b"{}", inputs=b'{"name": "a"}')),
    ("Update", message["UpdateRequest"](subject=subject("a"), state=STATE, inputs=b'{"lines": ["y"]}', dry_run=True)),
    ("Update", message["UpdateRequest"](subject=subject("a"), state=STATE, inputs=b'{"name": "a", "lines": ["y"]}')),
    ("Delete", message["DeleteRequest"](subject=subject("a"), state=STATE, dry_run=True)),
    ("Delete", message["DeleteRequest"](subject=subject("a"), state=STATE)),
    ("Delete", message["DeleteRequest"](subject=subject("a"), state=STATE)),
    ("Read", read(b'{"name": "a"}')),
    ("UpgradeState", message["UpgradeStateRequest"](subject=subject("a"), state=STATE)),
]
"""Every call, in an order in which each has something to do."""


def told(answer):
    """Return what an answer says: payloads as data, violations and failures by their codes."""
    found = {}
    for field, value in answer.ListFields():
        if field.name in ("state", "inputs"):
            found[field.name] = json.loads(value)
        elif field.name == "failure":
            found["failure"] = value.code
        elif field.name == "violations":
            found["violations"] = [(each.code, each.path) for each in value]
        elif field.name == "results":
            found["results"] = [told(each) for each in value]
        else:
            found[field.name] = str(value)
    return found


async def answers(provider: Path, folder: Path):
    """Return what a provider answers to all calls, and the first events of its watch. Its start takes half a second."""
    folder.mkdir()
    notes = folder / "notes"
    environment = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    me = pwd.getpwuid(os.geteuid()).pw_name
    wanted = Launch("demo", [sys.executable, str(provider)], me, environment)
    below = Path(tempfile.mkdtemp(prefix="plugins-"))  # paths of sockets are short
    plugin = await launch(wanted, lambda level, said: None, below)
    try:
        await shake_hands(plugin.client, Schema.read((provider.parent / "schema.json").read_text()))
        config = json.dumps({"directory": str(notes)}).encode()
        await plugin.client.call("Configure", message["ConfigRequest"](config=config))
        found = [told(await plugin.client.call(method, request)) for method, request in CALLS]
        events = plugin.client.watch([TOKEN], "")
        first = told(await anext(events))
        (notes / "b").write_text("z\n")
        return [*found, first, told(await anext(events))]
    finally:
        await plugin.stop()
        shutil.rmtree(below)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A new package."""
    folder = tmp_path_factory.mktemp("packages") / "demo"
    in_process("idl", "new", "demo", "--to", str(folder), check=0)
    return folder


async def test_both_providers_answer_alike(package, tmp_path):
    """State, inputs, differences, and codes and paths of violations; only texts differ."""
    by_hand = tmp_path / "provider.py"
    by_hand.write_text(BY_HAND.read_text())
    (tmp_path / "schema.json").write_text((package / "provider/schema.json").read_text())
    generated = await answers(package / "provider/main.py", tmp_path / "a")
    written = await answers(by_hand, tmp_path / "b")

    assert len(generated) == len(CALLS) + 2
    assert written == generated


def test_the_generator_saves_two_thirds_of_the_lines():
    """Lines of code, without blank lines, comments and docstrings; those of the IDL count as well."""
    generated, by_hand = hand_written()

    assert by_hand >= 3 * generated
    assert code_lines('"""Text."""\n\n# why\nx = (\n    1,\n)\n') == 3
