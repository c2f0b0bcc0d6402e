"""Mail aliases: refused arguments, reversal, the database, and other lines, which keep each byte."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import alias
from holdfast.resources.kinds._aliases import aliases
from holdfast.resources.kinds._lines import bare, ended, split
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext

POSTCONF = "postconf -h alias_database"


def declare(kind="present", name="root", **arguments):
    """Return a resource of the family."""
    return registry.find(f"alias.{kind}").declare(name, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"target": ["a\nb: c"]},
        {"target": ['"a']},
        {"target": ["a\0"]},
        {"target": []},
        {"target": "a", "name": "a:b"},
        {"target": "a", "name": "#a"},
        {"target": "a", "name": " a"},
        {"target": "a", "name": 'a"b'},
        {"target": "a", "config": "aliases"},
    ],
)
def test_what_would_be_another_entry_or_none_is_refused(arguments):
    """The error has the line of the argument."""
    with pytest.raises(ValidationError):
        declare(**arguments)


@pytest.mark.parametrize(
    ("given_target", "written"),
    [
        ("a, b", ["a", "b"]),
        (["a,b", "c"], ["a", "b", "c"]),
        (["|/bin/x a, b"], ['"|/bin/x a, b"']),
        ('"|/bin/x a, b", c', ['"|/bin/x a, b"', "c"]),
        ([":include:/a b"], ['":include:/a b"']),
    ],
)
def test_targets_are_written_as_mail_servers_read_them(given_target, written):
    """Commas separate targets, except in quotes and in a command of a list."""
    assert declare(target=given_target).targets() == written


@pytest.fixture
def mail(tmp_path, monkeypatch):
    """A Postfix whose alias file is another one, with commands that only the test knows."""
    for name in ("POSTCONF", "SENDMAIL", "SETTINGS"):
        monkeypatch.setattr(alias, name, str(tmp_path / name.lower()))
    (tmp_path / "postconf").touch()
    (tmp_path / "newaliases").touch()
    monkeypatch.setattr(alias, "NEWALIASES", (str(tmp_path / "newaliases"),))
    monkeypatch.setattr(alias, "FILE", str(tmp_path / "aliases"))
    return tmp_path


def world(mail, made=None, **answer):
    """Return a context whose `newaliases` makes the database."""

    def run():
        if made:
            made.touch()
        return answer

    commands = {f"{mail}/postconf -h alias_database": f"hash:{mail}/own, nis:mail.aliases\n"}
    return FakeContext(mail, commands={**commands, f"{mail}/newaliases": run})


async def test_the_file_and_the_database_are_those_of_postfix(mail):
    """`newaliases` runs after a change, and when the database is older than the file or missing."""
    database = mail / "own.db"
    assert not await declare(target="a").check_apply(world(mail, database), True)
    assert (mail / "own").read_text() == "root: a\n"
    assert await declare(target="a").check_apply(world(mail, database), True)
    for spoil in (lambda: os.utime(database, (1, 1)), database.unlink):
        spoil()
        ctx = world(mail, database)
        assert not await declare(target="a").check_apply(ctx, True)
        assert ctx.report.comment == "refreshed the database of aliases"
    database.unlink()
    assert not await declare("absent", "other").check_apply(world(mail, database), True)


async def test_a_failure_of_newaliases_is_told(mail):
    """The error has the message of `newaliases`; the next run tries again."""
    with pytest.raises(Permanent, match="cannot make the database of aliases: newaliases: no"):
        await declare(target="a").check_apply(world(mail, retcode=1, stderr="warning\nfatal: no\n"), True)
    assert not await declare(target="a").check_apply(world(mail, mail / "own.db"), True)


async def test_without_a_database_the_file_is_enough(mail):
    """Exim has no database. The database of Sendmail has a fixed name."""
    (mail / "postconf").unlink()
    assert not await declare(target="a").check_apply(world(mail), True)
    assert (mail / "aliases").read_text() == "root: a\n"
    assert await declare(target="a").check_apply(world(mail), True)
    (mail / "sendmail").touch()
    assert not await declare(target="a").check_apply(world(mail, mail / "aliases.db"), True)


@pytest.mark.parametrize("text", ["", "root: a,\n b\n", 'root: "|/bin/x y"\nx: y\n'])
@pytest.mark.parametrize("kind", ["present", "absent"])
async def test_undone_the_alias_is_as_before(tmp_path, text, kind):
    """The alias has its former targets again."""
    file = tmp_path / "aliases"
    file.write_text(text)
    entry = declare(kind, config=str(file), **({"target": "z"} if kind == "present" else {}))
    ctx = FakeContext(tmp_path)
    before = await entry.inverse(ctx)
    await entry.check_apply(ctx, True)
    ctx.report = Report()
    await registry.find(before.kind).declare(**before.arguments).check_apply(ctx, True)

    assert sorted((e.name, *e.targets()) for e in aliases(file.read_text())) == sorted(
        (e.name, *e.targets()) for e in aliases(text)
    )


TEXT = st.lists(
    st.one_of(
        st.text(alphabet='ab:#"\\,|\t \ré\udcff'),
        st.sampled_from(["root: a", "ROOT : b,", "  c", "\troot: x", '"root": "|x y, z"', "other: root", "# root: x"]),
    )
).map("\n".join)


@given(TEXT)
def test_an_edit_keeps_foreign_lines_and_is_right_at_once(text):
    """Comments, blank lines, and other entries with their continuation lines keep each byte.

    A missing line feed at the end of the file may be added.
    """
    same = str if ended(text) == text else bare
    mine = {number for entry in aliases(text) if entry.name == "root" for number in entry.lines}
    foreign = [same(line) for number, line in enumerate(split(text)) if number not in mine]
    for entry in (declare(target=["z", "|x y"]), declare("absent")):
        new = entry.edited(text)
        own = {number for found in aliases(new) if found.name == "root" for number in found.lines}
        assert [same(line) for number, line in enumerate(split(new)) if number not in own] == foreign
        assert entry.edited(new) == new
        assert entry.read(new) == ({"target": ["z", '"|x y"']} if own else None)
