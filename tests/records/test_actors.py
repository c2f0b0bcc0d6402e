"""Who asked the agent for something."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdfast.agent.control.connection import Peer
from holdfast.agent.records.actors import actor_of, described


def no_answer(_: int) -> None:
    """Stand for a name service that hangs."""
    raise AssertionError("a name service was asked")


def test_the_agent_asks_no_name_service_for_who_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a service may block, and requests are handled in the event loop."""
    monkeypatch.setattr(pwd, "getpwuid", no_answer)
    found = actor_of(Peer(os.getpid(), os.geteuid()))
    assert (found["pid"], found["uid"], found["way"]) == (os.getpid(), os.geteuid(), "socket")
    assert found["name"] == Path("/proc/self/comm").read_text(encoding="utf-8").strip()


def test_a_client_that_has_ended_is_a_number() -> None:
    """Its user is known from the connection."""
    assert actor_of(Peer(2**22 + 1, 7)) == {"pid": 2**22 + 1, "uid": 7, "name": "", "login": "", "way": "socket"}


def test_a_login_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account may have been removed, or be known to a name service only."""

    def removed(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", removed)
    assert described({"pid": 9, "name": "vim", "uid": 4242}) == "vim, pid 9, user 4242"
