"""Rules of the kernel's packet filter by iptables, in a host with a network of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from installed import PYTHON

pytestmark = pytest.mark.lab

SSH = {
    "chain": "INPUT",
    "proto": "tcp",
    "dport": 22,
    "source": "10.1.2.3/8",
    "comment": "a  b; $(id)",
    "jump": "ACCEPT",
}
LISTED = '-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -m comment --comment "a  b; $(id)" -j ACCEPT'
STATES = """\
iptables:
  pkg.installed
web:
  iptables.chain_present: []
allow http:
  iptables.append:
    - chain: web
    - proto: tcp
    - dports: [80, 443]
    - jump: ACCEPT
to web:
  iptables.insert:
    - chain: INPUT
    - jump: web
    - save: true
drop the rest:
  iptables.set_policy:
    - chain: FORWARD
    - policy: DROP
    - save: true
no telnet:
  iptables.delete:
    - chain: INPUT
    - proto: tcp
    - dport: 23
    - jump: ACCEPT
"""
MEASURE = """
import json, subprocess, sys, time
damage, check, times = sys.argv[1].split(), sys.argv[2].split(), []
for number in range(5):
    subprocess.run(damage, check=True)
    began = time.monotonic()
    while subprocess.run(check, stderr=-3).returncode and time.monotonic() < began + 20:
        pass
    times.append(round((time.monotonic() - began) * 1000))
    time.sleep(0.3)  # the agent settles
print(json.dumps(sorted(times)))
"""


@pytest.fixture(scope="module")
def walled(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with iptables."""
    host = run.host("walled", layers=layers)
    try:
        host.sh("apt-get install -y -qq iptables >/dev/null")
        yield host
    finally:
        host.down()


def rules(host: lab.Host, chain: str = "INPUT", program: str = "iptables") -> list[str]:
    """Return the rules of a chain."""
    return [line for line in host.run(program, "-S", chain).stdout.splitlines() if line.startswith("-A")]


def test_rules_and_chains(walled: lab.Host) -> None:
    """Each is made once, is found however iptables writes it, and is removed with all its copies."""
    with Driver(walled) as driver:
        before = walled.sh("nft list ruleset"), walled.contents()
        assert not driver.plan("iptables.append", "ssh", **SSH, save="/etc/rules").right
        assert not driver.plan("iptables.set_policy", "x", chain="INPUT", policy="DROP").right
        assert (walled.sh("nft list ruleset"), walled.contents()) == before
        assert driver.apply("iptables.append", "ssh", **SSH, save="/etc/rules").changes == {"locale": "ssh"}
        assert rules(walled) == [LISTED]
        assert LISTED in walled.read("/etc/rules")
        assert walled.sh("stat -c %a /etc/rules") == "640\n"
        assert driver.apply("iptables.append", "ssh", **SSH, save="/etc/rules").right
        walled.sh("rm /etc/rules")
        assert not driver.apply("iptables.append", "ssh", **SSH, save="/etc/rules").right

        limit = {"chain": "INPUT", "match": "limit", "limit": "5/minute", "jump": "LOG", "log-prefix": "x y: "}
        assert not driver.apply("iptables.insert", "limit", **limit, position=7).right
        assert not driver.apply("iptables.insert", "first", chain="INPUT", source="192.0.2.1", jump="DROP").right
        assert driver.apply("iptables.insert", "limit", **limit).right
        assert [line.split()[3] for line in rules(walled)] == ["192.0.2.1/32", "10.0.0.0/8", "limit"]
        walled.sh("for i in 1 2 3; do iptables -A INPUT -s 192.0.2.1 -j DROP; done")
        deleted = driver.apply("iptables.delete", "first", chain="INPUT", source="192.0.2.1", jump="DROP")
        assert deleted.comment == "removed --source 192.0.2.1 --jump DROP from the chain INPUT of filter (ipv4)"
        assert len(rules(walled)) == 2
        assert driver.apply("iptables.delete", "first", chain="INPUT", source="192.0.2.1", jump="DROP").right

        six = {"chain": "INPUT", "family": "ipv6", "source": "2001:db8::/32", "jump": "REJECT"}
        assert not driver.apply("iptables.append", "six", **six).right
        assert rules(walled, program="ip6tables")
        assert driver.apply("iptables.chain_present", "mine").changes == {"locale": "mine"}
        assert driver.apply("iptables.chain_present", "mine").right
        with pytest.raises(Failed, match=r"cannot use the chain none of filter .ipv4.: "):
            driver.apply("iptables.append", "x", chain="none", jump="ACCEPT")
        with pytest.raises(
            Failed, match=r"cannot set the policy of the chain mine .*: the table has no built-in chain"
        ):
            driver.apply("iptables.set_policy", "x", chain="mine", policy="DROP")
        with pytest.raises(Failed, match=r"cannot use the chain INPUT of filter .ipv4.: .*NOPE"):
            driver.apply("iptables.append", "x", chain="INPUT", jump="NOPE")
        assert not driver.apply("iptables.set_policy", "x", chain="FORWARD", policy="drop").right
        assert driver.apply("iptables.set_policy", "x", chain="FORWARD", policy="DROP").right
        assert driver.apply("iptables.flush", "x", chain="INPUT").comment.startswith("removed 2 rules of the chain")
        assert driver.apply("iptables.flush", "x").right
        assert not driver.apply("iptables.chain_absent", "mine").right
        assert driver.apply("iptables.chain_absent", "mine").right


