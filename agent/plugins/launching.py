"""Decisions before the start of a plugin: its user, its directory, and whether its files can be trusted."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.context import PATH
from holdfast.resources.errors import Permanent

RUN = Path("/run/holdfast-plugins")
"""Directory of the directories of plugins, of an agent that runs as root."""
FIRST, MANY = 2_100_000_000, 40_000_000
"""Numbers of users without a name. No range in common use contains them, and they fit in 31 bits."""
NO_USER = "cannot become its user, whom this host may not have: name another `user`"
LONGEST = 107
"""Most bytes of the path of a socket, in the kernel."""


@dataclass(frozen=True)
class Launch:
    """The command of a plugin, and how to start it."""

    name: str
    command: Sequence[str]
    user: str = ""
    """User as which the process runs; empty: that of the agent or, if that is root, a user of its own without a
    name."""
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int = 0
    """Greatest size of its address space, in bytes; 0: no limit."""
    files: int = 1024
    """Most files that the process may have open."""
    mask: Callable[[str], str] = str
    """Masks the secrets of the configuration in the output of the plugin."""


class PluginUser(NamedTuple):
    """The user as which a plugin runs."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def foreign(self) -> bool:
        """Whether it is another user than the agent's."""
        return self.uid != os.geteuid()


def user_of(wanted: Launch) -> PluginUser:
    """Return the user as which a plugin runs. Raises `Permanent` if there is no such user."""
    if not wanted.user and os.geteuid() == 0:
        number = FIRST + zlib.crc32(wanted.name.encode()) % MANY
        return PluginUser(number, number, (), "/")
    try:
        found = pwd.getpwnam(wanted.user) if wanted.user else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise Permanent(f"plugin {wanted.name}: there is no user {wanted.user!r}") from None
    if found.pw_uid != os.geteuid() != 0:
        raise Permanent(f"plugin {wanted.name}: it runs as {wanted.user}, and the agent does not run as root")
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return PluginUser(found.pw_uid, found.pw_gid, groups, found.pw_dir)


def make_home(name: str, user: PluginUser, below: Path | None = None) -> Path:
    """Create the directory of one start, which only the user of the plugin can enter.

    Raises `OSError`, and `Permanent` if this host cannot have the user.

    `below`: where; by default a directory that every user can pass, because that of the agent's state is private.
    """
    if below is None:
        below = RUN if os.geteuid() == 0 else Path(tempfile.gettempdir())
    if below == RUN or not below.exists():
        below.mkdir(parents=True, exist_ok=True)
        below.chmod(0o711)  # independent of the umask: a plugin with a user of its own must pass
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=below))  # mode 0700
    if len(os.fsencode(home / "socket")) > LONGEST:
        home.rmdir()
        raise OSError(errno.ENAMETOOLONG, f"the path of a socket has at most {LONGEST} bytes", str(below))
    if user.foreign:
        try:
            os.chown(home, user.uid, user.gid)
        except OSError as error:  # in a user namespace, such as that of a container
            home.rmdir()
            raise Permanent(f"plugin {name}: {NO_USER}: {error.strerror}") from None
    return home


def close_home(home: Path, user: PluginUser) -> None:
    """Close the directory to the plugin's user, so that the user cannot put another socket there.

    Raises `OSError`, also if there is no socket of the plugin.
    """
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if user.foreign:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, 0o700)
        found = os.stat("socket", dir_fd=descriptor, follow_symlinks=False)
    finally:
        os.close(descriptor)
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != user.uid:
        raise FileNotFoundError(2, "there is no socket of the plugin")


def demand_trusted(wanted: Launch) -> None:
    """Raise `Permanent` unless only trusted users could have written the program, and the files in its arguments.

    Blocks. Missing files are left to the start, which reports them.
    """
    program, *arguments = wanted.command
    directories = wanted.environment.get("PATH", PATH).split(":")
    if "/" not in program:
        program = next((path for each in directories if os.access(path := f"{each}/{program}", os.X_OK)), program)
    for path in (program, *arguments):
        if path.startswith("/") and "\0" not in path:
            try:
                paths.demand_trusted_file(os.path.normpath(path))
            except paths.Unsafe as error:
                raise Permanent(f"plugin {wanted.name}: {error}") from None
            except (OSError, Permanent):  # the path does not exist, or is not a file
                continue
