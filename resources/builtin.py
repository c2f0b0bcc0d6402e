"""The built-in kinds, interfaces and providers, and the modules that declare them.

A module is imported when a state names one of its kinds, or when its interface is first used. Reading all modules to
find the names would slow down each start. `scripts/reference` writes this file from the modules.
"""

from __future__ import annotations

from collections.abc import Mapping

PACKAGE = "holdfast.resources.kinds"
MODULES: Mapping[str, str] = {
    "acl": "absent list_absent list_present present",
    "alias": "absent present",
    "alternatives": "auto install remove set",
    "archive.extracted": "extracted",
    "cmd.run": "run wait",
    "cmd.script": "script",
    "cron": "absent env_absent env_present file present",
    "debconf": "set set_file",
    "environ": "setenv",
    "event": "send wait",
    "file.absent": "absent",
    "file.accumulated": "accumulated",
    "file.append": "append prepend",
    "file.block": "blockreplace",
    "file.directory": "directory",
    "file.keyvalue": "keyvalue",
    "file.line": "line",
    "file.managed": "managed",
    "file.move": "copy rename",
    "file.presence": "exists missing touch",
    "file.pruned": "pruned",
    "file.recurse": "recurse",
    "file.replace": "comment replace uncomment",
    "file.serialize": "serialize",
    "file.symlink": "symlink",
    "git.cloned": "cloned detached",
    "git.config": "config_set config_unset",
    "git.latest": "latest",
    "group": "absent present",
    "host": "absent only present",
    "hostname": "system",
    "ini": "options_absent options_present sections_absent sections_present",
    "iptables.chains": "chain_absent chain_present flush set_policy",
    "iptables.rules": "append delete insert",
    "kmod": "absent present",
    "locale": "present system",
    "logrotate": "set",
    "module": "run wait",
    "mount.fstab": "fstab_absent fstab_present",
    "mount.mounted": "mounted unmounted",
    "mount.swap": "swap",
    "network": "system",
    "nftables.chains": "chain_absent chain_present flush set_policy table_absent table_present",
    "nftables.rules": "append delete insert",
    "pip": "installed removed uptodate",
    "pkg": "held installed latest purged removed",
    "pkgrepo": "absent managed",
    "service": "dead disabled enabled masked running unmasked",
    "ssh_auth": "absent manage present",
    "ssh_known_hosts": "absent present",
    "sudoers": "include",
    "sysctl": "present",
    "systemd_unit": "dropin running timer",
    "test": "check_pillar configurable_test_state fail_with_changes fail_without_changes nop show_notification "
    "succeed_with_changes succeed_without_changes",
    "timezone": "system",
    "ufw.rules": "allow allowed deny limit",
    "ufw.settings": "default_incoming default_outgoing disabled enabled",
    "user": "absent present",
    "virtualenv": "managed",
}
"""Module -> the functions that it declares. The first part of the module's name is their family."""
KIND_MODULES: Mapping[str, str] = {
    f"{module.partition('.')[0]}.{function}": f"{PACKAGE}.{module}"
    for module, functions in MODULES.items()
    for function in functions.split()
}
"""Kind -> module that declares it."""

INTERFACES: Mapping[str, str] = {
    "group": "group",
    "language": "language",
    "pkg": "pkg",
    "service": "service",
    "user": "user",
}
"""Virtual module -> module in `resources/interfaces/` that declares its interface."""
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "group": ("busybox", "shadow"),
    "language": ("gem", "npm", "pip"),
    "pkg": ("apk", "apt", "dnf", "dnf5", "pacman", "zypper"),
    "service": ("openrc", "runit", "systemd", "sysv"),
    "user": ("busybox", "shadow"),
}
"""Virtual module -> modules in `resources/providers/` with providers of it, imported when it is first bound."""
