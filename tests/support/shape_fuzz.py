"""Documents of every shape: agent.yaml, grains, pillar, top file, state file, requests.

`Shapes` makes them from the schemas of the models, with strange values; `shape_examiner.Examiner` passes them to the
code that reads them. The result must be valid or an error of Holdfast with a location, never another exception.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from holdfast.agent.settings import Settings
from holdfast.resources import registry
from holdfast.resources.meta import Meta

ODD = (0.01, 0.05, 0.15)
"""Probabilities of a strange value in place of one that the schema allows; each document uses one of them."""
DEEP = 5
"""Greatest depth of nested values."""
STRANGE = [
    *(
        "null",
        "~",
        "",
        "true",
        "0",
        "-1",
        "1.5",
        "1e999",
        ".inf",
        "-.inf",
        ".nan",
        "0x" + "f" * 300,
        "9" * 40,
        "0644",
        "1:30",
        "1_000",
    ),
    *("2001-01-01", "2001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2001-99-99"),
    *(
        "!!binary aGVsbG8=",
        "!!binary '*'",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!python/name:os.system x",
        "!!str 5",
        "!!int x",
        "!x y",
        "!!float 1",
    ),
    *(
        "''",
        "a",
        "'a b'",
        "'a: b'",
        "'- a'",
        "'*'",
        "'{{ x }}'",
        "'{{'",
        "'{% if %}'",
        "'[a-'",
        "'('",
        "'a[b]'",
        "'{'",
        "'%'",
        "'salt://x'",
        "'a\nb'",
    ),
    *(
        '"\\0"',
        '"/a\\0b"',
        '"\\ud800"',
        '"\\udcff"',
        '"\\u202e"',
        '"\\x1b[31m"',
        '"\\u2028"',
        '"é"',
        f"'{'x' * 5000}'",
        f"'{'/x' * 3000}'",
    ),
    *(
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[null]",
        "[a]",
        "[1, a]",
        "{a: b}",
        "[{a: b}]",
        "[{a: b, c: d}]",
        "{a: {b: {c: d}}}",
        "{'': ''}",
    ),
    *(
        "{? [a] : b}",
        "{? {a: b} : c}",
        "{? [a, [b]] : c}",
        "{1: 2}",
        "{null: 1}",
        "{2001-01-01: a}",
        "{.nan: 1}",
        "{true: 1, 'true': 2}",
        "{1.5: a}",
    ),
    *(
        "&x [*x]",
        "&x {a: *x}",
        "&x {*x : a}",
        "*nothing",
        "[&x [a], *x, *x]",
        "{<<: {a: 1}}",
        "{<<: [1]}",
        "{<<: x}",
        "{<<: [{a: 1}, {b: 2}]}",
    ),
    *(
        "{<<: &x {<<: *x}}",
        "[" * 60 + "]" * 60,
        "{a: " * 60 + "}" * 60,
        "[" * 3000,
        "[[a, [b, [c]]], {d: [e]}]",
        "{a: [b, {c: null}]}",
        '"\\x85"',
        "=",
        "|",
    ),
]
"""Unexpected values, as YAML text."""
PARTS = ("settings", "pillar", "top", "state", "request")
WORDS = [
    "a",
    "b",
    "base",
    "dev",
    "prod",
    "web",
    "one",
    "*",
    "web*",
    "x.y",
    "G@os:Debian",
    "N@a",
    "E@(",
    "not",
    "match",
    "compound",
    "list",
    "pcre",
    "grain",
    "require",
    "watch",
    "file",
    "cmd",
    "/tmp/a",
    "salt://a",
    "10.0.0.0/8",
]
NUMBERS = ("0", "1", "5", "60", "0.5", "-3")
PLAIN = {
    "boolean": ("true", "false"),
    "integer": NUMBERS,
    "number": NUMBERS,
    "string": [f"'{word}'" for word in WORDS],
    "null": ("null",),
}
"""Type of a schema -> values of it."""
REQUISITES = [
    "require",
    "require_in",
    "require_any",
    "watch",
    "watch_in",
    "prereq",
    "onchanges",
    "onfail",
    "listen",
    "listen_in",
    "use",
    "use_in",
    "onlyif",
    "unless",
    "order",
    "names",
    "parallel",
]


@cache
def schemas_of_kinds() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of Holdfast, without the kinds of other tests."""
    return {cls.kind: cls.model_json_schema() for cls in registry.kinds() if cls.__module__.startswith("holdfast.")}


