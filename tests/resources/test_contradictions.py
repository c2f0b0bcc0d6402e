"""Two declarations of one thing: when they can both hold, and when they cannot."""

from __future__ import annotations

import pytest

from holdfast.resources import registry


def declare(kind: str, name: str, **arguments: object):
    """Return a resource of this kind."""
    cls = registry.find(kind)
    assert cls is not None
    return cls.declare(name, **arguments)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("service.running", "nginx"), ("service.enabled", "nginx")),
        (("service.running", "nginx", {"enable": True}), ("service.running", "nginx")),
        (("pkg.installed", "web", {"pkgs": ["a", "b"]}), ("pkg.installed", "db", {"pkgs": ["b", "c"]})),
        (("pkg.installed", "a"), ("pkg.latest", "a")),
        (("pkg.installed", "a"), ("pkg.held", "a")),
        (("pkg.installed", "a"), ("pkg.removed", "a", {"version": "<2"})),
        (("pkg.removed", "a", {"version": "1"}), ("pkg.installed", "a", {"version": "2"})),
        (("pkg.removed", "a", {"version": "1"}), ("pkg.purged", "a", {"version": "2"})),
        (("group.present", "g", {"members": ["a"]}), ("group.present", "g", {"system": True})),
        (("file.managed", "/f", {"replace": False, "mode": "0440"}), ("file.managed", "/f", {"contents": "x"})),
        (("file.managed", "/f", {"replace": False, "contents": "x"}), ("file.managed", "/f", {"contents": "y"})),
        (("file.directory", "/d", {"makedirs": True}), ("file.directory", "/d", {"mode": "0755"})),
        (("file.append", "/f", {"text": "a"}), ("file.append", "/f", {"text": "b"})),
        (("file.append", "/f", {"text": "a"}), ("file.replace", "/f", {"pattern": "a", "repl": "b"})),
        (("file.managed", "/f", {"contents": "a\nb"}), ("file.append", "/f", {"text": "b"})),
        (("file.managed", "/f", {"mode": "0644"}), ("file.append", "/f", {"text": "b"})),
        (("file.managed", "/f", {"contents": "a", "replace": False}), ("file.append", "/f", {"text": "b"})),
        (("file.managed", "/f", {"source": "salt://f"}), ("file.append", "/f", {"text": "b"})),
        (("file.managed", "/f", {"contents": "{{ x }}", "template": "jinja"}), ("file.append", "/f", {"text": "b"})),
        (("file.managed", "/f", {"contents": "a"}), ("file.append", "/f", {"source": "salt://g"})),
        (("file.managed", "/f", {"contents": "k=1"}), ("file.keyvalue", "/f", {"key": "k", "value": "1"})),
        (("file.managed", "/f", {"contents": "k=1"}), ("file.replace", "/f", {"pattern": "^k=.*", "repl": "k=1"})),
        (("file.managed", "/f", {"contents": "a" * 5000}), ("file.replace", "/f", {"pattern": "(a+)+b", "repl": "c"})),
        (("file.managed", "/f", {"contents": "#a"}), ("file.comment", "/f", {"regex": "a"})),
        (("file.symlink", "/f", {"target": "/g"}), ("file.append", "/f", {"text": "b"})),
        (("file.absent", "/f"), ("file.line", "/f", {"mode": "delete", "match": "x", "quiet": True})),
        (("file.absent", "/d"), ("file.pruned", "/d")),
    ],
)
def test_declarations_that_can_both_hold(one: tuple, other: tuple) -> None:
    """They share a uid, and do not contradict each other."""
    left, right = (declare(kind, name, **(rest[0] if rest else {})) for kind, name, *rest in (one, other))

    assert set(left.uids()) & set(right.uids())
    assert left.contradicts(right) is None


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (("service.running", "nginx"), ("service.dead", "nginx"), "active is True, not False"),
        (("service.enabled", "nginx"), ("service.running", "nginx", {"enable": False}), "enabled is True, not False"),
        (("group.present", "g", {"gid": 5}), ("group.present", "g", {"gid": 6}), "gid differs"),
        (
            ("file.managed", "/f", {"mode": "0440"}),
            ("file.managed", "/f", {"mode": "0644", "contents": "x"}),
            "mode differs",
        ),
        (("file.managed", "/f", {"contents": "x"}), ("file.managed", "/f", {"source": "salt://x"}), "source differs"),
        (("pkg.installed", "a"), ("pkg.removed", "a"), "one is pkg.installed, the other pkg.removed"),
        (("pkg.removed", "a"), ("pkg.installed", "a", {"version": "1"}), "one is pkg.removed, the other pkg.installed"),
        (
            ("pkg.installed", "a", {"version": "1"}),
            ("pkg.removed", "a", {"version": "1"}),
            "one is pkg.installed, the other pkg.removed",
        ),
        (("pkg.installed", "a", {"version": "1"}), ("pkg.installed", "a", {"version": "2"}), "version 1 of a is not 2"),
        (("file.managed", "/a", {"contents": "x"}), ("file.managed", "/a", {"contents": "y"}), "contents differs"),
        (("file.managed", "/a"), ("file.absent", "/a"), "kind file.managed is not file.absent"),
        (("file.absent", "/a"), ("file.append", "/a", {"text": "b"}), "kind file.absent is not file.append"),
        (("file.directory", "/a"), ("file.append", "/a", {"text": "b"}), "kind file.directory is not file.append"),
    ],
)
def test_declarations_that_cannot_both_hold(one: tuple, other: tuple, why: str) -> None:
    """The reason names the difference."""
    left, right = (declare(kind, name, **(rest[0] if rest else {})) for kind, name, *rest in (one, other))

    assert left.contradicts(right) == why


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("file.append", {"text": "c"}),
        ("file.prepend", {"text": "b", "header": True}),
        ("file.blockreplace", {"content": "c", "append_if_not_found": True}),
        ("file.blockreplace", {"content": "c"}),
        ("file.line", {"mode": "insert", "content": "c", "location": "end"}),
        ("file.line", {"mode": "delete", "match": "b"}),
        ("file.replace", {"pattern": "^a", "repl": "c"}),
        ("file.comment", {"regex": "^a"}),
        ("file.uncomment", {"regex": "c"}),
        ("file.keyvalue", {"key": "k", "value": "2", "append_if_not_found": True}),
    ],
)
def test_a_part_that_is_not_in_the_declared_content(kind: str, arguments: dict[str, object]) -> None:
    """In either order: the part would be added and removed again and again, or never be found."""
    whole, part = declare("file.managed", "/f", contents="a\nb\nk=1"), declare(kind, "/f", **arguments)

    why = f"{kind} changes the content that file.managed declares; put it there, or set replace: false"
    assert whole.contradicts(part) == part.contradicts(whole) == why
