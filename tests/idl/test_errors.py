"""Every mistake in a source is reported at its place, with what is legal; all mistakes are reported together."""

from __future__ import annotations

import pytest

from holdfast.states.codes import PACKAGES
from idl_package import places, places_of, problems_of, write_package

SAID_BY_MESSAGE = ("idl-option-value", "idl-limit", "idl-default")
"""Their messages are such as "it must be at least 1"."""
MISTAKES = {
    "def f(): pass": "1:1 idl-function",
    "class A:\n    def f(self): pass": "2:5 idl-function",
    "size = 5": "1:1 idl-variable",
    "size: int = 5": "1:1 idl-variable",
    "size: Final": "1:1 idl-variable",
    "for x in []: pass": "1:1 idl-statement",
    "if True: pass": "1:1 idl-statement",
    "print('x')": "1:1 idl-statement",
    "class A:\n    class B: pass": "2:5 idl-statement",
    "class A:\n    size = 5": "2:5 idl-statement",
    "class A(": "1:8 idl-syntax",
    "import os": "1:1 idl-import",
    "from os import path": "1:16 idl-import",
    "from typing import Optional": "1:20 idl-import",
    "from .. import x": "1:1 idl-import",
    "from .other import X": "1:1 idl-import",
    "from . import x": "1:1 idl-import",
    "class A:\n    a: complex": "2:8 idl-type",
    "class A:\n    a: list": "2:8 idl-type",
    "class A:\n    a: dict[int, str]": "2:13 idl-type",
    "class A:\n    a: set[list[int]]": "2:12 idl-type",
    "class A:\n    a: 'strr'": "2:9 idl-type",
    "class A:\n    a: idl.Datetime": "2:8 idl-type",
    "class A:\n    a: int | str": "2:8 idl-union",
    "class A: pass\nclass B: pass\nclass C:\n    a: A | B": "4:8 idl-union",
    "class A(idl.Struct, tag='x'): pass\nclass B(idl.Struct, tag='x'): pass\nclass C:\n    a: A | B": "4:8 idl-union",
    "class R(idl.Resource): pass\nclass A:\n    a: R": "3:8 idl-type",
    "class _B: pass\nclass A:\n    a: _B": "3:8 idl-type",
    "X = list['X']": "1:1 idl-cycle",
    "class A:\n    a: int = idl.field(otional=True)": "2:32 idl-option",
    "class A:\n    a: int = idl.field(5)": "2:24 idl-option",
    "class A(idl.Resource, pol=60): pass": "1:27 idl-option",
    "class A:\n    a: Annotated[int, idl.limits(min=0)]": "2:38 idl-option",
    "class A:\n    a: int = idl.field(optional='yes')": "2:33 idl-option-value",
    "class A:\n    a: int = idl.field(since='1')": "2:30 idl-option-value",
    "class A:\n    a: int = idl.field(optional=True, since='2.0.0')": "2:45 idl-option-value",
    "class A(idl.Resource, poll='often'): pass": "1:28 idl-option-value",
    "class A:\n    a: int = 1 + 1": "2:14 idl-value",
    "class A:\n    a: int = idl.field(default=f())": "2:32 idl-value",
    "class A:\n    a: float = 1e999": "2:16 idl-value",
    f"class A:\n    a: float = 0x{'f' * 6000}": "2:16 idl-value",
    "class A:\n    a: str = '\\ud800'": "2:14 idl-value",
    "class A:\n    '\\ud800'\n    a: str": "2:5 idl-value",
    "class A:\n    a: int = idl.field(default=1, optional=True)": "2:44 idl-contradiction",
    "class A:\n    a: str = idl.field(default='x', secret=True)": "2:32 idl-contradiction",
    "class A(idl.Resource):\n    a: str = idl.field(out=True, replaces=True)": "2:43 idl-contradiction",
    "class A(idl.Resource): pass\nclass AProperty: pass": "2:1 idl-duplicate",
    "class A(idl.Function): pass\nclass AResult: pass": "2:1 idl-duplicate",
    "class A(idl.Resource):\n    a: str = idl.field(out=True, computed=True)": "2:43 idl-output-input",
    "class A(idl.Resource):\n    a: str = idl.field(out=True, default='x')": "2:42 idl-output-input",
    "class A:\n    a: str = idl.field(out=True)": "2:28 idl-resource-only",
    "class A:\n    a: str = idl.field(replaces=True)": "2:33 idl-resource-only",
    "class A:\n    a: str = idl.field(minimum=1)": "2:32 idl-limit",
    "class A:\n    a: int = idl.field(minimum=2, maximum=1)": "2:43 idl-limit",
    "class A:\n    a: str = idl.field(pattern='(')": "2:32 idl-limit",
    "class A:\n    a: int = 'x'": "2:14 idl-default",
    "class A:\n    a: Annotated[int, idl.limits(minimum=1)] = 0": "2:48 idl-default",
    "X: Final[int] = 'x'": "1:17 idl-default",
    "class A(B): pass": "1:9 idl-base",
    "class A(idl.Struct, idl.Resource): pass": "1:21 idl-base",
    "class a: pass": "1:1 idl-name",
    "class A:\n    Size: int": "2:5 idl-name",
    "class A(B): pass\nclass B: pass": "1:9 idl-name",
    "class A(idl.Config): pass\nclass B(idl.Config): pass": "2:1 idl-config",
    "class A(idl.Enum): pass": "1:1 idl-enum",
    "class A(idl.Enum):\n    X = 'x'\n    Y = 'x'": "3:9 idl-enum",
    "class A(idl.Enum):\n    X = 1": "2:9 idl-enum",
    "class A(idl.Enum):\n    A_B = 'x'\n    AB = 'y'": "3:5 idl-enum",
    "@idl.order('a', 'b')\nclass A:\n    a: int\n    b: int": "1:2 idl-rule",
    "@idl.ordered('a', 'c')\nclass A:\n    a: int\n    b: int": "1:19 idl-rule",
    "@idl.ordered('a', 'b')\nclass A:\n    a: int\n    b: str": "1:2 idl-rule",
    "@idl.exactly_one('a', 'b')\nclass A:\n    a: int\n    b: int = idl.field(optional=True)": "1:18 idl-rule",
    "@property\nclass A: pass": "1:2 idl-rule",
    "class A: pass\nclass A: pass": "2:1 idl-duplicate",
    "class A:\n    a: int\n    a: str": "3:5 idl-duplicate",
    "class A:\n    a_b: int\n    ab: int = idl.field(name='aB')": "3:30 idl-duplicate",
    "class AB(idl.Resource): pass\nclass Ab(idl.Resource): pass": "2:1 idl-duplicate",
    "class A(idl.Resource):\n    ensure: str": "2:5 idl-reserved",
    "class A(idl.Resource):\n    state: str": "2:5 idl-reserved",
    "class A(idl.Struct, tag='a'):\n    type: str": "2:5 idl-reserved",
    "class A: pass\nclass B:\n    a: idl.Ref[A]": "3:16 idl-reference",
    "class B:\n    a: idl.Ref[Vcp]\nclass Vpc(idl.Resource): pass": "2:16 idl-reference",
    "class A(idl.Resource):\n    b: idl.Ref['B']\nclass B(idl.Resource):\n    a: idl.Ref[A]": "2:5 idl-cycle",
    "class A:\n    a: 'A'": "2:5 idl-cycle",
    "class S:\n    a: 'idl.Ref[A]'\nclass A(idl.Resource):\n    s: list[S] = idl.field(shortest=1)": "2:5 idl-cycle",
    "class S(idl.Struct, tag='s'):\n    a: 'idl.Ref[A]'\nclass T(idl.Struct, tag='t'):\n    a: 'idl.Ref[A]'\n"
    "class A(idl.Resource):\n    s: S | T": "2:5 idl-cycle",
    "port = Annotated[int, idl.limits(minimum=0)]": "1:1 idl-name",
    "most: Final = 5": "1:1 idl-name",
    "class A:\n    constructor: str": "2:5 idl-reserved",
}
"""Source -> place and code of its mistake."""


