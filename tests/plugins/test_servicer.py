"""Answers of providers in Python and in TypeScript to the calls of the protocol."""

from __future__ import annotations

import asyncio
import json

import pytest

from deadline import DEADLINE
from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import NEWEST, message
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.plugins.stub import Found, Key, Operations
from holdfast.agent.plugins.values import UNKNOWN, Secret
from holdfast.resources.errors import DeclarationError, Temporary
from notes_package import NOTE, SCHEMA

WEB = {"name": "web", "owner": "me", "lines": [{"text": "hello"}]}


async def test_a_resource_is_created_read_changed_and_deleted(caller, tmp_path):
    """Each answer has the id, and the state with the fields that the provider sets."""
    created = await caller("Create", inputs=WEB)
    state = caller.payloads.state(NOTE, created.state)
    read = await caller.read("web")
    updated = await caller("Update", "web", state=state, inputs={**WEB, "lines": []}, expected_revision=read.revision)
    deleted = await caller("Delete", "web", state=state)
    gone = await caller.read("web")

    assert (created.id, state["size"], state["lines"]) == ("web", 17, [{"text": "hello"}])
    assert read.exists
    assert (read.id, read.state) == ("web", created.state)
    assert caller.payloads.state(NOTE, updated.state)["lines"] == []
    assert deleted.id == "web"
    assert not deleted.failure.code
    assert not gone.exists
    assert not gone.failure.code


async def test_check_fills_in_defaults_and_a_name(caller):
    """A generated name stays the same."""
    first = caller.payloads.inputs(NOTE, (await caller("Check", inputs={"owner": "me"})).inputs)
    again = await caller("Check", inputs={"owner": "me"}, old_inputs=first)

    assert first["lines"] == []
    assert first["name"].startswith("note-")
    assert caller.payloads.inputs(NOTE, again.inputs)["name"] == first["name"]


async def test_violations_of_the_schema_and_of_the_author_have_codes_and_paths(caller):
    """The author's code is not called with inputs that break the schema."""
    wrong = await caller("Check", inputs=b'{"lines": [{"txt": 1}], "size": "1"}')
    refused = await caller("Check", inputs={"owner": "nobody"})

    assert [(each.code, each.path) for each in wrong.violations] == [
        ("unexpected", "lines[0].txt"),
        ("missing", "lines[0].text"),
        ("unexpected", "size"),
        ("missing", "owner"),
    ]
    assert [(each.code, each.path) for each in refused.violations] == [("rule", "owner")]
    assert await caller.calls() == ["check"]


@pytest.mark.parametrize("unknown", [{"owner": UNKNOWN}, {"lines": [{"text": UNKNOWN}]}], ids=["whole", "a part"])
async def test_unknown_inputs_are_accepted_without_the_authors_check(caller, unknown):
    """Their values are known when the resource is created."""
    answer = await caller("Check", inputs={**WEB, **unknown})

    assert not answer.violations
    assert caller.payloads.inputs(NOTE, answer.inputs) == {**WEB, **unknown}
    assert await caller.calls() == []


async def test_diff_names_what_an_update_changes_and_what_replaces(caller):
    """Arguments that are not given, or are never returned, do not count as differences."""
    state = {**WEB, "size": 3}
    none = await caller("Diff", "web", state=state, inputs={**WEB, "password": Secret("x")})
    some = await caller("Diff", "web", state=state, inputs={"name": "web", "owner": "you", "lines": []})

    assert list(none.differences) == []
    assert [(each.path, each.kind, each.replaces) for each in some.differences] == [
        ("owner", "change", True),
        ("lines", "change", False),
    ]


async def test_a_write_only_field_differs_if_the_author_says_so(caller):
    """The answer to a read names it, and the agent passes that on when it asks for the differences."""
    name = "differs-password"
    await caller("Create", inputs={**WEB, "name": name})
    read = await caller.read(name, password=Secret("x"))
    inputs = {**WEB, "name": name, "password": Secret("x")}
    found = await caller("Diff", name, state=read.state, inputs=inputs, differs=read.differs)

    assert list(read.differs) == ["password"]
    assert [(each.path, each.kind) for each in found.differences] == [("password", "change")]


