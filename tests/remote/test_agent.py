"""Remote resources in a real agent, with the plugin that agent.yaml names. An agent takes seconds to start."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from deadline import DEADLINE
from holdfast_process import Agent, Tree, holdfast
from notes_package import HOME, NOTES, SCHEMA

ME = pwd.getpwuid(os.geteuid()).pw_name
NOTE = """the note:
  notes.note:
    - name: NAME
    - owner: me
    - lines: [{text: hello}]
    - password: hunter22
"""
WATCHING = '''

class Watched(Notes):
    """Notes whose directory is watched, and whose creation may be stopped half-way."""

    async def configure(self, config):
        await super().configure(config)
        (self.directory.parent / "pid").write_text(str(os.getpid()))

    async def watch(self, revision, noop):
        seen = self.listed()
        yield "", ""
        while True:
            await asyncio.sleep(0.02)
            now = self.listed()
            for name in sorted({**seen, **now}):
                if seen.get(name) != now.get(name):
                    yield name, ""
            seen = now

    def listed(self):
        return {each.name: each.stat().st_mtime_ns for each in self.directory.iterdir()}

    async def create_once(self, inputs, intent):
        with (self.directory.parent / "tokens").open("a") as file:
            file.write(f"{intent} ")
        return await self.create(inputs)

    async def create(self, inputs):
        hold = self.directory.parent / "hold"
        if hold.exists():
            hold.write_text(str(os.getpid()))
            await asyncio.Event().wait()
        with (self.directory.parent / "created").open("a") as file:
            file.write(f"{inputs.name} ")
        return await super().create(inputs)

'''


class Site:
    """A configuration with the plugin of notes, and the directory of the notes."""

    def __init__(self, root: Path) -> None:
        root.chmod(0o755)
        self.root, self.tree = root, Tree(root / "tree", holdfast)
        self.notes = root / "notes"
        self.notes.mkdir()
        (root / "notes_stub.py").write_text((HOME / "notes_stub.py").read_text())
        main = 'if __name__ == "__main__":\n    notes = Notes()\n'
        text = (HOME / "provider.py").read_text()
        assert main in text
        (root / "provider.py").write_text(text.replace(main, WATCHING + main.replace("Notes", "Watched")))
        self.schema(SCHEMA)
        plugin = {
            "schema": str(root / "schema.json"),
            "command": [sys.executable, str(root / "provider.py")],
            "user": ME,
            "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
            "config": {"directory": str(self.notes)},
        }
        self.tree.settings(yaml.safe_dump({"plugins": {"notes": plugin}}))

    def schema(self, text: str) -> None:
        """Write schema.json."""
        (self.root / "new.json").write_text(text)
        (self.root / "new.json").replace(self.root / "schema.json")

    def declare(self, name: str = "web", more: str = "") -> None:
        """Write a state of one note."""
        self.tree.sls("a", NOTE.replace("NAME", name) + more)

    def note(self, name: str = "web") -> Path:
        """Return the path of a note."""
        return self.notes / name

    @property
    def created(self) -> list[str]:
        """The names of all notes that the provider has created."""
        path = self.root / "created"
        return path.read_text().split() if path.exists() else []

    def resource(self) -> Any:
        """Return the row of the note in the status of the agent."""
        return self.tree.json("status", "--all")["resources"][0]


def becomes(wanted: Any) -> Any:
    """Wait until the value is true, and return it."""
    until = time.monotonic() + DEADLINE
    while not (found := wanted()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A configuration with a note."""
    made = Site(tmp_path)
    made.declare()
    return made


def text_of(path: Path) -> str:
    """Return the text of a file; empty if there is none."""
    return path.read_text() if path.exists() else ""


def test_one_shot_runs_plan_create_and_find_nothing_to_do(site):
    """There is no agent, and the plugin ends with each run. No password appears anywhere."""
    plan = site.tree("plan", check=2)
    first = site.tree("apply", check=0)
    second = site.tree("apply", check=0)
    site.declare(more="    - ensure: absent\n")
    absent = site.tree("apply", check=0)

    assert "would create notes.note[the note]" in plan.stdout
    assert "created notes.note[the note]" in first.stdout
    assert "created" not in second.stdout
    assert "removed notes.note[the note]" in absent.stdout
    assert site.created == ["web"]
    assert not site.note().exists()
    everything = "".join(each.stdout + each.stderr for each in (plan, first, second, absent))
    assert "hunter22" not in everything
    assert not any(b"hunter22" in each.read_bytes() for each in (site.tree.root / "state").rglob("*") if each.is_file())


def test_a_plan_names_what_the_provider_refuses_with_file_and_line(site):
    """The schema allows the owner; the provider does not."""
    site.tree.sls("a", NOTE.replace("NAME", "web").replace("owner: me", "owner: nobody"))
    plan = site.tree("plan", check=1)

    assert "owner: nobody may own a note" in plan.stdout + plan.stderr
    assert "a.sls:4" in plan.stdout + plan.stderr


