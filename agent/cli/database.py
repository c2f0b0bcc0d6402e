"""The work of `db`: the database of records is checked, compacted, exported and imported."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import say
from holdfast.agent.health import Health
from holdfast.agent.northbound.errors import AlreadyExists, NorthboundError, Unavailable
from holdfast.agent.northbound.privacy import for_root
from holdfast.agent.phrases import number_of
from holdfast.agent.records.copies import Lines, lines, problems
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.records.records import Records
from holdfast.agent.records.remote_records import RememberedResource, all_in
from holdfast.agent.records.retention import MIB, Retention
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import private_directory
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.source.hostfiles import absolute


def check(path: Path, form: str) -> None:
    """Print what is wrong with the records. Raises click's `Exit`, and `HoldfastError` if they cannot be opened."""
    found = []
    with RecordReader(path) as reader:
        for each in _problems(reader):
            found.append(each)
            if form == "text":
                say(each)
    if form == "json":
        print_json({"path": str(path), "problems": found})
    else:
        say(f"{path}: {number_of(len(found), 'problem') if found else 'everything can be read'}")
    if found:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _problems(reader: RecordReader) -> Iterator[str]:
    """Yield what is wrong; the last item says why no more can be read, if that is so."""
    try:
        yield from problems(reader)
    except Unavailable as error:
        yield str(error)


def compact(path: Path, settings: Settings) -> None:
    """Remove old records, and make the file smaller. Raises `HoldfastError`."""
    with RecordReader(path):  # raises if there is none: it must not be created
        before = path.stat().st_size
    removed = asyncio.run(_compacted(path, settings))
    after = path.stat().st_size
    say(f"removed {number_of(removed, 'record')}; {path} has {after / MIB:.1f} MiB, and had {before / MIB:.1f} MiB")


async def _compacted(path: Path, settings: Settings) -> int:
    async with _owned(path, settings) as records:
        removed = await Retention(records, lambda: settings.records).apply()
        await records.driver.vacuum()
        return removed


def remote(path: Path, form: str) -> None:
    """Print the remote resources that are remembered. Raises `HoldfastError`."""
    with RecordReader(path) as reader:
        found = list(all_in(reader))
    if form == "json":
        print_json([_shown(each) for each in found])
    elif not found:
        say("no remote resource is remembered")
    else:
        for each in found:
            told = each.identifier or "its creation has begun, and its outcome is unknown"
            say(f"{each.token} {each.name}: {told}{' (unfinished)' if each.unfinished else ''}")


def _shown(record: RememberedResource) -> dict[str, Any]:
    """Return a record for JSON. Its hash is of use to the agent alone; an imported state may be any text."""
    row = for_root(record)
    del row["hidden"]
    state: Any = record.state or None
    with suppress(ValueError, RecursionError):
        state = json.loads(record.state)
    return {**row, "state": state}


def export(path: Path, output: Path | None) -> None:
    """Write all records to a new file, or to stdout. Raises `HoldfastError` and `OSError`."""
    with RecordReader(path) as reader:
        if output is None:
            for line in lines(reader):
                sys.stdout.buffer.write(line)
            sys.stdout.flush()
            return
        _write(output, reader)


def _write(output: Path, reader: RecordReader) -> None:
    """Write all records to a file that does not exist, with mode 0600; it is removed if that fails."""
    try:
        place = paths.at(absolute(output))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(place.at, flags, 0o600, dir_fd=place.fd)
    except paths.Unsafe as error:
        raise HoldfastError(f"cannot write {output}: {error}") from None
    except FileExistsError:
        raise HoldfastError(f"cannot write {output}: it exists; name a new file") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            number = sum(1 for line in lines(reader) if file.write(line))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(place.at, dir_fd=place.fd)
        raise
    say(f"{output}: {number_of(number, 'record')}")


def import_(path: Path, settings: Settings, source: Path, *, replace: bool) -> None:
    """Read records from a file or from stdin. Raises `HoldfastError` and `OSError`."""
    private_directory(path.parent)
    with open(0, "rb", closefd=False) if source == Path("-") else source.open("rb") as file:
        found = Lines(file)
        try:
            number = asyncio.run(_imported(path, settings, found, replace=replace))
        except Unavailable:
            raise
        except NorthboundError as error:
            hint = "; --replace replaces records that exist" if isinstance(error, AlreadyExists) else ""
            raise HoldfastError(f"{source}, line {found.number}: {error}; nothing was imported{hint}") from None
    say(f"imported {number_of(number, 'record')}")


async def _imported(path: Path, settings: Settings, found: Lines, *, replace: bool) -> int:
    async with _owned(path, settings) as records:
        return await records.driver.load(found, replace=replace)


@asynccontextmanager
async def _owned(path: Path, settings: Settings) -> AsyncIterator[Records]:
    """Yield the open database, which no agent uses meanwhile. Raises `Unavailable` if one does."""
    records = Records(path.parent, Health(), agent=True, durable=settings.durable)
    try:
        await records.open()
    except Unavailable as error:
        raise Unavailable(f"{error}; nothing was done") from error
    try:
        yield records
    finally:
        await records.close()
        if records.driver.renewed:
            say(records.driver.renewed, err=True)
