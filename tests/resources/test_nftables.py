"""Rules of nftables from the arguments of states, their comparable form, and the arguments of ufw."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.kinds.nftables.ruleset import added, blocks, plain, rehearsal, text_of
from holdfast.resources.kinds.ufw import rules as ufw_rules
from holdfast.resources.testing import FakeContext


def declare(kind: str, **arguments: object):
    """Declare a resource."""
    return registry.find(kind).declare("x", **arguments)


@pytest.mark.parametrize(
    ("family", "options", "wanted"),
    [
        ("ip", {"proto": "tcp", "dport": 22, "jump": "accept"}, "tcp dport { 22 } accept"),
        ("ip", {"proto": "udp", "sports": "1,2", "target": "DROP"}, "udp sport { 1,2 } drop"),
        ("ip", {"proto": "tcp", "dports": [80, 443], "j": "web"}, "tcp dport { 80, 443 } jump web"),
        ("ip", {"proto": "tcp", "dport": "6000:6007"}, "tcp dport { 6000-6007 }"),
        ("ip6", {"source": "::1", "daddr": "2001:db8::/32"}, "ip6 saddr ::1 ip6 daddr 2001:db8::/32"),
        ("inet", {"source": "::1", "destination": "10.0.0.1"}, "ip6 saddr ::1 ip daddr 10.0.0.1"),
        ("ip", {"if": "eth0", "of": "lo", "connstate": "new"}, "meta iifname eth0 meta oifname lo ct state { new }"),
        ("ip", {"icmp-type": "echo-request", "counter": None}, "icmp type { echo-request } counter"),
        ("ip", {"j": "redirect", "to-port": 8080}, "jump redirect redirect to 8080"),
        ("ip", {"jump": "goto x"}, "goto x"),
        ("ip", {"jump": "reject", "reject-with": "tcp reset"}, "reject reject with tcp reset"),
    ],
)
def test_options_become_the_rule_that_salt_gives(family, options, wanted):
    """In Salt's order; a chain to jump to needs no `jump` before it."""
    assert text_of(family, options) == wanted


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dportt": 22}, "did you mean dport"),
        ({"dport": 22}, "a port needs proto"),
        ({"source": "10.0.0.1; flush ruleset"}, "without ;"),
        ({"source": "10.0.0.1\nflush ruleset"}, "without ;"),
        ({"source": "-f /etc/shadow"}, "a leading -"),
        ({"jump": "# x"}, "without ;"),
        ({"family": "ipx"}, "is not a family"),
        ({"table": "a b"}, "a name of nftables"),
    ],
)
def test_a_wrong_argument_is_told_at_its_place(arguments, told):
    """No text that would end the rule, or be another command, reaches nft."""
    with pytest.raises(ValidationError, match=told):
        declare("nftables.append", **{"table": "t", "chain": "c", **arguments})


def test_a_rule_is_rehearsed_with_the_sets_and_chains_of_its_table():
    """The rehearsal contains no other rules and no hooks."""
    listing = (
        "table ip t {\n\tset bad {\n\t\ttype ipv4_addr\n\t\telements = { 1.1.1.1,\n\t\t\t2.2.2.2 }\n\t}\n\n"
        "\tchain in {\n\t\ttype filter hook input priority 0;\n\t\tjump web\n\t}\n\n\tchain web {\n\t}\n}\n"
    )
    assert blocks(listing)[0] == "\tset bad {"
    assert blocks(listing)[-1] == "\t}"
    assert len(blocks(listing)) == 5
    made = rehearsal(listing, "ip", "t", "in", "accept")
    assert "hook" not in made
    assert "jump" not in made
    assert made.endswith("\tchain in {\n\t}\n\tchain web {\n\t}\n}\nadd rule ip t in accept\n")
    assert "\tchain new {" in rehearsal("", "ip", "t", "new", "accept")


def test_counts_and_the_order_of_sets_do_not_matter():
    """Everything else is compared."""
    first = {
        "handle": 1,
        "expr": [{"counter": {"packets": 1, "bytes": 2}}, {"match": {"right": {"set": [1, {"range": [2, 3]}]}}}],
    }
    other = {
        "handle": 2,
        "expr": [{"counter": {"packets": 0, "bytes": 0}}, {"match": {"right": {"set": [{"range": [2, 3]}, 1]}}}],
    }
    assert plain(first) == plain(other)
    assert plain({**first, "comment": "x"}) != plain(first)
    assert added('{"nftables": [{"add": {"table": {}}}]}\n') is None
    assert added("") is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "say which packets the rule matches"),
        ({"to_port": "22 comment"}, "a port"),
        ({"to_port": "-x"}, "a port"),
        ({"from_addr": "-x"}, "an address"),
        ({"from_addr": "a b"}, "an address"),
        ({"interface": "eth0 out"}, "an interface"),
        ({"app": "a\nb"}, "the name of a profile"),
        ({"to_port": "22", "comment": "a'b"}, "one line without quotes"),
        ({"protocol": "tpc", "to_port": "22"}, "protocol"),
    ],
)
def test_a_wrong_rule_of_ufw_is_refused(arguments, told):
    """No value can be read as a keyword of ufw."""
    with pytest.raises(ValidationError, match=told):
        declare("ufw.allow", **arguments)


def test_rules_of_ufw_contradict_each_other():
    """One match has one action; `allow` and `allowed` are the same action."""
    allow, allowed, deny = (declare(f"ufw.{word}", to_port="22") for word in ("allow", "allowed", "deny"))
    assert allow.uids() == allowed.uids() == deny.uids()
    assert allow.contradicts(allowed) is None
    assert allow.contradicts(deny) is not None
    assert declare("ufw.allow", to_port="22", comment="x").contradicts(allow) == "comment differs"
    for word in ("app", "interface", "from_addr", "comment"):
        assert declare("ufw.allow", **{"to_port": "22", word: None}).match == allow.match
    assert declare("ufw.allow", to_port="*", app='"Web"').match == ["from", "any", "to", "any", "app", "Web"]


async def test_rules_of_ufw_that_were_added_are_found_in_its_files(tmp_path, monkeypatch):
    """Then ufw is not asked, because each new rule leads to a check of all others. It is asked if a line is lost."""
    rules = tmp_path / "user.rules"
    rules.write_text("### tuple ### allow tcp 80 ::/0 any ::/0 in\n-A x\n")
    monkeypatch.setattr(ufw_rules, "RULES", (str(rules), str(tmp_path / "none")))
    line = "### tuple ### allow any 22 0.0.0.0/0 any 0.0.0.0/0 in\n"

    def add() -> str:
        with rules.open("a") as file:
            file.write(line)
        return "Rules updated\n"

    words = "allow from any to any port 22"
    ctx = FakeContext(tmp_path, commands={f"ufw --dry-run {words}": "*filter\n", f"ufw {words}": add})
    ctx.background = await anext(ufw_rules.Allow.background(ctx))
    rule = declare("ufw.allow", to_port="22")
    assert not await rule.check_apply(ctx, True)
    assert await rule.check_apply(ctx, True)
    assert ctx.calls == [f"ufw --dry-run {words}", f"ufw {words}"]
    rules.write_text(line.replace("22", "23"))
    assert not await rule.check_apply(ctx, False)
