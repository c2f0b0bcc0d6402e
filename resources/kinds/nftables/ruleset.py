"""Rules of nftables: their text, made from the arguments of a state, and a form in which rules can be compared.

nft prints a rule in another form than the one that was written. So nft itself converts a declared rule, in a temporary
network namespace: nft adds the rule to a copy of the table that has the chains and sets of the real table but no rules,
and reports what it has added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.resources.spelling import nearest

VERDICTS = frozenset({"accept", "drop", "reject", "queue", "return", "continue", "masquerade", "log", "notrack"})
_KNOWN = """
if of proto connstate icmp-type icmpv6-type pkttype counter saddr source daddr destination dport sport dports sports
jump j target redirect-to to-port to-source to-destination reject-with
"""
KNOWN = tuple(_KNOWN.split())
"""Options of a rule."""
VALUE = re.compile(r"(?!-)[\w .,:/@!=<>*+\"{}|&()-]*")
"""Matches values that cannot end the rule: they contain no semicolon, line break or comment."""
LOAD = ("packets", "bytes", "used")
"""Fields with the counts of counters and quotas, which are no part of the rule."""


def demand_options(options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an unknown option, with its name as the first argument, and for an invalid value."""
    for name, value in options.items():
        if name not in KNOWN:
            near = nearest(str(name), KNOWN)
            raise ValueError(name, f"a rule has no such option{f'; did you mean {near}?' if near else ''}")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(item, (str, int, float, type(None))) or not VALUE.fullmatch(
                "" if item is None else str(item)
            ):
                raise ValueError(name, "the value is a number or one line without ; # $ ' \\ and without a leading -")


def text_of(family: str, options: Mapping[str, Any]) -> str:
    """Return a rule in the syntax of nft. Raises `ValueError` as `demand_options` does."""
    demand_options(options)
    given = {name: _joined(value) for name, value in options.items()}
    parts = [
        *_each(given, {"if": "meta iifname {}", "of": "meta oifname {}", "connstate": "ct state {{ {} }}"}),
        *_each(given, {"icmp-type": "icmp type {{ {} }}", "icmpv6-type": "icmpv6 type {{ {} }}"}),
        *_each(given, {"pkttype": "meta pkttype {{ {} }}"}),
        *(["counter"] if "counter" in given else []),
        *(_address(family, "saddr", given[name]) for name in ("saddr", "source") if name in given),
        *(_address(family, "daddr", given[name]) for name in ("daddr", "destination") if name in given),
        *_ports(given),
        *_verdict(given),
    ]
    return " ".join(parts)


def _joined(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else "" if value is None else str(value)


def _each(given: Mapping[str, str], forms: Mapping[str, str]) -> Iterable[str]:
    return [form.format(given[name]) for name, form in forms.items() if name in given]


def _address(family: str, field: str, value: str) -> str:
    """Return the match of an address. In tables of both families, the form of the address determines the family."""
    both = {"inet": "ip6" if ":" in value else "ip"}
    return f"{both.get(family, family)} {field} {value}"


def _ports(given: Mapping[str, str]) -> Iterable[str]:
    """Yield the matches of ports. Raises `ValueError` without a protocol."""
    names = [name for name in ("dport", "sport", "dports", "sports") if name in given]
    if names and not given.get("proto"):
        raise ValueError(names[0], "a port needs proto, such as tcp")
    for name in names:
        yield f"{given['proto']} {name[:5]} {{ {given[name].replace(':', '-')} }}"


def _verdict(given: Mapping[str, str]) -> Iterable[str]:
    """Yield the parts of the rule that say what happens to the packet."""
    for name in ("jump", "j", "target"):
        if verdict := given.get(name):
            known = verdict.split()[0].lower() in VERDICTS
            yield verdict.lower() if known else verdict if " " in verdict else f"jump {verdict}"
    for name in ("redirect-to", "to-port"):
        if name in given:
            yield f"redirect to {given[name]}"
    yield from (given[name] for name in ("to-source", "to-destination") if name in given)
    if "reject-with" in given:
        yield f"reject with {given['reject-with']}"


def table_of(ruleset: str, table: str) -> str:
    """Return the text of one table, such as `inet filter`, from the text of all tables; empty if it is missing."""
    found = re.search(rf"(?ms)^table {re.escape(table)} \{{\n.*?^\}}$", ruleset)
    return found[0] if found else ""


def chain_of(listing: str, chain: str) -> str | None:
    """Return the text of one chain from the text of its table; None if the chain is missing."""
    found = re.search(rf"(?ms)^\tchain {re.escape(chain)} \{{\n.*?^\t\}}$", listing)
    return found[0] if found else None


def blocks(listing: str) -> list[str]:
    """Return the blocks of sets, maps and other objects without rules from the text of a table."""
    found: list[str] = []
    inside = False
    for line in listing.splitlines():
        if re.match(r"\t(?!chain )\w+ \S+ \{$", line):
            inside = True
        if inside:
            found.append(line)
        inside = inside and line != "\t}"
    return found


def rehearsal(listing: str, family: str, table: str, chain: str, rule: str) -> str:
    """Return a script that adds the rule to a copy of the listed table without its rules."""
    chains = re.findall(r"(?m)^\tchain (\S+) \{$", listing)
    lines = [f"table {family} {table} {{", *blocks(listing)]
    lines += [f"\tchain {name} {{\n\t}}" for name in dict.fromkeys([*chains, chain])]
    return "\n".join([*lines, "}", f"add rule {family} {table} {chain} {rule}", ""])


def added(text: str) -> list[Any] | None:
    """Return the rule that `nft --echo --json` reports as added, in comparable form."""
    for line in text.splitlines():
        for item in json.loads(line).get("nftables", ()) if line.startswith("{") else ():
            if rule := item.get("add", {}).get("rule"):
                return plain(rule)
    return None


def rules_of(text: str) -> list[tuple[list[Any], int]]:
    """Return the rules that `nft --json list` reports, in comparable form, with their handles."""
    items = json.loads(text).get("nftables", ())
    return [(plain(item["rule"]), int(item["rule"]["handle"])) for item in items if "rule" in item]


def plain(rule: Mapping[str, Any]) -> list[Any]:
    """Return the comparable form of a rule: without counts, with sets in a fixed order."""
    return [rule.get("comment"), [_plain(part) for part in rule.get("expr", ())]]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _plain(item) for key, item in value.items() if key not in LOAD}
        if isinstance(found.get("set"), list):
            found["set"] = sorted(found["set"], key=lambda each: json.dumps(each, sort_keys=True))
        return found
    return [_plain(item) for item in value] if isinstance(value, list) else value
