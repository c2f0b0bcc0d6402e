"""Copies of sources: what could not be kept is said for as long as it is needed, and tried again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.agent.host import kept
from holdfast.agent.host.edition import Edition, Pin
from holdfast.agent.host.kept import Store, digest_of
from holdfast.agent.host.sources import opened


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one."""
    return Store(str(tmp_path))


def test_what_found_no_room_is_told_until_it_is_not_needed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller source that is kept after it does not hide that."""
    monkeypatch.setattr(kept, "BYTES", 10)
    large, small = b"x" * 11, b"x"
    for data in (large, small):
        store.put(digest_of(data), data)

    assert "no more than" in store.trouble
    assert (store.get(digest_of(large)), store.get(digest_of(small))) == (None, small)
    store.drop({digest_of(small)})
    assert store.trouble == ""


def test_what_a_full_disk_did_not_take_is_kept_when_all_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the source looks as it did: `holdfast reload`, which health names, is enough."""
    source = tmp_path / "source"
    source.write_bytes(b"content")
    os.utime(source, (1, 1))
    edition = Edition(str(tmp_path), store)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept, "_write", full)
        first = edition.look(lambda: opened(str(source), trusted=True), None)
    assert first is not None
    assert "No space left on device; run `holdfast reload`" in store.trouble
    pin = Pin(first.digest, opened(str(source), trusted=True).looks)

    assert edition.look(lambda: opened(str(source), trusted=True), pin) is not None
    assert (store.trouble, store.get(pin.digest)) == ("", b"content")
