"""Where an agent's files are. Light to import: who asks a running agent something waits for this first, and needs no settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths import trusted_uids
from holdfast.states.errors import CompileError
from holdfast.states.hostfiles import absolute
from holdfast.states.marks import Document, Map
from holdfast.states.parse import parse_yaml
from holdfast.states.source import Tree, exists, refuse

CONFIG = Path("/etc/holdfast/agent.yaml")
"""Where the settings are unless the operator says otherwise."""
STATE_DIR = Path("/var/lib/holdfast")
"""Where an installed agent remembers; its control socket is then below /run."""
RUN_DIR = Path("/run/holdfast")


def default_socket(state_dir: Path) -> Path:
    """Where an agent listens whose settings do not say."""
    return (RUN_DIR if state_dir == STATE_DIR else state_dir) / "control.sock"


def socket_of(path: Path | None, overrides: Mapping[str, Any]) -> Path:
    """Where the agent with these settings listens, even when they are broken now: a running agent keeps those of before.

    `overrides` (from the command line) win over the file. Raises `CompileError` when nothing says where, and when the file could
    not be read and there is no agent where one is without it.
    """
    file, values, unread = (path or CONFIG).absolute(), Map(), None
    try:
        _, values = read_settings(file)
    except CompileError as error:
        if path is not None and not exists(path) and not overrides.get("state_dir"):
            raise  # a name mistyped
        unread = error if path is not None or not _is_missing(file) else None
    found = {name: values[name] for name in ("state_dir", "control") if is_location(values.get(name))}
    state_dir = anchored(overrides.get("state_dir") or found.get("state_dir", STATE_DIR), file.parent)
    socket = anchored(found["control"], file.parent) if "control" in found else default_socket(state_dir)
    if unread is not None and _is_missing(socket):
        raise unread
    return socket


def is_location(value: object) -> bool:
    """Whether there can be a path of this name."""
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_missing(path: Path) -> bool:
    """Whether it is certain that there is no such thing."""
    try:
        return paths.at(absolute(path)).look() is None
    except (OSError, paths.Unsafe) as error:
        return isinstance(error, (FileNotFoundError, NotADirectoryError))


def demand_safe(path: Path, doing: str, advice: str) -> None:
    """Refuse a path if an untrusted user could put something else there, or where it is to be made. Raises `HoldfastError` and `OSError`."""
    try:
        found = paths.nearest(absolute(path))
    except paths.Unsafe as error:
        raise HoldfastError(f"cannot {doing} {path}: {error}; {advice}") from error
    if found.holders:
        raise HoldfastError(f"cannot {doing} {path}: {found.reason}; {advice}")


def anchored(path: Path | str, base: Path) -> Path:
    """A path made absolute, if it is relative below `base`."""
    return Path(os.path.normpath(base / path))


def read_settings(path: Path) -> tuple[Document, Map]:
    """What agent.yaml says, unjudged. Raises `CompileError`."""
    if not exists(path):
        raise refuse(path, "source-missing", "it does not exist", "leave --config out to run with the defaults")
    return read_mapping(path)


def read_mapping(path: Path) -> tuple[Document, Map]:
    """A YAML file that holds one mapping, and nobody else may write. Raises `CompileError`."""
    tree = Tree(path.parent, trusted_uids())
    document = Document(str(path), tree.read(path).text, data=True)
    values = parse_yaml(document, document.text)
    if values is None:
        values = Map()
    if not isinstance(values, Map):
        message = "this file must hold a mapping: names, each with a value"
        raise CompileError(
            [document.problem(document.beginning(values), "settings-shape", message, "write 'name: value'")]
        )
    return document, values
