"""Arguments of iptables from the arguments of states, the saved rules, and messages of the kernel."""

from __future__ import annotations

import asyncio
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from deadline import DEADLINE
from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import _netfilter
from holdfast.resources.kinds._netfilter import Changed, ChangeFilter, changes, parse
from holdfast.resources.kinds.iptables import base, rules
from holdfast.resources.kinds.iptables.base import of_chain
from holdfast.resources.kinds.iptables.options import words
from holdfast.resources.testing import FakeContext


def declare(kind: str, **arguments: object):
    """Declare a resource."""
    return registry.find(kind).declare("x", **{"chain": "INPUT", **arguments})


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"jump": "ACCEPT", "proto": "tcp", "dport": 22}, "-p tcp --dport 22 --jump ACCEPT"),
        ({"source": "!10.0.0.0/8", "j": "DROP"}, "! --source 10.0.0.0/8 -j DROP"),
        ({"destination": "not 10.0.0.1", "target": "DROP"}, "! --destination 10.0.0.1 --jump DROP"),
        ({"if": "eth0", "of": "!lo", "i": "eth1"}, "-i eth0 ! -o lo -i eth1"),
        ({"match": "state", "connstate": "NEW,ESTABLISHED"}, "-m state --state NEW,ESTABLISHED"),
        ({"connstate": "!NEW"}, "-m state ! --state NEW"),
        ({"match": ["limit", "comment"], "limit": 5, "comment": "-b"}, "-m limit -m comment --comment|-b|--limit 5"),
        ({"match": "limit,tcp", "proto": "tcp"}, "-p tcp -m limit -m tcp"),
        ({"proto": "tcp", "dports": [80, 443]}, "-p tcp -m multiport --dports 80,443"),
        ({"protocol": "tcp", "match": "multiport", "dports": "80,443"}, "-p tcp -m multiport --dports 80,443"),
        ({"proto": "tcp", "dports": ["!80", 443], "sports": 1}, "-p tcp -m multiport ! --dports 80,443 --sports 1"),
        ({"match-set": "!a src"}, "-m set ! --match-set a src"),
        ({"match-set": ["a src", "b dst"]}, "-m set --match-set a src -m set --match-set b dst"),
        ({"match": "recent", "name_": "ssh", "rcheck": ""}, "-m recent --name ssh --rcheck"),
        ({"match": "policy", "pol": "ipsec", "proto": "esp"}, "-m policy --proto esp --pol ipsec"),
        ({"jump": "LOG", "log-prefix": "-x y: ", "log-uid": None}, "--jump LOG --log-prefix|-x y: |--log-uid"),
        ({"jump": "DNAT", "to-destination": "10.0.0.1:80"}, "--jump DNAT --to-destination 10.0.0.1:80"),
        ({"proto": "tcp", "tcp-flags": "FIN,SYN SYN"}, "-p tcp --tcp-flags FIN,SYN SYN"),
        ({"comment": '"; $(id) ü'}, '-m comment --comment|"; $(id) ü'),
    ],
)  # fmt: skip
def test_options_become_the_arguments_that_salt_gives(options, wanted):
    """The order is that of Salt. Each value that is one word for Salt is one argument, whatever it contains."""
    expected = [word for i, part in enumerate(wanted.split("|")) for word in ([part] if i % 2 else part.split())]

    assert words(options) == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dportt": 22}, "dportt\n.*iptables has no such option; did you mean dport?"),
        ({"source": "1.2.3.4 -j ACCEPT"}, "source\n.*'-j' would be an option of iptables"),
        ({"source": "a\nb"}, "source\n.*one line without control characters"),
        ({"comment": "a\0b"}, "comment\n.*one line without control characters"),
        ({"source": {"a": 1}}, "source\n.*text or a number"),
        ({"source": '"a'}, "source\n.*no closing quotation"),
        ({"jump": "MASQUERADE", "random": "-F"}, "random\n.*'-F' would be an option of iptables"),
        ({"chain": "-F"}, "a name of iptables"),
        ({"table": "a b"}, "a name of iptables"),
        ({"save": "rules"}, "neither true nor the absolute path"),
        ({"family": "ipx"}, "family"),
    ],
)
def test_a_wrong_argument_is_told_at_its_place(options, told):
    """Errors come from the compiler, each at the argument that causes it."""
    with pytest.raises(ValidationError, match=told):
        declare("iptables.append", **options)


async def test_an_error_of_iptables_is_not_an_absent_rule(tmp_path):
    """Only iptables' message that there is no such rule means an absent rule. A missing chain has no rules."""
    check = "iptables -w -t filter -C INPUT --jump ACCEPT"
    rule = declare("iptables.delete", jump="ACCEPT")
    for answer, told in (
        (
            {"retcode": 2, "stderr": "iptables v1.8.9 (nf_tables): unknown option\nTry `iptables -h'\n"},
            "unknown option",
        ),
        ({"retcode": 4, "stderr": "iptables v1.8.9: Permission denied (you must be root)\n"}, "Permission denied"),
    ):
        commands = {check: answer, "iptables -w -t filter -S": "-P INPUT ACCEPT\n"}
        with pytest.raises(Permanent, match=rf"cannot use the chain INPUT of filter .ipv4.: .*{told}"):
            await rule.check_apply(FakeContext(tmp_path, commands=commands), True)
    gone = {"retcode": 1, "stderr": "iptables: No chain/target/match by that name.\n"}
    ctx = FakeContext(tmp_path, commands={check: gone, "iptables -w -t filter -S": "-P FORWARD ACCEPT\n"})
    assert await rule.check_apply(ctx, True)


