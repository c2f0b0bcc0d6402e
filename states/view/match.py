"""Matches hosts against expressions of top files.

There are globs, regular expressions, lists, grains, pillar values, addresses, and compounds of these.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.resources.expressions import Expression, Unbounded
from holdfast.resources.expressions import expression as compiled
from holdfast.states.view.values import MISSING, traverse


class BadExpression(ValueError):
    """An expression cannot be parsed; the message says why."""


class TargetHost(NamedTuple):
    """The data of a host that expressions are compared with."""

    minion_id: str
    grains: Mapping[str, Any] = {}
    pillar: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


def matches(kind: str, expression: str, host: TargetHost) -> bool:
    """Return whether the expression matches the host. Raises `BadExpression`."""
    if kind not in MATCHERS:
        raise BadExpression(f"there is no matcher {kind!r}: use one of {', '.join(sorted(MATCHERS))}")
    try:
        return MATCHERS[kind](expression, host)
    except Unbounded as error:
        raise BadExpression(str(error)) from error


def _regex(pattern: str, flags: int = 0) -> Expression:
    try:
        return compiled(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadExpression(f"{pattern[:200]!r} is not a regular expression: {error}") from error


def _in_data(data: Mapping[str, Any], expression: str, test: Callable[[str, str], bool]) -> bool:
    """Return whether `key:...:pattern` matches a value, or an element or key of it; the key may be nested."""
    parts = expression.split(":")
    if len(parts) < 2:
        raise BadExpression(f"{expression!r} must be 'key:value'")
    for cut in range(len(parts) - 1, 0, -1):
        found = traverse(data, ":".join(parts[:cut]), MISSING)
        if found is MISSING:
            continue
        pattern = ":".join(parts[cut:])
        values = found if isinstance(found, (list, tuple, dict)) else [found]
        if pattern == "*" or any(test(str(value), pattern) for value in values):
            return True
    return False


def _glob(text: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(text.lower(), pattern.lower())


def _pcre(text: str, pattern: str) -> bool:
    return _regex(pattern, re.IGNORECASE).match(text) is not None


def _exact(text: str, pattern: str) -> bool:
    return text.lower() == pattern.lower()


def _address(expression: str, host: TargetHost) -> bool:
    """Return whether the host has this address, or an address in this network."""
    try:
        network = ipaddress.ip_network(expression, strict=False)
    except ValueError as error:
        raise BadExpression(f"{expression!r} is not an address or network") from error
    return any(address in network for address in _addresses(host))


def _addresses(host: TargetHost) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Yield the addresses of the grains; values that are not addresses are ignored, because users can set grains."""
    for key in ("ipv4", "ipv6"):
        grain = host.grains.get(key)
        for text in grain if isinstance(grain, (list, tuple)) else [grain]:
            with suppress(ValueError):
                yield ipaddress.ip_address(str(text).partition("%")[0])


def _nodegroup(name: str, host: TargetHost) -> bool:
    """Return whether the host is in a node group of the settings."""
    groups = host.options.get("nodegroups") or {}
    if name not in groups:
        raise BadExpression(f"there is no node group {name!r}")
    others = {key: value for key, value in groups.items() if key != name}  # a group cannot contain itself
    group = groups[name]
    if not isinstance(group, (str, list, tuple)):
        raise BadExpression(f"the node group {name!r} is neither text nor a list")
    inner = TargetHost(host.minion_id, host.grains, host.pillar, {**host.options, "nodegroups": others})
    return compound(group if isinstance(group, str) else " ".join(map(str, group)), inner)


_WORD = r"([GPEIJLSN])(?P<delimiter>\W)?@(.+)"
_LETTERS = {
    "G": "grain",
    "P": "grain_pcre",
    "E": "pcre",
    "I": "pillar",
    "J": "pillar_pcre",
    "L": "list",
    "S": "ipcidr",
    "N": "nodegroup",
}


