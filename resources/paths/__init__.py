"""Safe access to all paths: no unprivileged user can exploit what root does with a path.

`trust` determines who may write a file, `readers` who may read it, and `mounts` which file systems users have mounted.
`walk` resolves a path to the entry of a directory; `place` and `attributes` read and change that entry. `home` is that
of the agent's user. docs/security.md has the rules.

Each module calls the system through its own name `os`, so that a test can replace `os` by an adversary that acts before
each call.
"""

from holdfast.resources.paths.attributes import change, touch
from holdfast.resources.paths.handle import Unsafe
from holdfast.resources.paths.home import own_home
from holdfast.resources.paths.place import Place, SafeDirectory
from holdfast.resources.paths.readers import everyone_reads
from holdfast.resources.paths.trust import trusted_uids
from holdfast.resources.paths.walk import (
    at,
    demand_trusted,
    demand_trusted_file,
    directory,
    exists,
    forget,
    make_parents,
    nearest,
    read,
    read_trusted,
    resolve,
)

__all__ = [
    "Place",
    "SafeDirectory",
    "Unsafe",
    "at",
    "change",
    "demand_trusted",
    "demand_trusted_file",
    "directory",
    "everyone_reads",
    "exists",
    "forget",
    "make_parents",
    "nearest",
    "own_home",
    "read",
    "read_trusted",
    "resolve",
    "touch",
    "trusted_uids",
]