async def test_a_field_that_is_returned_is_not_named_as_different(caller):
    """The agent compares such a field; naming it is a mistake of the author."""
    await caller("Create", inputs={**WEB, "name": "differs-owner"})
    answer = await caller.read("differs-owner")

    assert answer.failure.code == "fault"
    assert "only write-only fields may be named: password" in answer.failure.message


async def test_a_dry_run_does_not_call_the_author(caller):
    """Fields that only the provider sets are unknown."""
    created = await caller("Create", inputs=WEB, dry_run=True)
    updated = await caller("Update", "web", state={**WEB, "size": 3}, inputs={**WEB, "lines": []}, dry_run=True)
    deleted = await caller("Delete", "web", state={**WEB, "size": 3}, dry_run=True)

    assert caller.payloads.state(NOTE, created.state) == {**WEB, "size": UNKNOWN}
    assert caller.payloads.state(NOTE, updated.state) == {**WEB, "lines": [], "size": 3}
    assert not deleted.failure.code
    assert await caller.calls() == []


async def test_a_dry_run_of_a_deletion_tells_what_the_author_knows_of_its_failure(caller):
    """With this, a plan can show that the deletion would be refused."""
    answer = await caller("Delete", "kept", state={**WEB, "size": 3}, dry_run=True)

    assert (answer.failure.code, answer.failure.message) == ("permanent", "the note is kept for ever")
    assert await caller.calls() == []


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("create-raises", "fault", "no such thing as ********"),
        ("create-fails", "permanent", "the note is locked for ever"),
        ("create-waits", "retry", "the note is locked"),
        ("create-hangs", "retry", "the time has run out"),
    ],
)
async def test_what_an_author_raises_is_a_failure_with_a_code(caller, name, code, told):
    """Its message shows no secret of the request."""
    inputs = {**WEB, "name": name, "password": Secret("hunter22")}
    answer = await caller("Create", inputs=inputs, timeout_ms=100 if "hangs" in name else 0)

    assert answer.failure.code == code
    assert told in answer.failure.message
    assert "hunter" not in answer.failure.message


async def test_a_read_of_many_that_fails_is_a_failure_of_each_without_secrets(caller):
    """The author reads all with one request, and the error repeats this request."""
    answer = await caller.read("many-fails", password=Secret("hunter22"))

    assert (answer.failure.code, answer.failure.message) == ("permanent", "login failed with ********")


async def test_an_unknown_resource_fails_by_itself_among_others(caller):
    """The other resources are read."""
    await caller("Create", inputs=WEB)
    inputs = caller.payloads.pack_inputs(NOTE, {"name": "web", "owner": "me"})
    subjects = [message["Subject"](token=f"notes:note:{name}") for name in ("Nope", "Note")]
    items = [message["ReadItem"](subject=each, inputs=inputs) for each in subjects]
    results = (await caller.connection.call("Read", message["ReadRequest"](items=items))).results

    assert [(each.exists, each.failure.code) for each in results] == [(False, "permanent"), (True, "")]


async def test_a_read_can_be_cancelled(caller):
    """A read can be cancelled like every call."""
    reading = asyncio.ensure_future(caller.read("read-hangs"))
    await caller.until("read")
    await caller.connection.call("Cancel", message["CancelRequest"]())

    assert (await asyncio.wait_for(reading, DEADLINE)).failure.code == "cancelled"


async def test_an_upgrade_to_a_wrong_state_is_a_fault_of_the_provider(caller):
    """The error names the wrong field."""
    subject = message["Subject"](token="notes:note:Note", version=9)
    answer = await caller.connection.call(
        "UpgradeState", message["UpgradeStateRequest"](subject=subject, state=b"{}"), DEADLINE
    )

    assert answer.failure.code == "fault"
    assert "the provider returned a wrong notes.note: owner: it is required" in answer.failure.message


