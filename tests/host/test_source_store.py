"""Health reports a source whose copy failed while the copy is needed; copying is tried again."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.configuration_files import MadeFrom
from holdfast.agent.host import source_store
from holdfast.agent.host.source_snapshot import SourceSnapshot, SourceVersion
from holdfast.agent.host.source_store import SourceStore, digest_of
from holdfast.agent.host.sources import opened


@pytest.fixture
def store(tmp_path: Path) -> SourceStore:
    """Return an empty store."""
    return SourceStore(str(tmp_path))


def test_a_missing_copy_is_reported_until_it_is_not_needed(store: SourceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeping a smaller source afterwards does not hide the report."""
    monkeypatch.setattr(source_store, "BYTES", 10)
    large, small = b"x" * 11, b"x"
    for data in (large, small):
        store.put(digest_of(data), data)

    assert "no more than" in store.trouble
    assert (store.get(digest_of(large)), store.get(digest_of(small))) == (None, small)
    store.drop({digest_of(small)})
    assert store.trouble == ""


def test_a_copy_that_failed_on_a_full_disk_is_made_at_the_next_reload(
    store: SourceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`holdfast reload`, which health suggests, is enough, although the source looks unchanged."""
    source = tmp_path / "source"
    source.write_bytes(b"content")
    os.utime(source, (1, 1))
    snapshot = SourceSnapshot(str(tmp_path), store)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(source_store, "_write", full)
        first = snapshot.look(lambda: opened(str(source), trusted=True), None)
    assert first is not None
    assert "No space left on device; run `holdfast reload`" in store.trouble
    pin = SourceVersion(first.digest, opened(str(source), trusted=True).metadata)

    assert snapshot.look(lambda: opened(str(source), trusted=True), pin) is not None
    assert (store.trouble, store.get(pin.digest)) == ("", b"content")


def test_nothing_waits_for_a_copy_that_is_being_written(store: SourceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk writes a copy slowly, or never, the event loop can use the store."""
    store.put(digest_of(b"old"), b"old")
    begun, disk = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        disk.wait(DEADLINE)

    monkeypatch.setattr(source_store, "_write", slow)
    writer = threading.Thread(target=store.put, args=(digest_of(b"new"), b"new"), daemon=True)
    writer.start()
    assert begun.wait(DEADLINE)
    asked = threading.Thread(
        target=lambda: (store.trouble, store.lacks(""), store.get(digest_of(b"old")), store.drop({})), daemon=True
    )
    asked.start()
    asked.join(DEADLINE / 2)
    assert not asked.is_alive()
    disk.set()
    writer.join(DEADLINE)
    assert not writer.is_alive()


def test_a_large_source_is_not_mistaken_for_a_changed_one(store: SourceStore, tmp_path: Path) -> None:
    """A source that is too large for a copy is compared by its status, so it is no change when it is first read."""
    large = tmp_path / "large"
    large.write_bytes(b"")
    os.truncate(large, source_store.FILE + 1)
    pin = SourceSnapshot(str(tmp_path), store).look(lambda: opened(str(large), trusted=True), None)
    assert pin is not None
    made = MadeFrom(lambda: [(str(large), pin.digest)])

    assert made.unchanged({str(large)}, others=False) == {str(large)}
    os.utime(large, (1, 1))
    assert made.unchanged({str(large)}, others=False) == set()
