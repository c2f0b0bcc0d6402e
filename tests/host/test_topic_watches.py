"""Resources that watch something without a path share one descriptor for each topic."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys

import pytest

from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.system_events import SOURCES, EventTopic
from holdfast.agent.host.topic_watches import TOPICS, TopicWatches
from holdfast.resources.errors import Temporary


class Source:
    """A source that the test makes readable."""

    def __init__(self) -> None:
        self.ends = socket.socketpair()
        self.closed, self.news = False, True

    def fileno(self) -> int:
        """Return the readable end."""
        return self.ends[0].fileno()

    def take(self) -> bool:
        """Read the available data."""
        self.ends[0].recv(100)
        return self.news

    def close(self) -> None:
        """Close both ends."""
        self.closed = True
        for end in self.ends:
            end.close()


@pytest.fixture
def made(monkeypatch):
    """Return the sources that were opened."""
    made = []

    def make():
        made.append(Source())
        return made[-1]

    monkeypatch.setitem(SOURCES, EventTopic.SWAPS, make)
    return made


async def test_two_watches_share_a_descriptor_and_both_hear_of_each_change(made):
    """The descriptor is closed with the last watch, and opened again for the next one."""
    watches = TopicWatches()
    async with contextlib.aclosing(watches.watch("swaps")) as one:
        async with contextlib.aclosing(watches.watch("swaps")) as other:
            await anext(one)
            await anext(other)
            made[0].ends[1].send(b"x")
            async with asyncio.timeout(DEADLINE):
                await anext(one)
                await anext(other)
        assert not made[0].closed
    assert made[0].closed
    async with contextlib.aclosing(watches.watch("swaps")) as later:
        await anext(later)
    assert len(made) == 2


async def test_what_is_no_change_of_the_topic_is_not_reported(made):
    """A message about another kind of device, for example, is not reported."""
    watches = TopicWatches()
    async with contextlib.aclosing(watches.watch("swaps")) as watch:
        await anext(watch)
        made[0].news = False
        made[0].ends[1].send(b"x")
        pending = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        made[0].news = True
        assert not pending.done()
        made[0].ends[1].send(b"x")
        async with asyncio.timeout(DEADLINE):
            await pending


async def test_a_topic_that_the_kernel_does_not_report_is_an_error_that_may_pass(monkeypatch):
    """The engine tries again, and checks the resource until the watch works."""

    def fail():
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setitem(SOURCES, EventTopic.SWAPS, fail)
    with pytest.raises(Temporary, match="cannot watch the swaps of the kernel: permission denied"):
        await anext(TopicWatches().watch("swaps"))


@pytest.mark.parametrize("topic", sorted(TOPICS))
async def test_each_topic_can_be_watched_on_this_machine(tmp_path, topic):
    """The context of a resource opens the watch, which is armed at once."""
    async with (
        LocalHost(states=tmp_path, var_dir=tmp_path / "var") as host,
        contextlib.aclosing(host.context("x").watch_kernel(topic)) as watch,
        asyncio.timeout(DEADLINE),
    ):
        await anext(watch)


MESSAGES = """
import asyncio, socket, struct
from holdfast.agent.host.topic_watches import TopicWatches

async def main():
    watch = TopicWatches().watch("modules")
    await anext(watch)
    waiting = asyncio.ensure_future(anext(watch))
    sender = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
    for subsystem in (b"block", b"module"):
        await asyncio.sleep(0)
        print(waiting.done(), flush=True)
        text = b"add@/module/x\\0ACTION=add\\0DEVPATH=/module/x\\0SUBSYSTEM=" + subsystem + b"\\0"
        header = struct.pack("=IHHII", 16 + len(text), 0x10, 1, 0, 0)  # a request of the first type that is not control
        sender.sendto(header + text, (0, 0))
    await asyncio.wait_for(waiting, 20)
    print("reported")

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the kernel repeats messages of root only")
def test_a_message_of_the_kernel_about_a_module_is_reported():
    """The kernel repeats a message in the network of the sender, as it sends one when a module is loaded."""
    command = ["unshare", "--net", sys.executable, "-c", MESSAGES]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout.split() == ["False", "False", "reported"]
