"""Compiled resources are kept while the agent runs: they take little memory, and behave like all others."""

import sys

import pytest

from holdfast.resources.contract import SHARED, compact
from holdfast.resources.kinds.file.managed import Managed


@pytest.fixture
def declared():
    """A resource that pydantic made, and an equal one that was made compact."""
    plain, small = (Managed.declare("/etc/motd", contents="hello", mode="0644") for _ in range(2))
    compact(small)
    return plain, small


def test_a_compact_resource_is_the_same_resource(declared):
    """Its fields in order, its given fields, its text, its hash and its copies are the same."""
    plain, small = declared
    assert small == plain
    assert small.cmp(plain) is None
    assert list(small.__dict__.items()) == list(plain.__dict__.items())
    assert small.model_fields_set == plain.model_fields_set == {"name", "contents", "mode"}
    assert repr(small) == repr(plain)
    assert hash(small) == hash(plain)
    changed = small.model_copy(update={"user": "root"})
    assert changed.user == "root"
    assert changed.model_fields_set == {"name", "contents", "mode", "user"}
    assert small.model_fields_set == {"name", "contents", "mode"}
    with pytest.raises(ValueError, match="frozen"):
        small.mode = "0600"


def test_a_compact_resource_shares_what_is_not_its_own(declared):
    """The names of its fields, and the set of given fields, are shared with others."""
    plain, small = declared
    other = Managed.declare("/etc/issue", contents="other", mode="0600")
    compact(other)
    assert sys.getsizeof(small.__dict__) < sys.getsizeof(plain.__dict__) / 2
    assert small.model_fields_set is other.model_fields_set


def test_no_kind_has_too_many_fields_to_share_their_names():
    """One field more than CPython shares would take more memory than without sharing."""
    assert len(Managed.model_fields) <= SHARED


def test_names_are_shared_however_many_were_made_before():
    """Instances that are not compact use up none of the shared names."""

    class Many(Managed, kind="zfile.many"):
        """A class without earlier instances."""

    assert len(Many.model_fields) == len(Managed.model_fields)
    plain = [Many.declare("/etc/motd", contents="hello") for _ in range(40)]
    small = Many.declare("/etc/motd", contents="hello")
    compact(small)
    assert sys.getsizeof(small.__dict__) < sys.getsizeof(plain[0].__dict__) / 2
