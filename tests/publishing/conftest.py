"""A recorder with a real database, and one broker for the tests that do not kill it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import mosquitto
from holdfast.agent.settings import Settings
from mqtt_listener import Listener
from record_desk import Desk
from settings_text import loader


@pytest.fixture(scope="session")
def broker() -> Iterator[mosquitto.Mosquitto]:
    """A broker. The test is skipped where mosquitto is not installed; on CI that is an error."""
    if not mosquitto.installed() and not os.environ.get("CI"):
        pytest.skip("mosquitto is not installed (Debian: mosquitto)")
    with mosquitto.Mosquitto() as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[mosquitto.Mosquitto]:
    """A broker that the test may kill."""
    if not mosquitto.installed() and not os.environ.get("CI"):
        pytest.skip("mosquitto is not installed (Debian: mosquitto)")
    with mosquitto.Mosquitto() as running:
        yield running


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A beginning of topics that no other test uses."""
    return f"holdfast-{abs(hash(request.node.nodeid))}"


@pytest.fixture
def heard(broker: mosquitto.Mosquitto, prefix: str) -> Iterator[Listener]:
    """The messages that this test publishes."""
    with Listener(broker.port, f"{prefix}/#") as listener:
        yield listener


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A recorder that is not running: the test writes."""
    found = Desk(tmp_path)
    await found.records.open()
    yield found
    await found.records.close()


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], Settings | list[str]]:
    """A function that loads settings, and returns them or the messages of the error with their lines."""
    return loader(tmp_path)
