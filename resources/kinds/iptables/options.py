"""Rules of iptables: convert the arguments of a state to arguments of the command, as Salt does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.resources.spelling import nearest

Value = str | int | float | bool | None
Options = Mapping[str, Any]
_TARGETS = """
j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask del-set ecn-tcp-remove
exist expevents gateway hash-init hashmode helper label local-node log-ip-options log-level log-prefix log-tcp-options
log-tcp-sequence log-uid map-set mask mss new nfmask nflog-group nflog-prefix nflog-range nflog-size nflog-threshold
nodst notrack on-ip on-port or-mark or-tos persistent queue-balance queue-bypass queue-num random random-fully
rateest-ewmalog rateest-interval rateest-name reject-with restore restore-mark sack-perm save-mark selctx set-class
set-dscp set-dscp-class set-mark set-mss set-tos set-xmark strip-options timestamp to to-destination to-ports
to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold
wscale xor-mark xor-tos zone zone-orig zone-reply dst-pfx hl-dec hl-inc hl-set hmark-dport-mask hmark-dst-prefix
hmark-mod hmark-offset hmark-proto-mask hmark-rnd hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple
led-always-blink led-delay led-trigger-id queue-cpu-fanout src-pfx to-port addr and-mask delude honeypot or-mask
prefix reset reuse set-mac shift static tarpit tname ttl
"""
_MATCHES = """
accept-local ahlen ahres ahspi algo bytecode cgroup chunk-types cluster-hash-seed cluster-local-node
cluster-local-nodemask cluster-total-nodes connbytes connbytes-dir connbytes-mode connlimit-above connlimit-daddr
connlimit-mask connlimit-saddr connlimit-upto cpu ctdir ctexpire ctorigdst ctorigdstport ctorigsrc ctorigsrcport
ctproto ctrepldst ctrepldstport ctreplsrc ctreplsrcport ctstate ctstatus datestart datestop dccp-option dccp-types
destination destination-port destination-ports dir dscp dst dst-group dst-len dst-opts dst-range dst-type ecn
ecn-ip-ect ecn-tcp-cwr ecn-tcp-ece espspi every exact fragfirst fragid fraglast fraglen fragment fragmore fragres from
genre gid-owner goto hashlimit hashlimit-above hashlimit-burst hashlimit-dstmask hashlimit-htable-expire
hashlimit-htable-gcinterval hashlimit-htable-max hashlimit-htable-size hashlimit-mode hashlimit-name
hashlimit-rate-interval hashlimit-rate-match hashlimit-srcmask hashlimit-upto hbh-len hbh-opts header hex-string
hitcount hl-eq hl-gt hl-lt icase icmp-type icmpv6-type in-interface invert ipcompspi ipvs kerneltz length limit
limit-burst limit-iface-in limit-iface-out log loose mac-source mark mh-type mode monthdays nfacct-name next
nowildcard object-pinned oif out-interface packet path physdev-in physdev-is-bridged physdev-is-in physdev-is-out
physdev-out pkt-type pol policy ports probability quota rateest rateest-bps rateest-bps1 rateest-bps2 rateest-delta
rateest-eq rateest-gt rateest-lt rateest-pps rateest-pps1 rateest-pps2 rateest1 rateest2 rcheck rdest realm reap
remove reqid restore-skmark return-nomatch rsource rt-0-addrs rt-0-not-strict rt-0-res rt-len rt-segsleft rt-type rttl
seconds set-counters socket-exists soft source source-port source-ports spi src src-group src-range src-type
srh-hdr-len-eq srh-hdr-len-gt srh-hdr-len-lt srh-last-entry-eq srh-last-entry-gt srh-last-entry-lt srh-lsid
srh-next-hdr srh-nsid srh-psid srh-segs-left-eq srh-segs-left-gt srh-segs-left-lt srh-tag status strict string
suppl-groups syn tcp-flags tcp-option timestart timestop tos transparent ttl-eq ttl-gt ttl-lt tunnel-dst tunnel-src
u32 uid-owner update update-counters update-subcounters vaddr validmark vdir vmethod vport vportctl vproto weekdays
"""
_OWN = "if of proto protocol match name_ match-set connstate dport sport dports sports comment set target"
OWN = tuple(_OWN.split())
"""Arguments that differ from the name of their option, or that also load a match module."""
TARGETS, MATCHES = tuple(_TARGETS.split()), tuple(_MATCHES.split())
LETTERS = ("d", "f", "g", "i", "m", "o", "p", "s")
"""Options of one letter."""
LISTS = frozenset({"match", "match-set", "dports", "sports"})
"""Arguments that may be lists."""
COMMENT = ("-m", "comment", "--comment")
KNOWN = frozenset({*OWN, *TARGETS, *MATCHES, *LETTERS})
FREE = frozenset({"log-prefix", "nflog-prefix", "ulog-prefix"})
"""Options of targets that take any text as their value. iptables never reads this text as another option."""
LINE = re.compile(r"[^\x00-\x1f\x7f]*")
NEGATED = re.compile(r"(?:!|not(?=\s|$))\s*")
NUMBER = re.compile(r"-\d+(\.\d+)?")


def demand_options(options: Options) -> None:
    """Raise `ValueError` for an unknown option, with its name as the first argument, and for an invalid value."""
    for name, value in options.items():
        if name not in KNOWN:
            near = nearest(str(name), KNOWN)
            raise ValueError(name, f"iptables has no such option{f'; did you mean {near}?' if near else ''}")
        for item in value if isinstance(value, (list, tuple)) and name in LISTS else (value,):
            if item is not None and not isinstance(item, (str, int, float)):
                raise ValueError(name, "the value of an option is text or a number")
            if not LINE.fullmatch(str(item)):
                raise ValueError(name, "the value of an option is one line without control characters")


def words(options: Options) -> list[str]:
    """Return the arguments of iptables for a rule. Raises `ValueError` as `demand_options` does."""
    demand_options(options)
    left = dict(options)
    if "target" in left:
        left["jump"] = left.pop("target")
    rule = [*_head(left), *_matches(left)]
    rule += _ports(left, multiport="multiport" in rule)
    if "comment" in left:
        rule += ["--comment", str(left.pop("comment"))] if "comment" in rule else [*COMMENT, str(left.pop("comment"))]
    if left.get("set"):
        rule += _option("--match-set", left.pop("set"))
    jump = [word for name in TARGETS if name in left for word in _target(name, left.pop(name))]
    for name, value in left.items():
        rule += _option(f"-{name}" if len(name) == 1 else f"--{name}", value, name)
    return rule + jump


def _head(left: dict[str, Any]) -> Iterable[str]:
    """Yield the options for interfaces and the protocol."""
    for name, option in (("if", "-i"), ("of", "-o")):
        if name in left:
            yield from _option(option, left.pop(name), name)
    if "proto" in left and left.get("match") != "policy":
        left.setdefault("protocol", left.pop("proto"))
        left.pop("proto", None)
    if "protocol" in left:
        yield from _option("-p", left.pop("protocol"), "protocol")


def _matches(left: dict[str, Any]) -> Iterable[str]:
    """Yield the match modules with their options."""
    given = left.pop("match", ())
    names = [str(each).strip() for each in (given.split(",") if isinstance(given, str) else given)]
    for name in names:
        yield from ("-m", *_split(name, "match"))
        if name in {"pknock", "quota2", "recent"} and "name_" in left:
            yield from ("--name", str(left.pop("name_")))
    if "proto" in left:
        yield from _option("--proto", left.pop("proto"), "proto")
    sets = left.pop("match-set", ())
    for each in [sets] if isinstance(sets, str) else sets:
        yield from ("-m", "set", *_option("--match-set", each, "match-set"))
    if "connstate" in left:
        yield from () if "state" in names else ("-m", "state")
        yield from _option("--state", left.pop("connstate"), "connstate")


def _ports(left: dict[str, Any], *, multiport: bool) -> Iterable[str]:
    """Yield the options for ports."""
    for name in ("dport", "sport"):
        if name in left:
            yield from _option(f"--{name}", left.pop(name), name)
    for name in ("dports", "sports"):
        if name in left:
            items = [str(item) for item in _listed(left.pop(name))]
            negated = any(NEGATED.match(item) for item in items)
            yield from () if multiport else ("-m", "multiport")
            multiport = True
            yield from ("!",) if negated else ()
            yield from (f"--{name}", ",".join(NEGATED.sub("", item, count=1) for item in items))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _option(option: str, value: Any, name: str = "") -> list[str]:
    """Return an option with its value; a value that begins with ! or `not` negates it."""
    text = "" if value is None else str(value)
    negated = NEGATED.match(text)
    rest = text[negated.end() :] if negated else text
    return [*(["!"] if negated else []), option, *_split(rest, name or option)]


def _split(text: str, name: str) -> list[str]:
    """Return the words of a value. Raises `ValueError` for a word that iptables would take for an option."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise ValueError(name, f"{error}".lower()) from None
    for word in found:
        _demand_value(word, name)
    return found


def _demand_value(word: str, name: str) -> None:
    """Raise `ValueError` for a word that iptables would take for an option."""
    if word.startswith("-") and not NUMBER.fullmatch(word):
        raise ValueError(name, f"{word!r} would be an option of iptables: write it as an argument of its own")


def _target(name: str, value: Any) -> list[str]:
    """Return an option of a target, whose value is one word. Raises `ValueError` for a word that would be an option."""
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    if name not in FREE:
        _demand_value(str(value or ""), name)
    return [option] if value is None or value == "" else [option, str(value)]
