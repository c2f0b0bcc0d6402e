"""Automatic edges: each rule, the arguments that turn them off, and states without edges.

A search without an index finds the same edges.
"""

from __future__ import annotations

import itertools
import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resources import registry
from holdfast.resources.contract import Resource
from holdfast.resources.dependencies import Dependency, programs
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Edgeable
from holdfast.states.compile.automatic import automatic, describe, interesting, packages
from holdfast.states.data import Call
from holdfast.states.parse.marks import At, Document, Spot


def declared(*states: tuple[Any, ...]) -> list[Call]:
    """Return calls in order of execution: (kind, name), then arguments; `meta` and `requisites` are those of the call.

    The requisites map a kind to positions.
    """
    return [_call(position, *state) for position, state in enumerate(states)]


def _call(position: int, kind: str, name: str, arguments: dict[str, Any] | None = None) -> Call:
    given = dict(arguments or {})
    meta, requisites = Meta.model_validate(given.pop("meta", {})), given.pop("requisites", {})
    cls = registry.find(kind)
    assert cls is not None
    family, _, function = kind.partition(".")
    low = {
        "state": family,
        "fun": function,
        "name": name,
        "__id__": name,
        **dict.fromkeys(requisites, ()),
        **meta.model_dump(exclude_unset=True),
    }
    return Call(
        position,
        f"{kind}[{name}]",
        low,
        Spot(Document("x.sls", ""), At(position, -1)),
        cls.declare(name, **given),
        meta,
        requisites,
    )


