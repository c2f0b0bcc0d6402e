"""Functions on files: paths as text, files of this host, files of the states directory."""

# ruff: noqa: ARG001, ARG005 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import grp
import hashlib
import os
import posixpath
import pwd
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.expressions import expression
from holdfast.states.helpers.table import helper, looking, plain
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import HostView

ACCESS = {"f": os.F_OK, "r": os.R_OK, "w": os.W_OK, "x": os.X_OK}
"""Mode of `file.access` -> constant of the system."""
TYPES = (
    (stat.S_ISDIR, "dir"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISREG, "file"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
)
"""Test of a mode -> the word for that type."""

plain(
    file__dirname=posixpath.dirname,
    file__basename=posixpath.basename,
    file__join=posixpath.join,
    file__normpath=posixpath.normpath,
    file__pardir=lambda: os.pardir,
)


def _home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - text in, text out


def _test(name: str, test: Callable[[str], bool]) -> None:
    looking(name)(lambda view, path: test(_home(str(path))))


def _itself(path: str, test: Callable[[int], bool]) -> bool:
    """Return whether a path, without following a link, is of a type."""
    info = hostfiles.look(path, follow=False)
    return info is not None and test(info.st_mode)


_test("file.file_exists", hostfiles.is_file)
_test("file.directory_exists", hostfiles.is_directory)
_test("file.path_exists_glob", lambda path: bool(hostfiles.matching(path)))
for _word, _is in (("link", stat.S_ISLNK), ("blkdev", stat.S_ISBLK), ("chrdev", stat.S_ISCHR), ("fifo", stat.S_ISFIFO)):
    _test(f"file.is_{_word}", lambda path, _is=_is: _itself(path, _is))  # type: ignore[misc] # a bound loop variable


@looking("file.access")
def access(view: HostView, path: str, mode: str) -> bool:
    """Return whether the agent has this access to a path: f (it exists), r, w or x.

    False for the target of an unsafe link.
    """
    return hostfiles.permits(_home(path), ACCESS[mode])


@looking("file.readlink")
def readlink(view: HostView, path: str, canonicalize: bool = False) -> str:
    """Return the target of a symbolic link. Raises `OSError` if it is not a link, and `Unsafe`."""
    path = hostfiles.absolute(_home(path))
    target = paths.at(path).readlink()
    return hostfiles.real(path) if canonicalize else target


@looking("file.read")
def read(view: HostView, path: str, binary: bool = False) -> str:
    """Return the content of a file. Raises `OSError`, `Permanent` and `Unsafe`."""
    return hostfiles.read_text(_home(path))


@looking("file.stats")
def stats(view: HostView, path: str, hash_type: str | None = None, follow_symlinks: bool = True) -> dict[str, Any]:
    """Return the owner, mode, type, size and times of a path; of an unsafe link those of the link.

    Empty if it does not exist.
    """
    path = _home(path)
    info = hostfiles.look(path, follow=follow_symlinks)
    if info is None:
        return {}
    found = {
        "inode": info.st_ino,
        "uid": info.st_uid,
        "gid": info.st_gid,
        "group": group_name(info.st_gid),
        "user": user_name(info.st_uid),
        "atime": info.st_atime,
        "mtime": info.st_mtime,
        "ctime": info.st_ctime,
        "size": info.st_size,
        "mode": f"{stat.S_IMODE(info.st_mode):04o}",
        "type": next((word for test, word in TYPES if test(info.st_mode)), ""),
        "target": hostfiles.real(path),
    }
    return found if hash_type is None else {**found, "sum": checksum(view, path, hash_type)}


def _part(name: str, key: str) -> None:
    """Make a function that returns one part of `file.stats`, or an empty text."""
    looking(name)(lambda view, path, follow_symlinks=True: stats(view, path, None, follow_symlinks).get(key, ""))


for _name, _key in (("mode", "mode"), ("user", "user"), ("group", "group"), ("uid", "uid"), ("gid", "gid")):
    _part(f"file.get_{_name}", _key)


@looking("file.lstat")
def lstat(view: HostView, path: str) -> dict[str, Any]:
    """Return the status of a path, without following a link; empty if it does not exist."""
    info = hostfiles.look(_home(path), follow=False)
    if info is None:
        return {}
    return {
        f"st_{key}": getattr(info, f"st_{key}")
        for key in ("atime", "mtime", "ctime", "uid", "gid", "mode", "nlink", "size")
    }


FORMS = {
    len(hashlib.new(form, usedforsecurity=False).hexdigest()): form for form in ("md5", "sha1", "sha256", "sha512")
}
"""Number of digits -> form of a checksum."""


@looking("file.get_hash", "file.get_sum")
def checksum(view: HostView, path: str, form: str = "sha256", *_: Any) -> str:
    """Return the checksum of a file's content. Raises `OSError`, `Permanent` and `Unsafe`."""
    return hashlib.new(form, hostfiles.read(_home(path)), usedforsecurity=False).hexdigest()


@looking("file.check_hash")
def check_hash(view: HostView, path: str, file_hash: str) -> bool:
    """Return whether a file has a checksum: `sha256=HEX`, `sha256:HEX`, or the digits alone.

    Raises `ValueError` for another form, and what `checksum` raises.
    """
    form, mark, digits = str(file_hash).replace(":", "=", 1).rpartition("=")
    known = form if mark else FORMS.get(len(digits))
    if known is None:
        raise ValueError(f"{file_hash!r} is not a checksum: write sha256=HEX")
    return checksum(view, path, known) == digits.lower()


@looking("file.contains")
def contains(view: HostView, path: str, text: str) -> bool:
    """Return whether a file contains a text."""
    return hostfiles.is_file(_home(path)) and str(text) in hostfiles.read_text(_home(path))


@looking("file.contains_regex", "file.search")
def contains_regex(view: HostView, path: str, regex: str, lchar: str = "", flags: int = 8, **_: Any) -> bool:
    """Return whether a pattern is found in a file."""
    return (
        hostfiles.is_file(_home(path))
        and expression(regex, re.MULTILINE).search(hostfiles.read_text(_home(path))) is not None
    )


@looking("file.readdir")
def readdir(view: HostView, path: str) -> list[str]:
    """Return the entries of a directory, in the order of the system. Raises `OSError` and `Unsafe`."""
    return [".", "..", *hostfiles.names(_home(path))]


def user_name(uid: int) -> str:
    """Return the name of a user; the number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group; the number as text when it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _number(of: Callable[[str], int]) -> Callable[..., Any]:
    """Make a function that returns the number of a name; an empty text if there is no such name."""

    def run(view: HostView, name: Any) -> Any:
        try:
            return name if isinstance(name, int) else of(name)
        except KeyError:
            return ""

    return run


looking("file.uid_to_user")(lambda view, uid: user_name(int(uid)))
looking("file.gid_to_group")(lambda view, gid: group_name(int(gid)))
looking("file.user_to_uid")(_number(lambda name: pwd.getpwnam(name).pw_uid))
looking("file.group_to_gid")(_number(lambda name: grp.getgrnam(name).gr_gid))


def _in_tree(view: HostView, path: str) -> Path | None:
    """Return the path of a file or directory of the tree, which may not exist; None without a tree."""
    try:
        return None if view.tree is None else view.tree.template(path)
    except FileNotFoundError:
        return None


def tree_has(view: HostView, path: str, *, files: bool = True, directories: bool = True) -> bool:
    """Return whether the states directory has such a path."""
    found = _in_tree(view, path)
    return found is not None and (
        (files and hostfiles.is_file(found)) or (directories and hostfiles.is_directory(found))
    )


looking("slsutil.file_exists")(lambda view, path, saltenv="base": tree_has(view, path, directories=False))
looking("slsutil.dir_exists")(lambda view, path, saltenv="base": tree_has(view, path, files=False))
looking("slsutil.path_exists")(lambda view, path, saltenv="base": tree_has(view, path))


@looking("slsutil.findup")
def findup(view: HostView, startpath: str, filenames: str | list[str], saltenv: str = "base") -> str:
    """Return the first of the names in a directory of the tree, or in one above it.

    Raises `ValueError` if there is none.
    """
    if startpath and not tree_has(view, startpath):
        raise ValueError(f"the states directory has no {startpath!r}")
    directory = posixpath.normpath(startpath) if startpath else ""
    while True:
        for name in [filenames] if isinstance(filenames, str) else filenames:
            full = posixpath.join(directory, name)
            if tree_has(view, full):
                return full
        if not directory:
            raise ValueError(f"there is no {filenames} in {startpath!r} or above it")
        directory = posixpath.dirname(directory)


@looking("cp.get_file_str")
def get_file_str(view: HostView, path: str, saltenv: str = "base") -> Any:
    """Return the content of a file of the tree; false if there is none."""
    found = _in_tree(view, path)
    if (
        view.tree is None
        or found is None
        or not (hostfiles.is_file(found) or (view.tree.reader is not None and view.tree.has(found)))
    ):
        return False
    return view.tree.read(found).text


@looking("cp.list_states")
def list_states(view: HostView, saltenv: str = "base") -> list[str]:
    """Return the names of all state files."""
    return [] if view.tree is None else sorted(view.tree.names())


def _below(view: HostView, prefix: str, *, files: bool) -> list[str]:
    """Return the paths of all files (or directories) of the tree that begin with a prefix, sorted."""
    if view.tree is None:
        return []
    root = hostfiles.absolute(view.tree.root)
    found = (
        each
        for each in hostfiles.below(root)
        if files != (hostfiles.is_directory(each.place.path) if each.is_link else each.is_directory)
    )
    listed = (each.place.path[len(root.rstrip("/")) + 1 :] for each in found)
    return sorted(path for path in listed if path.startswith(prefix.strip("/")))


looking("cp.list_master")(lambda view, saltenv="base", prefix="": _below(view, prefix, files=True))
looking("cp.list_master_dirs")(lambda view, saltenv="base", prefix="": _below(view, prefix, files=False))


@helper("cp.hash_file")
def hash_file(view: HostView, path: str, saltenv: str = "base") -> dict[str, str]:
    """Return the checksum of a file of the tree; empty if there is none."""
    view.looked = True
    found = _in_tree(view, path)
    try:
        digest = "" if found is None else hashlib.sha256(hostfiles.read(found)).hexdigest()
    except (OSError, Permanent):
        digest = ""
    return {"hsum": digest, "hash_type": "sha256"} if digest else {}
