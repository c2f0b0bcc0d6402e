"""A provider that keeps notes as files in the directory of its configuration, and misbehaves on request."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from notes_stub import Count, CountFunction, CountResult, Line, Note, NoteOperations

from holdfast import plugin


class Notes(NoteOperations):
    """Notes as files; some names request misbehaviour."""

    def __init__(self) -> None:
        self.directory = Path()
        self.calls: list[str] = []
        self.changed: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def configure(self, config: Mapping[str, Any]) -> None:
        """Receive the directory."""
        self.directory = Path(config["directory"])

    async def check(self, inputs: Note) -> list[plugin.Violation]:
        """Refuse an owner."""
        self.calls.append("check")
        return [plugin.Violation("rule", "owner", "nobody may own a note")] if inputs.owner == "nobody" else []

    async def read(self, key: plugin.Key, inputs: Note) -> plugin.Found[Note] | None:
        """Read the file."""
        self.calls.append("read")
        name = key.id or str(inputs.name)
        await misbehave(name, "read", inputs)
        if not (self.directory / name).exists():
            return None
        said, _, deed = name.partition("-")
        if said == "wrong":
            return wrong(deed, self.found(name))
        return dataclasses.replace(self.found(name), differs=(deed,) if said == "differs" else ())

    async def read_many(self, wanted: Sequence[tuple[plugin.Key, Note]]) -> Sequence[Any]:
        """Fail for one name."""
        for _, inputs in wanted:
            if inputs.name == "many-fails":
                raise plugin.Permanent(f"login failed with {inputs.password.value}")
        return await super().read_many(wanted)

    async def create(self, inputs: Note) -> plugin.Found[Note]:
        """Write the file."""
        self.calls.append("create")
        self.write(inputs)
        if inputs.name == "partial":
            raise plugin.Partial("the disk was full half-way", self.found("partial"))
        await misbehave(str(inputs.name), "create", inputs)
        said, _, deed = str(inputs.name).partition("-")
        if said == "part":
            raise plugin.Partial("the disk was full", wrong(deed, self.found(str(inputs.name))))
        return wrong(deed if said == "made" else "", self.found(str(inputs.name)))

    async def update(self, found: plugin.Found[Note], inputs: Note) -> plugin.Found[Note]:
        """Write the file again."""
        self.calls.append("update")
        if found.revision and found.revision != self.found(found.id).revision:
            raise plugin.Conflict("somebody else has changed the note")
        self.write(inputs)
        return self.found(found.id)

    async def delete(self, found: plugin.Found[Note]) -> None:
        """Remove the file."""
        self.calls.append("delete")
        await misbehave(found.id, "delete", found.state)
        (self.directory / found.id).unlink(missing_ok=True)

    async def refusal(self, found: plugin.Found[Note]) -> str:
        """Return that one note cannot be deleted."""
        return "the note is kept for ever" if found.id == "kept" else ""

    async def create_once(self, inputs: Note, intent: str) -> plugin.Found[Note]:
        """Record the token of the creation."""
        self.calls += [f"intent={intent}"] if intent else []
        return await self.create(inputs)

    async def watch(self, revision: str, noop: bool) -> AsyncIterator[tuple[str, str] | plugin.Unwatched]:
        """Report what a test puts into the queue, beginning with the revision from which it resumes.

        A revision that begins with `!` is the reason why nothing is reported.
        """
        if revision == "lost":
            yield plugin.Unwatched("the server is down")
        else:
            yield "", ""
        if noop:
            yield "noop", ""
        if revision:
            yield "", revision
        while True:
            id_, revision = await self.changed.get()
            yield plugin.Unwatched(revision[1:], id_.strip("-")) if revision.startswith("!") else (id_, revision)

    async def upgrade(self, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Version 1 had one text; for version 9, return something wrong."""
        if version == 9:
            return {"name": "web"}
        return {"name": state["name"], "owner": state["owner"], "size": "0", "lines": [{"text": state["text"]}]}

    def write(self, inputs: Note) -> None:
        """Write the file."""
        lines = [] if inputs.lines is plugin.UNSET else [each.text for each in inputs.lines]
        (self.directory / str(inputs.name)).write_text(json.dumps([inputs.owner, lines]))

    def found(self, name: str) -> plugin.Found[Note]:
        """Return the note in the file."""
        path = self.directory / name
        owner, lines = json.loads(path.read_text())
        note = Note(name=name, owner=owner, lines=[Line(text=text) for text in lines], size=path.stat().st_size)
        return plugin.Found(name, note, str(path.stat().st_mtime_ns))


def wrong(deed: str, found: plugin.Found[Note]) -> Any:
    """Return an invalid state in place of the found one."""
    if deed == "nothing":
        return "web"
    if not deed:
        return found
    changes = {"size": {"size": "many"}, "missing": {"size": plugin.UNSET}, "lines": {"lines": 5}}.get(deed, {})
    return plugin.Found("" if deed == "id" else found.id, dataclasses.replace(found.state, **changes))


async def misbehave(name: str, when: str, inputs: Note) -> None:
    """Do what the name of a note says: `read-hangs`, `create-crashes`, ..."""
    said, _, deed = name.partition("-")
    if said != when:
        return
    if deed == "hangs":
        await asyncio.Event().wait()
    if deed == "crashes":
        os._exit(3)
    if deed == "floods":
        sys.stderr.write("x" * (1 << 20) + "\n")
    if deed == "raises":
        raise KeyError(f"no such thing as {inputs.password and inputs.password.value}")
    if deed == "fails":
        raise plugin.Permanent("the note is locked for ever")
    if deed == "waits":
        raise plugin.Temporary("the note is locked")


class Counting(CountFunction):
    """Counts the files; some names of owners request misbehaviour."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    async def call(self, arguments: Count) -> CountResult:
        """Read all files."""
        word, *event = arguments.owner.split(" ")
        if word == "calls":
            return CountResult(total=0, largest=" ".join(self.notes.calls))
        if word == "event":
            self.notes.changed.put_nowait(tuple(event))
        said, _, deed = arguments.owner.partition("-")
        if said == "count":
            return {"returns-nothing": CountResult(), "returns-text": CountResult(total="five")}.get(deed)
        if arguments.owner == "nobody":
            raise plugin.Permanent(f"nobody owns nothing, not even {arguments.password.value}")
        files = [each for each in self.notes.directory.iterdir() if json.loads(each.read_text())[0] == arguments.owner]
        largest = max(files, key=lambda each: each.stat().st_size, default=None)
        return CountResult(total=len(files), largest=largest.name if largest else plugin.UNSET)


if __name__ == "__main__":
    notes = Notes()
    plugin.serve((Path(__file__).parent / "schema.json").read_text(), notes, Counting(notes), configure=notes.configure)
