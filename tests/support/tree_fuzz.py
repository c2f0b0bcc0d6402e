"""Trees of state files and what must hold for each of them, however strange: `corpus`, `mutate`, `examine`, `shrink`.

A tree is a mapping of file names to bytes. Those of the corpus are good; a mutation makes one a little or very wrong.
The answer of the compiler to any of them must be a compilation or its own problems, each at a line that exists; and a
compiler that has seen other trees before must answer like a new one.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from holdfast.agent.cli import findings
from holdfast.agent.cli.stages import _plain, dot, edges, mermaid
from holdfast.agent.pictures.drawing import Drawing, DrawnEdge, DrawnNode
from holdfast.states.codes import CODES
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Call, Request
from holdfast.states.declare.pillar import PillarCompiler
from holdfast.states.errors import CompileError, Problem
from holdfast.states.lint.inspect import inspect
from holdfast.states.parse.line_masking import mask_line

Tree = dict[str, bytes]
ROOT = Path(__file__).parents[2]
SECONDS = 10
"""Processor time that one tree may take."""

GRAINS = {"os": "Debian", "id": "web1", "os_family": "Debian", "ipv4": ["127.0.0.1", "10.0.0.7"]}
PILLAR = {"k": "v", "users": {"joe": {"uid": 1000}}, "list": ["a", "b"]}

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
"""Words of the language and of YAML, Jinja and numbers, in places where nobody expects them."""

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
"""What a mutation puts into a text."""

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
"""What a mutation puts into data."""


def corpus() -> list[Tree]:
    """The trees of the case files of the language, and the examples: all good."""
    found = []
    for path in sorted(ROOT.glob("tests/states/cases/*.yaml")):
        for case in yaml.safe_load(path.read_text()):
            files = case["files"] if isinstance(case["files"], dict) else {"site.sls": case["files"]}
            found.append({name: text.encode() for name, text in files.items()})
    roots = sorted(ROOT.glob("config/examples/*/states"))
    return found + [
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()} for root in roots
    ]


def mutate(tree: Tree, others: list[Tree], rng: random.Random) -> Tree:
    """The tree with some of its texts or data changed; now and then a file is gone, is new or has another name."""
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
    """A word put in, in place of some characters."""
    text = content.decode("utf-8", "replace")
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice((0, 0, 1, 2, 5, 20)))
    return (text[:start] + rng.choice([*TEXTS, ""]) + text[end:]).encode("utf-8", "replace")


def _in_lines(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """A line gone, doubled, moved, indented, or taken from another file."""
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
    """One byte another."""
    changed = bytearray(content or b"x")
    changed[rng.randrange(len(changed))] = rng.choice(
        (0, 9, 10, 13, 32, 45, 58, 123, 125, 127, 194, 237, 255, rng.randrange(256))
    )
    return bytes(changed)


def _in_data(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """One value of the data another: a strange one, one of the same file, one of another; or its key."""
    try:
        data, foreign = yaml.safe_load(content), yaml.safe_load(other)
    except Exception:  # noqa: BLE001 - PyYAML has no error of its own for each strange text
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
    """Every (container, key or index) of nested data."""
    todo, seen = [data], set()
    while todo:
        value = todo.pop()
        if isinstance(value, (dict, list)) and id(value) not in seen:
            seen.add(id(value))
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                yield value, key
                todo.append(value[key])


class Bench:
    """One directory, and compilers of states and of pillar that see tree after tree in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept, self.pillars = root, Compiler(), PillarCompiler(root)
        self.tree: Tree = {}
        """What lies there now."""

    def examine(self, tree: Tree) -> None:
        """Compile a tree as states and as pillar, anew and again. Raises whatever breaks a promise: that is a find."""
        self._write(tree)
        asked = Request(
            self.root, grains=GRAINS, pillar=PILLAR, minion_id="web1", trusted_uids=frozenset({self.root.stat().st_uid})
        )
        with in_time(SECONDS):
            fresh = self._states(Compiler(), asked)
            assert self._states(self.kept, asked) == fresh, "a compiler that has seen other trees gives another answer"
            assert self._states(self.kept, asked) == fresh, "compiling again gives another answer"
            pillar = self._pillar(PillarCompiler(self.root), asked)
            assert self._pillar(self.pillars, asked) == pillar, (
                "a compiler that has seen other pillars gives another answer"
            )
            self._lint(asked, bad=isinstance(fresh, list))

    def _write(self, tree: Tree) -> None:
        """Make the directory hold this tree; files that stay the same are not touched."""
        if {name.partition("/")[0] for name in tree} & {name for name in self.tree if "/" not in name} - tree.keys():
            shutil.rmtree(self.root)  # a file became a directory, or so
            self.tree = {}
        for name in self.tree.keys() - tree.keys():
            (self.root / name).unlink(missing_ok=True)
        for name, content in tree.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            if self.tree.get(name) != content and not path.is_dir():
                path.write_bytes(content)
                path.chmod(0o644)
        self.tree = dict(tree)

    def _states(self, compiler: Compiler, asked: Request) -> Any:
        """What comes of it, in a form that can be compared; checked by the way."""
        try:
            made = compiler.compile(asked)
        except CompileError as error:
            return [told(problem) for problem in error.problems] or "an error without a problem"
        in_order(made.calls)
        show(made.calls, made.high)
        warnings = [told(warning) for warning in made.warnings]
        return (
            [(call.identity, repr(call.low), call.location, dict(call.requisites), call.reason) for call in made.calls],
            warnings,
            dict(made.top),
        )

    def _pillar(self, compiler: PillarCompiler, asked: Request) -> Any:
        """The same for pillar, of which no value is shown."""
        try:
            made = compiler.compile(asked)
        except CompileError as error:
            return [told(problem, veil=problem.code != "renderer-unknown") for problem in error.problems]
        json.dumps(made.data, default=str)
        return repr(made.data), [told(warning, veil=True) for warning in made.warnings]

    def _lint(self, asked: Request, *, bad: bool) -> None:
        """`holdfast check` finds errors exactly where the compiler does, and all its forms can be printed."""
        report = inspect(asked)
        assert bool(report.errors) == bad, "check and the compiler do not agree"
        found = [*report.errors, *report.warnings]
        assert len(set(map(told, found))) == len(found), "check tells something twice"
        assert all(problem.code in CODES for problem in found), "nobody knows the code"
        lines = [
            *findings.text(report, self.root, width=60),
            *findings.github(report, self.root),
            json.dumps(findings.sarif(report, self.root)),
        ]
        "\n".join(lines).encode("utf-8", "backslashreplace")


