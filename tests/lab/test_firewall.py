"""Rules of the kernel's packet filter by iptables, nftables and ufw, in a host with a network of its own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from repairs import Damage, all_repair_times
from shelf import differing

pytestmark = pytest.mark.lab

SOON = 0.5
"""Seconds for the best of several repairs; ufw itself takes longer for most of them."""
SSH = {
    "chain": "INPUT",
    "proto": "tcp",
    "dport": 22,
    "source": "10.1.2.3/8",
    "comment": "a  b; $(id)",
    "jump": "ACCEPT",
}
LISTED = '-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -m comment --comment "a  b; $(id)" -j ACCEPT'
WEB = {"family": "inet", "table": "t", "chain": "in", "proto": "tcp", "dports": "443,80", "counter": "", "jump": "web"}
REVERSIBLE = """\
web:
  iptables.chain_present: [{reverse: true}]
allow http:
  iptables.append: [{chain: web}, {proto: tcp}, {dports: [80, 443]}, {jump: ACCEPT}, {reverse: true}]
to web:
  iptables.insert: [{chain: INPUT}, {jump: web}, {reverse: true}]
drop what is forwarded:
  iptables.set_policy: [{chain: FORWARD}, {policy: DROP}, {reverse: true}]
t:
  nftables.table_present: [{family: inet}, {reverse: true}]
in:
  nftables.chain_present:
    [{family: inet}, {table: t}, {table_type: filter}, {hook: input}, {priority: 0}, {reverse: true}]
allow ssh:
  nftables.append: [{family: inet}, {table: t}, {chain: in}, {proto: tcp}, {dport: 22}, {jump: accept}, {reverse: true}]
drop the rest:
  nftables.set_policy: [{family: inet}, {table: t}, {chain: in}, {policy: drop}, {reverse: true}]
ufw default:
  ufw.default_incoming: [{default: reject}, {reverse: true}]
ufw on:
  ufw.enabled: [{reverse: true}]
"""
STATES = (
    REVERSIBLE.replace(", {reverse: true}", "").replace("[{reverse: true}]", "[]")
    + """\
no telnet:
  iptables.delete: [{chain: INPUT}, {proto: tcp}, {dport: 23}, {jump: ACCEPT}]
saved:
  iptables.append: [{chain: web}, {source: 192.0.2.1}, {jump: DROP}, {save: true}]
saved by nft:
  nftables.insert: [{family: inet}, {table: t}, {chain: in}, {source: 192.0.2.1}, {jump: drop}, {save: true}]
ufw ssh:
  ufw.allow: [{protocol: tcp}, {to_port: 22}, {comment: '"by hand"'}]
"""
)
REMOVED = """\
allow http:
  iptables.delete: [{chain: web}, {proto: tcp}, {dports: [80, 443]}, {jump: ACCEPT}]
to web:
  iptables.delete: [{chain: INPUT}, {jump: web}]
web:
  iptables.chain_absent: []
allow ssh:
  nftables.delete: [{family: inet}, {table: t}, {chain: in}, {proto: tcp}, {dport: 22}, {jump: accept}]
in:
  nftables.chain_absent: [{family: inet}, {table: t}]
t:
  nftables.table_absent: [{family: inet}]
ufw off:
  ufw.disabled
