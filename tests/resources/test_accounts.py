"""Users and groups by name: from cached files, which are read again after a change, or from the name service."""

from __future__ import annotations

import os
import pwd

from holdfast.resources import accounts


def test_names_and_numbers():
    """Names of this host have numbers, a number is kept, and None means that a name service must be asked."""
    assert accounts.local_uid("root") == 0
    assert accounts.local_gid("root") == 0
    assert accounts.local_uid("4711") == 4711
    assert accounts.local_uid("nobody-of-that-name") is None
    assert accounts.service_uid("nobody-of-that-name") is None
    assert accounts.service_gid("root") == 0
    assert accounts.user_name(0) == "root"
    assert accounts.group_name(4711) == "4711"


def test_a_changed_file_is_read_again(tmp_path):
    """A user that was added after the first call is found by the next one. Lines that are not accounts are ignored."""
    passwd = tmp_path / "passwd"
    passwd.write_text("root:x:0:0::/:/bin/sh\n+nis:x:7:7::/:/bin/sh\nnonsense\n")
    table = accounts.AccountTable(str(passwd))
    assert table.fresh().ids == {"root": 0}

    passwd.write_text("root:x:0:0::/:/bin/sh\napp:x:900:900::/:/bin/sh\n")
    assert table.fresh().ids["app"] == 900
    passwd.unlink()
    assert table.fresh().ids == {}


def test_account_of_this_user():
    """What a process needs to run as a user."""
    me = pwd.getpwuid(os.getuid())
    known = accounts.account(me.pw_name)
    assert known is not None
    assert (known.uid, known.home) == (me.pw_uid, me.pw_dir)
    assert accounts.account("nobody-of-that-name") is None