class Shapes:
    """Random documents."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.odd = rng, ODD[0]
        self.settings = Settings.model_json_schema()
        self.meta = Meta.model_json_schema()
        self.kinds = schemas_of_kinds()

    def value(self, depth: int = 0) -> str:
        """Return any value, in YAML's flow style."""
        if depth > DEEP or self.rng.random() < 0.6:
            return self.rng.choice(STRANGE) if self.rng.random() < 0.7 else f"'{self.rng.choice(WORDS)}'"
        items = [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        if self.rng.random() < 0.5:
            return f"[{', '.join(items)}]"
        return "{" + ", ".join(f"{self.rng.choice(WORDS[:8])!r}: {item}" for item in items) + "}"

    def of(self, schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> str:
        """Return a value that a schema allows, or a strange one."""
        if self.rng.random() < self.odd or depth > DEEP:
            return self.value(depth)
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema:
                return self.of(self.rng.choice(schema[word]), root, depth)
        if "enum" in schema or "const" in schema:
            return json.dumps(self.rng.choice(schema.get("enum") or [schema.get("const")]))
        if schema.get("type") in ("object", "array"):
            return (self._object if schema["type"] == "object" else self._array)(schema, root, depth)
        return self.rng.choice(PLAIN[schema["type"]]) if schema.get("type") in PLAIN else self.value(depth)

    def _array(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> str:
        return f"[{', '.join(self.of(schema.get('items', {}), root, depth + 1) for _ in range(self.rng.randrange(3)))}]"

    def _object(self, schema: dict[str, Any], root: dict[str, Any], depth: int) -> str:
        known = schema.get("properties", {})
        names = self.rng.sample(sorted(known), min(len(known), self.rng.randrange(5)))
        items = [f"{name}: {self.of(known[name], root, depth + 1)}" for name in names]
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            items += [
                f"'{self.rng.choice(WORDS)}': {self.of(more, root, depth + 1)}" for _ in range(self.rng.randrange(3))
            ]
        items += [f"state: {self.value(depth + 1)}"] if self.rng.random() < self.odd else []
        return "{" + ", ".join(items) + "}"

    def _fields(self, schema: dict[str, Any], most: int) -> list[tuple[str, str]]:
        known = schema["properties"]
        names = self.rng.sample(sorted(known), self.rng.randint(0, min(most, len(known))))
        more = [("stat", self.value())] if self.rng.random() < self.odd else []
        return [(name, self.of(known[name], schema)) for name in names] + more

    # -- documents -------------------------------------------------------------------------------------------------

    def agent_yaml(self) -> str:
        """Return settings: nearly always a mapping."""
        if self.rng.random() < 0.05:
            return self.value()
        return "".join(f"{name}: {value}\n" for name, value in self._fields(self.settings, 4))

    def top(self) -> str:
        """Return a top file: environments, targets, lists of names and of options."""
        if self.rng.random() < 0.1:
            return self.value()
        lines = []
        for env in self.rng.sample(["base", "dev", "'*'", "1", "? [a]\n", "~"], self.rng.randint(1, 2)):
            if self.rng.random() < self.odd:
                lines.append(f"{env}: {self.value()}")
                continue
            lines.append(f"{env}:")
            for target in self.rng.sample(WORDS, self.rng.randint(1, 3)):
                items = [
                    self.rng.choice(
                        ("a", "'*'", f"match: {self.rng.choice(WORDS)}", "ignore_missing: true", self.value())
                    )
                    for _ in range(3)
                ]
                lines.append(
                    f"  '{target}': " + (self.value() if self.rng.random() < self.odd else f"[{', '.join(items)}]")
                )
        return "\n".join(lines)

    def pillar(self) -> str:
        """Return pillar data with includes."""
        if self.rng.random() < 0.1:
            return self.value()
        keys = self.rng.sample(["include", "a", "b", "secrets", "'*'", "1", "~", "? [a]\n"], self.rng.randint(1, 3))
        return "".join(f"{key}: {self.value()}\n" for key in keys)

    def state(self) -> str:
        """Return a state of one kind, with fields of the kind and of every state."""
        if self.rng.random() < 0.05:
            return self.value()
        lines = [f"{word}: {self.value()}" for word in ("include", "exclude", "extend") if self.rng.random() < 0.08]
        for number in range(self.rng.randint(1, 2)):
            kind = self.rng.choice([*self.kinds, "no.such"])
            schema = self.kinds.get(kind, self.meta)
            fields = [*self._fields(schema, 4), *self._fields(self.meta, 3)]
            fields += [(word, self.value()) for word in REQUISITES if self.rng.random() < self.odd / 3]
            id_ = (
                self.value()
                if self.rng.random() < self.odd
                else f"/tmp/s{number}"
                if kind.startswith("file.")
                else f"s{number}"
            )
            items = [f"{{{name}: {value}}}" for name, value in fields]
            items += [self.value()] if self.rng.random() < self.odd else []
            lines.append(f"? {id_}\n: {{{kind}: [{', '.join(items)}]}}")
        return "\n".join(lines)

    def request(self) -> bytes:
        """Return a line for the control socket."""
        if self.rng.random() < 0.1:
            return self.rng.choice(
                (
                    b"",
                    b"null",
                    b"[]",
                    b"{",
                    b"\xff",
                    b"[" * 60_000,
                    b'{"verb":' * 5000,
                    b"NaN",
                    b'{"verb": NaN}',
                    b"9" * 5000,
                )
            )
        odd = [
            None,
            True,
            -1,
            10**30,
            1.5,
            float("nan"),
            float("inf"),
            "",
            "x" * 60_000,
            "\ud800",
            "\x1b",
            [],
            {},
            [[]],
            {"a": 1},
            "a[b]",
            "[",
        ]
        names = ["verb", "identity", "lines", "follow", "number", "more"]
        message: dict[str, Any] = {"verb": self.rng.choice(["why", "trigger", "trace", "log", "status"])}
        message |= {name: self.rng.choice(odd) for name in self.rng.sample(names, self.rng.randrange(3))}
        return json.dumps(message).encode()
