"""Names in a hosts file: refused arguments, reversal, and other lines, which keep each byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.kinds._hosts import lines, parsed
from holdfast.resources.kinds._lines import ended
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext


def declare(kind="present", name="db", **arguments):
    """Return a resource of the family."""
    return registry.find(f"host.{kind}").declare(name, **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments", "told"),
    [
        ("present", {"ip": "192.0.2"}, "is not an address"),
        ("present", {"ip": "localhost"}, "is not an address"),
        ("present", {"ip": 1.5}, "is not an address"),
        ("present", {"ip": "::1", "name": "a b"}, "the name of a host"),
        ("present", {"ip": "::1", "name": "a\nb"}, "the name of a host"),
        ("present", {"ip": "::1", "name": "#a"}, "the name of a host"),
        ("present", {"ip": "::1", "comment": "a\n::2 b"}, "one line of text"),
        ("only", {"name": "db", "hostnames": []}, "is not an address"),
        ("only", {"name": "::1", "hostnames": ["a", "b#c"]}, "the name of a host"),
        ("absent", {}, "Field required"),
    ],
)
def test_what_would_be_another_line_is_refused(kind, arguments, told):
    """The error has the line of the argument."""
    with pytest.raises(ValidationError, match=told):
        declare(kind, **arguments)


def test_states_contradict_each_other_only_where_both_cannot_hold():
    """Two states may give one name different addresses, unless one of them says: no others."""
    one = declare(ip="192.0.2.7")
    assert one.contradicts(declare(ip=["192.0.2.7", "192.0.2.8"])) is None
    assert one.contradicts(declare(ip=["192.0.2.8"], clean=True)) == "ip differs"
    assert declare(ip="::1", comment="a").contradicts(declare(ip="::1", comment="b")) == "comment differs"
    assert one.contradicts(declare("absent", ip="192.0.2.7"))
    assert one.uids() == declare("absent", name="DB", ip="192.0.2.7").uids()


@pytest.mark.parametrize(
    "entry",
    [
        declare(ip=["192.0.2.7", "192.0.2.9"], clean=True),
        declare(ip="192.0.2.7", comment="new"),
        declare("absent", ip="192.0.2.7"),
        declare("only", "192.0.2.7", hostnames=["x", "y"]),
    ],
    ids=["clean", "comment", "absent", "only"],
)
@pytest.mark.parametrize("text", ["", "192.0.2.7 db other\n192.0.2.8 db\n", "192.0.2.7 db # old\n", "192.0.2.8 db\n"])
async def test_undone_the_names_are_as_before(tmp_path, entry, text):
    """The same names have the same addresses, and restored lines have their comment. The order of lines may differ."""
    file = tmp_path / "hosts"
    file.write_text(text)
    entry = type(entry).declare(**{**entry.model_dump(exclude_unset=True), "config": str(file)})
    ctx = FakeContext(tmp_path)
    before = await entry.inverse(ctx)
    await entry.check_apply(ctx, True)
    if before is not None:
        ctx.report = Report()
        await registry.find(before.kind).declare(**before.arguments).check_apply(ctx, True)

    def known(text):
        found = ((line, name) for _, line in lines(text) if line for name in line.names)
        return sorted((line.address, name, line.comment * (entry.kind == "host.absent")) for line, name in found)

    assert known(file.read_text()) == known(text)


TEXT = st.lists(
    st.one_of(
        st.text(alphabet="ab1.:#\t \ré\udcff"),
        st.sampled_from(["192.0.2.7 db", "  192.0.2.7\tdb x # c", "::1 DB", "192.0.2.8 db#c", "fe80::1%lo db", "::1"]),
    )
).map("\n".join)
KINDS = (
    declare(ip=["192.0.2.7", "::2"]),
    declare(ip=["192.0.2.7"], clean=True, comment="c"),
    declare("absent", ip=["::1", "192.0.2.8"]),
    declare("only", "192.0.2.7", hostnames=["db", "x"]),
)


@given(TEXT)
def test_an_edit_keeps_foreign_lines_and_is_right_at_once(text):
    """Comments, blank lines, and lines of other names keep each byte."""
    for entry in KINDS:
        new = entry.edited(text)
        assert entry.edited(new) == new
        assert entry.read(new) is None or {**entry.read(new), **(entry.desired() or {})} == entry.read(new)
        foreign = [
            line
            for line in ended(text).split("\n")
            if not (seen := parsed(line)) or not (seen.has("db") or seen.address == "192.0.2.7")
        ]
        kept = ended(new).split("\n")
        assert [line for line in foreign if line and line not in kept] == []
