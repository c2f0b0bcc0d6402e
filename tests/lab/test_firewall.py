"""Tables of nftables and rules of ufw, in a host with a network of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from installed import PYTHON

pytestmark = pytest.mark.lab

WEB = {"family": "inet", "table": "t", "chain": "in", "proto": "tcp", "dports": "443,80", "counter": "", "jump": "web"}
STATES = """\
t:
  nftables.table_present:
    - family: inet
in:
  nftables.chain_present:
    - family: inet
    - table: t
    - table_type: filter
    - hook: input
    - priority: 0
allow ssh:
  nftables.append:
    - family: inet
    - table: t
    - chain: in
    - proto: tcp
    - dport: 22
    - jump: accept
    - save: true
drop the rest:
  nftables.set_policy:
    - family: inet
    - table: t
    - chain: in
    - policy: drop
ufw ssh:
  ufw.allow:
    - protocol: tcp
    - to_port: 22
    - comment: '"by hand"'
ufw default:
  ufw.default_incoming:
    - default: deny
ufw on:
  ufw.enabled
"""
MEASURE = """
import json, subprocess, sys, time
damage, check, good, times = sys.argv[1].split(), sys.argv[2].split(), sys.argv[3], []
for number in range(int(sys.argv[4])):
    subprocess.run(damage, check=True, stdout=-3)
    began = time.monotonic()
    while good not in subprocess.run(check, stderr=-3, stdout=-1, text=True).stdout and time.monotonic() < began + 20:
        pass
    times.append(round((time.monotonic() - began) * 1000))
    time.sleep(0.3)  # the agent settles
print(json.dumps(sorted(times)))
"""


@pytest.fixture(scope="module")
def walled(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with nftables and ufw."""
    host = run.host("firewall", layers=layers)
    try:
        host.sh("apt-get install -y -qq ufw >/dev/null; nft flush ruleset")
        yield host
    finally:
        host.down()


def test_nftables(walled: lab.Host) -> None:
    """A rule is found however nft writes it, also if it uses sets and other chains; a plan changes nothing."""
    inside = {"family": "inet", "table": "t"}
    with Driver(walled) as driver:
        assert not driver.plan("nftables.table_present", "t", family="inet").right
        assert walled.sh("nft list ruleset") == ""
        assert driver.apply("nftables.table_present", "t", family="inet").changes == {"locale": "t"}
        assert driver.apply("nftables.table_present", "t", family="inet").right
        base = {"table_type": "filter", "hook": "input", "priority": 0}
        assert not driver.apply("nftables.chain_present", "in", **inside, **base).right
        assert driver.apply("nftables.chain_present", "in", **inside, **base).right
        with pytest.raises(Failed, match=r"cannot use the chain in of the table inet t: .*; the rule is 'counter tcp"):
            driver.apply("nftables.append", "web", **WEB)
        driver.apply("nftables.chain_present", "web", **inside)
        walled.sh("nft add set inet t bad '{ type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.1 }; }'")
        before = walled.sh("nft -s list ruleset"), walled.contents()
        assert not driver.plan("nftables.append", "web", **WEB, save=True).right
        assert (walled.sh("nft -s list ruleset"), walled.contents()) == before
        assert not driver.apply("nftables.append", "web", **WEB, save=True).right
        assert "counter packets 0 bytes 0 tcp dport { 80, 443 } jump web" in walled.sh("nft list chain inet t in")
        assert "counter tcp dport { 80, 443 } jump web" in walled.read("/etc/nftables/salt-all-in-one.nft")
        assert driver.apply("nftables.append", "web", **WEB, save=True).right
        for options in ({"source": "@bad"}, {"saddr": "2001:db8::/32"}, {"connstate": "new,established", "if": "lo"}):
            rule = {**inside, "chain": "in", "jump": "ACCEPT", **options}
            assert not driver.apply("nftables.insert", "x", **rule, position=2).right
            assert driver.apply("nftables.insert", "x", **rule).right
        walled.sh("nft add rule inet t in counter tcp dport '{ 443, 80 }' jump web")
        assert not driver.apply("nftables.delete", "web", **WEB).right
        assert "jump web" not in walled.sh("nft list ruleset")
        assert driver.apply("nftables.delete", "web", **WEB).right
        assert not driver.apply("nftables.set_policy", "p", **inside, chain="in", policy="DROP").right
        assert driver.apply("nftables.set_policy", "p", **inside, chain="in", policy="drop").right
        with pytest.raises(
            Failed, match=r"cannot set the policy of the chain web .*: there is no such chain, or it has no"
        ):
            driver.apply("nftables.set_policy", "p", **inside, chain="web", policy="drop")
        watch = driver.watch("nftables.append", "web", **WEB)
        for change in ("nft flush chain inet t in", "nft add rule inet t in accept"):
            watch.quiet()
            walled.sh(f"nft add rule inet t web accept; {change}")
            watch.wait()
        assert driver.apply("nftables.flush", "t", **inside).comment.startswith("removed")
        assert driver.apply("nftables.flush", "t", **inside).right
        assert not driver.apply("nftables.chain_absent", "web", **inside).right
        assert not driver.apply("nftables.table_absent", "t", family="inet").right
        assert driver.apply("nftables.table_absent", "t", family="inet").right
        with pytest.raises(Failed, match="cannot flush the table ip none: it does not exist"):
            driver.apply("nftables.flush", "x", table="none")
        assert driver.apply("nftables.flush", "x", table="none", ignore_absence=True).right