def told(problem: Problem, *, veil: bool = False) -> tuple[Any, ...]:
    """One problem, whole; its line must be there and be the one that it shows, with `veil` without any value."""
    place = problem.location
    assert problem.code, "a problem without a code"
    assert problem.message, "a problem without words"
    str(problem).encode("utf-8", "backslashreplace")
    json.dumps(problem.as_dict())
    path = Path(place.file)
    if place.line and path.is_file():
        lines = re.sub("\r(?!\n)", "\n", path.read_bytes().decode("utf-8-sig", "replace")).split("\n")
        assert place.line <= len(lines), f"{place} is behind the end of the file"
        line = lines[place.line - 1].rstrip("\r")
        assert problem.text in ("", (mask_line(line[:500]) if veil else line)[:500]), (
            f"{place} shows another line: {problem.text!r}"
        )
        assert place.column <= len(line) + 1, f"{place} is behind the end of the line"
    return place, problem.code, problem.message, problem.hint, problem.text


def in_order(calls: tuple[Call, ...]) -> None:
    """Every requisite is honoured by the order."""
    assert [call.position for call in calls] == list(range(len(calls)))
    assert len({call.identity for call in calls}) == len(calls)
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind not in ("prereq", "listen"):
                assert all(target < call.position for target in targets), (
                    f"{call.identity} runs before what it has {kind} on"
                )
            elif kind == "prereq":
                assert all(target > call.position for target in targets), (
                    f"{call.identity} runs after what it has prereq on"
                )


def show(calls: tuple[Call, ...], high: Any) -> None:
    """All that `holdfast show` prints can be printed."""
    drawing = Drawing(
        [DrawnNode(call.identity, call.kind, call.low["__sls__"]) for call in calls],
        [DrawnEdge(*edge) for edge in edges(calls)],
    )
    low = [call.low for call in calls]
    for text in (
        *dot(drawing),
        *mermaid(drawing),
        json.dumps([low, high], default=str),
        yaml.safe_dump(_plain([low, high]), allow_unicode=True),
    ):
        text.encode("utf-8", "backslashreplace")


class TooSlow(BaseException):
    """A tree takes too long. Not an `Exception`, so that nobody in between takes it for a mistake of the tree."""


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` right where it computes for so long; to wait for others is free. Only in the main thread."""

    def ring(*_: object) -> None:
        raise TooSlow(f"takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def shrink(tree: Tree, fails: Callable[[Tree], bool]) -> Tree:
    """A minimal tree that still fails: without whole files, then ranges of lines, then ranges of characters."""
    for name in sorted(tree):
        smaller = {other: content for other, content in tree.items() if other != name}
        if fails(smaller):
            tree = smaller
    for name in sorted(tree):
        for unit in (b"\n", b""):
            parts = tree[name].split(unit) if unit else [tree[name][i : i + 1] for i in range(len(tree[name]))]

            if len(parts) < 5000:
                rebuild = partial(_with, tree, name, unit)
                tree = rebuild(_fewer(parts, lambda some, rebuild=rebuild: fails(rebuild(some))))
    return tree


def _with(tree: Tree, name: str, unit: bytes, parts: list[bytes]) -> Tree:
    return {**tree, name: unit.join(parts)}


def _fewer(parts: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    size = max(1, len(parts) // 2)
    while size:
        at = 0
        while at < len(parts):
            without = parts[:at] + parts[at + size :]
            if fails(without):
                parts = without
            else:
                at += size
        size //= 2
    return parts
