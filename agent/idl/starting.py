"""The files of a new package: an example that works, with a provider, its tests, and an agent that uses it.

They are in the folder `new`, as `NAME.in`; `holdfast idl new` fills in the words between `@` and compiles the package.
"""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path

TARGETS = ("python", "jsonschema", "docs")
"""The targets of the example, whose provider is written in Python."""
TEMPLATES = Path(__file__).parent / "new"


def files_of(name: str, folder: Path) -> dict[str, str]:
    """Return the files of a new package in a folder: path below the folder -> text."""
    words = {
        "@NAME@": name,
        "@PYTHON@": json.dumps(sys.executable),
        "@PROGRAM@": json.dumps(str(folder / "provider/main.py")),
        "@NOTES@": json.dumps(str(folder / "example/notes")),
        "@USER@": json.dumps(getpass.getuser()),
    }
    files = {}
    for path in sorted(TEMPLATES.rglob("*.in")):
        text = path.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        files[path.relative_to(TEMPLATES).with_suffix("").as_posix()] = text
    return files