"""
IN = "nft list chain inet t in"
DAMAGES = {
    "iptables -D web -p tcp -m multiport --dports 80,443 -j ACCEPT": "'80,443' in out('iptables -S web')",
    "iptables -A INPUT -p tcp --dport 23 -j ACCEPT": "'23' not in out('iptables -S INPUT')",
    "iptables -P FORWARD ACCEPT": "'-P FORWARD DROP' in out('iptables -S FORWARD')",
    "iptables -D INPUT -j web; iptables -F web": "out('iptables -S').count('web') == 4",
    "rm /etc/iptables/rules.v4": "'192.0.2.1' in text('/etc/iptables/rules.v4')",
    "nft flush chain inet t in": f"'dport 22 accept' in out('{IN}') and '192.0.2.1 drop' in out('{IN}')",
    "nft 'add chain inet t in { policy accept; }'": f"'policy drop' in out('{IN}')",
    "nft delete table inet t": f"'policy drop' in out('{IN}') and 'dport 22 accept' in out('{IN}')",
    "rm /etc/nftables/salt-all-in-one.nft": "'192.0.2.1 drop' in text('/etc/nftables/salt-all-in-one.nft')",
    "ufw delete allow 22/tcp >/dev/null": "'tcp 22 ' in text('/etc/ufw/user6.rules') and '22' in out('ip6tables -S')",
    "iptables -F ufw-user-input": "'22' in out('iptables -S ufw-user-input')",
    "ip6tables -D INPUT -j ufw6-before-input": "'before-input' in out('ip6tables -S INPUT')",
    "ufw disable >/dev/null": "'=yes' in text('/etc/ufw/ufw.conf') and '22' in out('iptables -S ufw-user-input')",
}


@pytest.fixture(scope="module")
def walled(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with iptables, nftables and ufw."""
    host = run.host("walled", layers=layers)
    try:
        host.sh("apt-get install -y -qq iptables ufw >/dev/null; holdfast install >/dev/null; systemctl stop holdfast")
        yield host
    finally:
        host.down()


def emptied(host: lab.Host) -> lab.Host:
    """Return the host without rules, and with ufw as it was installed."""
    host.sh("ufw --force reset >/dev/null; nft flush ruleset; rm -rf /etc/ufw/*.20* /etc/nftables /etc/iptables")
    return host


def agent(host: lab.Host, states: str) -> None:
    """Give these states to an agent, and wait until it has converged."""
    host.write("/etc/holdfast/states/site.sls", states)
    host.write(
        "/etc/holdfast/agent.yaml", "engine: {recheck: 0, flap_limit: 1000}\n"
    )  # these many repairs are intended
    host.sh("if systemctl is-active -q holdfast; then holdfast reload; else systemctl start holdfast; fi >/dev/null")
    told = host.run("holdfast", "status", "--wait", check=False)
    assert told.returncode == 0, told.stdout


def kernel(host: lab.Host) -> str:
    """Return all rules, without counters and without the chains that ufw leaves behind when it is turned off."""
    dumps = host.sh("iptables-save; ip6tables-save; nft list tables")
    return "\n".join(line for line in dumps.splitlines() if not line.startswith("#") and "ufw" not in line)


def loaded_by_ufw(host: lab.Host) -> list[str]:
    """Return all chains and rules of iptables, without counters."""
    dumps = host.sh("iptables-save; ip6tables-save").splitlines()
    return [line.partition(" [")[0] for line in dumps if not line.startswith("#")]


def rules(host: lab.Host, chain: str = "INPUT", program: str = "iptables") -> list[str]:
    """Return the rules of a chain."""
    return [line for line in host.run(program, "-S", chain).stdout.splitlines() if line.startswith("-A")]


def test_rules_and_chains(walled: lab.Host) -> None:
    """Each rule is added once, is found in whatever form iptables prints it, and is removed with all its copies."""
    with Driver(emptied(walled)) as driver:
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
    """The watch also reports changes by `nft`, and the deletion of the table."""
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


def test_nftables(walled: lab.Host) -> None:
    """A rule is found in whatever form nft prints it, also if it uses sets and other chains; a plan changes nothing."""
    inside = {"family": "inet", "table": "t"}
    with Driver(emptied(walled)) as driver:
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
            Failed, match=r"cannot set the policy of the chain web .*: the chain does not exist or has no hook"
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
    """Rules of the ufw formula, with its quotes, are added once.

    Another action replaces a rule. Plans change nothing.
    """
    with Driver(emptied(walled)) as driver:
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
        loaded = loaded_by_ufw(walled)
        walled.sh("sed -i '/^COMMIT/i -A ufw-before-input -s 192.0.2.9 -j DROP' /etc/ufw/before.rules")
        assert driver.plan("ufw.enabled", "on").right, "a rule that was added to the file has not been loaded yet"
        for damage in ("iptables -F ufw-before-output", "ip6tables -F ufw6-user-input", "iptables -F INPUT"):
            walled.sh(damage)  # no agent has seen the rules before
            assert not driver.plan("ufw.enabled", "on").right, damage
            assert not driver.apply("ufw.enabled", "on").right, damage
            assert loaded_by_ufw(walled) == loaded, damage
        watch = driver.watch("ufw.enabled", "on")
        for change in ("ufw disable", "ufw --force enable", "nft flush ruleset"):
            watch.quiet()
            walled.sh(change)
            watch.wait()
        assert not driver.apply("ufw.enabled", "on").right
        assert not driver.apply("ufw.disabled", "off").right
        assert driver.apply("ufw.disabled", "off").right


