"""Opening the journal: a damaged file is put aside, a locked one is not."""

import os
import sqlite3

import pytest

from holdfast.agent.engine.deliver import database
from holdfast.agent.health import Health
from holdfast.agent.statedir import open_journal, private_directory
from holdfast.resources.errors import HoldfastError
from strangers import as_a_stranger, open_directory

EDGE = ("a", "b", "watch")


def journal_with_a_pending_refresh(path):
    """Make a journal in which the change of `a` has not been delivered to `b`."""
    journal = open_journal(path, Health(), durable=False)
    journal.adopt([EDGE], {"a": "a", "b": "b"})
    journal.changed("a", [EDGE])
    journal.close()


def test_a_damaged_journal_is_put_aside(tmp_path):
    """The agent starts without it, and health says what is lost."""
    path, health = tmp_path / "journal.db", Health()
    path.write_bytes(b"this is no database" * 100)

    open_journal(path, health, durable=False).close()

    assert [condition.code for condition in health.conditions] == ["journal-lost"]
    assert path.with_suffix(".damaged").read_bytes().startswith(b"this is no database")


def test_a_locked_journal_is_not_lost(tmp_path, monkeypatch):
    """Another process writes to it. The error is one line, and the content remains."""
    path, health = tmp_path / "journal.db", Health()
    journal_with_a_pending_refresh(path)
    monkeypatch.setattr(database, "BUSY", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("pragma locking_mode = exclusive")
    other.execute("begin exclusive")
    other.execute("insert into intent values ('x')")

    with pytest.raises(
        HoldfastError, match=r"cannot open the journal .*journal.db: database is locked; nothing in it is lost"
    ):
        open_journal(path, health, durable=False)
    other.execute("rollback")
    other.close()

    journal = open_journal(path, health, durable=False)
    assert journal.pending(EDGE)
    assert health.conditions == ()
    journal.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_create_the_directory_is_told_so():
    """The error is a sentence that says what to do."""
    with open_directory() as top:
        said = as_a_stranger(lambda: private_directory(top / "state"), HoldfastError)

    advice = "permission denied; run as root, or use another --state-dir"
    assert said == f"cannot keep state in {top}/state: {advice}"
