"""The table of calls.

To add a call, write a function whose first parameter is the `HostView`, decorate it, and add its name to `MODULES`. Its
module is imported when a template first uses the call. The function must not change anything. A function that reads
anything but the data of the view is decorated with `@looking`, so that files that use it are rendered each time.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from holdfast.states.view.host_view import Helper, HostView

MODULES: Mapping[str, Mapping[str, str]] = {
    "commands": {"cmd": "exec_code exec_code_all retcode run run_all run_stderr run_stdout script shell"},
    "data": {
        "defaults": "deepcopy get merge update",
        "hashutil": (
            "base64_b64decode base64_b64encode base64_decodestring base64_encodestring digest hmac_compute"
            " hmac_signature md5_digest sha256_digest sha512_digest"
        ),
        "log": "critical debug error exception info profile trace warning",
        "random": "get_str hash rand_int seed str_encode",
        "slsutil": "banner boolstr deserialize merge merge_all renderer serialize update",
        "test": "arg echo false false_ get_opts kwarg ping true true_",
    },
    "facts": {
        "config": "get manage_mode merge option",
        "grains": "equals fetch filter_by get has_value item items ls",
        "match": "compound filter_by glob grain grain_pcre ipcidr list pcre pillar pillar_pcre search_by",
        "pillar": "data fetch filter_by get item items keys ls raw",
    },
    "files": {
        "cp": "get_file_str hash_file list_master list_master_dirs list_states",
        "file": (
            "access basename contains contains_regex directory_exists dirname file_exists get_gid get_group"
            " get_hash get_mode get_sum get_uid get_user gid_to_group group_to_gid is_blkdev is_chrdev is_fifo"
            " is_link join lstat normpath pardir path_exists_glob read readdir readlink search stats uid_to_user"
            " user_to_uid"
        ),
        "slsutil": "dir_exists file_exists findup path_exists",
    },
    "find": {"file": "find grep"},
    "host": {
        "cmd": "has_exec which",
        "environ": "get has_value",
        "group": "getent info",
        "network": (
            "calc_net convert_cidr get_fqdn get_hostname in_subnet interface_ip ip_addrs ip_addrs6 ipaddrs"
            " ipaddrs6 is_loopback is_private"
        ),
        "pkg": "list_pkgs version version_cmp",
        "service": "available enabled missing",
        "user": "get_uid getent info list_groups list_users primary_group",
    },
    "others": {
        "alternatives": "show_current",
        "dig": "A AAAA",
        "dnsutil": "serial",
        "git": "current_branch",
        "hosts": "get_alias get_ip has_pair list_hosts",
        "mine": "get",
        "network": "ip_in_subnet",
        "publish": "full_data publish runner",
    },
    "system": {
        "mount": "active fstab is_mounted",
        "network": "hw_addr interfaces",
        "status": "loadavg nproc time uptime",
        "sysctl": "get",
        "test": "provider version",
        "timezone": "get_offset get_zone get_zonecode",
    },
}
"""Module of this package -> its functions, by Salt's modules."""
HOMES = {
    f"{module}.{name}": home
    for home, calls in MODULES.items()
    for module, names in calls.items()
    for name in names.split()
}


class HelperTable(Mapping[str, Helper]):
    """All functions. Getting one imports its module; iterating over names imports nothing."""

    def __init__(self) -> None:
        self.entered: dict[str, Helper] = {}
        """Functions whose modules have been imported."""

    def __getitem__(self, name: str) -> Helper:
        """A function. Raises `KeyError`."""
        if name not in self.entered:
            importlib.import_module(f"holdfast.states.helpers.{HOMES[name]}")
        return self.entered[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a function."""
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(HOMES)

    def __len__(self) -> int:
        """Number of functions."""
        return len(HOMES)


TABLE = HelperTable()

F = TypeVar("F", bound=Callable[..., Any])


def helper(*names: str) -> Callable[[F], F]:
    """Register a function."""

    def enter(function: F) -> F:
        for name in names:
            TABLE.entered[name] = function
        return function

    return enter


def looking(*names: str) -> Callable[[F], F]:
    """Register a function that reads this host: its result may change although no file changes."""

    def enter(function: F) -> F:
        @functools.wraps(function)
        def run(view: HostView, *args: Any, **kwargs: Any) -> Any:
            view.looked = True
            return function(view, *args, **kwargs)

        helper(*names)(run)
        return function

    return enter


def plain(**functions: Callable[..., Any]) -> None:
    """Register pure functions that need no view: `module__function=...`."""
    for name, function in functions.items():
        TABLE.entered[name.replace("__", ".", 1)] = lambda _world, *args, _function=function, **kwargs: _function(
            *args, **kwargs
        )