async def test_a_create_that_was_not_finished_tells_what_exists(caller):
    """The next attempt is an update of the existing resource."""
    answer = await caller("Create", inputs={**WEB, "name": "partial"})

    assert answer.partial
    assert (answer.id, answer.failure.code) == ("partial", "retry")
    assert caller.payloads.state(NOTE, answer.state)["owner"] == "me"


async def test_an_update_of_another_revision_is_a_conflict(caller):
    """The agent never overwrites a state that it has not read."""
    await caller("Create", inputs=WEB)
    answer = await caller("Update", "web", state={**WEB, "size": 3}, inputs=WEB, expected_revision="1")

    assert answer.failure.code == "conflict"


async def test_each_of_several_reads_fails_by_itself(caller):
    """The results are in the order of the items."""
    await caller("Create", inputs=WEB)
    items = [
        message["ReadItem"](
            subject=message["Subject"](token="notes:note:Note"),
            inputs=caller.payloads.pack_inputs(NOTE, {"name": name, "owner": "me"}),
        )
        for name in ("read-fails", "web", "gone")
    ]
    items.append(message["ReadItem"](subject=items[0].subject, inputs=b'{"name": 5}'))
    results = (await caller.connection.call("Read", message["ReadRequest"](items=items))).results

    assert [each.exists for each in results] == [False, True, False, False]
    assert [each.failure.code for each in results] == ["permanent", "", "", ""]
    assert [len(each.violations) for each in results] == [0, 0, 0, 2]


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("nothing", "the provider must return"),
        ("id", "the provider must return"),
        ("size", "the provider returned a wrong notes.note: size: it must be a whole number"),
        ("missing", "the provider returned a wrong notes.note: size: it is required"),
        ("lines", "the provider returned a notes.note with a value of a wrong type"),
    ],
)
async def test_a_wrong_answer_of_the_author_is_his_fault_and_said_so(caller, deed, told):
    """The error names the mistake, and the state is not sent."""
    await caller("Create", inputs={**WEB, "name": f"wrong-{deed}"})
    answer = await caller.read(f"wrong-{deed}")

    assert answer.failure.code == "fault"
    assert told in answer.failure.message
    assert not answer.state


async def test_a_call_that_takes_too_long_can_be_cancelled(caller):
    """The call answers that it was cancelled."""
    call = asyncio.ensure_future(caller("Create", inputs={**WEB, "name": "create-hangs"}))
    await caller.until("create")
    await caller.connection.call("Cancel", message["CancelRequest"]())

    assert (await call).failure.code == "cancelled"


async def test_a_state_of_an_older_version_is_upgraded(caller):
    """The upgraded state satisfies the schema."""
    answer = await caller("UpgradeState", state=b'{"name": "a", "owner": "me", "text": "old"}')

    assert caller.payloads.state(NOTE, answer.state)["lines"] == [{"text": "old"}]


async def test_events_follow_the_one_that_says_armed(caller):
    """An event without an id says that changes may have been missed."""
    events = caller.connection.watch(["notes:note:Note"], "r7")
    found = [await anext(events), await anext(events)]
    await caller.invoke(owner="event web r8")
    found.append(await anext(events))
    await events.aclose()

    assert [(each.armed, each.relist, each.id, each.revision) for each in found] == [
        (True, False, "", ""),
        (False, True, "", "r7"),
        (False, False, "web", "r8"),
    ]


async def test_a_watch_says_what_it_does_not_see(caller):
    """The provider may report this from the start. The reason for one resource has its id."""
    events = caller.connection.watch(["notes:note:Note"], "lost")
    found = [await anext(events) for _ in range(3)]
    for event in ("event - !gone", "event web !locked"):
        await caller.invoke(owner=event)
        found.append(await anext(events))
    await events.aclose()

    assert [(each.unwatched, each.armed, each.relist, each.id) for each in found] == [
        ("the server is down", False, False, ""),
        ("", True, False, ""),
        ("", False, True, ""),
        ("gone", False, False, ""),
        ("locked", False, False, "web"),
    ]


