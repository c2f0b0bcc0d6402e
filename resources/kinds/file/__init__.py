"""Files, directories and links: what is there, with which content, owner and mode."""

from __future__ import annotations

from holdfast.resources.kinds.file.absent import Absent
from holdfast.resources.kinds.file.directory import Directory
from holdfast.resources.kinds.file.edit import Append, Prepend, Replace
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.kinds.file.move import Copy, Rename
from holdfast.resources.kinds.file.presence import Exists, Missing, Touch
from holdfast.resources.kinds.file.symlink import Symlink

__all__ = ["Absent", "Append", "Copy", "Directory", "Exists", "Managed", "Missing", "Prepend", "Rename", "Replace", "Symlink", "Touch"]