def edges(*states: tuple[Any, ...], shipped: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """Return the identities that each identity waits for."""
    calls = declared(*states)
    return {
        calls[who].identity: [calls[up].identity for up in ups] for who, ups in automatic(calls, shipped).edges.items()
    }


FILE = ("file.managed", "/srv/app/conf/a.ini")
LINE = "deb https://deb.example.org stable main"
ANSWER = {"data": {"mail/host": {"type": "string", "value": "x"}}}
RULES = {
    "a package waits for the repositories": (("pkgrepo.managed", LINE), ("pkg.installed", "lamp")),
    "a newest package waits until a repository is gone": (("pkgrepo.absent", LINE), ("pkg.latest", "lamp")),
    "a package waits for the answers to its questions": (("debconf.set", "mail", ANSWER), ("pkg.installed", "mail")),
    "a repository waits for the file of its key": (
        ("file.managed", "/etc/apt/keyrings/x.gpg"),
        ("pkgrepo.managed", "deb [signed-by=/etc/apt/keyrings/x.gpg] https://deb.example.org stable main"),
    ),
    "a choice waits for the alternative": (
        ("alternatives.install", "lamp", {"link": "/usr/bin/lamp", "path": "/opt/lamp", "priority": 1}),
        ("alternatives.set", "lamp", {"path": "/opt/lamp"}),
    ),
    "a file waits for the directory it lies in": (("file.directory", "/srv/app/conf"), FILE),
    "a file waits for the nearest directory above it": (("file.directory", "/srv/app"), FILE),
    "a directory waits for the one above it": (("file.directory", "/srv"), ("file.directory", "/srv/app/x")),
    "a file waits for the link it lies behind": (("file.symlink", "/srv/app", {"target": "/opt/app"}), FILE),
    "a link waits for its target": (
        ("file.directory", "/opt/app"),
        ("file.symlink", "/srv/app", {"target": "/opt/app/"}),
    ),
    "a file waits for the tree it lies in": (("file.recurse", "/srv/app", {"source": "salt://app"}), FILE),
    "a file waits for its user": (("user.present", "web"), ("file.managed", "/a", {"user": "web"})),
    "a file waits for its group": (("group.present", "web"), ("file.managed", "/a", {"group": "web"})),
    "a tree waits for its user": (
        ("user.present", "web"),
        ("file.recurse", "/a", {"source": "salt://a", "user": "web"}),
    ),
    "a file in a home directory waits for its user": (
        ("user.present", "web", {"home": "/home/web"}),
        ("file.managed", "/home/web/.profile"),
    ),
    "an edit waits for the file": (FILE, ("file.append", FILE[1], {"text": "x"})),
    "a copy waits for its source": (FILE, ("file.copy", "/b", {"source": FILE[1]})),
    "a move waits for its source": (FILE, ("file.rename", "/b", {"source": FILE[1]})),
    "a command waits for the script it runs": (("file.managed", "/opt/run.sh"), ("cmd.run", "/opt/run.sh --now")),
    "a command waits for the script it has a shell run": (
        ("file.managed", "/opt/run.sh"),
        ("cmd.run", "A=1 nice -n 5 sh -e /opt/run.sh"),
    ),
    "a command waits for its working directory": (
        ("file.directory", "/srv/app"),
        ("cmd.run", "make", {"cwd": "/srv/app/src"}),
    ),
    "a command waits for its user": (("user.present", "web"), ("cmd.run", "make", {"runas": "web"})),
    "a script waits for its source on this host": (
        ("file.managed", "/opt/x"),
        ("cmd.script", "migrate", {"source": "file:///opt/x"}),
    ),
    "a service waits for its unit file": (
        ("file.managed", "/etc/systemd/system/app.service"),
        ("service.running", "app"),
    ),
    "a service waits for the drop-in of its unit": (
        ("file.managed", "/etc/systemd/system/app.service.d/limits.conf"),
        ("service.running", "app"),
    ),
    "a service waits for the template of its unit": (
        ("file.managed", "/etc/systemd/system/app@.service"),
        ("service.enabled", "app@one"),
    ),
    "a service waits for the package of its name": (("pkg.installed", "nginx"), ("service.running", "nginx")),
    "a user waits for its groups": (("group.present", "devs"), ("user.present", "a", {"groups": ["devs"]})),
    "a user waits for its primary group": (("group.present", "devs"), ("user.present", "a", {"gid": "devs"})),
    "a user waits for its optional groups": (
        ("group.present", "devs"),
        ("user.present", "a", {"optional_groups": ["devs"]}),
    ),
    "a user waits for the parent of its home directory": (
        ("file.directory", "/srv/homes"),
        ("user.present", "a", {"home": "/srv/homes/a"}),
    ),
    "a group waits for its members": (("user.present", "a"), ("group.present", "devs", {"addusers": ["a"]})),
    "a package waits for its file": (
        ("file.managed", "/opt/a.deb"),
        ("pkg.installed", "a", {"sources": [{"a": "/opt/a.deb"}]}),
    ),
}


@pytest.mark.parametrize("states", [pytest.param(states, id=rule) for rule, states in RULES.items()])
def test_each_rule_gives_one_edge(states: tuple[Any, ...]) -> None:
    """The second state waits for the first; the first one waits for nothing."""
    first, second = declared(*states)

    assert edges(*states) == {second.identity: [first.identity]}
    assert not automatic([first]).edges


@pytest.mark.parametrize(
    "states",
    [
        pytest.param(
            (("file.absent", "/srv"), ("file.managed", "/srv/a", {"makedirs": True})),
            id="a removed directory offers nothing",
        ),
        pytest.param(
            (("user.absent", "a"), ("file.managed", "/a", {"user": "a"})), id="a removed account offers nothing"
        ),
        pytest.param((("file.directory", "/srv/ap"), FILE), id="a directory is not any prefix of a path"),
        pytest.param(
            (("file.managed", "/opt/x"), ("cmd.run", "echo /opt/x")), id="an argument of a command is not a program"
        ),
        pytest.param(
            (("file.managed", "/opt/x"), ("cmd.run", "sh -c 'x")), id="a command with an open quote is not parsed"
        ),
        pytest.param(
            (("file.managed", "/opt/x"), ("cmd.run", "/opt/x", {"root": "/srv"})),
            id="a command in another root uses other paths",
        ),
        pytest.param(
            (("user.present", "a", {"uid": 7}), ("file.managed", "/a", {"user": "7"})),
            id="a number is not the name of a user",
        ),
        pytest.param((("service.running", "a"), ("service.running", "b")), id="services do not depend on each other"),
        pytest.param((("pkg.removed", "nginx"), ("service.dead", "nginx")), id="a service to be stopped needs nothing"),
    ],
)
def test_no_edges(states: tuple[Any, ...]) -> None:
    """Without dependencies, no call waits."""
    assert edges(*states) == {}


def test_a_package_waits_for_all_earlier_repositories() -> None:
    """A later repository does not count: the order of the states decides."""
    lines = [LINE, LINE.replace("stable", "testing"), LINE.replace("stable", "old")]
    states = [("pkgrepo.managed", line) for line in lines]
    found = edges(*states[:2], ("pkg.installed", "lamp"), states[2])
    assert found["pkg.installed[lamp]"] == [f"pkgrepo.managed[{line}]" for line in lines[:2]]


def test_a_service_waits_for_all_files_of_its_unit() -> None:
    """The unit file and two drop-ins give three edges."""
    parts = [("file.managed", f"/etc/systemd/system/app.service{name}") for name in ("", ".d/a.conf", ".d/b.conf")]

    assert edges(*parts, ("service.running", "app"))["service.running[app]"] == [
        f"file.managed[{name}]" for _, name in parts
    ]


def test_of_several_equal_offers_only_the_last_earlier_one_gives_an_edge() -> None:
    """The other offers precede it anyway, so any number of them costs the same."""
    twice = ("file.directory", "/srv", {"mode": "0755"})

    assert automatic(declared(twice, twice, ("file.managed", "/srv/a"), twice)).edges == {2: (1,)}


@pytest.mark.parametrize("kind", ["require", "watch", "onchanges", "onfail", "require_any"])
def test_a_requisite_makes_an_automatic_edge_unnecessary(kind: str) -> None:
    """An explicit edge between the same two calls is the only one."""
    assert edges(("file.directory", "/srv"), ("file.managed", "/srv/a", {"requisites": {kind: (0,)}})) == {}


def test_a_listen_does_not_replace_an_automatic_edge() -> None:
    """`listen` does not make a call wait."""
    assert automatic(
        declared(("file.directory", "/srv"), ("file.managed", "/srv/a", {"requisites": {"listen": (0,)}}))
    ).edges == {1: (0,)}


@pytest.mark.parametrize("where", [0, 1])
def test_autoedge_false_on_either_end_turns_it_off(where: int) -> None:
    """`autoedge: false` of either state removes the edge."""
    states: list[tuple[Any, ...]] = [("file.directory", "/srv"), ("file.managed", "/srv/a")]
    states[where] = (*states[where], {"meta": {"autoedge": False}})

    assert edges(*states) == {}


def test_a_state_before_the_one_it_needs_is_a_warning() -> None:
    """The order of the author stays. The warning says that the state fails on a new host."""
    calls = declared(("file.managed", "/srv/a"), ("file.directory", "/srv"))
    found = automatic(calls)

    assert found.edges == {}
    assert [describe(calls, drop) for drop in found.dropped] == [
        (
            "file.managed[/srv/a] needs the directory /srv, but file.directory[/srv] "
            "(x.sls:2) comes after it: on a new host, the earlier state fails"
        )
    ]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(("file.managed", "/srv/a", {"makedirs": True}), id="the state makes the directory itself"),
        pytest.param(("file.managed", "/srv/a", {"meta": {"onlyif": ["false"]}}), id="the state has a guard"),
        pytest.param(("file.managed", "/srv/a", {"requisites": {"prereq": (1,)}}), id="the state is to come before"),
        pytest.param(("file.managed", "/srv/a", {"meta": {"autoedge": False}}), id="the state has autoedge: false"),
    ],
)
def test_no_warning_if_the_state_need_not_fail(first: tuple[Any, ...]) -> None:
    """A warning that may be wrong is worse than none."""
    assert automatic(declared(first, ("file.directory", "/srv"))).dropped == []


