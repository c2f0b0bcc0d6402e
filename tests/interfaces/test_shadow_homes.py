"""Homes that root's tools must not use, because users could replace them meanwhile."""

from __future__ import annotations

import os

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.providers import _homes, account_base, shadow

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")

UID, OWN = 12345, 12346


@pytest.fixture
def users(host, tmp_path, monkeypatch):
    """Create the accounts of a small host.

    The home of `app` is in a user's directory; that of `own` is safe.
    """
    (tmp_path / "etc").mkdir()
    lines = [f"app:x:{OWN}:{OWN}::{tmp_path}/users/app:/bin/sh\n", f"own:x:{OWN}:{OWN}::{tmp_path}/home/own:/bin/sh\n"]
    (tmp_path / "etc/passwd").write_text("".join(lines))
    (tmp_path / "etc/group").write_text("")
    monkeypatch.setattr(account_base, "ETC", tmp_path / "etc")
    for name, uid in (("users", UID), ("home", 0), ("skel", 0), ("home/own", OWN), ("users/app", OWN)):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, uid, -1)
    (tmp_path / "defaults").write_text(f"# useradd's\nHOME={tmp_path}/home\nSKEL={tmp_path}/skel\n")
    monkeypatch.setattr(_homes, "DEFAULTS", tmp_path / "defaults")
    return shadow.ShadowUsers(host)


@pytest.mark.parametrize("home", ["users/new", "users/a/b/new", "users/app", "home/link", "tmp/new"])
async def test_no_home_is_created_where_others_could_exchange_it(host, users, tmp_path, home):
    """Such a place is a directory of another user, a link, or a directory in which everybody can create entries.

    useradd is not run.
    """
    (tmp_path / "home/link").symlink_to(tmp_path / "users/new")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)

    with pytest.raises(Permanent, match=f"cannot add user new: other users could replace its home {tmp_path}/{home}: "):
        await users.add("new", home=f"{tmp_path}/{home}")
    assert host.ran == []
    await users.add("new", home=f"{tmp_path}/{home}", createhome=False)
    assert len(host.ran) == 1


async def test_a_link_of_a_user_is_not_a_home(host, users, tmp_path):
    """The error names the link, its owner and its target."""
    link = tmp_path / "users/link"
    link.symlink_to(tmp_path / "home")
    os.chown(link, UID, -1, follow_symlinks=False)

    with pytest.raises(
        Permanent, match=f"cannot follow {link}, which belongs to user {UID} and points to {tmp_path / 'home'}"
    ):
        await users.add("new", home=f"{link}/new")
    assert host.ran == []


async def test_a_home_is_created_where_only_root_can_exchange_it(host, users, tmp_path):
    """Links of root may lead there. An existing home of any owner stays."""
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for home in (f"{tmp_path}/home/new", f"{tmp_path}/home/a/b", f"{tmp_path}/link/new", f"{tmp_path}/home/own/"):
        await users.add("new", home=home)
    await users.add("new")

    assert len(host.ran) == 5


@pytest.mark.parametrize("part", ["", "/sub", "/sub/.profile"])
async def test_the_skeleton_must_belong_to_root_completely(host, users, tmp_path, part):
    """Files that others could write would be copied into a home, and executed by its owner."""
    (tmp_path / "skel/sub").mkdir()
    (tmp_path / "skel/sub/.profile").touch()
    (tmp_path / "skel/link").symlink_to("/nowhere")
    await users.add("new")
    os.chown(f"{tmp_path}/skel{part}", UID, -1)

    with pytest.raises(
        Permanent,
        match=f"cannot add user new: its home would be a copy of {tmp_path}/skel; cannot trust {tmp_path}/skel{part}: ",
    ):
        await users.add("new")
    assert len(host.ran) == 1


async def test_a_home_that_others_could_exchange_is_not_removed(host, users, tmp_path):
    """The account can be removed without its home. A home below a directory of root can be removed."""
    with pytest.raises(
        Permanent,
        match=f"cannot remove user app: other users could replace its home {tmp_path}/users/app: "
        f"{tmp_path}/users belongs",
    ):
        await users.remove("app", remove_home=True)
    assert host.ran == []

    await users.remove("app")
    await users.remove("own", remove_home=True)
    (tmp_path / "users/app").rmdir()
    await users.remove("app", remove_home=True)  # there is no home to remove
    assert host.ran == ["userdel app", "userdel --remove own", "userdel --remove app"]


async def test_the_content_of_an_unsafe_home_is_not_given_away(host, users, tmp_path):
    """When only the uid changes, usermod would give it away."""
    for changed in ({"uid": 5}, {"uid": 5, "home": f"{tmp_path}/users/app"}):
        with pytest.raises(
            Permanent, match=f"cannot change user app: other users could replace its home {tmp_path}/users/app: "
        ):
            await users.modify("app", **changed)
    assert host.ran == []

    await users.modify("app", home=f"{tmp_path}/users/other")
    await users.modify("own", uid=5)
    assert len(host.ran) == 2
