"""Homes that root's tools must not touch: users could exchange them meanwhile."""

from __future__ import annotations

import os

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.providers import _etc, _homes, shadow

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")

UID, OWN = 12345, 12346


@pytest.fixture
def users(host, tmp_path, monkeypatch):
    """The accounts of a small host.

    `app`, whose home lies in a user's directory, and `own`, whose home is as it should be.
    """
    (tmp_path / "etc").mkdir()
    lines = [f"app:x:{OWN}:{OWN}::{tmp_path}/users/app:/bin/sh\n", f"own:x:{OWN}:{OWN}::{tmp_path}/home/own:/bin/sh\n"]
    (tmp_path / "etc/passwd").write_text("".join(lines))
    (tmp_path / "etc/group").write_text("")
    monkeypatch.setattr(shadow, "read", lambda: _etc.read(tmp_path / "etc"))
    for name, uid in (("users", UID), ("home", 0), ("skel", 0), ("home/own", OWN), ("users/app", OWN)):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, uid, -1)
    (tmp_path / "defaults").write_text(f"# useradd's\nHOME={tmp_path}/home\nSKEL={tmp_path}/skel\n")
    monkeypatch.setattr(_homes, "DEFAULTS", str(tmp_path / "defaults"))
    return shadow.ShadowUsers(host)


@pytest.mark.parametrize("home", ["users/new", "users/a/b/new", "users/app", "home/link", "tmp/new"])
async def test_home_is_not_made_where_others_could_exchange_it(host, users, tmp_path, home):
    """In another's directory, or in one that is missing there, behind a link, or where anybody makes entries.

    Useradd is not run.
    """
    (tmp_path / "home/link").symlink_to(tmp_path / "users/new")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)

    with pytest.raises(Permanent, match=f"cannot add user new: its home {tmp_path}/{home} is not safe from others: "):
        await users.add("new", home=f"{tmp_path}/{home}")
    assert host.ran == []
    await users.add("new", home=f"{tmp_path}/{home}", createhome=False)
    assert len(host.ran) == 1


async def test_link_of_a_user_is_no_home(host, users, tmp_path):
    """The sentence names the link, its owner and where it leads."""
    link = tmp_path / "users/link"
    link.symlink_to(tmp_path / "home")
    os.chown(link, UID, -1, follow_symlinks=False)

    with pytest.raises(
        Permanent, match=f"cannot follow {link}, which belongs to user {UID} and leads to {tmp_path / 'home'}"
    ):
        await users.add("new", home=f"{link}/new")
    assert host.ran == []


async def test_home_is_made_where_only_root_can_exchange_it(host, users, tmp_path):
    """Root's own links may lead there; a home that is there already stays whosever it is."""
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for home in (f"{tmp_path}/home/new", f"{tmp_path}/home/a/b", f"{tmp_path}/link/new", f"{tmp_path}/home/own/"):
        await users.add("new", home=home)
    await users.add("new")

    assert len(host.ran) == 5


@pytest.mark.parametrize("part", ["", "/sub", "/sub/.profile"])
async def test_skeleton_is_roots_in_all_its_parts(host, users, tmp_path, part):
    """What others could have written would be copied into a home, and executed by the one whose home it is."""
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


async def test_home_that_others_could_exchange_is_not_removed(host, users, tmp_path):
    """Only the account may be; and the home of one who has it below root's directory."""
    with pytest.raises(
        Permanent,
        match=f"cannot remove user app: its home {tmp_path}/users/app is not safe from others: "
        f"{tmp_path}/users belongs",
    ):
        await users.remove("app", remove_home=True)
    assert host.ran == []

    await users.remove("app")
    await users.remove("own", remove_home=True)
    (tmp_path / "users/app").rmdir()
    await users.remove("app", remove_home=True)  # there is nothing to be removed
    assert host.ran == ["userdel app", "userdel --remove own", "userdel --remove app"]


async def test_what_is_in_a_home_that_others_could_exchange_is_not_given_away(host, users, tmp_path):
    """That is what usermod does, with another uid only."""
    for changed in ({"uid": 5}, {"uid": 5, "home": f"{tmp_path}/users/app"}):
        with pytest.raises(
            Permanent, match=f"cannot change user app: its home {tmp_path}/users/app is not safe from others"
        ):
            await users.modify("app", **changed)
    assert host.ran == []

    await users.modify("app", home=f"{tmp_path}/users/app")
    await users.modify("own", uid=5)
    assert len(host.ran) == 2
