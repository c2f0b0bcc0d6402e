"""Hints for names of other tools and other kinds, and for states of Salt that Holdfast does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdfast.resources.registry import families, has_family
from holdfast.resources.spelling import SURE, nearest

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "become_user": ("runas",),
    "body": ("contents", "content", "text"),
    "chdir": ("cwd",),
    "chmod": ("mode", "file_mode"),
    "comment": ("fullname",),
    "content": ("contents", "text"),
    "contents": ("content", "text"),
    "create_home": ("createhome",),
    "create_parents": ("makedirs",),
    "directory": ("cwd", "home"),
    "enabled": ("enable",),
    "environment": ("env",),
    "exclude": ("exclude_pat",),
    "executable": ("shell",),
    "gecos": ("fullname",),
    "group": ("gid",),
    "include": ("include_pat",),
    "manage_home": ("createhome",),
    "managehome": ("createhome",),
    "mode": ("file_mode",),
    "owner": ("user",),
    "packages": ("pkgs",),
    "parents": ("makedirs",),
    "passwd": ("password",),
    "perm": ("mode", "file_mode"),
    "permission": ("mode", "file_mode"),
    "permissions": ("mode", "file_mode"),
    "perms": ("mode", "file_mode"),
    "recursive": ("recurse",),
    "regex": ("pattern",),
    "regexp": ("pattern", "regex", "match"),
    "replace": ("repl",),
    "replacement": ("repl",),
    "run_as": ("runas",),
    "search": ("pattern",),
    "source": ("target",),
    "src": ("source", "target"),
    "text": ("contents", "content"),
    "to": ("target",),
    "user": ("runas",),
    "validate": ("check_cmd",),
    "variables": ("context", "env"),
    "vars": ("context", "env"),
    "workdir": ("cwd",),
    "working_directory": ("cwd",),
}
"""Name of an argument elsewhere -> its possible names here; the first that the kind has is suggested."""
NAMES: Mapping[str, frozenset[str]] = {
    "cmd": frozenset({"cmd", "command"}),
    "cron": frozenset({"cmd", "command", "job"}),
    "file": frozenset({"dest", "destination", "file", "filename", "path"}),
    "git": frozenset({"repository", "url"}),
    "group": frozenset({"group", "groupname"}),
    "pkg": frozenset({"package", "pkg"}),
    "service": frozenset({"service", "unit"}),
    "sysctl": frozenset({"key"}),
    "systemd_unit": frozenset({"service", "unit"}),
    "user": frozenset({"login", "user", "username"}),
}
"""Family -> names of its argument `name` elsewhere."""
FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "file": {
        "copied": "copy",
        "created": "managed",
        "deleted": "absent",
        "link": "symlink",
        "present": "managed",
        "removed": "absent",
        "renamed": "rename",
        "template": "managed",
    },
    "pkg": {"absent": "removed", "present": "installed", "uninstalled": "removed", "upgraded": "latest"},
    "service": {"restarted": "running", "started": "running", "stopped": "dead"},
    "sysctl": {"set": "present"},
    "iptables": {"present": "append", "absent": "delete", "policy": "set_policy"},
    "ufw": {"on": "enabled", "off": "disabled", "reject": "deny"},
    "user": {"created": "present", "deleted": "absent", "removed": "absent"},
    "group": {"created": "present", "deleted": "absent", "removed": "absent"},
    "git": {"clone": "cloned", "checkout": "detached", "pull": "latest", "config": "config_set"},
}
"""Family -> name of a function elsewhere -> its name here."""
_SALT = (
    "at beacon bower btrfs cloud composer consul disk docker"
    " ethtool etcd firewalld gem github gpg grains helm hg http incron ipset kernelpkg"
    " keyboard kubernetes layman ldap lvm lxc lxd makeconf memcached monit"
    " nfs_export npm ntp openvswitch_bridge pkgbuild ports process pyenv quota raid"
    " rbenv rsync rvm salt saltutil schedule selinux snapper sqlite3 stateconf"
    " status supervisord svn sysfs sysrc syslog_ng tls tuned vault virt x509 xml zfs zookeeper"
    " zpool"
)
SALT = frozenset(_SALT.split())
"""The most common states of Salt that Holdfast does not have."""
SALT_KINDRED = (
    "apache_",
    "boto",
    "docker_",
    "grafana",
    "influxdb_",
    "lxd_",
    "mongodb_",
    "mysql_",
    "rabbitmq_",
    "win_",
    "zabbix_",
)
"""Prefixes of groups of such states."""
PACKAGES: Mapping[str, str] = {
    "postgres": "postgres.role, postgres.database, postgres.schema, postgres.extension and postgres.grant",
    "redis": "redis.key, redis.acl_user and redis.config",
}
"""Package that Holdfast brings along, for states of Salt with the same first word -> its kinds."""


def meant_argument(word: str, kind: str, own: Collection[str], common: Collection[str] = ()) -> str | None:
    """Return the argument that an unknown word probably means: one of the kind (`own`) or of every state (`common`).

    None if unclear.
    """
    if word in NAMES.get(kind.partition(".")[0], ()):
        return "name"
    for meant in ARGUMENTS.get(word, ()):
        if meant in own:
            return meant
    sure = nearest(word, sorted(common), SURE)  # there are many of these: a less similar word matches by accident
    return nearest(word, sorted({*own, sure} if sure else own))


def meant_function(word: str, family: str, known: Iterable[str]) -> str | None:
    """Return the function of a family that an unknown word probably means, by meaning or by spelling.

    None if unclear.
    """
    elsewhere = FUNCTIONS.get(family, {})
    near = nearest(word, [*known, *elsewhere])
    return elsewhere.get(near, near) if near else None


def no_such_type(word: str) -> str:
    """Return a hint for an unknown type of state in a requisite or an extend; empty if the type exists."""
    if word in ("id", "sls") or has_family(word):
        return ""
    said, hint = no_such_family(word, families())
    return f"{said}: {hint}"


def no_such_family(word: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the message and the hint for an unknown type of state; `known` are the existing types."""
    package = word.partition("_")[0]
    if package in PACKAGES:
        hint = f"the setting `plugins` with the package {package} gives {PACKAGES[package]} (docs/{package}.md)"
        return f"there is no state {word!r}", hint
    if word in SALT or word.startswith(SALT_KINDRED):
        return (
            f"Holdfast does not have Salt's state {word!r}",
            "use cmd.run with creates, unless or onlyif instead, or write a kind of your own",
        )
    near = nearest(word, known)
    return f"there is no state {word!r}", f"did you mean {near}?" if near else f"available: {', '.join(known)}"
