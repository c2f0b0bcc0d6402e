"""The files of a new package: an example that works, with a provider, its tests, and an agent that uses it.

They are in the folder `new`, as `NAME.in`: files that all packages share, and files for each language of a provider.
`holdfast idl new` fills in the words between `@` and compiles the package.
"""

from __future__ import annotations

import getpass
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("python", "jsonschema", "docs"),
    "typescript": ("typescript", "jsonschema", "docs"),
}
"""Language of the provider, which is a target -> all targets of the example."""
DECLARED: Final = "notes.py"
"""File of the declarations, in the folder `idl` of the example."""
PROVIDERS: Final[Mapping[str, str]] = {"python": "provider/main.py", "typescript": "provider/notes.ts"}
"""Language -> file with the provider of the example."""
TEMPLATES = Path(__file__).parent / "new"
NODE = "/usr/bin/node"
"""The path of Node.js, if it is not in PATH."""


def files_of(name: str, language: str, folder: Path) -> dict[str, str]:
    """Return the files of a new package in a folder: path below the folder -> text."""
    programs = {"python": "provider/main.py", "typescript": "provider/build/main.js"}
    words = {
        "@NAME@": name,
        "@PYTHON@": json.dumps(sys.executable),
        "@NODE@": json.dumps(shutil.which("node") or NODE),
        "@PROGRAM@": json.dumps(str(folder / programs[language])),
        "@NOTES@": json.dumps(str(folder / "example/notes")),
        "@USER@": json.dumps(getpass.getuser()),
        "@TARGETS@": ",".join(TARGETS[language]),
    }
    files = {}
    for root in (TEMPLATES / "shared", TEMPLATES / language):
        for path in sorted(root.rglob("*.in")):
            text = path.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            files[path.relative_to(root).with_suffix("").as_posix()] = text
    return files
