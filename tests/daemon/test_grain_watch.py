"""Grains that change while the agent runs: when they are read again, and which changes count."""

from __future__ import annotations

import asyncio
import errno

import pytest

from holdfast.agent import facts
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.facts import GrainParts
from holdfast.agent.grain_watch import GrainWatch, topics
from holdfast.agent.host.system_events import EventTopic
from holdfast.states.view.grains import ALL

GRAINS = {"id": "web1", "os": "Debian", "ipv4": ["10.0.0.1"]}
RECHECK = Notice("debug", "recheck", "", "")


class ChangingHost:
    """A host whose grains the test changes."""

    def __init__(self):
        self.grains, self.looks, self.changes, self.gate = dict(GRAINS), 0, 0, asyncio.Event()
        self.gate.set()
        self.watch = GrainWatch(self.gather, self.changed, self.idle)

    async def gather(self):
        """Read the grains."""
        self.looks += 1
        found = dict(self.grains)
        await self.gate.wait()
        if "error" in found:
            raise found["error"]
        return found

    def changed(self):
        """Count a change of grains that states have read."""
        self.changes += 1

    @staticmethod
    async def idle(*_):
        """Watch without events."""
        yield None
        await asyncio.Event().wait()

    async def looked(self):
        """Wait until the grains have been read."""
        while self.watch._looking:
            await asyncio.sleep(0)


@pytest.fixture
async def host():
    """A host whose states have read `ipv4`."""
    changing = ChangingHost()
    changing.watch.use(GRAINS, lambda: {"ipv4"})
    yield changing
    await changing.watch.close()


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({}, 0),
        ({"os": "Ubuntu"}, 0),
        ({"new": 1}, 0),
        ({"ipv4": []}, 1),
        ({"error": OSError(errno.EMFILE, "Too many open files")}, 0),
    ],
    ids=["nothing", "not read", "new", "read", "unreadable"],
)
async def test_at_a_recheck_only_changes_of_used_grains_count(host, change, changes):
    """Each recheck reads the grains. An error while reading is no change."""
    host.grains |= change
    host.watch.tell(RECHECK)
    await host.looked()

    assert (host.looks, host.changes) == (1, changes)


async def test_a_request_during_a_read_causes_another_read(host):
    """A change during the first read is not missed."""
    host.gate.clear()
    host.watch.look()
    await asyncio.sleep(0)
    host.grains["ipv4"] = []
    host.watch.look()
    host.gate.set()
    await host.looked()

    assert (host.looks, host.changes) == (2, 1)


async def test_an_event_of_a_topic_that_a_helper_uses_is_a_change(host):
    """The result of `salt['mount.active']()` is outdated then, so the templates are rendered again."""
    host.watch.use(GRAINS, lambda: {"salt.mount"})
    host.watch._heard(frozenset({EventTopic.MOUNTS}))

    assert (host.looks, host.changes) == (0, 1)


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        ({"os", "osfinger"}, set()),
        ({"ipv4"}, {EventTopic.ADDRESSES}),
        ({"ip4_gw", "fqdn"}, {EventTopic.ROUTES, EventTopic.NAME}),
        ({"disks"}, {EventTopic.DEVICES}),
        ({"salt.network"}, {EventTopic.ADDRESSES, EventTopic.ROUTES}),
        ({"salt.mount"}, {EventTopic.MOUNTS}),
        ({ALL}, {*EventTopic} - {EventTopic.MOUNTS, EventTopic.SWAPS, EventTopic.MODULES}),
    ],
)
def test_only_topics_of_used_grains_are_followed(read, wanted):
    """The agent joins a group of kernel messages only for a grain that is used."""
    assert topics(read) == wanted


def test_a_part_that_cannot_be_read_keeps_its_values(monkeypatch):
    """The other parts are read again all the same."""
    parts, broken, counter = GrainParts(), [], iter(range(9))

    def network(_):
        if broken:
            raise OSError(errno.EMFILE, "Too many open files")
        return {"ipv4": ["10.0.0.1"]}

    monkeypatch.setattr(facts, "PARTS", (network, lambda _: {"count": next(counter)}))
    first = parts.read()
    first["ipv4"].append("a caller's own")
    broken.append(True)

    assert parts.read() == {"ipv4": ["10.0.0.1"], "count": 1}
    with pytest.raises(OSError, match="Too many"):
        GrainParts().read()


def test_gateways_and_disks_as_salt_names_them(tmp_path):
    """The values are read from tables of the kernel."""
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text(
        "Iface\tDestination\tGateway\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    )
    zero = "0" * 32
    (tmp_path / "proc/net/ipv6_route").write_text(
        f"{zero} 00 {zero} 00 fe800000000000000000000000000001 00000064 00000001 00000000 00000003 eth0\n"
    )
    for name, turns in (("sda", "1"), ("nvme0n1", "0")):
        (tmp_path / f"sys/block/{name}/queue").mkdir(parents=True)
        (tmp_path / f"sys/block/{name}/queue/rotational").write_text(f"{turns}\n")
    found = GrainParts(tmp_path).read()

    assert (found["ip4_gw"], found["ip6_gw"], found["ip_gw"]) == ("192.0.2.1", "fe80::1", True)
    assert (found["disks"], found["ssds"]) == (["sda"], ["nvme0n1"])
    (tmp_path / "proc/net/route").unlink()
    assert GrainParts(tmp_path).read()["ip4_gw"] is False