async def test_a_watch_is_told_that_the_agent_only_observes(caller):
    """In noop, a watch must not change the server."""
    events = caller.connection.watch(["notes:note:Note"], "", noop=True)
    found = [await anext(events), await anext(events)]
    await events.aclose()

    assert [each.id for each in found] == ["", "noop"]


async def test_a_creation_gets_its_token(caller):
    """The token is empty if the agent has none."""
    subject = message["Subject"](token="notes:note:Note", intent="t1")
    inputs = caller.payloads.pack_inputs(NOTE, WEB)
    answer = await caller.connection.call("Create", message["CreateRequest"](subject=subject, inputs=inputs))

    assert answer.id == "web"
    assert await caller.calls() == ["intent=t1", "create"]


async def test_a_watch_that_is_cancelled_leaves_no_task(python_caller):
    """The provider runs longer than its agents."""
    caller = python_caller
    before = asyncio.all_tasks()
    events = caller.connection.watch(["notes:note:Note"], "")
    assert (await anext(events)).armed
    waiting = asyncio.ensure_future(anext(events))
    while len(asyncio.all_tasks()) < len(before) + 3:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert asyncio.all_tasks() == before


async def test_both_sides_agree_on_a_protocol(caller):
    """Another package, or a protocol that one of them does not speak, is refused with what each has."""
    right = await caller.connection.call("Handshake", message["HandshakeRequest"](oldest=1, newest=9, package="notes"))
    other = await caller.connection.call("Handshake", message["HandshakeRequest"](oldest=1, newest=9, package="aws"))
    newer = await caller.connection.call("Handshake", message["HandshakeRequest"](oldest=8, newest=9, package="notes"))

    assert (right.protocol, right.version, right.failure.code) == (NEWEST, "1.0.0", "")
    assert other.failure.message == "the plugin provides the package 'notes', not 'aws'"
    assert newer.failure.message == "the plugin speaks versions 1 to 1 of the protocol, the agent 8 to 9"


async def test_a_wrong_configuration_is_refused_with_the_path(caller, tmp_path):
    """The error has the path, and nothing is configured."""
    config = json.dumps({"directory": "relative"}).encode()
    for method in ("CheckConfig", "Configure"):
        answer = await caller.connection.call(method, message["ConfigRequest"](config=config))
        assert [(each.code, each.path) for each in answer.violations] == [("form", "directory")]
    await caller("Create", inputs=WEB)
    assert (tmp_path / "web").exists()


async def test_an_unknown_resource_is_a_failure_that_names_the_version(caller):
    """The request is from an agent with another schema."""
    subject = message["Subject"](token="notes:note:Nope")
    answer = await caller.connection.call("Create", message["CreateRequest"](subject=subject))

    assert answer.failure.message == "there is no resource notes:note:Nope in version 1.0.0"


async def test_a_payload_that_is_not_json_is_a_violation(caller):
    """The answer is a violation, not a traceback."""
    answer = await caller("Create", inputs=b"{")

    assert [each.code for each in answer.violations] == ["form"]


def test_a_provider_without_operations_for_a_resource_is_refused():
    """The error is raised at the start, not at the first call."""
    with pytest.raises(DeclarationError, match="nothing provides notes:note:Count, notes:note:Note"):
        Servicer(SCHEMA, [])


async def test_the_adapter_ends_a_call_in_time(notes_module, tmp_path):
    """The adapter has the timeouts of a connection to a process."""
    notes = notes_module.Notes()
    connection = InProcess(Servicer(SCHEMA, [notes, notes_module.Counting(notes)], notes.configure))
    item = message["ReadItem"](
        subject=message["Subject"](token="notes:note:Note"), inputs=b'{"name": "read-hangs", "owner": "me"}'
    )
    with pytest.raises(Temporary, match="no answer in time"):
        await connection.call("Read", message["ReadRequest"](items=[item]), timeout=0.05)


