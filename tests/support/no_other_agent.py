"""Hides the agent that is installed on this machine, and its settings, from the tests and from what they start."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

NEW_MOUNTS, RECURSIVE, SLAVE = 0x00020000, 1 << 14, 1 << 19
"""CLONE_NEWNS, MS_REC, MS_SLAVE: mounts of the host still arrive here, and those of the tests do not arrive there."""


def hide_other_agent(directories: Sequence[Path] = (Path("/run/holdfast"), Path("/etc/holdfast"))) -> None:
    """Mount an empty directory over each directory that has an entry, for this process and its children.

    Otherwise, a test of `apply` fails on a machine with an agent, because that agent manages other states. Only root
    can mount; an agent does not answer other users anyway.
    """
    found = [directory for directory in directories if directory.is_dir() and any(directory.iterdir())]
    if os.geteuid() != 0 or not found:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _demand(libc.unshare(NEW_MOUNTS), "a mount namespace")
    _demand(libc.mount(None, b"/", None, RECURSIVE | SLAVE, None), "/")
    for directory in found:
        _demand(libc.mount(b"tmpfs", os.fsencode(directory), b"tmpfs", 0, b"mode=755"), str(directory))


def _demand(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"cannot hide the agent of this machine: {what}")