def test_a_watch_hears_only_its_chain(walled: lab.Host) -> None:
    """Also what `nft` changes there, and that the table is deleted."""
    with Driver(walled) as driver:
        driver.apply("iptables.append", "ssh", **SSH)
        driver.apply("iptables.chain_present", "other")
        watch = driver.watch("iptables.append", "ssh", **SSH)
        for change in ("iptables -F INPUT", "nft add rule ip filter INPUT accept", "nft delete table ip filter"):
            watch.quiet()
            walled.sh("iptables -A other -j ACCEPT 2>/dev/null || true; iptables -t nat -A POSTROUTING -j MASQUERADE")
            with pytest.raises(TimeoutError):
                watch.wait(0.2)
            walled.sh(change)
            watch.wait()


def test_the_agent_repairs_the_firewall(walled: lab.Host) -> None:
    """From nothing, in order; each damage is repaired at its event; a second run finds nothing."""
    walled.sh("nft flush ruleset; iptables -A INPUT -p tcp --dport 23 -j ACCEPT")
    walled.write("/etc/holdfast/states/site.sls", STATES)
    walled.run("holdfast", "install")
    lab.wait_for("the agent has converged", lambda: "converged" in walled.run("holdfast", "status", check=False).stdout)
    saved = walled.read("/etc/iptables/rules.v4")
    assert "-A INPUT -j web" in saved
    assert ":FORWARD DROP" in saved
    rule = "web -p tcp -m multiport --dports 80,443 -j ACCEPT"
    times = json.loads(
        walled.run(PYTHON, "-c", MEASURE, f"iptables -D {rule}", f"iptables -C {rule}", timeout=60).stdout
    )
    assert times[2] < 2000, f"{times} ms"
    walled.sh("nft flush ruleset; iptables -A INPUT -p tcp --dport 23 -j ACCEPT")
    wanted = ["-P INPUT ACCEPT", "-P FORWARD DROP", "-P OUTPUT ACCEPT", "-N web", "-A INPUT -j web",
              "-A web -p tcp -m multiport --dports 80,443 -j ACCEPT"]  # fmt: skip
    lab.wait_for("all is repaired", lambda: walled.run("iptables", "-S").stdout.splitlines() == wanted)
    done = walled.run("holdfast", "apply")
    assert "changed" not in done.stdout
    walled.sh("holdfast uninstall")
