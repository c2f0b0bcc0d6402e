"""The kernel reports changes of the machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import system_events as module
from holdfast.agent.host.system_events import EventTopic, SystemEvents

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: addresses, mounts and names are changed")

UNSHARED = ("unshare", "--net", "--uts", "--mount", "--propagation", "private")
PROGRAM = """
import asyncio, subprocess, sys
from holdfast.agent.host import system_events
from holdfast.agent.host.system_events import SystemEvents, EventTopic

system_events.CALM = 0.05

async def idle(*paths):
    yield None
    await asyncio.Event().wait()

async def main(wanted, commands):
    told, heard = [], asyncio.Event()
    def changed(topics):
        told.extend(topic.name for topic in topics)
        heard.set()
    followed = SystemEvents(changed, idle)
    followed.follow(frozenset(EventTopic[name] for name in wanted.split(",") if name))
    for command in commands:
        subprocess.run(command, shell=True, check=True)
    try:
        async with asyncio.timeout(20 if commands[-1] != "true" else 0.5):
            await heard.wait()
    except TimeoutError:
        pass
    await followed.close()
    print(",".join(told))

asyncio.run(main(sys.argv[1], sys.argv[2:]))
"""


def heard(wanted, *commands):
    """Return the topics that are reported while these commands run in namespaces of their own."""
    ran = subprocess.run(
        [*UNSHARED, sys.executable, "-c", PROGRAM, wanted, *commands], check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


@pytest.mark.parametrize(
    ("topic", "commands"),
    [
        ("ADDRESSES", ["ip link set lo up"]),
        ("ADDRESSES", ["ip address add 10.9.9.9/32 dev lo"]),
        ("ADDRESSES", ["ip address add fd00::9/128 dev lo"]),
        ("ROUTES", ["ip link set lo up; ip route add 10.8.0.0/24 dev lo"]),
        ("NAME", ["hostname another"]),
        ("MOUNTS", ["mount -t tmpfs none /mnt"]),
    ],
)
def test_each_change_is_reported(topic, commands):
    """Each change is reported to the subscribers of its topic."""
    assert heard(topic, *commands) == topic


@pytest.mark.parametrize("wanted", ["", "NAME", "MOUNTS"])
def test_other_changes_are_not_reported(wanted):
    """A topic without a subscriber causes no reports. The test waits half a second to see that."""
    assert heard(wanted, "ip link set lo up; ip address add 10.9.9.9/32 dev lo", "true") == ""


def test_changes_within_a_second_are_one_report():
    """Changes within one second are reported together."""
    assert (
        heard("ADDRESSES", "ip link set lo up; for i in $(seq 200); do ip address add 10.9.9.$i/32 dev lo; done")
        == "ADDRESSES"
    )


def test_devices_are_reported_by_the_kernel(tmp_path):
    """Setting up a loop device causes an event of its subsystem."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("this machine has no loop devices")
    source = module.SOURCES[EventTopic.DEVICES]()
    try:
        file = tmp_path / "disk"
        subprocess.run(["truncate", "-s", "1M", file], check=True)
        device = subprocess.run(
            ["losetup", "--find", "--show", file], check=True, capture_output=True, text=True
        ).stdout.strip()
        subprocess.run(["losetup", "--detach", device], check=True)
        assert source.take()
        assert not source.take()
    finally:
        source.close()


class Lost:
    """A source that had to drop messages."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.fileno, self.closed = lambda: self.reader, False

    def take(self):
        """Report that messages were lost."""
        os.read(self.reader, 1)
        return True

    def close(self):
        """Close the descriptors."""
        self.closed = True
        os.close(self.reader)
        os.close(self.writer)


async def idle(*_):
    """Watch without events."""
    yield None
    await asyncio.Event().wait()


async def test_a_topic_that_is_no_longer_wanted_is_closed(monkeypatch):
    """Its descriptor is closed; other topics keep theirs."""
    made = {topic: Lost() for topic in (EventTopic.ADDRESSES, EventTopic.ROUTES)}
    monkeypatch.setattr(module, "SOURCES", {topic: lambda topic=topic: made[topic] for topic in made})
    followed = SystemEvents(lambda _: None, idle)
    followed.follow(frozenset(made))
    followed.follow(frozenset({EventTopic.ROUTES}))
    assert (made[EventTopic.ADDRESSES].closed, made[EventTopic.ROUTES].closed) == (True, False)
    await followed.close()
    assert made[EventTopic.ROUTES].closed


async def test_a_topic_that_cannot_be_followed_is_tried_again(monkeypatch):
    """A lack of descriptors, for example, is temporary."""
    source, tries = Lost(), []

    def make():
        tries.append(None)
        if len(tries) < 3:
            raise OSError(24, "Too many open files")
        return source

    monkeypatch.setattr(module, "SOURCES", {EventTopic.ADDRESSES: make})
    monkeypatch.setattr(module, "AGAIN", 0.001)
    monkeypatch.setattr(module, "CALM", 0.001)
    told = asyncio.Event()
    followed = SystemEvents(lambda _: told.set(), idle)
    followed.follow(frozenset({EventTopic.ADDRESSES}))
    os.write(source.writer, b"x")
    async with asyncio.timeout(DEADLINE):
        await told.wait()
    await followed.close()

    assert len(tries) == 3


async def test_files_with_names_are_followed(monkeypatch):
    """A change of /etc/hosts may give the host another domain."""
    monkeypatch.setattr(module, "CALM", 0.001)
    told, edited, asked = asyncio.get_running_loop().create_future(), asyncio.Event(), []

    async def watch(*paths):
        asked.extend(paths)
        yield None
        await edited.wait()
        yield None
        await asyncio.Event().wait()

    followed = SystemEvents(told.set_result, watch)
    followed.follow(frozenset({EventTopic.NAME}))
    edited.set()
    async with asyncio.timeout(DEADLINE):
        assert await told == {EventTopic.NAME}
    await followed.close()

    assert asked == ["/etc/hosts", "/etc/hostname"]
