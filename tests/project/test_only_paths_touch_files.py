"""Only `resources/paths` turns a path into a file: every other call that does so is listed here with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COVERED = ("resources", "agent/host", "states")
APART = ("resources/paths/",)
"""The modules that may call them."""
OS = frozenset(
    [
        "access",
        "chdir",
        "chmod",
        "chown",
        "fwalk",
        "getxattr",
        "lchown",
        "link",
        "listdir",
        "listxattr",
        "lstat",
        "makedirs",
        "mkdir",
        "mkfifo",
        "open",
        "readlink",
        "remove",
        "removedirs",
        "removexattr",
        "rename",
        "replace",
        "rmdir",
        "scandir",
        "setxattr",
        "stat",
        "statvfs",
        "symlink",
        "truncate",
        "unlink",
        "utime",
        "walk",
    ]
)
OS_PATH = frozenset(
    ["exists", "getmtime", "getsize", "isdir", "isfile", "islink", "ismount", "lexists", "realpath", "samefile"]
)
MODULES = {"os": OS, "path": OS_PATH, "shutil": None, "glob": None, "tempfile": None}
"""Module -> its functions that take paths; None means all functions."""
METHODS = frozenset(
    [
        "exists",
        "glob",
        "hardlink_to",
        "is_dir",
        "is_file",
        "is_mount",
        "is_socket",
        "is_symlink",
        "iterdir",
        "lchmod",
        "lstat",
        "read_bytes",
        "read_text",
        "rglob",
        "stat",
        "symlink_to",
        "write_bytes",
        "write_text",
    ]
)
"""Methods of `Path` whose names no class of this project uses."""
SHARED = frozenset(["chmod", "mkdir", "open", "readlink", "rename", "resolve", "rmdir", "touch", "unlink"])
"""Methods of `Path` that other classes have, too: checked in modules that use `Path`."""

OURS = frozenset(["ctx", "hostfiles", "paths", "tree"])
"""Objects with safe functions of the same names."""

CGROUPS = "the kernel's control groups, below one that belongs to the agent's user"
DATABASE = "the package manager's own files, at fixed paths that only root can write"
SERVICES = "the init system's own directories, at fixed paths that only root can write"
DESCRIPTOR = "on a descriptor that resources/paths has opened"
FAKE = "the fake world of tests, in a directory of the test's own"
WATCHED = "only tells whether something has changed; docs/security.md says what the watcher looks at"
EXCEPTIONS = {
    "agent/host/sweep.py:_linked": WATCHED,
    "agent/host/sweep.py:_status": WATCHED,
    "resources/accounts.py:fresh": "the account files, at fixed paths that only root can write",
    "resources/providers/_pkg_database.py:_status": DATABASE,
    "resources/providers/pkg_base.py:_times": DATABASE,
    "resources/providers/_config_files.py:write_config": "of a place",
    "resources/providers/_config_files.py:remove_config": "of a place",
    "resources/providers/_candidates.py:_remove": "of a place",
    "resources/providers/language_base.py:_demand_trusted": "only lists paths, which resources/paths then checks",
    "resources/providers/pip.py:_places": "only lists paths, which are watched",
    "resources/providers/apk.py:_text": DATABASE,
    "resources/providers/apk.py:_missing": "only asks whether a path of apk's database is there",
    "resources/providers/rpm_base.py:_delete": "of a place",
    "resources/providers/_alpm.py:entries": DATABASE,
    "resources/providers/_alpm.py:opener": "/proc",
    "resources/providers/pacman.py:_prepare": "below /var/cache, which only root can write",
    "resources/providers/pacman.py:_tidy": "below /var/cache, which only root can write",
    "resources/providers/pacman.py:_newer": DATABASE,
    "resources/providers/pacman.py:_holder": DATABASE,
    "resources/providers/_dpkg.py:_of_one_source": DATABASE,
    "resources/providers/_dpkg.py:_shipped": DATABASE,
    "resources/package_locks.py:holder": DATABASE,
    "resources/package_locks.py:described": "/proc",
    "resources/package_locks.py:is_ours": "/proc",
    "resources/providers/_processes.py:process_of": "/proc",
    "resources/kinds/mount/table.py:users_of": "/proc",
    "resources/kinds/mount/table.py:_held": "/proc",
    "resources/kinds/mount/table.py:_used": "/proc",
    "resources/providers/_account_locks.py:_maker": "lock files in /etc, where only root can write",
    "resources/providers/_dpkg.py:shipped": DATABASE,
    "resources/providers/_dpkg.py:shippers": DATABASE,
    "resources/providers/dpkg_base.py:_was_interrupted": DATABASE,
    "resources/interfaces/provider.py:refusals": "programs in the directories of PATH, and fixed paths of the system",
    "resources/kinds/_services.py:demand_possible": "of a unit, not of a path",
    "resources/kinds/_services.py:inverse": "of a unit, not of a path",
    "resources/kinds/service.py:probe": "of a unit, not of a path",
    "resources/providers/service_base.py:_demand": "of a service, not of a path",
    "resources/providers/service_base.py:_change": "of a service, not of a path",
    "resources/providers/systemd.py:mask": "in /etc/systemd, where only root can write",
    "resources/providers/_init_scripts.py:names_in": SERVICES,
    "resources/providers/openrc.py:_mark": SERVICES,
    "resources/providers/openrc.py:_boot_levels": SERVICES,
    "resources/providers/openrc.py:_pid_files": SERVICES,
    "resources/providers/runit.py:__init__": SERVICES,
    "resources/providers/runit.py:_names": SERVICES,
    "resources/providers/runit.py:_record": "the pipe of runsv; nothing is written, and no link at its end is followed",
    "resources/providers/runit.py:_set_enabled": "of a place that resources/paths has resolved",
    "resources/providers/sysv.py:__init__": "a program in the directories of PATH",
    "resources/execution/service.py:enabled": "of a service, not of a path",
    "resources/providers/_runlevels.py:_has_link": SERVICES,
    "resources/providers/_runlevels.py:switch": "a program in the directories of PATH",
    "resources/providers/_at_boot.py:_first_program": SERVICES,
    "resources/providers/_at_boot.py:_ends_with_this_boot": SERVICES,
    "resources/kinds/file/presence.py:_touch": DESCRIPTOR,
    "resources/kinds/file/removal.py:_copy_file": DESCRIPTOR,
    "resources/kinds/archive/stage.py:_finish": DESCRIPTOR,
    "resources/kinds/archive/zipped.py:_member": "of a member of an archive, not of a path",
    "resources/kinds/sysctl.py:write": "by the descriptor and the name of a place",
    "resources/provider_testing.py:_build": FAKE,
    "resources/remote/postgres/provider/postgres_plugin.py:main": "the schema beside the program itself",
    "resources/testing.py:read_text": FAKE,
    "resources/testing.py:_answered": FAKE,
    "resources/kind_testing.py:run_case": FAKE,
    "resources/case_files.py:make": FAKE,
    "resources/case_files.py:seen_as": FAKE,
    "resources/case_files.py:snapshot": FAKE,
    "resources/testing.py:write_file": "of a place",
    "agent/host/context.py:var_dir": "below the state directory, which is checked at the start",
    "agent/host/files.py:_write": DESCRIPTOR,
    "agent/host/files.py:carry": DESCRIPTOR,
    "agent/host/authors.py:_read": "/proc",
    "agent/host/fanotify.py:opened": WATCHED,
    "agent/host/fanotify_watches.py:_open": "/proc",
    "agent/host/mounts.py:__init__": "/proc",
    "agent/host/system_events.py:__init__": "/proc",
    "agent/host/path_nodes.py:status": WATCHED,
    "agent/host/path_nodes.py:leads": WATCHED,
    "agent/host/path_tree.py:_cover": WATCHED,
    "agent/host/path_tree.py:entries": WATCHED,
    "agent/host/starting.py:home": "on a directory that resources/paths has found",
    "agent/host/become.py:_enter": "after the change of uid, with the rights of the user",
    "agent/host/cgroups.py:adopt": CGROUPS,
    "agent/host/cgroups.py:delegated": CGROUPS,
    "agent/host/cgroups.py:_own": "/proc",
    "agent/host/cgroups.py:_is_delegated": CGROUPS,
    "agent/host/cgroups.py:entrance": CGROUPS,
    "agent/host/cgroups.py:members": CGROUPS,
    "agent/host/cgroups.py:_set": CGROUPS,
    "agent/host/cgroups.py:_removed": CGROUPS,
    "agent/host/processes.py:tells_children": "/proc",
    "agent/host/processes.py:children": "/proc",
    "agent/host/processes.py:_read": "/proc",
    "agent/host/keeper.py:_become": "the root directory",
    "agent/host/keeper.py:_remove": "below a directory that only the agent can enter; rmtree follows no links",
    "agent/host/forkserver.py:program": "the agent's own modules",
    "agent/host/starting.py:_stdin": "/dev/null",
    "states/filters/files.py:which": "programs in the directories of PATH",
    "states/helpers/find.py:grep": "programs in the directories of PATH",
    "states/source/hostfiles.py:permits": DESCRIPTOR,
    "agent/host/sources.py:read": "of a place",
    "agent/host/sources.py:_checked": "of a place",
    "agent/host/download_cache.py:_make": "of a place in the state directory, which is checked at the start",
    "agent/host/download_cache.py:resume": "of a place in the state directory, which is checked at the start",
    "agent/host/local_copies.py:_nameless": DESCRIPTOR,
    "states/compile/compiler.py:_calls": "of calls, not of a path",
    "states/helpers/files.py:readlink": "of a place",
    "states/helpers/system.py:_localtime": "of a place",
    "states/source/hostfiles.py:below": DESCRIPTOR,
    "states/source/hostfiles.py:matching": "only looks at the text",
    "states/source/hostfiles.py:_inside": "only looks at the text",
    "states/source/files.py:_straight": "whether there is such a name among the states; reading it is checked",
    "states/source/files.py:_open": "of a place",
    "states/source/files.py:_trusted": "finds the component that is not trusted, for the message",
    "states/source/files.py:_listed": DESCRIPTOR,
}


def calls(module: Path) -> Iterator[tuple[str, str, int]]:
    """Yield (function, call, line) of each call in a module that may turn a path into a file."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    uses_path = any(isinstance(node, ast.ImportFrom) and node.module == "pathlib" for node in ast.walk(tree))

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = (
                child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and not function else function
            )
            if isinstance(child, (ast.Attribute, ast.Name)) and (found := named(child, uses_path=uses_path)):
                yield inner or "the module", found, child.lineno
            yield from visit(child, inner)

    yield from visit(tree, "")


