"""Repeated compilation gives the same result as a new compiler, with little work."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.resources.contract import Resource
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.source import files as source

FILES = ("a", "b", "c.d", "e")
"""SLS of the random trees."""
IDS = tuple(f"{sls[-1]}{number}" for sls in FILES for number in range(3))
TYPES = ("lamp", "bell", "crate")
FUNCTIONS = {"lamp": ("lit", "dark"), "bell": ("rung", "mute"), "crate": ("packed",)}
PATHS = ("/one", "/two", "/three")


def type_of(id_):
    """Return the only state type of an ID, so that most requisites find their target."""
    return TYPES[IDS.index(id_) % 3]


@cache
def among(*values):
    """Return a strategy for one of these values. Each is made once, which takes longer than a draw."""
    return st.sampled_from(values)


def rarely(draw, strategy, share=4):
    """Draw a value once in `share` times, otherwise return None."""
    return draw(strategy) if draw(among(*(number == share // 2 for number in range(share)))) else None


@cache
def others(id_):
    """Return the earlier IDs: mostly of the same file, which always exists."""
    earlier = IDS[: IDS.index(id_)]
    own = [other for other in earlier if other[0] == id_[0]]
    return st.sampled_from([*own * 8, *earlier])


WIDE = [{"sls": "a"}, {"sls": "z*"}, {"lamp": "a*"}, "a0"]
"""Targets that are no single state."""
ANYWHERE, OUTSIDE = st.sampled_from(WIDE), st.sampled_from(WIDE[1:2])
REQUISITES = among(
    (), ("require",), ("require", "watch"), ("watch", "onfail_any"), ("onchanges", "listen"), ("prereq",)
)
CHOICES = {
    "order": among(1, 3, -1, "first", "last", 10001, 1.5, "soon"),
    "names": st.sampled_from([["/n1", "/n2"], ["/n1", {"/n3": [{"order": 2}]}]]),
    "fire_event": st.just(True),
    "onlyif": st.just("true"),
}
"""Arguments of every state."""
EXTENSIONS = st.sampled_from(
    [{"onlyif": "test"}, {"name": "/ext"}, {"order": 5}, {"require_in": [{TYPES[IDS.index("e2") % 3]: "e2"}]}]
)
ORDERS = {sls: st.permutations([id_ for id_ in IDS if id_[0] == sls[-1]]) for sls in FILES}


@st.composite
def requisites(draw, id_):
    """Return requisite lists of a state: mostly on earlier states, so that cycles are rare."""
    found = {}
    for kind in draw(REQUISITES):
        if id_ != IDS[0]:
            other = draw(others(id_))
            odd = rarely(draw, ANYWHERE if id_[0] != "a" else OUTSIDE, 6)
            found[kind] = [odd or {type_of(other): other}]
    kind = rarely(draw, among("require_in", "watch_in", "onchanges_in"))
    later = [other for other in IDS[IDS.index(id_) + 1 :] if other[0] == id_[0]]
    if kind and later:
        other = draw(among(*later))
        found[kind] = [{type_of(other): other}]
    if rarely(draw, st.just(1), 8):
        same = [other for other in IDS if type_of(other) == type_of(id_) and other != id_]
        found["use"] = [{type_of(id_): draw(among(*same))}]
    return found


@st.composite
def arguments(draw, id_):
    """Return the arguments of a state, as a list of single-key mappings."""
    type_ = type_of(id_)
    given = (
        {"user": "joe", "mode": draw(among("0644", 600))} if type_ == "crate" else {"color": draw(st.integers(0, 3))}
    )
    names = among(*PATHS) if type_ == "crate" else among("x", "y", *IDS[:2])
    for key, choice in {"name": names, **CHOICES}.items():
        value = rarely(draw, choice, 6)
        if value is not None:
            given[key] = value
    if type_ == "crate" and not {"name", "names"} & given.keys():
        given["name"] = f"/{id_}"
    return [{key: value} for key, value in (given | draw(requisites(id_))).items()]


@st.composite
def texts(draw, sls):
    """Return a state file: most of its IDs, and sometimes includes, extensions, exclusions, a template."""
    templates = among("{% import 'm.jinja' as m with context %}", "# {{ grains.os }}", "# {{ pillar.k }}")
    lines = rarely(draw, templates) or ""
    document = {}
    included = rarely(draw, among("e", "a", "c*", ".a" if sls != "c.d" else "..a"))
    if included:
        document["include"] = [included]
    for id_ in draw(ORDERS[sls]):
        type_ = type_of(id_)
        document[id_] = {f"{type_}.{draw(among(*FUNCTIONS[type_]))}": draw(arguments(id_))}
    other = draw(among(*(id_ for id_ in IDS if id_[0] in (sls[-1], "a"))))
    if rarely(draw, st.just(1)):
        document["extend"] = {other: {type_of(other): [draw(EXTENSIONS)]}}
    body = "\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return f"{lines}\n{body}" + ("\n# {{ m.color }}\n" if "m.jinja" in lines else "\n")


ODD = (
    "a0: lamp.lit",
    "x: {lamp.lit: [{colour: red}]}",
    "x: {lamp.lit: [{require: [{bell: nowhere}]}]}",
    "x: {lamp.lit: [{require: [{lamp: y}]}]}\ny: {lamp.lit: [{require: [{lamp: x}]}]}",
    "exclude: [{sls: b}]",
    "exclude: [{id: a1}]",
    "extend: {nowhere: {lamp: [{color: 1}]}}",
    "x: [",
    "{{ nowhere }}",
    "",
)
"""Texts of files that remove states or are wrong."""
EDITS = st.one_of(
    *(st.tuples(st.just(sls), texts(sls)) for sls in FILES),
    *(st.tuples(st.just(sls), texts(sls)) for sls in FILES),
    st.tuples(st.sampled_from(("b", "e")), st.none()),
    st.tuples(st.sampled_from(FILES), st.sampled_from(ODD)),
    st.tuples(st.just("m.jinja"), st.sampled_from(["{% set color = 1 %}", "{% set color = grains.os %}", None])),
    st.tuples(st.just("top"), st.sampled_from(["base: {'*': [a, b]}", "base: {'web*': [e, '*']}", "base: {}", None])),
    st.tuples(
        st.just("*"), st.sampled_from([{"state_auto_order": False}, {"disabled_requisites": ["require", "use"]}, {}])
    ),
    st.tuples(st.just("*"), st.sampled_from([{"grain": "Arch"}, {"grain": "Debian"}])),
)


class Site:
    """A directory of states, with edits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.options, self.grain, self.edits = {}, "Debian", 0
        root.mkdir(mode=0o755)
        (root / "c").mkdir(mode=0o755)

    def edit(self, name, value):
        """Make one change.

        All texts of a file have different lengths, so that the modification time does not matter.
        """
        self.edits += 1
        path = self.root / (name if "." in name and name != "c.d" else f"{name.replace('.', '/')}.sls")
        if name == "*":
            self.grain = value.get("grain", self.grain)
            self.options = self.options if "grain" in value else value
        elif value is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(f"{value}\n#{'x' * self.edits}\n")
            path.chmod(0o644)

    def request(self):
        """Return the request for a compilation."""
        trusted = frozenset({os.getuid()})
        return CompilerInputs(
            self.root,
            grains={"os": self.grain},
            pillar={"k": 1},
            minion_id="web1",
            options=self.options,
            trusted_uids=trusted,
        )


