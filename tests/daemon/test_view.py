"""The socket for viewers: who may connect, which requests they may send, and that answers reveal nothing private."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.agent.control.client import ask
from holdfast.agent.control.decoding import requests
from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.viewers import HIDDEN
from holdfast.agent.verbs.status import Status
from holdfast_process import Agent, Tree
from sample_requests import needed
from strangers import UID, as_a_stranger
from view_client import answered, connected, first, told
from viewed_agent import GID, GROUP, ViewedAgent, viewed_agent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

STATES = """
HOST/closed:
  file.directory: [{mode: "0700"}]
HOST/closed/file:
  file.managed: [{contents: first of root}, {mode: "0644"}, {require: [{file: HOST/closed}]}]
HOST/closed/edited:
  file.append: [{text: first of root}, {show_changes: true}, {makedirs: true}]
printing:
  cmd.run: [{name: "echo first of root; echo first of root >&2"}]
rendering:
  file.managed:
    - name: HOST/rendered
    - contents: "{{ 'first of root' }}"
    - check_cmd: grep -q nothing
again:
  cmd.run: [{name: "echo first of root >&2; exit 3"}, {retry: {attempts: 2, interval: 0.1}}]
"""
SECRET, PUBLIC = b"first of root", b"first of everyone"


@pytest.fixture(scope="module")
def viewed() -> Iterator[ViewedAgent]:
    """An agent whose states contain things that only root may read."""
    with viewed_agent(STATES) as viewed:
        yield viewed


def as_viewer(viewed: ViewedAgent, verb: str, **fields: object) -> bytes:
    """Return the answer that a member of the group gets."""
    text = as_a_stranger(lambda: answered(viewed.view, verb, **fields).decode(), groups=[GID])
    return text.encode()


def test_without_viewers_there_is_no_socket(tmp_path: Path) -> None:
    """There is none even if `view` names one; the agent is healthy."""
    tree = Tree(tmp_path)
    tree.settings(f"view: {tmp_path}/view.sock\nviewers: null\n")
    tree.sls("top", "base: {}\n")
    with Agent(tree):
        assert tree.json("status")["health"] == []

    assert not (tmp_path / "view.sock").exists()


def test_the_socket_is_open_to_root_and_one_group(viewed: ViewedAgent) -> None:
    """The mode excludes all others."""
    info = viewed.view.stat()

    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (0, GID, 0o660)
    assert "Permission denied" in as_a_stranger(lambda: told(viewed.view, "status"))


@pytest.mark.parametrize("groups", [{"groups": [GID]}, {"groups": [1, 2, GID]}, {"gid": GID}])
def test_a_member_may_look(viewed: ViewedAgent, groups: dict[str, object]) -> None:
    """The group may be the primary or a supplementary one."""
    assert as_a_stranger(lambda: told(viewed.view, "status")["ok"], **groups) == "True"


def test_a_member_of_thousands_of_groups_may_look(viewed: ViewedAgent) -> None:
    """The kernel's list of groups may have any length."""
    groups = [*range(1000, 3000), GID]

    assert as_a_stranger(lambda: told(viewed.view, "status")["ok"], groups=groups) == "True"


def test_the_mode_of_the_socket_alone_lets_nobody_in(viewed: ViewedAgent) -> None:
    """The server asks the kernel for the groups of its peer, too."""
    viewed.view.chmod(0o666)
    try:
        said = as_a_stranger(lambda: ask(viewed.view, Status()), ControlError)
    finally:
        viewed.view.chmod(0o660)

    assert said.startswith("not-permitted: cannot serve uid")
    assert f"it did not belong to the group {GROUP}" in said


@pytest.mark.parametrize("verb", sorted(verb for verb, each in requests().items() if each.viewers == "no"))
def test_other_requests_are_refused(viewed: ViewedAgent, verb: str) -> None:
    """They are refused for every user at this socket, whatever their fields are."""
    said = told(viewed.view, verb, **needed(requests()[verb]))

    assert not said["ok"]
    assert said["code"] == "not-permitted", said


LOOKS = {
    "status": {},
    "why": {"identity": "*"},
    "log": {"lines": 10_000},
    "graph": {},
    "trace": {},
    "metrics": {},
    "get": {"table": "hosts", "id": "test"},
    "list": {"table": "changes"},
}
LASTING = {"watch": {}, "subscribe": {"after": 0}}
IDENTITIES = ("open", "secret", "closed", "closed/file", "closed/edited", "printing", "failing", "rendering", "again")


def test_every_request_of_viewers_is_tested_here() -> None:
    """A new request must have a test that its answer reveals nothing private."""
    asked = {verb for verb, each in requests().items() if each.viewers != "no"}
    assert asked == LOOKS.keys() | LASTING.keys(), "add the verb, with fields of its request, to LOOKS or LASTING"


def test_viewers_learn_nothing_that_they_could_not_read(viewed: ViewedAgent) -> None:
    """No answer contains the content of a private file, an argument, or the output of a command."""
    said = b"".join(as_viewer(viewed, verb, **fields) for verb, fields in LOOKS.items() if verb != "why")
    for name in IDENTITIES:
        said += as_viewer(viewed, "why", identity=name)
    for table in ("changes", "resources", "passes", "conditions", "notes"):
        said += as_viewer(viewed, "list", table=table)
    said += as_a_stranger(lambda: first(viewed.view, "watch", 1).decode(), groups=[GID]).encode()

    assert SECRET not in said
    assert PUBLIC in said


def test_root_sees_the_same_in_full(viewed: ViewedAgent) -> None:
    """Root gets full answers at the control socket."""
    control = viewed.tree.root / "state/control.sock"
    said = b"".join(answered(control, verb, **LOOKS[verb]) for verb in ("status", "log", "list"))

    assert SECRET in said
    assert HIDDEN.encode() not in said


def test_root_gets_the_answers_of_viewers_at_their_socket(viewed: ViewedAgent) -> None:
    """The socket decides, not the user."""
    assert SECRET not in answered(viewed.view, "log", lines=10_000)


def test_an_unknown_verb_and_nonsense_are_refused(viewed: ViewedAgent) -> None:
    """The refusal has a code."""
    assert told(viewed.view, "nonsense")["code"] == "not-understood"
    assert told(viewed.view, "status", extra=1)["code"] == "not-understood"


def test_a_flood_of_viewers_keeps_nobody_from_their_work(viewed: ViewedAgent) -> None:
    """Drift is repaired, and root is answered, while a viewer asks as fast as possible and never reads.

    The test may take seconds: the flood uses a whole CPU, and requests that wait before the last one are served.
    """
    flood = os.fork()
    if flood == 0:
        os.setgroups([GID])
        os.setuid(UID)
        connections = []
        while True:
            with suppress(OSError):
                connections.append(connected(viewed.view))
                connections[-1].sendall(b'{"verb": "status"}\n' * 100)
            del connections[:-500]
    try:
        path = viewed.tree.host / "open"
        path.write_text("other")
        viewed.agent.wait(lambda: path.read_bytes().startswith(PUBLIC), "the repair")
        assert told(viewed.tree.root / "state/control.sock", "status")["ok"]
    finally:
        os.kill(flood, signal.SIGKILL)
        os.waitpid(flood, 0)

    assert told(viewed.view, "status")["ok"]