SHIPPED = {
    "/etc/nginx": ["nginx"],
    "/etc/nginx/sites-enabled": ["nginx"],
    "/etc/nginx/nginx.conf": ["nginx"],
    "/usr/sbin/nginx": ["nginx"],
    "/usr/lib/systemd/system/web.service": ["nginx"],
}


@pytest.mark.parametrize(
    "state",
    [
        ("file.managed", "/etc/nginx/nginx.conf"),
        ("file.managed", "/etc/nginx/sites-enabled/new/deeper"),
        ("file.append", "/etc/nginx/other.conf", {"text": "x"}),
        ("cmd.run", "/usr/sbin/nginx -t"),
        ("service.running", "web"),
    ],
)
def test_a_state_that_uses_files_of_a_package_waits_for_it(state: tuple[Any, ...]) -> None:
    """The package comes first: it makes the directories, and installs the configuration that other states replace."""
    package = ("pkg.installed", "server", {"pkgs": ["nginx", "curl"]})
    (waits_for,) = edges(package, state, shipped=SHIPPED).values()

    assert waits_for == ["pkg.installed[server]"]
    assert edges(package, state) == {}
    assert edges(state, package, shipped=SHIPPED) == {}


def test_the_packages_and_paths_to_look_up_in_the_package_database() -> None:
    """The paths are those of states, their parents, and possible unit files.

    The packages are those that states install.
    """
    calls = declared(
        ("pkg.installed", "nginx:amd64"),
        ("file.managed", "/etc/nginx/x"),
        ("service.running", "web"),
        ("pkg.removed", "y"),
    )

    assert packages(calls) == ["nginx"]
    assert {"/etc/nginx/x", "/etc/nginx", "/etc", "/usr/lib/systemd/system/web.service"} <= interesting(calls)


