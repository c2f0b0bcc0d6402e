"""Symbolic modes that determine a whole mode: the result is that of chmod."""

from __future__ import annotations

import stat
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.resources.fields import parse_mode
from holdfast.resources.modes import symbolic

LETTERS = st.text(st.sampled_from("rwxst"), max_size=4)
FIRST = st.tuples(LETTERS, LETTERS, LETTERS).map(lambda each: "u={},g={},o={}".format(*each))
MORE = st.lists(
    st.tuples(
        st.sampled_from(["u", "g", "o", "a", "ug", "go", "ou"]),
        st.sampled_from("=+-"),
        LETTERS | st.sampled_from("ugo"),
    ).map("".join),
    max_size=3,
)


@settings(max_examples=60)
@given(first=FIRST, more=MORE, before=st.sampled_from([0o0000, 0o7777, 0o4751]))
def test_it_is_what_chmod_makes_of_it_whatever_the_file_had(tmp_path_factory, first, more, before):
    """POSIX's grammar, clause after clause."""
    path, text = tmp_path_factory.getbasetemp() / "mode", ",".join([first, *more])
    path.touch()
    path.chmod(before)
    subprocess.run(["chmod", text, path], check=True)

    assert symbolic(text) == stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("u=rw,go=r", "0644"),
        ("a=rx,u+w", "0755"),
        ("a=", "0000"),
        ("u=rwx,g=u,o=", "0770"),
        ("u=rwxs,g=rxs,o=rxt", "7755"),
        ("ugo=rwx,o-w", "0775"),
        ("u=rw-w,g=,o=", "0400"),
    ],
)
def test_a_state_may_write_it_so(text, mode):
    """After parsing, it is a mode like any other."""
    assert parse_mode(text) == mode


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("u=rw", "does not say what g and o may: add g=,o="),
        ("u+x", "depends on what the file has: set all of it, with u="),
        ("g=u,u=rw,o=", "copies what the file has: write u= before it"),
        ("a=rX", "not part of a symbolic mode"),
        ("u=rw,go=r,", "not part of a symbolic mode"),
        ("g=rw,o", "not part of a symbolic mode"),
        ("a=rwz", "not part of a symbolic mode"),
        ("=rw", "is not a file mode"),
        ("+x", "is not a file mode"),
        ("", "is not a file mode"),
    ],
)
def test_what_depends_on_the_file_or_on_nothing_known_is_refused(text, said):
    """A state must declare the whole mode; the message says what to write."""
    with pytest.raises(ValueError, match=said.replace("+", r"\+")):
        parse_mode(text)
