"""The filters and tests that templates have beyond Jinja's own. One table; each entry is a pure function."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import posixpath
import re
import shlex
from collections.abc import Iterable
from typing import Any

import yaml

from holdfast.states.lines import unmark
from holdfast.states.parse import load_text
from holdfast.states.world import traverse


def to_yaml(value: Any, flow_style: bool = True) -> str:
    """YAML on one line (or, without `flow_style`, on many), its document end mark removed."""
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=flow_style, allow_unicode=True, sort_keys=False, width=1 << 30)
    return text.removesuffix("\n").removesuffix("\n...") if flow_style else text


class _Dumper(yaml.CSafeDumper):
    """Writes subclasses of the plain types as what they are."""


_Dumper.add_multi_representer(dict, _Dumper.represent_dict)
_Dumper.add_multi_representer(str, _Dumper.represent_str)
_Dumper.add_multi_representer(list, _Dumper.represent_list)
_Dumper.add_multi_representer(tuple, _Dumper.represent_list)


def to_json(value: Any, sort_keys: bool = True, indent: int | None = None) -> str:
    """JSON text."""
    return json.dumps(value, sort_keys=sort_keys, indent=indent)


def load_yaml(text: str) -> Any:
    """The data of a YAML text."""
    return load_text(unmark(str(text)), "the text to load")


def load_json(text: str) -> Any:
    """The data of a JSON text."""
    return json.loads(unmark(str(text)))


def double_quoted(value: Any) -> str:
    """A text in double quotes, as YAML reads it."""
    text: str = yaml.dump(str(value), default_style='"', width=1 << 30, allow_unicode=True)
    return text.removesuffix("\n")


def single_quoted(value: Any) -> str:
    """A text in single quotes, as YAML reads it."""
    return "'" + str(value).replace("'", "''") + "'"


def yaml_encode(value: Any) -> str:
    """One simple value, written so that YAML reads it back."""
    return to_yaml(value)


def to_bool(value: Any) -> bool:
    """Whether a value means yes: true, a number above 0, one of the words yes, true, on, 1; a list or mapping with content."""
    if isinstance(value, str):
        return value.strip().lower() in ("yes", "1", "true", "on")
    if isinstance(value, (int, float)):
        return value > 0
    return bool(value)


def _flags(ignorecase: bool, multiline: bool) -> int:
    return (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0)


def regex_replace(text: str, pattern: str, repl: str, ignorecase: bool = False, multiline: bool = False) -> str:
    """A text with each match of a pattern replaced."""
    return re.sub(pattern, repl, str(text), flags=_flags(ignorecase, multiline))


def regex_search(text: str, pattern: str, ignorecase: bool = False, multiline: bool = False) -> tuple[Any, ...] | None:
    """The groups of the first match anywhere; None without one."""
    found = re.search(pattern, str(text), _flags(ignorecase, multiline))
    return found.groups() if found else None


def regex_match(text: str, pattern: str, ignorecase: bool = False, multiline: bool = False) -> tuple[Any, ...] | None:
    """The groups of a match at the beginning; None without one."""
    found = re.match(pattern, str(text), _flags(ignorecase, multiline))
    return found.groups() if found else None


class _Members:
    """Values that can be looked for, as fast as they can be hashed."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._hashed: set[Any] = set()
        self._others: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> None:
        """One more."""
        try:
            self._hashed.add(item)
        except TypeError:
            self._others.append(item)

    def __contains__(self, item: Any) -> bool:
        """Whether it is there, or one that is equal."""
        try:
            return item in self._hashed
        except TypeError:
            return item in self._others


def _unique(items: Iterable[Any]) -> list[Any]:
    found, known = [], _Members()
    for item in items:
        if item not in known:
            known.add(item)
            found.append(item)
    return found


def union(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """What is in either, each once."""
    return _unique([*first, *second])


def intersect(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """What is in both, each once."""
    others = _Members(second)
    return _unique(item for item in first if item in others)


def difference(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """What is only in the first, each once."""
    others = _Members(second)
    return _unique(item for item in first if item not in others)


def symmetric_difference(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """What is in just one of them, each once."""
    one, two = list(first), list(second)
    return [*difference(one, two), *difference(two, one)]


def hexdigest(text: str, algorithm: str) -> str:
    """The checksum of a text."""
    return hashlib.new(algorithm, str(text).encode(), usedforsecurity=False).hexdigest()


def is_ip(value: Any, version: int | None = None) -> bool:
    """Whether a text is an IP address, of this version if one is given."""
    try:
        address = ipaddress.ip_interface(str(value))
    except ValueError:
        return False
    return version in (None, address.version)


FILTERS: dict[str, Any] = {
    "yaml": to_yaml,
    "json": to_json,
    "load_yaml": load_yaml,
    "load_json": load_json,
    "load_text": lambda text: unmark(str(text)),
    "yaml_dquote": double_quoted,
    "yaml_squote": single_quoted,
    "yaml_encode": yaml_encode,
    "to_bool": to_bool,
    "quote": lambda value: shlex.quote(str(value)),
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "regex_match": regex_match,
    "regex_escape": re.escape,
    "path_join": posixpath.join,
    "traverse": lambda data, key, default=None, delimiter=":": traverse(data, key, default, delimiter),
    "unique": _unique,
    "union": union,
    "intersect": intersect,
    "difference": difference,
    "symmetric_difference": symmetric_difference,
    "avg": lambda values: sum(values) / len(values),
    "base64_encode": lambda value: base64.b64encode(str(value).encode()).decode(),
    "base64_decode": lambda value: base64.b64decode(str(value)).decode(),
    "md5": lambda value: hexdigest(value, "md5"),
    "sha1": lambda value: hexdigest(value, "sha1"),
    "sha256": lambda value: hexdigest(value, "sha256"),
    "sha512": lambda value: hexdigest(value, "sha512"),
    "is_ip": is_ip,
    "is_ipv4": lambda value: is_ip(value, 4),
    "is_ipv6": lambda value: is_ip(value, 6),
    "to_num": lambda value: float(value) if "." in str(value) else int(value),
    "to_snake_case": lambda value: re.sub(r"(?<!^)(?=[A-Z])", "_", str(value)).lower(),
    "strip": lambda value, chars=None: str(value).strip(chars),
}
"""Name in templates -> function."""

TESTS: dict[str, Any] = {
    "match": lambda value, pattern, ignorecase=False, multiline=False: (
        re.match(pattern, str(value), _flags(ignorecase, multiline)) is not None
    ),
    "list": lambda value: isinstance(value, list),
}
"""Tests of templates (`is match`) -> function."""
