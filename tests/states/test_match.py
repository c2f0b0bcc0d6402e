"""An expression of a top file matches a host or not."""

from __future__ import annotations

import pytest

from holdfast.states.view.match import BadExpression, TargetHost, matches

HOST = TargetHost(
    "web1.example.org",
    {
        "os": "Debian",
        "roles": ["web", "cache"],
        "a": {"b": {"c": "deep"}},
        "ipv4": ["127.0.0.1", "10.0.0.7"],
        "ipv6": ["fe80::1%eth0"],
    },
    {"tier": "front", "n": 5, "empty": None},
    {"nodegroups": {"fronts": "G@os:Debian and web*", "loop": "N@loop", "listed": ["web*", "or", "db*"]}},
)


@pytest.mark.parametrize(
    ("kind", "expression", "meant"),
    [
        ("glob", "web*", True),
        ("glob", "db*", False),
        ("glob", "WEB*", False),
        ("pcre", r"web\d", True),
        ("pcre", r"\d", False),
        ("list", "a, web1.example.org", True),
        ("list", "web1", False),
        ("grain", "os:deb*", True),
        ("grain", "roles:cache", True),
        ("grain", "a:b:c:deep", True),
        ("grain", "a:b:c", True),
        ("grain", "a:b:*", True),
        ("grain", "nope:*", False),
        ("grain_pcre", "os:(Debian|Ubuntu)", True),
        ("grain_pcre", r"os:^deb\S+$", True),
        ("grain_pcre", r"os:^\D+$", True),
        ("pillar", "tier:f*", True),
        ("pillar", "n:5", True),
        ("pillar_pcre", "tier:^fr", True),
        ("pillar", "empty:*", True),
        ("pillar", "nothing:*", False),
        ("pillar_exact", "tier:FRONT", True),
        ("pillar_exact", "tier:f*", False),
        ("ipcidr", "10.0.0.0/8", True),
        ("ipcidr", "10.0.0.7", True),
        ("ipcidr", "fe80::/10", True),
        ("ipcidr", "192.168.0.0/16", False),
        ("nodegroup", "fronts", True),
        ("nodegroup", "listed", True),
        ("compound", "web*", True),
        ("compound", "G@os:Debian and not db*", True),
        ("compound", "db* or web* and G@os:Fedora", False),
        ("compound", "( db* or web* ) and G@os:Debian", True),
        ("compound", "(db* or web*) and G@os:Debian", True),
        ("compound", r"E@web(1|2)\.", True),
        ("compound", "P@os:(Debian|Ubuntu)", True),
        ("compound", "(G@os:Fedora or (P@os:(Debian|Ubuntu) and web*)) and not (db* or mail*)", True),
        ("compound", "not not web*", True),
        ("compound", "L@a,web1.example.org", True),
        ("compound", "S@10.0.0.0/24 and N@fronts and I@tier:front and P@os:Deb and J@tier:fr", True),
        ("compound", "G|@a|b|c|deep", True),
    ],
)
def test_an_expression_matches_this_host_or_not(kind, expression, meant):
    """Each type of matcher is tried."""
    assert matches(kind, expression, HOST) is meant


@pytest.mark.parametrize(
    ("kind", "expression", "words"),
    [
        ("nope", "x", "there is no matcher"),
        ("pcre", "(", "regular expression"),
        ("grain", "os", "key:value"),
        ("ipcidr", "x", "address"),
        ("nodegroup", "nope", "node group"),
        ("nodegroup", "loop", "node group"),
        ("compound", "", "at the end"),
        ("compound", "and web*", "before 'and'"),
        ("compound", "web* and", "at the end"),
        ("compound", "web* db*", "'db*' is in the position"),
        ("compound", "( web*", "not closed"),
        ("compound", "web* )", "')' is in the position"),
        ("compound", "X@y", "X@"),
        ("compound", "not " * 5000 + "a", "nested too deeply"),
        ("pcre", "(" * 9000 + ")" * 9000, "not a regular expression"),
        ("pcre", "x{99999999999999}", "not a regular expression"),
    ],
)
def test_an_invalid_expression_is_an_error(kind, expression, words):
    """A target with such an expression does not silently match no host."""
    with pytest.raises(BadExpression, match=words.replace("*", r"\*").replace(")", r"\)")):
        matches(kind, expression, HOST)


@pytest.mark.parametrize(
    ("given", "meant"), [("10.0.0.7", True), (["nonsense", "10.0.0.7"], True), (None, False), (7, False), ("", False)]
)
def test_addresses_of_any_type_are_accepted(given, meant):
    """Grains may come from a file of the user."""
    assert matches("ipcidr", "10.0.0.0/8", TargetHost("web1", {"ipv4": given})) is meant


def test_a_node_group_of_a_wrong_type_is_an_error():
    """Node groups come from the settings, which may contain anything."""
    with pytest.raises(BadExpression, match="neither text nor a list"):
        matches("nodegroup", "odd", TargetHost("web1", options={"nodegroups": {"odd": 5}}))
