"""Owner, group, mode, times, ACLs and SELinux label of one entry, which are changed in place.

Each function opens the entry first, checks the file of that descriptor, and changes exactly this file.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.resources.paths.handle import Handle, Unsafe, drop_acls
from holdfast.resources.paths.place import Place
from holdfast.resources.paths.replacing import about_to_change
from holdfast.resources.paths.trust import called, trusted_uids

LABEL = "security.selinux"
"""The extended attribute of SELinux labels (selinux(8))."""


def change(place: Place, seen: os.stat_result, uid: int = -1, gid: int = -1, mode: int | None = None) -> None:
    """Set owner, group and mode of an entry where they are given and differ. Links have no mode.

    `seen` is the status that the caller has read: an entry that has another type now is not changed. Raises `OSError`,
    and `Unsafe` if the entry may belong to another user.
    """
    handle, info = _pin_like(place, seen)
    link = stat.S_ISLNK(info.st_mode)
    if link:
        mode = None
    uid, gid = (-1 if uid == info.st_uid else uid), (-1 if gid == info.st_gid else gid)
    if uid < 0 and gid < 0 and mode in {None, stat.S_IMODE(info.st_mode)}:
        return
    place.demand_own(info, "change owner or mode of")
    _demand_given(place, info, uid)
    about_to_change(place, info)
    if not link and uid in trusted_uids() and place.changes_hands(info, uid):
        drop_acls(_opened(handle))  # an ACL could still let the former owner write the file
        mode = stat.S_IMODE(info.st_mode) & 0o755 if mode is None else mode
    if uid >= 0 or gid >= 0:
        os.chown(_opened(handle), uid, gid)
    if mode is not None:  # after chown, which clears the set-uid bits
        os.chmod(_opened(handle), mode)  # noqa: PTH101 - fchmod refuses such a descriptor


def _pin_like(place: Place, seen: os.stat_result) -> tuple[Handle, os.stat_result]:
    """Return a descriptor of the entry, and its status. Raises `OSError`, also if the type is not that of `seen`."""
    handle, info = place.pin()
    if stat.S_IFMT(info.st_mode) != stat.S_IFMT(seen.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(info.st_mode) else errno.ESTALE
        raise OSError(number, os.strerror(number), place.path)
    return handle, info


def _demand_given(place: Place, info: os.stat_result, uid: int) -> None:
    """Raise `Unsafe` if the entry must not be given to `uid` (-1: the owner stays)."""
    if uid >= 0 and place.directory.shared and place.changes_hands(info, uid) and not _is_empty(place, info):
        raise Unsafe(
            f"cannot give {place.path} to {called(uid)}: it belongs to {called(info.st_uid)}, and {place.reason(info)}"
        )


def _is_empty(place: Place, info: os.stat_result) -> bool:
    """Return whether the entry is an empty directory that root owns."""
    return stat.S_ISDIR(info.st_mode) and info.st_uid in trusted_uids() and next(place.enter().names(), None) is None


def touch(place: Place, times: tuple[float, float] | None) -> None:
    """Set the times of an entry; None: now. Raises `OSError`, and `Unsafe` if it may belong to another user."""
    handle, info = place.pin()
    place.demand_own(info, "touch")
    os.utime(_opened(handle), times)


def label(place: Place) -> str:
    """Return the SELinux label of an entry; empty if there is none. Raises `OSError`."""
    handle, _ = place.pin()
    try:
        return os.getxattr(_opened(handle), LABEL).rstrip(b"\0").decode(errors="replace")
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return ""
        raise


def relabel(place: Place, text: str) -> None:
    """Set the SELinux label of an entry. Raises `OSError`, and `Unsafe` if it may belong to another user."""
    handle, info = place.pin()
    place.demand_own(info, "label")
    os.setxattr(_opened(handle), LABEL, text.encode() + b"\0")


def read_acl(place: Place, attribute: str) -> bytes:
    """Return an ACL of an entry as the kernel stores it; empty without one. Raises `OSError`."""
    handle, _ = place.pin()
    try:
        return os.getxattr(_opened(handle), attribute)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return b""
        raise


def put_acl(place: Place, seen: os.stat_result, attribute: str, data: bytes) -> None:
    """Set an ACL of an entry; no data removes it. `seen` is the status that the caller has read.

    Raises `OSError`, and `Unsafe` if the entry may belong to another user.
    """
    handle, info = _pin_like(place, seen)
    place.demand_own(info, "change the ACL of")
    about_to_change(place, info)
    if data:
        os.setxattr(_opened(handle), attribute, data)
    else:
        os.removexattr(_opened(handle), attribute)


def _opened(handle: Handle) -> str:
    """Return a path for system calls that do not take a descriptor of O_PATH."""
    return f"/proc/self/fd/{handle.fd}"
