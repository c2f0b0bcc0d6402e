"""OpenRC changes the state of a service while the provider reads it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.providers.openrc import OpenRC


def test_a_link_that_openrc_moves_meanwhile_is_found_at_its_new_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """OpenRC moves the link from `starting` to `started` just before the provider reads it in `starting`."""
    host = SimpleNamespace(system_path=lambda path: tmp_path / Path(path).relative_to("/"))
    state = tmp_path / "run/openrc"
    for place in ("starting", "started"):
        (state / place).mkdir(parents=True)
    (state / "starting/toy").symlink_to("/etc/init.d/toy")
    real = Path.lstat

    def moving(path: Path) -> os.stat_result:
        if path == state / "starting/toy":
            path.rename(state / "started/toy")
        return real(path)

    monkeypatch.setattr(Path, "lstat", moving)

    status = OpenRC(cast("ProviderHost", host))._read("toy")

    assert (status.state, status.since) == ("active", real(state / "started/toy").st_mtime)