async def test_a_function_is_called_with_typed_arguments_and_its_result_is_typed(caller):
    """Fields that the author does not set are not given."""
    await caller("Create", inputs=WEB)
    function = caller.payloads.schema.functions["notes:note:Count"]
    some, none = await caller.invoke(owner="me"), await caller.invoke(owner="you")

    assert caller.payloads.results(function, some.result) == {"total": 1, "largest": "web"}
    assert caller.payloads.results(function, none.result) == {"total": 0}


@pytest.mark.parametrize(
    ("owner", "code", "told"),
    [
        ("count-returns-nothing", "fault", "wrong result of Count: total: it is required"),
        ("count-returns-text", "fault", "a wrong result of Count: total: it must be a whole number"),
        ("count-returns-none", "fault", "TypeError: Count must return "),
        ("nobody", "permanent", "nobody owns nothing, not even ********"),
    ],
)
async def test_a_function_that_fails_or_returns_something_else_is_a_failure(caller, owner, code, told):
    """No secret of the arguments is shown."""
    answer = await caller.invoke(owner=owner, password=Secret("hunter22"))

    assert answer.failure.code == code
    assert told in answer.failure.message


async def test_wrong_arguments_and_an_unknown_function_are_refused_without_a_call(caller):
    """All violations come together."""
    wrong = await caller.connection.call(
        "Invoke", message["InvokeRequest"](function="notes:note:Count", arguments=b'{"ownr": "me"}')
    )
    unknown = await caller.connection.call("Invoke", message["InvokeRequest"](function="notes:note:Cuont"))

    assert [(each.code, each.path) for each in wrong.violations] == [("unexpected", "ownr"), ("missing", "owner")]
    assert unknown.failure.code == "permanent"
    assert "there is no function notes:note:Cuont in version 1.0.0" in unknown.failure.message


@pytest.mark.parametrize("said", ["made", "part"])
async def test_what_was_created_has_its_id_even_if_the_state_is_wrong(caller, said):
    """Otherwise, a second attempt would create it again."""
    name = f"{said}-size"
    answer = await caller("Create", inputs={**WEB, "name": name})

    assert (answer.id, answer.partial, answer.state, answer.failure.code) == (name, True, b"", "fault")
    assert "wrong notes.note: size: it must be a whole number" in answer.failure.message


@pytest.mark.parametrize("deed", ["nothing", "id"])
async def test_an_author_who_returns_no_resource_is_told_so(caller, deed):
    """Without a resource, there is no id to record."""
    answer = await caller("Create", inputs={**WEB, "name": f"made-{deed}"})

    assert (answer.id, answer.partial, answer.failure.code) == ("", False, "fault")
    assert "the provider must return" in answer.failure.message


async def test_secrets_of_the_configuration_are_masked_in_later_failures(python_caller, notes_module, monkeypatch):
    """They are masked even for a plugin that the agent has not started, whose configuration it does not know."""
    caller = python_caller
    secret = "correct horse battery"

    async def create(self, inputs):
        raise notes_module.plugin.Permanent(f"no user with {secret}")

    monkeypatch.setattr(notes_module.Notes, "create", create)
    caller.connection._servicer.hide({"token": Secret(secret), "parts": [{"pin": Secret("1234567")}]})
    answer = await caller("Create", inputs=WEB)

    assert answer.failure.message == "no user with ********"
    assert caller.connection._servicer.masked("pin 1234567") == "pin ********"


async def test_an_author_writes_read_or_read_many():
    """Either is derived from the other. With neither, the provider is refused."""
    key, found = Key("web"), Found("web", None)

    class Together(Operations[None]):
        async def read_many(self, wanted):
            return [found if each.id == "web" else Temporary("it is locked") for each, _ in wanted]

    class Alone(Operations[None]):
        async def read(self, key, inputs):
            return found

    assert await Together().read(key, None) is found
    with pytest.raises(Temporary, match="it is locked"):
        await Together().read(Key("other"), None)
    assert await Alone().read_many([(key, None)]) == [found]
    with pytest.raises(NotImplementedError):
        await Operations().read(key, None)
    assert isinstance((await Operations().read_many([(key, None)]))[0], NotImplementedError)