def test_rules_are_not_saved_where_another_user_could_redirect_them(walled: lab.Host) -> None:
    """In a directory that other users may write, links are not followed, and their targets stay as they are."""
    emptied(walled).sh(
        "useradd -m eve; mkdir /srv/shared /srv/eve; chmod 1777 /srv/shared; chown eve /srv/eve; echo kept >/etc/kept\n"
        "su eve -c 'ln -s /etc/kept /srv/shared/rules; ln -s /etc/kept /srv/eve/rules; ln -s /etc /srv/eve/etc'"
    )
    with Driver(walled) as driver:
        for path in ("/srv/shared/rules", "/srv/eve/rules", "/srv/eve/etc/kept"):
            with pytest.raises(Failed, match=r"cannot follow /srv/.* user eve"):
                driver.apply("iptables.append", "x", chain="INPUT", jump="ACCEPT", save=path)
        assert walled.read("/etc/kept") == "kept\n"


def test_a_plan_changes_nothing(walled: lab.Host) -> None:
    """A plan changes neither the disk, compared byte by byte, nor the kernel."""
    emptied(walled).write("/etc/holdfast/states/site.sls", STATES)
    before = walled.contents(exact=True), walled.sh("nft -s list ruleset")
    planned = walled.run("holdfast", "plan", check=False)
    assert planned.returncode == 2, planned.stdout
    assert differing(before[0], walled.contents(exact=True)) == {}
    assert walled.sh("nft -s list ruleset") == before[1]


def test_removed_states_are_undone(walled: lab.Host) -> None:
    """With `reverse`, the rules and the settings of ufw are those from before the states."""
    emptied(walled).sh("iptables -A INPUT -s 192.0.2.7 -j DROP; ip6tables -A INPUT -j ACCEPT")
    told = "cat /etc/default/ufw /etc/ufw/ufw.conf; ufw status"
    before = kernel(walled), walled.sh(told)
    agent(walled, REVERSIBLE)
    assert kernel(walled) != before[0]
    assert "Status: active" in walled.run("ufw", "status").stdout
    agent(walled, "{}")
    assert (kernel(walled), walled.sh(told)) == before


def test_an_agent_repairs_damage_at_its_event(walled: lab.Host) -> None:
    """The table of the times is printed; `pytest -rP` shows it. A second run finds nothing."""
    agent(emptied(walled), STATES)
    taken = all_repair_times(walled, [Damage(*each, times=2, calm=0.1) for each in DAMAGES.items()])
    found = {damage: [each or 0.0 for each in seconds] for damage, seconds in zip(DAMAGES, taken, strict=True)}
    for damage, seconds in found.items():
        print(f"{statistics.median(seconds) * 1000:6.0f} {max(seconds) * 1000:6.0f} ms  {damage}")  # noqa: T201 - -rP
    assert {damage: each for damage, each in zip(DAMAGES, taken, strict=True) if None in each} == {}
    assert {damage: seconds for damage, seconds in found.items() if min(seconds) > SOON} == {}
    walled.sh("nft flush ruleset")
    lab.wait_for("repaired", lambda: "policy drop" in walled.run(*IN.split(), check=False).stdout)
    lab.wait_for("repaired", lambda: "-P INPUT DROP" in walled.run("iptables", "-S", "INPUT").stdout)
    walled.run("holdfast", "status", "--wait")
    assert "changed" not in walled.run("holdfast", "apply").stdout


def test_states_exchanged_in_the_file_remove_their_rules(walled: lab.Host) -> None:
    """The agent of the previous test deletes rules, chains and tables, and turns ufw off."""
    agent(walled, STATES)
    agent(walled, REMOVED)
    assert "web" not in walled.sh("iptables-save")
    assert "inet t" not in walled.sh("nft list tables")
    assert walled.run("ufw", "status").stdout == "Status: inactive\n"
