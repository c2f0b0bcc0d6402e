"""Valid trees of state files, and mutations that make them slightly or very wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from holdfast.resources.case_files import parsed

Tree = dict[str, bytes]
"""File name -> content."""
ROOT = Path(__file__).parents[2]
_WORDS = """
        : - # ! & * | > % @ ` ' " ? , [ ] { } << ~ = \\ \t \r --- ... {{ }} {% %} {# #} {{x}} *x &x *a &a !!int
    !!binary !!python/name:os.system !!set !!map
    0 -1 0x_ 0b 0o7 0644 1:30 1:0:0.5 .inf -.inf .nan 1e999 null true yes ~ 2001-01-01 99999999999999999999 _ 1_000
        include exclude extend use use_in require require_in require_any watch watch_in prereq prereq_in onchanges
    onfail onfail_all listen listen_in
        order first last names name state fun __id__ sls id top base match compound lamp lamp.lit bell.rung
    crate.packed file.managed cmd.run test.nop
        onlyif unless creates check_cmd retry timeout parallel failhard fire_event aggregate runas env no_log rerun
    delay limit
    a b one two web .one ..two ... * ? [a-z] [ a* sls:* #!json #!yaml #!py #!jinja|yaml #!/bin/sh
        {%include"one.sls"%} {%import"one.sls"as%} {%extends"site.sls"%} {%macro%} {%endmacro%} {%for%} {%endfor%}
    {%if%} {%endif%} {%set%} {%raw%}
        {{salt['pillar.get']('k')}} {{pillar}} {{grains|yaml}} {{salt}} {{opts}} {{none}} {{[]|json}} {{self}} {{sls}}
    {{raise('x')}} {{1/0}} {{'x'*9}}
    {%load_yaml%} {%endload%} {%import_yaml"one.sls"as%} {%do%} {{x.y.z}} {{loop}} {{caller()}} {{super()}}
"""
WORDS = _WORDS.split()
"""Words of the language, of YAML and Jinja, and numbers, for places where they are unexpected."""

TEXTS = [
    *WORDS,
    *(f"{word} " for word in WORDS),
    *(
        "\n",
        "\n  ",
        "\n    - ",
        "  ",
        ": ",
        "- ",
        "\n---\n",
        "\r\n",
        "\t",
        "\x0b",
        "\x0c",
        "\x1b",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ufdd0",
        "\ufdd1",
        "\0",
        "\x7f",
    ),
    *(
        "é",
        "名",
        "🎉",
        "e\u0301",
        "\u202e",
        "\\ud800",
        "\\x00",
        "9" * 5000,
        "0x" + "f" * 5000,
        "1" + ":0" * 400,
        "1" + ":0" * 400 + ".5",
        "[" * 200,
        "{a: " * 120,
    ),
]
"""Texts that a mutation inserts into a text."""

VALUES: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        float("inf"),
        float("nan"),
        "",
        "a",
        "*",
        "a b",
        "é",
        "x: y",
        "- x",
        "{{ x }}",
        "#",
        "[",
        [],
        {},
        [[]],
        [{}],
        {"": ""},
        {5: 5},
    ),
    *(
        [None],
        [1],
        ["a"],
        [["a"]],
        {"a": "b"},
        [{"a": "b"}],
        [{"a": "b", "c": "d"}],
        [{"lamp": "a"}],
        [{"sls": "*"}],
        [{"id": "a"}],
        ["*"],
        "lamp.lit",
        {"lamp.lit": []},
    ),
]
"""Values that a mutation inserts into data."""


def corpus() -> list[Tree]:
    """Return the trees of the case files of the language, and the examples. All are valid."""
    found = []
    for path in sorted(ROOT.glob("tests/states/cases/*.yaml")):
        for case in parsed(path.read_text()):
            files = case["files"] if isinstance(case["files"], dict) else {"site.sls": case["files"]}
            found.append({name: text.encode() for name, text in files.items()})
    roots = sorted(ROOT.glob("config/examples/*/states"))
    return found + [
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()} for root in roots
    ]


def mutate(tree: Tree, others: list[Tree], rng: random.Random) -> Tree:
    """Return a copy of the tree with changed texts or data; sometimes with a removed, new or renamed file."""
    result = dict(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        if rng.random() < 0.04 or not result:
            name = rng.choice(
                (
                    "one.sls",
                    "two.sls",
                    "site.sls",
                    "top.sls",
                    "a/init.sls",
                    "a.sls",
                    "x.sls/y.sls",
                    "_m.jinja",
                    "a b.sls",
                    "é.sls",
                )
            )
            result[name] = rng.choice([*rng.choice(others).values(), b""])
        name = rng.choice(sorted(result))
        if rng.random() < 0.02:
            del result[name]
            continue
        change = rng.choice((_in_text, _in_text, _in_lines, _in_lines, _in_bytes, _in_data, _in_data, _in_data))
        result[name] = change(result[name], rng.choice([*rng.choice(others).values(), b"a: lamp.lit\n"]), rng)
    return result


def _in_text(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Replace some characters by a word."""
    text = content.decode("utf-8", "replace")
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice((0, 0, 1, 2, 5, 20)))
    return (text[:start] + rng.choice([*TEXTS, ""]) + text[end:]).encode("utf-8", "replace")


def _in_lines(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Remove, repeat, move or indent a line, or take one from another file."""
    lines, foreign = content.split(b"\n"), other.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines[at] = b" " * rng.randint(0, 6) + lines[at].strip()
        case 4:
            lines.insert(at, rng.choice(foreign))
        case _:
            start = rng.randrange(len(foreign))
            lines[at:at] = foreign[start : start + rng.randint(1, 8)]
    return b"\n".join(lines)


def _in_bytes(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Change one byte."""
    changed = bytearray(content or b"x")
    changed[rng.randrange(len(changed))] = rng.choice(
        (0, 9, 10, 13, 32, 45, 58, 123, 125, 127, 194, 237, 255, rng.randrange(256))
    )
    return bytes(changed)


def _in_data(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Replace one value or key of the data by a strange one, or by one of this or another file."""
    try:
        data, foreign = parsed(content), parsed(other)
    except Exception:  # noqa: BLE001 - PyYAML raises many types of errors for strange texts
        return _in_text(content, other, rng)
    spots = list(_spots(data))
    if not spots:
        return yaml.safe_dump(rng.choice(VALUES)).encode()
    parent, key = rng.choice(spots)
    values = [*VALUES, *(container[step] for container, step in [*spots, *_spots(foreign)])]
    chosen = rng.choice(values)
    match rng.randrange(5):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[rng.choice([*WORDS, 5, None, True, "lamp.lit", "require"])] = parent.pop(key)
        case 2:
            parent[key] = [parent[key]]
        case 3 if isinstance(parent, list):
            parent.insert(rng.randint(0, len(parent)), chosen)
        case _:
            parent[key] = chosen
    try:
        return yaml.safe_dump(
            data, sort_keys=False, allow_unicode=True, default_flow_style=rng.choice((None, False, True))
        ).encode()
    except (yaml.YAMLError, RecursionError):
        return content


def _spots(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each (container, key or index) of nested data."""
    todo, seen = [data], set()
    while todo:
        value = todo.pop()
        if isinstance(value, (dict, list)) and id(value) not in seen:
            seen.add(id(value))
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                yield value, key
                todo.append(value[key])
