"""Options of mounts: which declared options a mount lacks.

The kernel shows options in its own spelling and leaves out defaults. Some options are only for mount(8), for programs
of a file system, or for the boot.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from holdfast.resources import accounts
from holdfast.resources.kinds.mount.table import Mount

_INVISIBLE = (
    "_netdev actimeo auto bg bind comment defaults delay_connect direct-io-mode fail fg group intr loop mand noauto"
    " nobootwait nofail nointr nogroup nomand noowner nouser nousers nonempty owner password port private rbind"
    " reconnect remount retry rprivate rshared rslave runbindable shared silent slave loud soft transform_symlinks"
    " unbindable user users backup-volfile-servers"
)
INVISIBLE = frozenset(_INVISIBLE.split())
"""Options that mount(8) or a program of the file system uses, without a value."""
_INVISIBLE_KEYS = (
    "actimeo comment cred credentials direct-io-mode helper loop offset pass password passwd port retry secretfile"
    " sizelimit uhelper"
)
INVISIBLE_KEYS = frozenset(_INVISIBLE_KEYS.split())
"""Options with a value that mount(8) or a program of the file system uses."""
IGNORED_KEYS: Mapping[str, Collection[str]] = {"ramfs": ("size",)}
"""File system -> options that it accepts and ignores."""
TRANSLATED: Mapping[str, str] = {"tcp": "proto=tcp", "udp": "proto=udp"}
DEFAULTS: Mapping[str, str] = {
    "async": "sync",
    "atime": "noatime",
    "dev": "nodev",
    "diratime": "nodiratime",
    "exec": "noexec",
    "nolazytime": "lazytime",
    "norelatime": "relatime",
    "nostrictatime": "strictatime",
    "suid": "nosuid",
    "symfollow": "nosymfollow",
}
"""Option that the kernel does not show -> the opposite, which it shows."""
NO_OPTIONS = ("seclabel",)
"""Words that the kernel shows among the options but does not accept as options."""
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
TEMPORARY = frozenset({"tmpfs", "devtmpfs"})
TEMPORARY_DEFAULTS = {"mode": "1777", "uid": "0", "gid": "0"}
"""Defaults of tmpfs, which it does not show."""


def normal(option: str, fstype: str) -> str:
    """Return an option in comparable form: sizes in bytes, modes without leading zeros, accounts by number."""
    option = TRANSLATED.get(option, option)
    key, equals, value = option.partition("=")
    if not equals:
        return option
    if key == "user" and fstype == "cifs":
        key = "username"
    if found := re.fullmatch(r"(\d+)([kmg]?)", value, re.IGNORECASE):
        sized = key in {"size", "nr_inodes", "nr_blocks", "rsize", "wsize"}
        value = str(int(found[1]) * UNITS[found[2].lower()]) if sized else value
    if key == "mode" and re.fullmatch("[0-7]+", value):
        value = value.lstrip("0") or "0"
    if key == "subvol":
        value = f"/{value.lstrip('/')}"
    number = accounts.local_uid(value) if key == "uid" else accounts.local_gid(value) if key == "gid" else None
    return f"{key}={value if number is None else number}"


def is_visible(option: str, fstype: str, more: Collection[str] = (), more_keys: Collection[str] = ()) -> bool:
    """Return whether the kernel would show an option; `more` and `more_keys` are further options that it hides."""
    key, equals, value = option.partition("=")
    if key in IGNORED_KEYS.get(fstype, ()) or option.lower().startswith("x-") or value.endswith("%"):
        return False
    if equals:
        return key not in INVISIBLE_KEYS and key not in more_keys and option not in more
    return option not in INVISIBLE and option not in more and option not in more_keys


def shown(mount: Mount) -> list[str]:
    """Return options that would mount the file system of a mount in the same way again."""
    seen = dict.fromkeys((*mount.options, *mount.super_options))
    writable = "ro" if "ro" in seen else "rw"
    return [writable, *(option for option in seen if option not in {"ro", "rw", *NO_OPTIONS})]


def missing(wanted: Sequence[str], mount: Mount) -> tuple[str, ...]:
    """Return the options of `wanted` that a mount lacks, sorted. `wanted` has only options that the kernel shows."""
    seen = {normal(option, mount.fstype) for option in (*mount.options, *mount.super_options)}
    return tuple(sorted(option for option in wanted if not _has(seen, option, mount)))


def _has(seen: Collection[str], option: str, mount: Mount) -> bool:
    own = normal(option, mount.fstype)
    key, _, value = own.partition("=")
    if own == "rw":  # both the mount and its file system can be read-only
        return "ro" not in seen
    if own in seen:
        return True
    if mount.fstype in TEMPORARY and TEMPORARY_DEFAULTS.get(key) == value:
        return not any(each.startswith(f"{key}=") for each in seen)
    return own in DEFAULTS and DEFAULTS[own] not in seen