def _word(word: str, host: TargetHost) -> bool:
    """Return whether a word of a compound matches: `G@os:Debian`, or a glob."""
    found = re.fullmatch(_WORD, word)
    if found is None:
        if re.match(r"[A-Z]@", word):
            raise BadExpression(f"{word!r}: there is no matcher {word[0]}@")
        return fnmatch.fnmatchcase(host.minion_id, word)
    delimiter, expression = found["delimiter"], found[3]
    return matches(_LETTERS[found[1]], expression.replace(delimiter, ":") if delimiter else expression, host)


def _words(expression: str) -> Iterator[str]:
    """Yield the words of a compound.

    A parenthesis is a word, unless it is closed within its word, as in P@os:(Debian|Ubuntu).
    """
    for word in expression.split():
        inner = word.lstrip("(")
        yield from "(" * (len(word) - len(inner))
        closing = min(len(inner) - len(inner.rstrip(")")), max(0, inner.count(")") - inner.count("(")))
        if inner[: len(inner) - closing]:
            yield inner[: len(inner) - closing]
        yield from ")" * closing


def compound(expression: str, host: TargetHost) -> bool:
    """Return whether a compound matches: words joined by `and`, `or`, `not` and parentheses.

    `and` binds stronger than `or`. Raises `BadExpression`.
    """
    reader = _Compound(expression, host)
    try:
        result = reader.alternatives()
    except RecursionError as error:
        raise BadExpression(f"{expression[:40]!r}...: nested too deeply") from error
    if reader.words:
        raise BadExpression(f"{expression!r}: {reader.words[0]!r} is in the position of 'and' or 'or'")
    return result


class _Compound:
    """Parser of a compound: each method consumes its part from the front of `words` and evaluates it."""

    def __init__(self, expression: str, host: TargetHost) -> None:
        self.expression, self.host = expression, host
        self.words = [*_words(expression)]

    def take(self, *wanted: str) -> bool:
        """Consume the next word if it is one of these."""
        if self.words and self.words[0] in wanted:
            self.words.pop(0)
            return True
        return False

    def alternatives(self) -> bool:
        """Return whether one of the parts joined by `or` matches."""
        result = self.conjunction()
        while self.take("or"):
            result = self.conjunction() or result
        return result

    def conjunction(self) -> bool:
        """Return whether all parts joined by `and` match."""
        result = self.term()
        while self.take("and"):
            result = self.term() and result
        return result

    def term(self) -> bool:
        """Return whether a word, a negation, or an expression in parentheses matches."""
        if self.take("not"):
            return not self.term()
        if self.take("("):
            result = self.alternatives()
            if not self.take(")"):
                raise BadExpression(f"{self.expression!r}: a parenthesis is not closed")
            return result
        if not self.words or self.words[0] in ("and", "or", ")"):
            where = f"before {self.words[0]!r}" if self.words else "at the end"
            raise BadExpression(f"{self.expression!r}: a host is missing {where}")
        return _word(self.words.pop(0), self.host)


MATCHERS: dict[str, Callable[[str, TargetHost], bool]] = {
    "glob": lambda expression, host: fnmatch.fnmatchcase(host.minion_id, expression),
    "pcre": lambda expression, host: _regex(expression).match(host.minion_id) is not None,
    "list": lambda expression, host: host.minion_id in (part.strip() for part in expression.split(",")),
    "grain": lambda expression, host: _in_data(host.grains, expression, _glob),
    "grain_pcre": lambda expression, host: _in_data(host.grains, expression, _pcre),
    "pillar": lambda expression, host: _in_data(host.pillar, expression, _glob),
    "pillar_pcre": lambda expression, host: _in_data(host.pillar, expression, _pcre),
    "pillar_exact": lambda expression, host: _in_data(host.pillar, expression, _exact),
    "ipcidr": _address,
    "nodegroup": _nodegroup,
    "compound": compound,
}
"""Word after `match:` in a top file -> test."""