def outcome(compiler, request):
    """Return the complete result, in which equal values of different types differ; and the compilation, or None."""
    try:
        made = compiler.compile(request)
    except CompileError as error:
        return error.problems, None
    calls = [
        (call, call.location, json.dumps(call.low, sort_keys=True), type(call.resource), dict(call.requisites))
        for call in made.calls
    ]
    return (calls, json.dumps(made.high), made.top, made.warnings, made.sources), made


@settings(max_examples=int(os.environ.get("HOLDFAST_EXAMPLES", "60")), deadline=None)
@given(st.tuples(*(texts(sls) for sls in FILES)), st.lists(EDITS, min_size=1, max_size=6))
def test_caches_never_change_a_result(files, edits):
    """After any edits, a compiler with caches gives the result of a new one, and earlier results are unchanged."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "STEADY", -(10**18))
        site, kept = Site(Path(directory, "states")), Compiler()
        for sls, text in [*zip(FILES, files, strict=True), ("m.jinja", "{% set color = 0 %}")]:
            site.edit(sls, text)
        for edit in [("*", {}), *edits]:
            site.edit(*edit)
            found, handed_out = outcome(kept, site.request())
            before = repr(handed_out)
            assert found == outcome(Compiler(), site.request())[0]
            assert outcome(kept, site.request())[0] == found
            assert repr(handed_out) == before


@pytest.fixture
def site(tmp_path):
    """Return a directory of four files with three plain states each."""
    made = Site(tmp_path / "states")
    for sls in FILES:
        made.edit(sls, "\n".join(f"{id_}: {{lamp.lit: [{{color: 1}}]}}" for id_ in IDS if id_[0] == sls[-1]))
    return made


def test_unchanged_calls_are_the_same_objects(site):
    """An edit makes new calls only for changed or moved states."""
    compiler = Compiler()
    first = compiler.compile(site.request()).calls

    assert all(new is old for new, old in zip(compiler.compile(site.request()).calls, first, strict=True))
    site.edit("b", "\n".join(f"b{number}: {{lamp.lit: [{{color: 2}}]}}" for number in range(3)))
    second = compiler.compile(site.request()).calls
    assert [new is old for new, old in zip(second, first, strict=True)] == [
        call.low["__sls__"] != "b" for call in first
    ]
    site.edit("b", "b0: lamp.lit")
    third = compiler.compile(site.request()).calls
    assert [new is old for new, old in zip(third[:3], first[:3], strict=True)] == [True] * 3
    assert [new.position - old.position for new, old in zip(third[4:], first[6:], strict=True)] == [-2] * 6
    assert all(new.resource is old.resource for new, old in zip(third[4:], first[6:], strict=True))


def test_states_of_a_reloaded_kind_are_checked_again(site):
    """A new version of a kind may take other arguments."""
    kind = (
        "class Oddity(Resource, kind='zoddity.seen'):\n    color: {}\n"
        "    async def check_apply(self, ctx, apply):\n        return True\n"
    )

    def load(type_):
        exec("from holdfast.resources.contract import Resource\n" + kind.format(type_), {"__name__": "oddities"})

    load("int")
    site.edit("b", "odd: {zoddity.seen: [{color: 7}]}")
    compiler = Compiler()
    compiler.compile(site.request())
    load("str")
    with pytest.raises(CompileError, match="it must be text"):
        compiler.compile(site.request())


def test_states_of_a_reloaded_kind_are_ordered_again(site):
    """Without a refresh, `watch` means `require` and follows it, so a changed kind changes the order."""
    kind = "class Fan(Resource, {}kind='zfan.on'):\n    async def check_apply(self, ctx, apply):\n        return True\n"
    lines = "from holdfast.resources.contract import Resource\nfrom holdfast.resources.traits import Refreshable\n"
    site.edit("a", "fan: {zfan.on: [{require_any: [{lamp: b1}]}, {watch: [{lamp: b0}]}]}")
    compiler, orders = Compiler(), []
    for powers in ("", "Refreshable, "):
        exec(lines + kind.format(powers), {"__name__": "fans"})
        orders.append([call.identity for call in compiler.compile(site.request()).calls])
        assert orders[-1] == [call.identity for call in Compiler().compile(site.request()).calls]
    assert orders[0][:2] == orders[1][1::-1]


def test_parsed_data_are_dropped_and_parsed_again_when_needed(site):
    """The data of a file are needed again for another environment."""
    compiler, requests = Compiler(), [site.request()._replace(env=env) for env in ("base", "base", "dev", "base")]
    found = [outcome(compiler, request)[0] for request in requests]
    assert found == [outcome(Compiler(), request)[0] for request in requests]
    assert compiler.renders == 3 * len(FILES)


def test_a_kind_with_an_order_argument_gets_the_new_order(site):
    """`order` is an argument only of kinds that declare it."""

    class Ranked(Resource, kind="zranked.at"):
        """A kind with an argument `order`."""

        order: float

        async def check_apply(self, ctx, apply):
            """Return that nothing is to be done."""
            return True

    compiler = Compiler()
    for text in ("x: lamp.lit", "x: lamp.lit\ny: lamp.lit"):
        site.edit("a", text)
        site.edit("b", "ranked: zranked.at")
        (ranked,) = (call for call in compiler.compile(site.request()).calls if isinstance(call.resource, Ranked))
        assert ranked.resource.order == ranked.low["order"]


def test_a_file_with_an_unchanged_status_is_not_read_again(site, monkeypatch):
    """The status shows changes, unless the file was changed directly before it was read."""
    read = []
    monkeypatch.setattr(
        source.Tree,
        "_read_anew",
        lambda tree, path, anew=source.Tree._read_anew: read.append(path.name) or anew(tree, path),
    )
    compiler = Compiler()
    for _ in range(2):
        compiler.compile(site.request())
    assert len(read) == 2 * len(FILES)

    monkeypatch.setattr(source, "STEADY", -(10**18))  # all files count as old
    compiler.compile(site.request())
    read.clear()
    site.edit("b", "b0: lamp.dark")
    kinds = {call.kind for call in compiler.compile(site.request()).calls}
    assert (read, kinds) == (["b.sls"], {"lamp.lit", "lamp.dark"})


def test_the_owner_of_an_unchanged_file_is_checked_each_time(site, monkeypatch):
    """The mode is checked each time, too."""
    monkeypatch.setattr(source, "STEADY", -(10**18))
    compiler = Compiler()
    compiler.compile(site.request())
    stranger = site.request()._replace(trusted_uids=frozenset({os.getuid() + 1}))
    with pytest.raises(CompileError, match="not trusted"):
        compiler.compile(stranger)
    (site.root / "b.sls").chmod(0o666)
    with pytest.raises(CompileError, match="anyone may write it"):
        compiler.compile(site.request())
