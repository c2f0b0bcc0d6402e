"""Composites in the compiler: the order of parts, inherited arguments, low data, and problems."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast import Composite, Part
from holdfast.states.compile.compiler import Compiler
from holdfast.states.compile.composite import DEPTH
from holdfast.states.data import Compilation

from .conftest import request, write


class Room(Composite, kind="zroom.furnished"):
    """A lamp, and a bell that watches it."""

    color: str = "white"

    def parts(self) -> Sequence[Part]:
        """Return the parts, in the wrong order, which their requisites correct."""
        bell = Part("bell", "bell.rung", {"size": 1}, {"watch": ("lamp",)})
        return (bell, Part("lamp", "lamp.lit", {"name": f"{self.name} lamp", "color": self.color}))


class Flat(Composite, kind="zflat.furnished"):
    """Two rooms."""

    def parts(self) -> Sequence[Part]:
        """Return two rooms, one of which requires the other."""
        return (
            Part("small", "zroom.furnished"),
            Part("large", "zroom.furnished", {"retry": 2}, {"require": ("small",)}),
        )


class Endless(Composite, kind="zendless.made"):
    """A composite that contains another one of its kind, without end."""

    def parts(self) -> Sequence[Part]:
        """Return one part with a longer name, so that only the depth is limited."""
        return (Part("next", self.kind, {"name": posixpath.join(self.name, "x")}),)


class Self(Composite, kind="zself.made"):
    """A composite that contains itself."""

    def parts(self) -> Sequence[Part]:
        """Return the same composite."""
        return (Part("again", self.kind, {"name": self.name}),)


class Wrong(Composite, kind="zwrong.made"):
    """A composite with wrong parts."""

    how: str

    def parts(self) -> Sequence[Part]:
        """Return the wrong parts that the test wants."""
        lamp = Part("lamp", "lamp.lit")
        wrong: dict[str, Sequence[Part]] = {
            "argument": (Part("box", "crate.packed", {"name": "/x", "mode": "rw", "user": "a"}),),
            "kind": (Part("box", "crate.pakced"),),
            "requisite": (Part("lamp", "lamp.lit", {"require": []}),),
            "receives": (Part("lamp", "lamp.lit", {"recv": {"color": {"id": "other", "key": "color"}}}),),
            "nobody": (Part("lamp", "lamp.lit", {}, {"require": ("lmap",)}),),
            "backwards": (lamp, Part("b", "lamp.lit", {}, {"prereq": ("lamp",)})),
            "circle": (Part("a", "lamp.lit", {}, {"require": ("b",)}), Part("b", "lamp.lit", {}, {"watch": ("a",)})),
            "twice": (lamp, lamp),
            "many": [Part(str(number), "zroom.furnished") for number in range(10_001)],
        }
        return wrong[self.how]


def order(compilation: Compilation) -> list[str]:
    """Return the identities in order of execution."""
    return [call.identity for call in compilation.calls]


def requisites(compilation: Compilation, identity: str) -> dict[str, list[str]]:
    """Return the requisites of one call: kind -> identities."""
    names = order(compilation)
    call = compilation.calls[names.index(identity)]
    assert call.position == names.index(identity)
    return {kind: [names[target] for target in targets] for kind, targets in call.requisites.items()}


TREE = """\
x:
  lamp.lit: []
den:
  zroom.furnished:
    - watch: [{lamp: x}]
y:
  lamp.lit:
    - require: [{zroom: den}]