def test_only_the_chain_counts_in_saved_rules():
    """Counters and other chains do not matter."""
    text = "# x\n*nat\n-A INPUT -j A\nCOMMIT\n*filter\n:INPUT ACCEPT [1:2]\n:INPUT2 - [0:0]\n-A INPUT -j B\n-A X -j C\n"
    assert of_chain(text, "filter", "INPUT") == [":INPUT ACCEPT", "-A INPUT -j B"]


RULES = "*filter\n-A INPUT -j X\nCOMMIT\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_rules_are_not_saved_where_a_user_could_replace_them(tmp_path):
    """Root's link leads to a user's directory, so that user could choose the rules of the next boot."""
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 12345, 12345)
    (tmp_path / "rules").symlink_to("home/rules")
    ctx = FakeContext(tmp_path, commands={"iptables -w -t filter -C INPUT -j X": "", "iptables-save": RULES})
    for content in (None, RULES):
        if content is not None:
            (tmp_path / "home/rules").write_text(content)
        for apply in (False, True):
            with pytest.raises(Permanent, match=r"cannot save the rules to .*/rules: .*/home: it belongs to uid 12345"):
                await declare("iptables.append", j="X", save=f"{tmp_path}/rules").check_apply(ctx, apply)
        assert not content or (tmp_path / "home/rules").read_text() == content


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize(("uid", "mode"), [(12345, 0o640), (0, 0o666)])
async def test_saved_rules_that_a_user_can_write_are_written_anew(tmp_path, uid, mode):
    """They are written although their content is as declared."""
    file = tmp_path / "rules"
    file.write_text(RULES)
    os.chown(file, uid, -1)
    file.chmod(mode)
    ctx = FakeContext(tmp_path, commands={"iptables -w -t filter -C INPUT -j X": "", "iptables-save": RULES})
    entry = declare("iptables.append", j="X", save=str(file))
    assert not await entry.check_apply(ctx, True)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777, file.read_text()) == (0, 0o640, RULES)
    assert await entry.check_apply(ctx, True)


async def test_rules_of_iptables_legacy_are_told_once(tmp_path):
    """Rules of iptables-legacy take effect, but iptables-nft shows only that they exist."""
    warning = "# Warning: iptables-legacy tables present, use iptables-legacy to see them\n"
    ctx = FakeContext(tmp_path, commands={"iptables-save": {"stdout": RULES, "stderr": warning}})
    entry = declare("iptables.append", j="X", save=True)
    assert [await entry.dump(ctx) for _ in range(2)] == [RULES, RULES]
    text = "this program has rules that take effect but that the states of iptables do not see"
    told = {"program": "iptables-legacy", "shown_by": "iptables-legacy-save"}
    assert ctx.log.events == [("warning", text, told)]


async def test_iptables_is_asked_for_a_rule_only_if_the_lines_of_its_chain_do_not_tell(tmp_path, monkeypatch):
    """After a change in another place, one listing serves all rules.

    The agent knows a rule that it has added by its line.
    """
    now, lines = [1], ["-A INPUT -j ACCEPT"]
    for module in (_netfilter, rules):
        monkeypatch.setattr(module, "generation", lambda: now[0])

    def add() -> str:
        now[0] += 1
        lines.append("-A INPUT -s 10.0.0.0/8 -j DROP")
        return ""

    check = "iptables -w -t filter -C INPUT --source 10.1.1.1/8 --jump DROP"
    missing = {"retcode": 1, "stderr": "iptables: Bad rule (does a matching rule exist in that chain?)."}
    commands = {
        "iptables -V": "iptables v1.8.9 (nf_tables)",
        "iptables -w -t filter -S": lambda: "-P INPUT ACCEPT\n" + "\n".join(lines),
        check: lambda: {} if len(lines) > 1 else missing,
        "iptables -w -t filter -A INPUT --source 10.1.1.1/8 --jump DROP": add,
    }
    ctx = FakeContext(tmp_path, commands=commands)
    rule = declare("iptables.append", source="10.1.1.1/8", jump="DROP")
    assert not await rule.check_apply(ctx, True)
    ctx.calls.clear()
    assert await rule.check_apply(ctx, True)
    assert ctx.calls == []
    listing = "iptables -w -t filter -S"
    for change, present, calls in (
        (lambda: lines.append("-A INPUT -j LOG"), True, [listing]),
        (lambda: lines.__setitem__(slice(1, 3), []), False, [listing]),  # the remaining line is another rule
        (lambda: lines.append("-A INPUT -j LOG"), False, [listing, check]),  # a new line may be the rule
    ):
        ctx.calls.clear()
        now[0] += 1
        change()
        commands[check] = missing
        assert await rule.check_apply(ctx, False) == present
        assert ctx.calls == calls


