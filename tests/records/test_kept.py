"""Kept content that no record refers to is removed; the rest stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.agent.host.kept import KEPT, KeptFiles
from holdfast.agent.kept_bounds import KEPT_BOUNDS
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records import kept as module
from holdfast.agent.records.kept import KeptCleaner
from holdfast.resources.replaced import ReplacedFile
from record_desk import Desk, outcome


@pytest.fixture
def files(tmp_path: Path) -> KeptFiles:
    """The kept content beside the records."""
    return KeptFiles(str(tmp_path), KEPT_BOUNDS, durable=False)


def old(tmp_path: Path, digest: str) -> str:
    """Let content be two hours old; return its name."""
    path = tmp_path / KEPT / digest
    then = path.stat().st_mtime - 7200
    os.utime(path, (then, then))
    return digest


async def test_what_a_record_refers_to_stays(
    desk: Desk, files: KeptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there are many pages of records, and some cannot be read. New content stays in any case."""
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    needed, unneeded, new = (files.keep(text) for text in (b"needed", b"unneeded", b"new"))
    replaced = (ReplacedFile("/etc/motd", old(tmp_path, needed)), ReplacedFile("/etc/key", lost="private"))
    old(tmp_path, unneeded)
    await desk.changes(*(outcome(comment=str(each)) for each in range(5)), outcome(replaced=replaced))
    broken = [Put("changes", f"{number:012}", data) for number, data in enumerate((b'{"replaced"', b'["replaced"]'))]
    await desk.records.driver.commit(DbTransaction(broken))
    await KeptCleaner(desk.records, files).clean()

    assert {each.name for each in (tmp_path / KEPT).iterdir()} == {needed, new}


async def test_without_old_content_no_record_is_read(desk: Desk, files: KeptFiles) -> None:
    """The cost is that of listing a directory."""
    files.keep(b"new")
    await desk.records.close()
    await KeptCleaner(desk.records, files).clean()


async def test_records_that_cannot_be_read_end_neither_the_task_nor_the_content(
    desk: Desk, files: KeptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round tries again."""
    monkeypatch.setattr(module, "BEGIN", 0.0)
    monkeypatch.setattr(module, "PERIOD", 0.0)
    digest = old(tmp_path, files.keep(b"unneeded"))
    cleaner, failed, scan = KeptCleaner(desk.records, files), asyncio.Event(), desk.records.driver.scan

    async def refuse(*_: object, **__: object) -> object:
        failed.set()
        raise NorthboundError("the disk does not answer")

    monkeypatch.setattr(desk.records.driver, "scan", refuse)
    task = asyncio.create_task(cleaner.run())
    await failed.wait()
    assert files.read(digest) == b"unneeded"
    monkeypatch.setattr(desk.records.driver, "scan", scan)
    while files.read(digest) is not None:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
