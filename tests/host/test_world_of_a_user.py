"""The file of `world` in a directory that a user can change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import Permanent
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.world import LocalWorld
from holdfast.resources.watches import idle

UID = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize("name", ["world.json", "world.lock"])
async def test_a_link_of_a_user_is_not_followed(tmp_path: Path, name: str) -> None:
    """Neither the file nor its lock is opened through a link, and the target of the link is unchanged."""
    users, target = tmp_path / "users", tmp_path / "target"
    users.mkdir()
    if name == "world.json":
        target.write_text('{"strings": {"color": "red"}}')
    (users / name).symlink_to(target)
    for path in (users, users / name):
        os.chown(path, UID, -1, follow_symlinks=False)
    world = LocalWorld(users / "world.json", lambda: "web1", Blocking(), lambda *_: idle(), durable=False)

    with pytest.raises((Permanent, OSError), match=r"cannot follow|symbolic links"):
        await world.set_string("shape", "round")
    if name == "world.json":
        with pytest.raises(Permanent, match=f"cannot follow {users / name}, which belongs to user {UID}"):
            await world.string("color")
    assert target.exists() is (name == "world.json")