def test_every_dependency_has_a_type_that_some_kind_offers() -> None:
    """No kind depends on something that no kind can offer."""
    known = {"path", "user", "group", "pkg", "unit-file", "unit-part", "locale", "module"}
    known |= {"alternative", "debconf", "repositories"}
    dependencies: list[Dependency] = [
        dependency
        for states in RULES.values()
        for call in declared(*states)
        for dependency in getattr(call.resource, "dependencies", tuple)()
    ]

    assert {dependency.type for dependency in dependencies} <= known


def test_programs_of_a_command() -> None:
    """Only the first word of a command, after wrappers, names a program."""
    assert list(programs("/usr/bin/python3 /opt/a.py /opt/b")) == ["/usr/bin/python3", "/opt/a.py"]
    assert list(programs("cd /srv && /opt/x")) == []
    assert list(programs("")) == []


# -- a search without an index -------------------------------------------------------------------------------------

NAMES = st.sampled_from("ab")
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
STATES = st.lists(
    st.tuples(st.sampled_from(["file.directory", "file.managed", "file.absent", "file.touch"]), PATHS, st.booleans()),
    max_size=14,
)


def naive(calls: list[Call]) -> set[tuple[int, int]]:
    """Compare each state with each other one: (target, waiting state)."""
    takers = [call for call in calls if call.kind != "file.absent" and call.meta.autoedge]
    found = set()
    for call in takers:
        above = [other for other in takers if other is not call and _is_above(other.resource.name, call.resource.name)]
        nearest = max((len(other.resource.name) for other in above), default=0)
        before = [
            other.position for other in above if len(other.resource.name) == nearest and other.position < call.position
        ]
        found |= {(max(before), call.position)} if before else set()
    return found


def _is_above(path: str, other: str) -> bool:
    while other != "/":
        other = posixpath.dirname(other)
        if path == other:
            return True
    return False


@given(STATES)
def test_edges_are_those_of_a_naive_search(states: list[tuple[str, str, bool]]) -> None:
    """The paths are random and in random order; some states have `autoedge: false`."""
    calls = declared(*[(kind, path, {"meta": {"autoedge": takes_part}}) for kind, path, takes_part in states])
    found = automatic(calls).edges

    assert {(up, who) for who, ups in found.items() for up in ups} == naive(calls)
    assert all(up < who for who, ups in found.items() for up in ups)


def test_the_number_of_edges_is_proportional_to_the_number_of_states() -> None:
    """A thousand files share a directory, and a thousand directories contain each other."""
    same = [("file.directory", "/srv")] * 1000
    deep = [("file.directory", path) for path in itertools.accumulate(["/d"] * 1000)]
    edits = [("file.append", "/srv/x", {"text": "a"})] * 1000
    calls = declared(*same, *deep, *edits, *[("file.managed", f"/srv/{n}") for n in range(1000)])

    assert sum(map(len, automatic(calls).edges.values())) < 2 * len(calls)


def test_a_failing_kind_is_a_problem_at_its_state(problems: Any) -> None:
    """The check reports the error, because the later search for edges expects none."""
    (problem,) = problems("a: zneedy.made\n")

    assert (problem.code, problem.location.line) == ("kind-broken", 1)
    assert "lost" in problem.message


class Needy(Edgeable, Resource, kind="zneedy.made"):
    """A kind whose `dependencies` fails."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Fail."""
        raise RuntimeError("lost")

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Return that nothing is to be done."""
        return True
