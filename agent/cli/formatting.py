"""The work of `fmt`: write state files in their canonical form, atomically."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource
from holdfast.agent.cli.terminal import say
from holdfast.agent.phrases import number_of
from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.visible import clean
from holdfast.states.errors import CompileError, Problem
from holdfast.states.format.formatter import format_text
from holdfast.states.source.files import LIMIT
from holdfast.states.source.hostfiles import absolute
from holdfast.states.source.refusals import decode, display, refuse, too_large

STDIN = "<stdin>"


@dataclass(frozen=True, slots=True)
class File:
    """A state file before and after formatting."""

    name: str
    old: str
    new: str
    kept: tuple[str, ...] = ()
    place: paths.Place | None = None
    """The real file, symbolic links followed; None for standard input."""
    info: os.stat_result | None = None
    """The status of the file when it was read."""

    @property
    def changed(self) -> bool:
        """Whether the file is not in its canonical form."""
        return self.old != self.new

    @property
    def diff(self) -> str:
        """The changes as a unified diff."""
        lines = difflib.unified_diff(list(StringIO(self.old)), list(StringIO(self.new)), self.name, self.name)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(slots=True)
class FormatCounts:
    """Counts of the results."""

    changed: int = 0
    same: int = 0
    refused: int = 0
    failed: int = 0

    def code(self, *, dry: bool) -> int:
        """Return the exit code."""
        if self.refused or self.failed:
            return ExitCode.FAILED if self.failed else ExitCode.UNUSABLE
        return ExitCode.CHANGES if dry and self.changed else ExitCode.DONE


def run(paths: tuple[Path, ...], source: ConfigurationSource, *, check: bool, diff: bool, verbose: bool) -> int:
    """Format the files, print the results, and return the exit code. Raises `UsageError`."""
    if Path("-") in paths:
        if len(paths) > 1:
            raise click.UsageError("'-' excludes other paths: standard input is one file")
        return _filter(check=check, diff=diff, verbose=verbose)
    dry, tally = check or diff, FormatCounts()
    for path in _files(paths or _default(source), tally):
        try:
            file = _read(path)
        except CompileError as error:
            tally.refused += 1
            _complain(error.problems)
            continue
        if verbose:
            _complain(file.kept)
        _treat(file, tally, check=check, diff=diff)
    _summarise(tally, dry=dry)
    return tally.code(dry=dry)


def _default(source: ConfigurationSource) -> tuple[Path, ...]:
    """Return the states directory."""
    try:
        return (source.settings().states,)
    except CompileError as error:
        _complain(error.problems)
        raise click.exceptions.Exit(ExitCode.UNUSABLE) from error


def _treat(file: File, tally: FormatCounts, *, check: bool, diff: bool) -> None:
    """Show or write the result for a file."""
    if not file.changed:
        tally.same += 1
        return
    if not check and not diff:
        try:
            _write(file)
        except (OSError, paths.Unsafe) as error:
            tally.failed += 1
            say(f"{file.name}: cannot write the file: {getattr(error, 'strerror', None) or error}", err=True)
            return
    tally.changed += 1
    if diff:
        click.echo(clean(file.diff) if sys.stdout.isatty() else file.diff, nl=False)
    else:
        say(f"{'would format' if check else 'formatted'} {file.name}")


def _filter(*, check: bool, diff: bool, verbose: bool) -> int:
    """Format standard input to standard output. Text that cannot be formatted is passed on unchanged."""
    content = sys.stdin.buffer.read()
    try:
        old = decode(Path(STDIN), content)
        result = format_text(old, STDIN)
    except CompileError as error:
        _complain(error.problems)
        if not check and not diff:
            click.echo(content, nl=False)
        return ExitCode.UNUSABLE
    file = File(STDIN, old, result.text, result.kept)
    if verbose:
        _complain(file.kept)
    if diff:
        click.echo(clean(file.diff) if sys.stdout.isatty() else file.diff, nl=False)
    elif check and file.changed:
        click.echo(f"would format {STDIN}")
    elif not check:
        click.echo(file.new.encode(), nl=False)
    return FormatCounts(changed=file.changed).code(dry=check or diff)


def _files(paths: Iterable[Path], tally: FormatCounts) -> Iterator[Path]:
    """Yield the named files and the `*.sls` below directories, each once, sorted by path."""
    seen: set[str] = set()
    for path in paths:
        for file in _below(path, tally) if path.is_dir() else (path,):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file


def _below(directory: Path, tally: FormatCounts) -> list[Path]:
    """Return all state files below a directory.

    Links in the directory are ignored: their targets are formatted where they are.
    """

    def fail(error: OSError) -> None:
        tally.refused += 1
        _complain(
            refuse(error.filename, "source-unreadable", f"cannot read the directory: {error.strerror}", "").problems
        )

    found: list[Path] = []
    for parent, directories, files in os.walk(directory, onerror=fail):
        directories[:] = [name for name in directories if not name.startswith(".")]
        names = (Path(parent, name) for name in files if name.endswith(".sls") and not name.startswith("."))
        found += [path for path in names if not path.is_symlink()]
    return sorted(found)


def _read(path: Path) -> File:
    """Return a file, formatted. Raises `CompileError`."""
    try:
        place = paths.at(absolute(path), follow=True)
        handle, info = place.open()
        with open(handle.fd, "rb", closefd=False) as stream:
            content = stream.read(LIMIT + 1)
    except paths.Unsafe as error:
        raise refuse(path, "source-owner", str(error), "") from error
    except Permanent as error:
        raise refuse(path, "source-unreadable", "this is not a regular file", "") from error
    except (OSError, ValueError) as error:
        raise refuse(
            path, "source-unreadable", f"cannot read the file: {getattr(error, 'strerror', None) or error}", ""
        ) from error
    if len(content) > LIMIT:
        raise too_large(path, LIMIT)
    old = decode(path, content)
    result = format_text(old, display(path))
    return File(display(path), old, result.text, result.kept, place, info)


def _write(file: File) -> None:
    """Replace a file; keep mode, owner and attributes.

    Raises `OSError`, and `Unsafe` if another user could replace the file.
    """
    from holdfast.agent.host.files import Replacement

    if file.place is None or file.info is None:
        return
    now = file.place.look() or file.info
    if os.geteuid() == 0 and file.place.who(now):
        raise paths.Unsafe(f"{file.place.directory.reason or 'others may write its directory'}; format it as that user")
    if now.st_nlink > 1:
        raise OSError(f"it has {now.st_nlink} names (hard links), and would be separated from the others")
    replacement = Replacement(
        file.place, file.new.encode(), stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid, durable=True
    )
    try:
        replacement.fill()
        _demand_same(file.place, file.info)
        replacement.commit()
    except BaseException:
        replacement.discard()
        raise


def _demand_same(place: paths.Place, info: os.stat_result) -> None:
    """Check directly before a file is replaced that it has not changed since it was read. Raises `OSError`."""
    now = place.look()
    if now is None or _looks(now) != _looks(info):
        raise OSError("it has just been changed; format it again")


def _looks(info: os.stat_result) -> tuple[int, ...]:
    """Return the metadata that change with the file."""
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def _summarise(tally: FormatCounts, *, dry: bool) -> None:
    """Print the last line of the output."""
    words = [
        f"{number_of(tally.changed, 'file')} {'would be ' if dry else ''}formatted" if tally.changed else "",
        f"{number_of(tally.same, 'file')} already formatted" if tally.same else "",
        f"{tally.refused} cannot be formatted" if tally.refused else "",
        f"{tally.failed} cannot be written" if tally.failed else "",
    ]
    click.echo(", ".join(word for word in words if word) or "no state files found", err=True)


def _complain(problems: Iterable[Problem | str]) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
