"""Remote resources in the engine: watched, attributed, sent, planned and reversed like all others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.engine.inspect.explain import explain
from holdfast.resources.watch_items import Unwatched
from holdfast.states.errors import CompileError
from remote_bench import NotesPlugin, cloud_kinds, cloud_plugin, note_kind
from remote_engine import RemoteEngine

NOTE = "the note:\n  notes.note:\n    - name: web\n    - owner: me\n    - lines: [{text: hello}]\n"


@pytest.fixture
def agent(note: Any, notes: NotesPlugin, tmp_path: Path) -> RemoteEngine:
    """An engine."""
    return RemoteEngine(tmp_path, notes)


async def test_an_event_of_the_plugin_leads_to_a_repair_that_is_attributed_as_drift(agent, tmp_path):
    """The plugin reports the identifier; there is no polling."""
    async with agent.running(NOTE):
        agent.outcomes.clear()
        (tmp_path / "notes/web").write_text('["me", ["other"]]')
        agent.plugin.events.put_nowait("web")
        repaired = await agent.until(lambda each: bool(each.changes))

    assert repaired.identity == "notes.note[the note]"
    assert repaired.cause == "drift"
    assert repaired.comment == "changed lines of note web"
    assert (tmp_path / "notes/web").read_text() == '["me", ["hello"]]'


async def test_drift_of_a_kind_without_events_is_found_by_a_poll(agent, tmp_path):
    """`why` shows the interval instead of events. A check that finds nothing does not count as activity."""
    note_kind(poll=0.02)
    async with agent.running(NOTE) as engine:
        coming = explain(next(iter(engine.view.graph)), engine.view)["next"]
        checked = await agent.until(lambda each: each.cause == "poll")
        (tmp_path / "notes/web").write_text('["me", ["other"]]')
        repaired = await agent.until(lambda each: bool(each.changes) and each.cause != "start")

    assert coming == [{"what": "poll", "in": None, "every": 0.02}]
    assert checked.changes == {}
    assert (repaired.cause, repaired.comment) == ("poll", "changed lines of note web")


async def test_a_resource_whose_changes_are_not_seen_is_shown_so_and_checked_afterwards(agent, tmp_path):
    """Nothing runs meanwhile. A failed resource is retried at once, not after its backoff."""
    async with agent.running(NOTE) as engine:
        agent.plugin.events.put_nowait(Unwatched("the server is down"))
        while not engine.view.unwatched:
            await asyncio.sleep(0)
        engine.trigger("notes.note[the note]")
        failed = await agent.until(lambda each: each.result is False)
        (row,) = engine.status()
        (vertex,) = engine.view.graph
        explained = explain(vertex, engine.view)
        (tmp_path / "notes/web").write_text('["me", ["other"]]')
        agent.plugin.events.put_nowait("web")
        repaired = await agent.until(lambda each: bool(each.changes) and each.cause == "recovery")
        await engine.settle()
        unwatched = [*engine.view.unwatched]

    assert failed.comment == "cannot watch: the server is down"
    assert (row["state"], row["comment"]) == ("failed", "cannot watch: the server is down")
    assert "the server is down" in explained["waits"][0]["text"]
    assert repaired.comment == "changed lines of note web"
    assert unwatched == []


async def test_what_is_polled_is_checked_as_soon_as_the_plugin_sees_changes_again(agent, monkeypatch):
    """A failed resource does not wait for its backoff, as it would after a poll."""
    note_kind(poll=3600)
    again = asyncio.Event()

    async def until_again(seconds):
        await again.wait()
        again.clear()
        return True

    monkeypatch.setattr(agent.plugin, "poll", until_again)
    async with agent.running(NOTE.replace("name: web", "name: create-waits")):
        assert "the note is locked" in (await agent.until(lambda each: each.result is False)).comment
        agent.outcomes.clear()
        again.set()
        checked = await agent.until(lambda each: True)

    assert checked.cause == "recovery"


async def test_an_identifier_is_received_by_another_state(agent, tmp_path):
    """The sender runs first; in noop the value is unknown, and the plan says so."""
    receiver = f"{tmp_path}/id:\n  file.managed:\n    - recv: {{contents: {{notes: the note, key: id}}}}\n"
    async with agent.running(NOTE + receiver, noop=True):
        planned = agent.of(f"file.managed[{tmp_path}/id]")
    async with agent.running(NOTE + receiver):
        pass

    assert planned.result is None
    assert planned.comment == "unknown until notes.note[the note] has run and sent id"
    assert (tmp_path / "id").read_text() == "web\n"


async def test_arguments_that_the_provider_refuses_are_reported_with_their_lines(agent, tmp_path):
    """They are reported like arguments that the compiler refuses."""
    async with agent.running(NOTE.replace("owner: me", "owner: nobody")):
        failed = agent.of("notes.note[the note]")

    assert failed.result is False
    assert failed.comment == f"owner: nobody may own a note ({tmp_path}/states/a.sls:4:7)"


@pytest.mark.parametrize(("reverse", "left"), [("", True), ("    - reverse: true\n", False)])
async def test_a_state_that_is_removed_deletes_nothing_unless_it_is_reversed(agent, tmp_path, reverse, left):
    """With `reverse`, the agent deletes the note, because there was none before, and removes its record."""
    async with agent.running(NOTE + reverse) as engine:
        await engine.swap(agent.compiled("other:\n  test.nop: []\n"))
        await engine.settle()

    assert (tmp_path / "notes/web").exists() is left
    assert bool(agent.plugin.records) is left


async def test_a_conflict_with_another_state_is_found_before_anything_runs(agent):
    """The conflict is between two states of one note."""
    with pytest.raises(CompileError, match="ensure differs"):
        agent.compiled(NOTE + NOTE.replace("the note", "another") + "    - ensure: absent\n")


async def test_the_status_explains_a_remote_resource(agent):
    """`why` has the sentence of the last run."""
    async with agent.running(NOTE) as engine:
        row = next(each for each in engine.status() if each["identity"] == "notes.note[the note]")

    assert row["kind"] == "notes.note"
    assert row["result"] is True


CLOUD = """main:
  aws-ec2.vpc:
    - cidr_block: 10.0.0.0/16