def test_ufw(walled: lab.Host) -> None:
    """Rules of the formula, with its quotes: each is added once; another action replaces it; plans change nothing."""
    with Driver(walled) as driver:
        before = walled.contents()
        ssh = {"protocol": "tcp", "to_port": "22", "comment": '"a b; $(id)"'}
        assert not driver.plan("ufw.allow", "ssh", **ssh).right
        assert not driver.plan("ufw.enabled", "on").right
        assert not driver.plan("ufw.default_outgoing", "x", default="reject").right
        assert walled.contents() == before
        allowed = driver.apply("ufw.allow", "ssh", **ssh)
        assert allowed.changes == {"rule": "allow proto tcp from any to any port 22 comment a b; $(id)"}
        assert driver.apply("ufw.allow", "ssh", **ssh).right
        assert walled.sh("ufw show added").splitlines()[1:] == ["ufw allow 22/tcp comment 'a b; $(id)'"]
        assert not driver.apply("ufw.limit", "ssh", **ssh).right
        assert walled.sh("ufw show added").splitlines()[1:] == ["ufw limit 22/tcp comment 'a b; $(id)'"]
        walled.write("/etc/ufw/applications.d/web", "[My Web]\ntitle=x\ndescription=x\nports=80/tcp|443/tcp\n")
        for kind, options in (
            ("ufw.deny", {"from_addr": "192.0.2.0/24"}),
            ("ufw.allowed", {"app": '"My Web"'}),
            ("ufw.allowed", {"interface": "eth0"}),
            ("ufw.allow", {"from_addr": "localhost", "to_port": "6000:6007", "protocol": "udp", "to_addr": "10.0.0.1"}),
        ):
            assert not driver.apply(kind, "x", **options).right, options
            assert driver.apply(kind, "x", **options).right, options
        assert walled.sh("ufw show added").splitlines()[1] == "ufw deny from 192.0.2.0/24"
        with pytest.raises(Failed, match="cannot use ufw: Could not find a profile matching 'None'"):
            driver.apply("ufw.allow", "x", app="None")
        assert not driver.apply("ufw.default_incoming", "x", default="reject").right
        assert driver.apply("ufw.default_incoming", "x", default="reject").right
        assert not driver.apply("ufw.enabled", "on").right
        assert driver.apply("ufw.enabled", "on").right
        watch = driver.watch("ufw.enabled", "on")
        for change in ("ufw disable", "ufw --force enable", "nft flush ruleset"):
            watch.quiet()
            walled.sh(change)
            watch.wait()
        assert not driver.apply("ufw.enabled", "on").right
        assert not driver.apply("ufw.disabled", "off").right
        assert driver.apply("ufw.disabled", "off").right


def test_the_agent_repairs_both(walled: lab.Host) -> None:
    """Each damage is repaired at its event; a second run finds nothing."""
    walled.sh("ufw --force reset >/dev/null; nft flush ruleset; rm -f /etc/nftables/*")
    walled.write("/etc/holdfast/states/site.sls", STATES)
    walled.run("holdfast", "install")
    lab.wait_for("the agent has converged", lambda: "converged" in walled.run("holdfast", "status", check=False).stdout)
    chain = "nft list chain inet t in"
    for damage, check, good in (
        ("nft flush chain inet t in", chain, "dport 22 accept"),
        ("nft add chain inet t in { policy accept; }", chain, "policy drop"),
        ("ufw delete allow 22/tcp", "ufw show added", "22/tcp"),
        ("ufw disable", "ufw status", "Status: active"),
    ):
        argv = (PYTHON, "-c", MEASURE, damage, check, good, "3")
        times = json.loads(walled.run(*argv, timeout=60).stdout)
        assert times[1] < 3000, f"{damage}: {times} ms"
    walled.sh("nft flush ruleset")
    lab.wait_for("all is repaired", lambda: walled.run("ufw", "status").stdout.startswith("Status: active"))
    lab.wait_for("all is repaired", lambda: "policy drop" in walled.run(*chain.split(), check=False).stdout)
    assert "changed" not in walled.run("holdfast", "apply").stdout
    walled.sh("holdfast uninstall")
