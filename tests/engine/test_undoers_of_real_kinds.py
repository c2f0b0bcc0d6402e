"""Pairs of real kinds that can undo each other under different names, and pairs that cannot."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.engine.execute.undoers import RecordedChange, _meet
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.registry import find

UNITS = "/etc/systemd/system"
MEET = [
    ("cron.present", "true", {"user": "bob"}, "file.managed", "/var/spool/cron/crontabs/bob", {}),
    ("cron.env_present", "MAILTO", {"value": "x"}, "file.absent", "/var/spool/cron/crontabs/root", {}),
    ("user.present", "bob", {"groups": ["staff"]}, "group.present", "staff", {"members": []}),
    ("user.present", "bob", {"groups": []}, "group.present", "staff", {"members": ["bob"]}),
    ("user.absent", "bob", {}, "group.present", "staff", {"members": ["bob"]}),
    ("user.present", "bob", {"home": "/home/bob"}, "file.absent", "/home/bob", {}),
    (
        "sysctl.present",
        "vm.swappiness",
        {"value": "1", "config": "/etc/sysctl.d/x.conf"},
        "file.managed",
        "/etc/sysctl.d/x.conf",
        {},
    ),
    ("file.append", "/etc/motd", {"text": "a"}, "file.managed", "/etc/motd", {}),
    ("file.line", "/etc/motd", {"content": "a", "mode": "delete"}, "file.append", "/etc/motd", {"text": "a"}),
    ("file.rename", "/etc/b", {"source": "/etc/a"}, "file.managed", "/etc/a", {}),
    ("service.running", "nginx", {}, "file.managed", f"{UNITS}/nginx.service", {}),
    (
        "service.disabled",
        "nginx",
        {},
        "file.symlink",
        f"{UNITS}/multi-user.target.wants/nginx.service",
        {"target": "/x"},
    ),
    ("service.masked", "nginx", {}, "file.absent", f"{UNITS}/nginx.service", {}),
    ("service.running", "nginx", {}, "file.managed", f"{UNITS}/nginx.service.d/x.conf", {}),
]
APART = [
    ("cron.present", "true", {}, "cron.present", "false", {}),
    ("sysctl.present", "vm.swappiness", {"value": "1"}, "sysctl.present", "vm.max_map_count", {"value": "1"}),
    ("user.present", "bob", {"groups": ["staff"]}, "user.present", "eve", {"groups": ["staff"]}),
    ("file.directory", "/srv", {}, "file.managed", "/srv/x", {}),
    ("service.running", "nginx", {}, "file.managed", f"{UNITS}/multi-user.target.wants/apache2.service", {}),
    ("file.managed", "/etc/a", {"user": "bob"}, "user.present", "bob", {}),
]


def things(
    *declarations: Any, changes: frozenset[Uid] = frozenset(), removed: frozenset[str] = frozenset()
) -> list[RecordedChange]:
    """Return what the two resources of a pair touch."""
    pairs = zip(declarations[::3], declarations[1::3], declarations[2::3], strict=True)
    resources = [(kind, _declared(kind, name, given)) for kind, name, given in pairs]
    return [
        RecordedChange(kind, 0.0, 0.0, changes.union(it.uids()), frozenset(it.touches()), removed)
        for kind, it in resources
    ]


def _declared(kind: str, name: str, given: dict[str, Any]) -> Resource:
    cls = find(kind)
    assert cls is not None
    return cls.declare(name, **given)


@pytest.mark.parametrize("pair", MEET, ids=lambda pair: f"{pair[0]} and {pair[3]} {pair[4]}")
def test_these_can_undo_each_other(pair: Any) -> None:
    """The order of the two resources has no effect."""
    one, other = things(*pair)

    assert _meet(one, other)
    assert _meet(other, one)


@pytest.mark.parametrize("pair", APART, ids=lambda pair: f"{pair[0]} and {pair[3]} {pair[4]}")
def test_these_cannot_undo_each_other(pair: Any) -> None:
    """The pairs are parts of one file, users of one group, a directory and its file, a file and its owner."""
    one, other = things(*pair)

    assert not _meet(one, other)
    assert not _meet(other, one)


def test_a_directory_can_undo_files_that_it_has_changed_or_removed() -> None:
    """It cannot undo the other files in it."""
    directory, file, other = things(
        "file.directory", "/srv", {}, "file.managed", "/srv/x", {}, "file.managed", "/srv/y", {}
    )
    changed = directory._replace(own=directory.own | {("path", "/srv/x")})
    (absent,) = things("file.absent", "/srv", {}, removed=frozenset({"/srv"}))

    assert _meet(changed, file)
    assert _meet(file, changed)
    assert not _meet(changed, other)
    assert _meet(file, absent)