web:
  aws-ec2.security_group:
    - vpc: {ref: main}
    - description: the web servers
    - ingress:
        - {protocol: tcp, from_port: 443, to_port: 443, source_group: {ref: other}}

other:
  aws-ec2.security_group:
    - vpc: {ref: main}
    - description: others
"""


async def test_references_get_the_identifiers_of_what_they_name(note, tmp_path):
    """The target is created first. When it is replaced, the resources that refer to it get the new identifier."""
    things: dict[str, Any] = {}
    cloud_kinds()
    agent = RemoteEngine(tmp_path, cloud_plugin(things))
    async with agent.running(CLOUD) as engine:
        first = {each["name"]: dict(each) for each in things.values()}
        await engine.swap(agent.compiled(CLOUD.replace("10.0.0.0", "10.1.0.0")))
        await engine.settle()
        second = {each["name"]: dict(each) for each in things.values()}

    assert list(first) == ["main", "other", "web"]
    assert first["web"]["vpc"] == first["other"]["vpc"] == first["main"]["vpc_id"] == "vpc-1"
    assert first["web"]["ingress"][0].source_group == first["other"]["group_id"]
    assert second["main"]["cidr_block"] == "10.1.0.0/16"
    assert second["web"]["vpc"] == second["other"]["vpc"] == second["main"]["vpc_id"] != "vpc-1"
    assert second["web"]["ingress"][0].source_group == second["other"]["group_id"]
    said = [each.comment for each in agent.outcomes if each.changes]
    former = "kept the former security_group securitygroup-2"
    assert f"replaced security_group other, because of another vpc, {former}" in said
    assert said[-1] == "removed the former vpc vpc-1 of vpc main"
    assert len(things) == 3


async def test_what_refers_to_a_resource_is_checked_after_its_repair(note, tmp_path):
    """A dropped database loses its tables, whose events may be lost, too; its identifier stays the same."""
    things: dict[str, Any] = {}
    cloud_kinds()
    agent = RemoteEngine(tmp_path, cloud_plugin(things, named=True))
    async with agent.running(CLOUD) as engine:
        made = [*things]
        things.clear()
        engine.trigger("aws-ec2.vpc[main]")
        await engine.settle()
        again = [*things]

    assert made == ["vpc-main", "securitygroup-other", "securitygroup-web"]
    assert again == made


async def test_a_reference_is_unknown_in_a_plan_until_its_resource_exists(note, tmp_path):
    """The plan names the resource that it waits for."""
    cloud_kinds()
    agent = RemoteEngine(tmp_path, cloud_plugin({}))
    async with agent.running(CLOUD, noop=True):
        planned = agent.of("aws-ec2.security_group[other]")

    assert agent.of("aws-ec2.vpc[main]").comment == "would create vpc main"
    assert planned.comment == "unknown until aws-ec2.vpc[main] has run"
