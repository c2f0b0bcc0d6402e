"""The notes package as a plugin of an agent, with its settings in agent.yaml."""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path

import yaml

from holdfast_process import Tree
from notes_package import HOME, SCHEMA

ME = pwd.getpwuid(os.geteuid()).pw_name
SAYING = """notes = Notes()
    import resource
    beside = Path(sys.argv[0]).parent
    (beside / "pid").write_text(str(os.getpid()))
    (beside / "limits").write_text(f"files {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}")
"""
"""Code that the provider runs at its start: it writes its process id and a limit to a file."""


def notes_tree(directory: Path) -> Tree:
    """Return a configuration with the plugin of the notes, and two notes, in a directory."""
    directory.chmod(0o755)
    (directory / "notes_stub.py").write_text((HOME / "notes_stub.py").read_text())
    provider = (HOME / "provider.py").read_text().replace("notes = Notes()\n", SAYING)
    (directory / "provider.py").write_text(provider)
    (directory / "schema.json").write_text(SCHEMA)
    (directory / "notes").mkdir()
    for name, owner in (("web", "me"), ("mail", "you")):
        (directory / "notes" / name).write_text(json.dumps([owner, []]))
    tree = Tree(directory / "tree")
    notes = {
        "schema": str(directory / "schema.json"),
        "command": [sys.executable, str(directory / "provider.py")],
        "user": ME,
        "files": 512,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {"directory": str(directory / "notes")},
    }
    tree.settings(yaml.safe_dump({"plugins": {"notes": notes}}))
    return tree