def named(node: ast.Attribute | ast.Name, *, uses_path: bool) -> str | None:
    """Yield each name that may turn a path into a file. A mention without a call counts, too."""
    if isinstance(node, ast.Name):
        return "open" if node.id == "open" else None
    owner = (
        node.value.id
        if isinstance(node.value, ast.Name)
        else node.value.attr
        if isinstance(node.value, ast.Attribute)
        else ""
    )
    if owner in MODULES:
        names = MODULES[owner]
        return f"{owner}.{node.attr}" if names is None or node.attr in names else None
    if owner in OURS:
        return None
    if node.attr in METHODS or (uses_path and node.attr in SHARED):
        return f".{node.attr}"
    return None


def test_only_resources_paths_accesses_files():
    """Kinds, providers, the host and helpers of templates: each other access is a listed function with its reason."""
    found: dict[str, list[str]] = {}
    for top in COVERED:
        for module in sorted((ROOT / top).rglob("*.py")):
            inside = module.relative_to(ROOT).as_posix()
            if not inside.startswith(APART):
                for function, call, line in calls(module):
                    found.setdefault(f"{inside}:{function}", []).append(f"{call} in line {line}")

    others = {place: told for place, told in found.items() if place not in EXCEPTIONS}
    assert not others, "use resources/paths (docs/security.md shows how), or add an exception with its reason"
    assert not EXCEPTIONS.keys() - found.keys(), "remove the exceptions that are not needed"
