"""The file of the metrics may be in a directory that a user can change."""

from __future__ import annotations

import asyncio
import os

import pytest

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.insight.exporter import UNWRITTEN, Exporter
from holdfast.agent.settings import MetricsSettings

UID = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_an_unsafe_link_is_a_health_condition(tmp_path):
    """Nothing is written through the link, and the agent continues. The condition ends when the link is removed."""
    (tmp_path / "roots").mkdir()
    (tmp_path / "users").mkdir()
    link = tmp_path / "users/link"
    link.symlink_to(tmp_path / "roots")
    for path in (tmp_path / "users", link):
        os.chown(path, UID, -1, follow_symlinks=False)
    health = Health()
    exporter = Exporter(str, health)
    await exporter.use(MetricsSettings(textfile=link / "x.prom", period=1))
    async with asyncio.timeout(DEADLINE):
        while not health.conditions:
            await asyncio.sleep(0)

    assert health.conditions[0].code == UNWRITTEN
    assert f"cannot follow {link}, which belongs to user {UID}" in health.conditions[0].text
    assert list((tmp_path / "roots").iterdir()) == []
    link.unlink()
    link.mkdir()
    async with asyncio.timeout(DEADLINE):
        while health.conditions:
            await asyncio.sleep(0.01)
    await exporter.stop()
    assert (link / "x.prom").exists()
