"""The compiler knows which grains a template has read; a change of other grains renders nothing."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.view.grains import ALL, CALLS, Grains, seen
from holdfast.states.view.host_view import HostView

GRAINS = {"id": "web1", "os": "Debian", "ipv4": ["10.0.0.1"], "mem": {"total": 4}}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x", set()),
        ("{{ grains.os }}", {"os"}),
        ("{{ grains['os'] }}", {"os"}),
        ("{{ grains.get('os') }}{{ grains.mem.total }}", {"os", "mem"}),
        ("{{ grains.nope | default('x') }}", {"nope"}),
        ("{% if 'nope' in grains %}{% endif %}", {"nope"}),
        ("{{ salt['grains.get']('mem:total') }}", {"mem"}),
        ("{{ salt['grains.filter_by']({'Debian': 1}, grain='os') }}", {"os"}),
        ("{{ salt['match.grain']('os:Debian') }}", {"os"}),
        ("{{ opts.grains.os }}", {"os"}),
        ("{{ salt['network.ip_addrs']() }}", {"ipv4", "ip4_interfaces"}),
        ("{% for name in grains %}{% endfor %}", {ALL}),
        ("{{ grains | length }}", {ALL}),
        ("{{ grains | json }}", {ALL}),
        ("{{ grains | yaml }}", {ALL}),
        ("{{ grains ~ '' }}", {ALL}),
        ("{{ grains | string }}", {ALL}),
        ("{{ dict(grains) }}", {ALL}),
        ("{{ dict(grains, more=1) }}", {ALL}),
        ("{{ grains.copy() }}", {ALL}),
        ("{{ grains == {} }}", {ALL}),
        ("{{ grains | dictsort }}", {ALL}),
        ("{{ salt['grains.items']() | json }}", {ALL}),
    ],
)
def test_the_grains_that_a_template_reads_are_recorded(tmp_path, text, names):
    """Every way of reading is recorded; `*` means all grains."""
    read = {name for name in kept_after(tmp_path, text).read if name != "id" and not name.startswith(CALLS)}

    assert ({ALL} if ALL in read else read) == names


def kept_after(tmp_path, text):
    """Return a compiler that has compiled one file with this text in a comment."""
    (tmp_path / "site.sls").write_text(f"# {text}\nx:\n  test.nop: []\n")
    compiler = Compiler()
    compiler.compile(request(tmp_path, GRAINS))
    return compiler


def request(tmp_path, grains):
    """Return a request for all states of a directory, on a host with these grains."""
    return CompilerInputs(states=tmp_path, grains=grains, minion_id="web1")


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("{{ grains.os }}", False),
        ("{{ grains.nope | default('') }}", False),
        ("{{ grains.ipv4 }}", True),
        ("{{ grains | json }}", True),
        ("{{ 'new' in grains }}", True),
    ],
)
def test_only_readers_of_changed_grains_are_rendered_again(tmp_path, text, again):
    """One grain has another value, and one is new."""
    compiler = kept_after(tmp_path, text)
    compiler.compile(request(tmp_path, {**GRAINS, "ipv4": ["10.0.0.2"], "new": 1}))

    assert compiler.renders == 1 + again


def test_recorded_grains_behave_like_a_dict():
    """Comparing, merging, copying, iterating and printing give the same as for a dict."""
    grains = Grains(GRAINS)

    assert json.dumps(grains) == json.dumps(GRAINS)
    assert grains == GRAINS
    assert grains | {"a": 1} == {**GRAINS, "a": 1}
    assert {"a": 1} | grains == {"a": 1, **GRAINS}
    assert type(copy.deepcopy(grains)) is type(pickle.loads(pickle.dumps(grains))) is dict
    assert list(grains) == list(GRAINS)
    assert str(grains) == str(GRAINS)
    assert grains.setdefault("a", 2) == grains.pop("a") == 2
    assert grains.pop("b", 3) == 3


def test_a_template_cannot_change_the_grains_of_another():
    """Each template has a copy."""
    view = HostView(grains=GRAINS)
    view.copy().grains["ipv4"].append("x")

    assert view.copy().grains["ipv4"] == ["10.0.0.1"]


def test_equal_values_of_different_types_differ():
    """A template prints 1, true and "1" differently."""
    looks = [seen({"a": value}, {"a"}) for value in (1, True, "1", 1.0, None)]

    assert all(one != other for place, one in enumerate(looks) for other in looks[:place])
    assert seen({}, {"a"}) == seen({"b": 1}, {"a"}) != seen({"a": None}, {"a"})


def test_the_compiler_itself_reads_no_grains(tmp_path):
    """The compiler copies and compares grains, which must not count as reading all of them."""
    (tmp_path / "site.sls").write_text("# {{ grains.os }}\nx:\n  test.nop: []\n")
    noting, compiler = Grains(GRAINS), Compiler()
    for _ in range(2):
        compiler.compile(request(tmp_path, noting))

    assert (compiler.read, noting.read) == ({"os"}, set())
