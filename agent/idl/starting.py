"""The files of a new package: the manifest, and one source with one resource as an example.

The provider and its tests are to be added to `files_of`, below `provider/`; whatever stands in that mapping is written
by `holdfast idl new`, which compiles the package afterwards.
"""

from __future__ import annotations

MANIFEST = """name: {name}
version: 0.1.0
description: Resources of {name}.
"""
SOURCE = '''"""Resources of {name}."""

from typing import Annotated

from holdfast import idl

Title = Annotated[str, idl.limits(shortest=1, longest=80)]
"""Text in one line."""


class Note(idl.NamedResource, poll=60):
    """A note with a title.

    reminder:
      {name}.note:
        - title: water the plants
    """

    title: Title
    """What the note says first."""
    lines: list[str] = idl.field(default=[])
    """The rest of the note."""
    note_id: str = idl.field(out=True)
    """Identifier that the service has given to the note."""
'''


def files_of(name: str) -> dict[str, str]:
    """Return the files of a new package: path below its folder -> text."""
    return {
        "idl/package.yaml": MANIFEST.format(name=name),
        "idl/notes.py": SOURCE.format(name=name),
    }