@pytest.mark.parametrize(("source", "told"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_a_mistake_is_reported_at_its_place_with_what_is_legal(tmp_path, source, told):
    """One mistake gives one problem. What is legal is in a hint, unless the message itself says it."""
    problems = problems_of(write_package(tmp_path, a=source))

    assert places(problems) == [f"a:{told}"]
    assert all(each.hint or each.code in ("idl-syntax", *SAID_BY_MESSAGE) for each in problems)


@pytest.mark.parametrize("line", ["class A{0}(A{1}): pass", "A{0} = A{1}"])
def test_a_chain_that_is_too_long_is_a_mistake_and_no_traceback(tmp_path, line):
    """Each name of the chain refers to the next one."""
    chain = "\n".join(line.format(number, number - 1) for number in range(1500, 0, -1))
    write_package(tmp_path, a=f"{chain}\nclass A0: pass\nclass B:\n    b: A1500\n")

    assert [each.message for each in problems_of(tmp_path)] == ["a chain of declarations is too long"]


LEGAL = {
    "a struct that may end": "class A:\n    a: 'A | None'",
    "a union of which one part needs nothing": "class S(idl.Struct, tag='s'):\n    a: 'idl.Ref[A]'\n"
    "class T(idl.Struct, tag='t'): pass\nclass A(idl.Resource):\n    s: S | T",
    "a resource that may refer to itself": "class A(idl.Resource):\n    a: 'idl.Ref[A]' = idl.field(optional=True)",
    "a list that may be empty": "class A:\n    a: 'list[A]'",
    "a resource that gives itself": "class A(idl.Resource):\n    a: 'idl.Ref[A]' = idl.field(out=True)",
    "names that stay inside": "_Port = int\n_MOST: Final = 5\nclass A:\n    a: _Port = _MOST",
}


@pytest.mark.parametrize("source", LEGAL.values(), ids=LEGAL)
def test_what_can_be_created_is_legal(tmp_path, source):
    """Circles of types that have a first value, and names within a source."""
    assert places_of(write_package(tmp_path, a=source)) == []


def test_every_error_says_what_to_do(tmp_path):
    """Problems of types, options and names have a hint; a mistyped word is recognised."""
    write_package(
        tmp_path, a="class A:\n    a: int = idl.field(otional=True)\n    b: idl.Durration\n    c: Optional[int]\n"
    )
    hints = [each.hint for each in problems_of(tmp_path)]

    assert hints[0] == "did you mean 'optional'?"
    assert hints[1] == "did you mean 'idl.Duration'?"
    assert "T | None" in hints[2]


def test_all_mistakes_of_all_sources_are_reported_together(tmp_path):
    """Mistakes in statements, options, types and between declarations do not hide each other."""
    write_package(
        tmp_path,
        a="def f(): pass\nclass A:\n    a: int = idl.field(otional=True)\n    b: complex\n",
        b="class B:\n    a: int = idl.field(default=1, optional=True)\n    b: int = 'x'\n",
        c="class C(idl.Enum): pass\nimport os\n",
    )

    assert places_of(tmp_path) == [
        "a:1:1 idl-function",
        "a:3:32 idl-option",
        "a:4:8 idl-type",
        "b:2:44 idl-contradiction",
        "b:3:14 idl-default",
        "c:1:1 idl-enum",
        "c:2:1 idl-import",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: demo\n", "the member 'version' is missing"),
        ("name: Demo\nversion: 1.0.0\n", "'Demo' is not a valid name of a package"),
        ("name: demo\nversion: 1.0\n", "version is text, not"),
        ("name: demo\nversion: v1\n", "'v1' is not a version"),
        ("nmae: demo\nversion: 1.0.0\n", "there is no member 'nmae'"),
        ("- demo\n", "a manifest is a mapping"),
        ("name: demo\nversion: 1.0.0\nuser: a b\n", "'a b' is not a valid name of a user"),
        ("name: file\nversion: 1.0.0\n", "'file' is a family of built-in kinds"),
    ],
)
def test_a_wrong_manifest_is_reported(tmp_path, text, told):
    """The manifest is checked like a source."""
    write_package(tmp_path, a="class A: pass")
    (tmp_path / "package.yaml").write_text(text)

    assert any(told in each.message and each.code == "idl-manifest" for each in problems_of(tmp_path))


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ({"lambda": ""}, "'lambda' is a word of Python"),
        ({"json__types": ""}, "'json' is a module of Python"),
        ({"ec2": "", "ec2__vpc": ""}, "'ec2' is a source and a folder"),
        ({"Ec2": ""}, "'Ec2' is not a valid name of a module"),
        ({"__init__": ""}, "'__init__' is not a valid name of a module"),
    ],
)
def test_a_name_that_generated_modules_cannot_have_is_refused(tmp_path, sources, told):
    """The name may be that of a source or of its folder."""
    write_package(tmp_path, **sources)

    problem = problems_of(tmp_path)[0]

    assert problem.code == "idl-module-name"
    assert told in problem.message


def test_sources_that_need_each_others_values_are_refused(tmp_path):
    """References in a circle are legal, bases and constants are not."""
    write_package(tmp_path, a="from .b import X\nY: Final = X\n", b="from .a import Y\nX: Final = Y\n")
    legal = write_package(
        tmp_path / "legal",
        a="from .b import B\nclass A(idl.Resource):\n    b: idl.Ref[B] = idl.field(optional=True)\n",
        b="from .a import A\nclass B(idl.Resource):\n    a: idl.Ref[A]\n",
    )

    assert places_of(tmp_path)[0].endswith("idl-import")
    assert places_of(legal) == []


def test_every_code_of_sources_has_a_mistake():
    """The table above has each code, but those of files and of the verbs."""
    elsewhere = {f"idl-{word}" for word in ("breaking", "evaluation", "manifest", "module-name", "output", "package")}
    elsewhere |= {"idl-schema", "idl-stale", "idl-target"}

    assert PACKAGES.keys() - elsewhere - {each.partition(" ")[2] for each in MISTAKES.values()} == set()