async def test_a_rule_that_was_there_is_one_of_the_lines_that_were_there(tmp_path, monkeypatch):
    """While all of the lines exist, so does the rule. When one disappears, iptables is asked once."""
    now, lines = [1], {"-A INPUT -j A", "-A INPUT -j B"}
    for module in (_netfilter, rules):
        monkeypatch.setattr(module, "generation", lambda: now[0])
    check = "iptables -w -t filter -C INPUT --jump A"
    commands = {"iptables -V": "nf_tables", "iptables -w -t filter -S": lambda: "\n".join(lines), check: ""}
    ctx = FakeContext(tmp_path, commands=commands)
    rule = declare("iptables.append", jump="A")
    for change, checks in ((set(), 1), ({"-A INPUT -j C"}, 1), ({"-A INPUT -j B"}, 2), ({"-A INPUT -j D"}, 2)):
        lines ^= change
        now[0] += 1
        assert await rule.check_apply(ctx, True)
        assert ctx.calls.count(check) == checks, change


async def test_iptables_legacy_is_compared_from_time_to_time(tmp_path, monkeypatch):
    """Events of nf_tables do not report its changes. A missing iptables is not an error."""
    monkeypatch.setattr(base, "PERIOD", 0)
    listings = iter(["", "", "-A INPUT -j DROP\n", "-A INPUT -j DROP\n"])
    versions = iter(["v1.8.9 (nf_tables)", *["v1.8.9 (legacy)"] * 4])
    commands = {"iptables -V": lambda: next(versions), "iptables -w -t filter -S": lambda: next(listings)}
    ctx = FakeContext(tmp_path, commands=commands)
    watch = declare("iptables.append", jump="DROP")._legacy(ctx)
    assert await anext(watch) is None
    assert await asyncio.wait_for(anext(watch), DEADLINE) is None
    assert ctx.calls.count("iptables -w -t filter -S") == 3
    await watch.aclose()


def message(kind: int, family: int, **names: str) -> bytes:
    """Return a message of the kernel; the keys are `a` and the number of an attribute."""
    attributes = b""
    for key, text in names.items():
        data = text.encode() + b"\0"
        attributes += struct.pack("=HH", len(data) + 4, int(key[1:])) + data + b"\0" * (-len(data) % 4)
    body = struct.pack("=BBH", family, 0, 0) + attributes
    return struct.pack("=IHHII", len(body) + 16, 0x0A00 | kind, 0, 0, 0) + body


def test_messages_of_the_kernel_name_the_chain():
    """Messages about rules and about chains have the name of the chain in different attributes.

    A message about a table concerns all chains.
    """
    data = message(6, 2, a1="filter", a2="INPUT") + message(3, 10, a1="nat", a3="X") + message(2, 1, a1="t")
    first, second, third = parse(data + message(15, 2))

    assert (first, second, third) == (
        Changed("ip", "filter", "INPUT"), Changed("ip6", "nat", "X"), Changed("inet", "t", ""),
    )  # fmt: skip
    assert ChangeFilter("ip", "filter", "INPUT").matches(first)
    assert not ChangeFilter("ip", "filter", "X").matches(first)
    assert ChangeFilter("inet", "t", "X").matches(third)
    assert not ChangeFilter("ip", "t").matches(third)


@given(st.binary(max_size=200))
def test_any_message_is_understood_or_left_out(data):
    """A damaged message is ignored without an exception."""
    list(parse(data))
    list(parse(message(6, 2, a1="t", a2="c")[:20] + data))


async def test_a_lost_message_is_an_event_of_all(monkeypatch):
    """The kernel reports that its buffer was full. Every watch reports an event and continues."""
    ours, theirs = _netfilter.socket.socketpair(_netfilter.socket.AF_UNIX, _netfilter.socket.SOCK_DGRAM)
    ours.setblocking(False)
    hub = _netfilter.Hub()
    monkeypatch.setattr(_netfilter, "Hub", lambda: hub)
    monkeypatch.setattr(hub, "_opened", lambda: asyncio.get_running_loop().add_reader(ours, hub._read) or ours)
    watches = [changes(ChangeFilter("ip", "filter", chain)) for chain in ("INPUT", "X")]
    assert [await anext(watch) for watch in watches] == [None, None]
    theirs.send(message(6, 2, a1="filter", a2="X"))
    assert await asyncio.wait_for(anext(watches[1]), DEADLINE) is None

    def full(_: int) -> bytes:
        monkeypatch.undo()
        raise OSError(_netfilter.errno.ENOBUFS, "full")

    class Full:
        fileno, recv, close = ours.fileno, staticmethod(full), ours.close

    monkeypatch.setattr(hub, "_socket", Full())
    theirs.send(b"x")
    assert [await asyncio.wait_for(anext(watch), DEADLINE) for watch in watches] == [_netfilter.MISSED] * 2
    for watch in watches:
        await watch.aclose()
    theirs.close()
