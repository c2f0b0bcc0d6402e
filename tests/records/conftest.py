"""A recorder with a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from record_desk import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A recorder that is not running: the test writes."""
    found = Desk(tmp_path)
    await found.records.open()
    yield found
    await found.records.close()