def test_an_agent_repairs_drift_by_event_and_survives_the_death_of_its_plugin(site):
    """The history has the repair as drift. After `kill -9` of the plugin, drift is repaired, too."""
    with Agent(site.tree) as agent:
        assert site.note().read_text() == '["me", ["hello"]]'
        site.note().write_text('["me", ["other"]]')
        agent.wait(lambda: "hello" in text_of(site.note()), "the repair")
        agent.wait_log("repaired notes.note[the note]")
        os.kill(int((site.root / "pid").read_text()), signal.SIGKILL)
        site.note().unlink()
        agent.wait(lambda: "hello" in text_of(site.note()), "the repair after the death of the plugin")
        history = agent.wait(lambda: site.tree("history").stdout, "the history")

    assert site.created == ["web", "web"]
    assert "drift" in history
    assert "hunter22" not in agent.log + history


def test_noop_reports_and_changes_nothing(site):
    """The state is not settled."""
    site.declare(more="    - noop: true\n")
    with Agent(site.tree):
        row = site.resource()

    assert row["comment"] == "would create note web"
    assert site.created == []


def test_a_plugin_that_is_killed_while_it_creates_is_asked_again(site):
    """The run fails temporarily, and the next one creates the note, only once."""
    hold = site.root / "hold"
    hold.touch()
    agent = Agent(site.tree)
    try:
        pid = int(agent.wait(lambda: text_of(hold), "the creation"))
        hold.unlink()
        os.kill(pid, signal.SIGKILL)
        agent.wait(site.note().exists, "the second attempt")
        agent.wait(lambda: site.resource()["result"] is True, "the end of the run")
    finally:
        agent.stop()

    assert site.created == ["web"]
    assert "Traceback" not in agent.log


def test_an_agent_that_is_killed_knows_its_notes_when_it_starts_again(site):
    """The record is on the disk before the run continues, so nothing is created twice, and nothing changes."""
    agent = Agent(site.tree)
    agent.wait(site.note().exists, "the note")
    agent.wait(lambda: site.resource()["result"] is True, "the end of the run")
    agent.process.kill()
    agent.process.wait()
    with Agent(site.tree):
        row = site.resource()

    assert row["comment"] == "note web is as declared"
    assert site.created == ["web"]


def test_a_changed_schema_is_used_after_a_reload_and_a_wrong_one_changes_nothing(site):
    """The graph stays in force while schema.json is invalid."""
    with Agent(site.tree) as agent:
        site.schema("{}")
        agent.wait_log("is not the schema of a package")
        site.note().write_text('["me", ["other"]]')
        agent.wait(lambda: "hello" in text_of(site.note()), "a repair by the former schema")
        changed = json.loads(SCHEMA)
        fields = changed["modules"][0]["resources"][0]["fields"]
        next(each for each in fields if each["name"] == "owner")["deprecated"] = "use owners"
        site.schema(json.dumps(changed))
        agent.wait_log("the argument 'owner' of notes.note is deprecated")

    assert NOTES.name == "notes"


def test_verbs_that_show_kinds_know_remote_ones_without_a_plugin(site):
    """`doc`, `schema`, `check`, `show` and `fmt` work, although the plugin could not even start."""
    (site.root / "provider.py").unlink()
    doc, listed = site.tree("doc", "notes.note", check=0).stdout, site.tree("doc", check=0).stdout
    schema = json.loads(site.tree("schema", "states", check=0).stdout)
    check, show = site.tree("check", check=0), site.tree("show", "low", check=0).stdout
    site.tree("fmt", site.tree.etc / "states/a.sls", check=0)
    site.tree.sls("a", "a:\n  notes.note:\n    - ownr: me\n")
    wrong = site.tree("check", check=3).stdout

    assert "A note, which the provider keeps as a file." in doc
    assert "ensure ('present' or 'absent', default 'present')" in doc
    assert "notes.note" in listed
    assert "arguments of notes.note" in schema["definitions"]
    assert check.stdout
    assert "state: notes" in show
    assert "did you mean 'owner'?" in wrong


def test_an_agent_that_is_killed_during_a_creation_asks_with_the_same_token_again(site):
    """The token is on the disk before the provider is called. `db remote` shows that the result is unknown."""
    hold, tokens = site.root / "hold", site.root / "tokens"
    hold.touch()
    agent = Agent(site.tree)
    agent.wait(lambda: text_of(hold), "the creation")
    agent.process.kill()
    agent.process.wait()
    hold.unlink()
    known = site.tree("db", "remote").stdout
    with Agent(site.tree) as again:
        again.wait(lambda: site.resource()["result"] is True, "the end of the run")

    assert "notes:note:Note the note: its creation has begun, and its outcome is unknown" in known
    first, second = tokens.read_text().split()
    assert first == second != ""
    assert site.created == ["web"]
    assert "notes:note:Note the note: web" in site.tree("db", "remote").stdout
