"""The paths of an agent's files.

This module is fast to import: a client that asks a running agent needs it first, and needs no settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths import trusted_uids
from holdfast.states.errors import CompileError
from holdfast.states.parse.loader import parse_yaml
from holdfast.states.parse.marks import Document, Map
from holdfast.states.source.files import Tree, exists
from holdfast.states.source.hostfiles import absolute
from holdfast.states.source.refusals import refuse

CONFIG = Path("/etc/holdfast/agent.yaml")
"""The default path of the settings."""
STATE_DIR = Path("/var/lib/holdfast")
"""The state directory of an installed agent; its control socket is below /run."""
RUN_DIR = Path("/run/holdfast")
RECORDS = "records.db"
"""Name of the file of records in the state directory."""


def default_socket(state_dir: Path) -> Path:
    """Return the control socket of an agent whose settings name none."""
    return (RUN_DIR if state_dir == STATE_DIR else state_dir) / "control.sock"


def default_view_socket(state_dir: Path, control: Path | None) -> Path | None:
    """Return the socket for viewers of an agent whose settings name none; only an installed agent has one."""
    return RUN_DIR / "view.sock" if state_dir == STATE_DIR and control is None else None


class Sockets(NamedTuple):
    """The sockets at which an agent listens."""

    control: Path
    view: Path | None
    """The socket for viewers."""


def sockets_of(path: Path | None, overrides: Mapping[str, Any]) -> Sockets:
    """Return the sockets of the agent with these settings.

    Works also when the settings are broken now: a running agent keeps its last good ones. `overrides` (from the command
    line) take precedence over the file. Raises `CompileError` if the location is unknown: the file cannot be read, and
    no agent listens at the default location.
    """
    state_dir, found, unread = _located(path, overrides)
    base = (path or CONFIG).absolute().parent
    control = anchored(found["control"], base) if "control" in found else None
    view = anchored(found["view"], base) if "view" in found else default_view_socket(state_dir, control)
    view = None if found.get("viewers", "") is None else view
    socket = control or default_socket(state_dir)
    if unread is not None and _is_missing(socket):
        raise unread
    return Sockets(socket, view)


def socket_of(path: Path | None, overrides: Mapping[str, Any]) -> Path:
    """Return the control socket of the agent with these settings. Raises as `sockets_of`."""
    return sockets_of(path, overrides).control


def state_dir_of(path: Path | None, overrides: Mapping[str, Any]) -> Path:
    """Return the state directory of the agent with these settings, in the same way. Raises `CompileError`."""
    state_dir, _, unread = _located(path, overrides)
    if unread is not None and _is_missing(state_dir):
        raise unread
    return state_dir


def _located(path: Path | None, overrides: Mapping[str, Any]) -> tuple[Path, Mapping[str, str], CompileError | None]:
    """Return the state directory, the locations in the settings file, and the error if that cannot be read.

    Raises `CompileError` if the file does not exist.
    """
    file = (path or CONFIG).absolute()
    found, unread = _locations(file)
    if unread is not None and path is not None and not exists(path) and not overrides.get("state_dir"):
        raise unread  # the name is probably mistyped
    if path is None and _is_missing(file):
        unread = None
    return anchored(overrides.get("state_dir") or found.get("state_dir", STATE_DIR), file.parent), found, unread


def _locations(file: Path) -> tuple[dict[str, Any], CompileError | None]:
    """Return the valid settings with the locations of the agent's own files, and the error if they cannot be read."""
    try:
        _, values = read_settings(file)
    except CompileError as error:
        return {}, error
    located = {name: values[name] for name in ("state_dir", "control", "view") if is_location(values.get(name))}
    return located | ({"viewers": None} if values.get("viewers", "") is None else {}), None


def is_location(value: object) -> bool:
    """Return whether the value can be a path."""
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_missing(path: Path) -> bool:
    """Return whether the path certainly does not exist."""
    try:
        return paths.at(absolute(path)).look() is None
    except (OSError, paths.Unsafe) as error:
        return isinstance(error, (FileNotFoundError, NotADirectoryError))


def demand_safe(path: Path, doing: str, advice: str) -> None:
    """Raise `HoldfastError` if an untrusted user could replace the path or, if it is missing, create it.

    Raises `OSError`.
    """
    try:
        found = paths.nearest(absolute(path))
    except paths.Unsafe as error:
        raise HoldfastError(f"cannot {doing} {path}: {error}; {advice}") from error
    if found.holders:
        raise HoldfastError(f"cannot {doing} {path}: {found.reason}; {advice}")


def anchored(path: Path | str, base: Path) -> Path:
    """Return the absolute path; a relative one is taken from `base`."""
    return Path(os.path.normpath(base / path))


def read_settings(path: Path) -> tuple[Document, Map]:
    """Return the content of agent.yaml, not validated. Raises `CompileError`."""
    if not exists(path):
        raise refuse(path, "source-missing", "it does not exist", "omit --config to use the defaults")
    return read_mapping(path)


def read_mapping(path: Path) -> tuple[Document, Map]:
    """Return the mapping in a YAML file that only trusted users can write. Raises `CompileError`."""
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
