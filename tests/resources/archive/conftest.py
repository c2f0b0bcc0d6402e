"""The host of the tests of archives."""

from __future__ import annotations

import pytest

from holdfast.agent.host.host import LocalHost


@pytest.fixture
async def host(tmp_path):
    """Return a host whose states directory has the archive."""
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as found:
        (tmp_path / "states").mkdir()
        yield found
