"""Files, directories and links: what is there, with which content, owner and mode."""

from __future__ import annotations

from holdfast.resources.kinds.file.absent import Absent
from holdfast.resources.kinds.file.append import Append, Prepend
from holdfast.resources.kinds.file.block import BlockReplace
from holdfast.resources.kinds.file.directory import Directory
from holdfast.resources.kinds.file.keyvalue import KeyValue
from holdfast.resources.kinds.file.line import Line
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.kinds.file.move import Copy, Rename
from holdfast.resources.kinds.file.presence import Exists, Missing, Touch
from holdfast.resources.kinds.file.pruned import Pruned
from holdfast.resources.kinds.file.recurse import Recurse
from holdfast.resources.kinds.file.replace import Comment, Replace, Uncomment
from holdfast.resources.kinds.file.symlink import Symlink

__all__ = [
    "Absent",
    "Append",
    "BlockReplace",
    "Comment",
    "Copy",
    "Directory",
    "Exists",
    "KeyValue",
    "Line",
    "Managed",
    "Missing",
    "Prepend",
    "Pruned",
    "Recurse",
    "Rename",
    "Replace",
    "Symlink",
    "Touch",
    "Uncomment",
]
