"""What the compiler will generate for the package of the tests, written by hand."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import plugin


@dataclass(frozen=True, kw_only=True)
class Line(plugin.Struct):
    """A line of a note."""

    text: str
    number: int | plugin.Unset = plugin.UNSET


@dataclass(frozen=True, kw_only=True)
class Note(plugin.Struct):
    """A note, which the provider keeps as a file."""

    name: str | plugin.Unset = plugin.UNSET
    owner: str | plugin.Unset = plugin.UNSET
    lines: list[Line] | plugin.Unset = plugin.UNSET
    size: int | plugin.Unset = plugin.UNSET
    password: plugin.Secret | plugin.Unset | None = plugin.UNSET


class NoteOperations(plugin.Operations[Note]):
    """Operations on notes."""

    token = "notes:note:Note"
    struct = Note


@dataclass(frozen=True, kw_only=True)
class Count(plugin.Struct):
    """Count the notes of an owner."""

    owner: str
    password: plugin.Secret | plugin.Unset = plugin.UNSET


@dataclass(frozen=True, kw_only=True)
class CountResult(plugin.Struct):
    """What `Count` returns."""

    total: int | plugin.Unset = plugin.UNSET
    largest: str | plugin.Unset = plugin.UNSET


class CountFunction(plugin.Function[Count, CountResult]):
    """Derive from this class, and write call."""

    token = "notes:note:Count"
    arguments = Count
    result = CountResult