"""


def test_parts_come_directly_before_their_composite(compile_tree):
    """The parts are ordered by their requisites, and their identities contain that of the composite."""
    compilation = compile_tree(TREE)

    assert order(compilation) == [
        "lamp.lit[x]",
        "lamp.lit[den/lamp]",
        "bell.rung[den/bell]",
        "zroom.furnished[den]",
        "lamp.lit[y]",
    ]
    assert [call.resource.name for call in compilation.calls][1:3] == ["den lamp", "bell"]
    assert compilation.calls[1].reason == "part of zroom.furnished[den]"
    assert compilation.calls[1].location == compilation.calls[3].location


def test_each_part_has_the_requisites_of_the_composite(compile_tree):
    """The composite keeps its gates and watches its parts.

    A state that requires the composite requires nothing else.
    """
    compilation = compile_tree(TREE)

    assert requisites(compilation, "bell.rung[den/bell]") == {"watch": ["lamp.lit[x]", "lamp.lit[den/lamp]"]}
    assert requisites(compilation, "lamp.lit[den/lamp]") == {"watch": ["lamp.lit[x]"]}
    assert requisites(compilation, "zroom.furnished[den]") == {
        "require": ["lamp.lit[x]"],
        "watch": ["lamp.lit[den/lamp]", "bell.rung[den/bell]"],
    }
    assert requisites(compilation, "lamp.lit[y]") == {"require": ["zroom.furnished[den]"]}


def test_only_parts_with_a_refresh_listen(compile_tree):
    """Other parts would only fail, and the composite itself has nothing to refresh."""
    compilation = compile_tree(TREE.replace("watch:", "listen:"))

    assert requisites(compilation, "bell.rung[den/bell]") == {
        "listen": ["lamp.lit[x]"],
        "watch": ["lamp.lit[den/lamp]"],
    }
    assert requisites(compilation, "lamp.lit[den/lamp]") == {}
    assert "listen" not in requisites(compilation, "zroom.furnished[den]")


def test_a_prereq_on_a_composite_is_one_on_all_parts(compile_tree):
    """Only the parts would change something."""
    compilation = compile_tree("den: zroom.furnished\nx:\n  lamp.lit:\n    - prereq: [{zroom: den}]\n")

    assert order(compilation)[0] == "lamp.lit[x]"
    assert requisites(compilation, "lamp.lit[x]") == {"prereq": order(compilation)[1:]}


def test_parts_inherit_meta_arguments(compile_tree):
    """Guards, noop and retry are inherited, check_cmd is not; an argument of a part takes precedence."""
    meta = "    - onlyif: test -e /x\n    - noop: true\n    - retry: 5\n    - check_cmd: ['true']\n    - runas: me\n"
    compilation = compile_tree("home:\n  zflat.furnished:\n" + meta)
    calls = {call.identity: call for call in compilation.calls}

    small, large = calls["lamp.lit[home/small/lamp]"], calls["lamp.lit[home/large/lamp]"]
    assert (small.meta.onlyif, small.meta.noop, small.meta.check_cmd) == (("test -e /x",), True, None)
    assert (small.meta.retry.attempts, large.meta.retry.attempts) == (6, 3)
    assert small.low["runas"] == "me"
    assert calls["zflat.furnished[home]"].meta.check_cmd == ("true",)


def test_a_composite_may_contain_composites(compile_tree):
    """Parts of a part come before it, and have its requisites."""
    compilation = compile_tree("home: zflat.furnished\n")

    inner = [f"{kind}[home/{room}{part}]" for room in ("small", "large") for kind, part in PARTS]
    assert order(compilation) == [*inner, "zflat.furnished[home]"]
    assert requisites(compilation, "lamp.lit[home/large/lamp]") == {"require": ["zroom.furnished[home/small]"]}


PARTS = (("lamp.lit", "/lamp"), ("bell.rung", "/bell"), ("zroom.furnished", ""))


def test_each_of_the_names_is_a_composite(compile_tree):
    """The identities of the parts contain the name, like those of the composites."""
    compilation = compile_tree("x:\n  zroom.furnished:\n    - names: [a, b]\n")

    assert order(compilation)[0] == "lamp.lit[x:a/lamp]"
    assert len(set(order(compilation))) == 6


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("argument", "crate.packed[bad/box]: the argument 'mode' is wrong"),
        ("kind", "pakced"),
        ("receives", "the part 'lamp' cannot receive from another state"),
        ("requisite", "'require' is not an argument of the part 'lamp'; requisites are a separate argument of Part"),
        ("nobody", "the part 'lamp' has require on 'lmap', which is not a part"),
        ("backwards", "the part 'b' cannot have 'prereq' on another part"),
        ("circle", "its parts require each other in a cycle: a -> b -> a"),
        ("twice", "two parts have one id"),
        ("many", "it has more than 10000 parts"),
    ],
)
def test_problems_of_parts_are_reported_at_the_composite(problems, how, told):
    """The user can change only the state of the composite."""
    (problem,) = problems(f"fine: lamp.lit\nbad:\n  zwrong.made:\n    - how: {how}\n")

    assert told in problem.message
    assert (problem.location.file.endswith("site.sls"), problem.location.line) == (True, 3)


def test_composites_without_end_are_refused(problems):
    """A composite may not contain itself, nor others without end."""
    (itself,) = problems("a: zself.made\n")
    (endless,) = problems("a: zendless.made\n")

    assert "zself.made[a/again] contains itself" in itself.message
    assert f"zendless.made[a] cannot be made: composites contain each other more than {DEPTH} deep" in endless.message


def test_parts_and_other_states_may_not_contradict_each_other(problems):
    """No other state may manage the same thing differently, or have the identity of a part."""
    parts = "unit:\n  systemd_unit.running:\n    - contents: x\n"
    (double,) = problems(parts + "/etc/systemd/system/unit.service:\n  file.managed:\n    - contents: y\n")
    (same,) = problems("den: zroom.furnished\nden/lamp: lamp.lit\n")

    assert double.code == "contradiction"
    assert same.code == "identity-repeated"


def placed(compilation):
    """Return the calls, each with its location."""
    return [(call, call.location) for call in compilation.calls]


def test_a_used_compiler_returns_the_same_calls(tmp_path):
    """Unchanged calls are the same objects, so that a swap leaves them alone."""
    compiler, root = Compiler(), tmp_path / "states"
    write(root, {"site.sls": TREE, "a.sls": "first: lamp.lit\n"})
    first = compiler.compile(request(root))
    again = compiler.compile(request(root))
    assert all(new is old for new, old in zip(again.calls, first.calls, strict=True))

    for text in ("first: lamp.lit\nsecond: lamp.lit\n", "{}\n"):
        write(root, {"a.sls": text})
        changed = compiler.compile(request(root))
        assert placed(changed) == placed(Compiler().compile(request(root)))
    write(root, {"a.sls": "first: lamp.lit\n"})
    moved = compiler.compile(request(root))
    write(root, {"a.sls": "first:\n  lamp.lit:\n    - color: red\n"})
    recolored = compiler.compile(request(root))
    assert [new is old for new, old in zip(recolored.calls, moved.calls, strict=True)] == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    write(root, {"site.sls": TREE.replace("watch:", "color: red\n    - watch:")})
    assert placed(compiler.compile(request(root))) == placed(Compiler().compile(request(root)))


def test_a_systemd_unit_is_a_file_and_a_service_that_watches_it(compile_tree, problems):
    """A template unit has one file for all its instances. The state needs contents or a source."""
    compilation = compile_tree("app@one:\n  systemd_unit.running:\n    - contents: '[Service]'\n")
    unit, service, whole = compilation.calls

    assert unit.resource.name == "/etc/systemd/system/app@.service"
    assert (service.kind, service.resource.name, service.resource.enable) == ("service.running", "app@one", True)
    assert service.requisites == {"watch": (0,)}
    assert whole.identity == "systemd_unit.running[app@one]"
    assert replace(whole, low={}).requisites == {"watch": (0, 1)}
    (problem,) = problems("app: systemd_unit.running\n")
    assert r'set either contents, such as "[Service]\nRestart=always", or source' in problem.message


def test_a_timer_is_two_files_and_the_timer(compile_tree, problems):
    """The timer watches its own file; systemd reads that of the service when it has changed."""
    texts = "    - contents: '[Timer]'\n    - service: '[Service]'\n"
    service, reload, file, timer, whole = compile_tree(f"app@one:\n  systemd_unit.timer:\n{texts}").calls

    assert (service.resource.name, service.resource.contents) == ("/etc/systemd/system/app@.service", "[Service]")
    assert (reload.kind, reload.requisites) == ("module.wait", {"watch": (0,)})
    assert file.resource.name == "/etc/systemd/system/app@.timer"
    assert (timer.kind, timer.resource.name, timer.requisites) == ("service.running", "app@one.timer", {"watch": (2,)})
    assert whole.identity == "systemd_unit.timer[app@one]"
    only = compile_tree("app.timer:\n  systemd_unit.timer:\n    - contents: x\n").calls
    assert [call.resource.name for call in only] == ["/etc/systemd/system/app.timer", "app.timer", "app.timer"]
    (problem,) = problems(f"app.service:\n  systemd_unit.timer:\n{texts}")
    assert "app.service is not a timer: write app.timer" in problem.message
    (problem,) = problems("app: systemd_unit.timer\n")
    assert r'such as "[Timer]\nOnCalendar=daily", or source' in problem.message


def test_a_drop_in_is_a_file_that_systemd_reads(compile_tree, problems):
    """With `running`, the unit watches it."""
    text = "    - contents: '[Service]'\n"
    file, reload, whole = compile_tree(f"app@one:\n  systemd_unit.dropin:\n{text}").calls

    assert file.resource.name == "/etc/systemd/system/app@one.service.d/holdfast.conf"
    assert reload.requisites == {"watch": (0,)}
    assert whole.identity == "systemd_unit.dropin[app@one]"
    calls = compile_tree(f"app.socket:\n  systemd_unit.dropin:\n{text}    - file: 10-x\n    - running: true\n").calls
    assert calls[0].resource.name == "/etc/systemd/system/app.socket.d/10-x.conf"
    assert (calls[2].resource.name, calls[2].requisites["watch"]) == ("app.socket", (0,))
    for name in ("../x", ".x", "a/b", "'a b'"):
        (problem,) = problems(f"app:\n  systemd_unit.dropin:\n{text}    - file: {name}\n")
        assert "the name of a drop-in file" in problem.message
