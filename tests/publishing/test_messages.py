"""Topics and payloads: what is in them, what is not, and how large they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import __version__
from holdfast.agent.northbound.api import Followed
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.pubsub.base import ROOM, Message
from holdfast.agent.publishing.messages import MOST, MessageWriter
from holdfast.agent.records.models import Actor, Change, Condition, Pass
from holdfast.resources.secrets import MASK, Redactor

CHANGE = Change(
    id="1k0", host="web1", resource="file.managed[/etc/motd]", kind="file.managed", at=2.0, first=1.0, times=1,
    what="repaired", result="changed", origin="drift", cause="drift", comment="no comment", diff="-a\n+b",
    changes={"mode": "0644"}, by=Actor(pid=1, name="vim", command="vim /etc/motd", login="deploy"),
)  # fmt: skip
PASS = Pass(
    id="1k1", host="web1", number=3, cause="drift", at=1.0, duration=0.5, converged=True, counts={"changed": 1, "ok": 2}
)
CONDITION = Condition(id="watch-broken", host="web1", severity="warning", text="cannot watch /etc", since=1.0)


@pytest.fixture
def writer() -> MessageWriter:
    """The messages of one host."""
    return MessageWriter("holdfast", "web1", Redactor(), 1.5)


def values(message: Message | None) -> dict[str, Any]:
    """Return a payload."""
    assert message
    found: dict[str, Any] = json.loads(message.payload)
    assert (found["v"], found["host"]) == (1, "web1")
    return found


def write(record: Model, model: type[Model] | None = None) -> Followed:
    """Return a write at revision 7."""
    return Followed(7, model or type(record), record.id, record)


def test_presence_is_retained(writer):
    """Its last words do not tell a time: the broker publishes them, whenever that is."""
    online, offline = writer.presence(online=True), writer.presence(online=False)
    assert (online.topic, online.retain) == (offline.topic, offline.retain) == ("holdfast/web1/presence", True)
    assert values(online) == {"v": 1, "host": "web1", "state": "online", "version": __version__, "started": 1.5}
    assert values(offline) == {"v": 1, "host": "web1", "state": "offline"}


def test_all_present_conditions_are_one_retained_message(writer):
    """The conditions are in the order in which they began."""
    later = CONDITION.replace(id="a", since=2.0)
    message = writer.conditions([later, CONDITION])
    assert (message.topic, message.retain) == ("holdfast/web1/conditions", True)
    assert [each["id"] for each in values(message)["conditions"]] == ["watch-broken", "a"]


def test_a_change_and_a_pass_are_records_with_an_id_of_the_message(writer):
    """A repeated message has the same ID; a later write of the record has another one."""
    message = writer.written(write(CHANGE), ROOM)
    assert (message.topic, message.retain) == ("holdfast/web1/changes", False)
    assert values(message)["id"] == "7/changes/1k0"
    record = values(message)["record"]
    assert (record["resource"], record["what"], record["by"]["login"]) == (
        "file.managed[/etc/motd]", "repaired", "deploy"
    )  # fmt: skip
    message = writer.written(write(PASS), ROOM)
    assert message.topic == "holdfast/web1/passes"
    assert values(message)["record"]["counts"] == {"changed": 1, "ok": 2}


def test_the_content_of_a_file_that_others_cannot_read_is_not_published(writer):
    """The command line of the author is not published either. For a public file, both are published."""
    secret = values(writer.written(write(CHANGE), ROOM))["record"]
    assert not {"diff", "changes", "comment"} & secret.keys()
    assert "command" not in secret["by"]
    public = values(writer.written(write(CHANGE.replace(public=True)), ROOM))["record"]
    assert (public["diff"], public["changes"], public["comment"]) == ("-a\n+b", {"mode": "0644"}, "no comment")


def test_secrets_are_masked():
    """Those of the pillar as it is now, wherever they stand."""
    writer = MessageWriter("holdfast", "web1", Redactor({"password": "hunter22"}), 1.5)
    change = CHANGE.replace(public=True, diff="+pass = hunter22", changes={"x": "hunter22"})
    record = values(writer.written(write(change), ROOM))["record"]
    assert (record["diff"], record["changes"]) == (f"+pass = {MASK}", {"x": MASK})


def test_the_begin_and_the_end_of_a_condition_are_messages(writer):
    """The end has no record: only its code is known."""
    begun = writer.written(write(CONDITION), ROOM)
    assert begun.topic == "holdfast/web1/conditions/changed"
    assert values(begun)["record"]["severity"] == "warning"
    assert "ended" not in values(begun)
    ended = writer.written(Followed(8, Condition, "watch-broken", None), ROOM)
    assert values(ended) == {
        "v": 1, "host": "web1", "id": "8/conditions/watch-broken", "ended": True, "record": {"id": "watch-broken"}
    }  # fmt: skip


@pytest.mark.parametrize("model", [Change, Pass])
def test_a_record_that_was_deleted_because_of_its_age_is_no_message(writer, model):
    """It was published when it was written."""
    assert writer.written(Followed(8, model, "1k0", None), ROOM) is None


@pytest.mark.parametrize("room", [MOST, 1000])
def test_a_large_record_loses_its_largest_fields(writer, room):
    """Most brokers, and this one, take messages of a limited size. The message names what it lacks."""
    change = CHANGE.replace(public=True, diff="+ä\n" * 60_000, changes={"x": "y" * 2000})
    message = writer.written(write(change), room)
    assert len(message.topic) + len(message.payload) <= room
    cut = ["diff"] if room == MOST else ["diff", "changes"]
    assert values(message)["cut"] == cut
    record = values(message)["record"]
    assert not set(cut) & record.keys()
    assert record["resource"] == CHANGE.resource


def test_what_must_be_in_a_message_stays_though_it_is_too_large(writer):
    """The broker's refusal is reported; nothing is left out silently."""
    record = values(writer.written(write(CHANGE), 10))["record"]
    assert record.keys() == {"id", "host", "resource", "at"}


def test_text_that_is_no_unicode_does_not_prevent_a_message(writer):
    """A file name may have any bytes."""
    record = values(writer.written(write(CHANGE.replace(resource="file.managed[/\ud800]")), ROOM))["record"]
    assert record["resource"] == "file.managed[/?]"


def test_a_gap_says_from_when_to_when(writer):
    """The time is unknown if there was no position."""
    gap = writer.gap(9, 100.0)
    assert gap.topic == "holdfast/web1/gap"
    assert (values(gap)["id"], values(gap)["from"]) == ("9/gap", 100.0)
    assert values(writer.gap(9, None))["from"] is None
