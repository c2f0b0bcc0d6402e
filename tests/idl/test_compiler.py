"""The compiler reads a package as its sources mean it, and schema.json keeps all of it."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from ec2_package import EC2
from holdfast.agent.generators.states_schema import package_schema
from holdfast.agent.idl.build import NAME
from holdfast.agent.idl.compiler import compiled
from holdfast.agent.idl.names import kind_name, snake_case, wire_name
from holdfast.agent.idl.targets.python import TARGET as PYTHON
from holdfast.agent.model.docstrings import field_docs
from holdfast.agent.model.package import from_json, to_json
from holdfast.agent.model.types import NONE, TEXT, Type, union
from holdfast.agent.plugins.construct import construct
from holdfast.resources import idl
from holdfast.states.errors import CompileError
from idl_package import HEAD, package_of, write_package

EXAMPLE = Path(__file__).parent / "ec2/idl"


def test_the_example_means_what_is_written_by_hand():
    """Types, options, inheritance, docstrings and comments of the example."""
    assert compiled(EXAMPLE).package == EC2


def test_the_name_of_named_resources_is_that_of_the_language():
    """The model has the field as the language declares it."""
    declared = vars(idl.NamedResource)[NAME.name]

    assert NAME.doc == field_docs(idl.NamedResource)[NAME.name]
    assert (declared.replaces, declared.computed) == (NAME.replaces, NAME.computed)


def test_fields_options_and_rules_are_inherited(tmp_path):
    """A class without a leading underscore is a resource of its own; an own field takes the place of an inherited."""
    package = package_of(
        tmp_path,
        base="@idl.ordered('low', 'high')\nclass _Base(idl.Resource, poll=5):\n    low: int\n    high: int\n",
        a="from .base import _Base\nclass A(_Base):\n    high: int = 7\n    more: str\n",
    )
    module = package.modules[0]
    resource = module.resources[0]

    assert [each.name for each in resource.fields] == ["low", "high", "more"]
    assert [each.required for each in resource.fields] == [True, False, True]
    assert resource.remote is not None
    assert (resource.remote.poll, len(resource.remote.rules)) == (5, 1)
    assert package.modules[1].order == ()


def test_constants_and_values_of_enumerations_are_evaluated(tmp_path):
    """A constant of another source gives a default and a restriction."""
    package = package_of(
        tmp_path,
        a="class Mode(idl.Enum):\n    OFF = 'off'\nMOST: Final = 5\nMODE: Final = Mode.OFF\nRAW: Final = b'x'\n",
        b="""
        from .a import MOST, Mode
        class B:
            size: Annotated[int, idl.limits(maximum=MOST)] = MOST
            mode: Mode = Mode.OFF
        """,
    )
    first, second = package.modules

    assert [each.value for each in first.constants] == [5, "off", "eA=="]
    assert first.constants[1].type.enumeration == "a:Mode"
    assert [each.default for each in second.records[0].fields] == [5, "off"]
    assert second.records[0].fields[0].type.maximum == 5


def test_structs_with_tags_form_a_union(tmp_path):
    """Null may be a part of it."""
    package = package_of(
        tmp_path,
        a="""
        class A(idl.Struct, tag="a"): pass
        class B(idl.Struct, tag="b"): pass
        class C:
            one: A | B
            two: A | B | None
            three: "list[C] | None" = None
        """,
    )
    tagged = Type("tagged", members=(Type("record", record="a:A"), Type("record", record="a:B")))

    assert [each.type for each in package.modules[0].records[2].fields] == [
        tagged,
        union([tagged, NONE]),
        union([Type("list", items=Type("record", record="a:C")), NONE]),
    ]


def test_names_are_translated():
    """Classes to kinds, fields to the wire."""
    assert [snake_case(each) for each in ("SecurityGroup", "HTTPServer", "Ec2Vpc")] == [
        "security_group",
        "http_server",
        "ec2_vpc",
    ]
    assert [wire_name(each) for each in ("cidr_block", "name", "class_")] == ["cidrBlock", "name", "class"]
    assert kind_name("aws", "ec2/net/vpc", "Vpc") == "aws-ec2-net.vpc"
    assert kind_name("postgres", "role", "Role") == "postgres.role"


TYPES = st.recursive(
    st.sampled_from(["bool", "int", "float", "str", "bytes", "idl.DateTime", "idl.Duration", "idl.Path", "idl.Ip"]),
    lambda inner: st.one_of(
        inner.map(lambda each: f"list[{each}]"),
        inner.map(lambda each: f"dict[str, {each}]"),
        inner.map(lambda each: f"Annotated[list[{each}], idl.limits(shortest=1)]"),
    ),
    max_leaves=4,
)
FIELDS = st.dictionaries(
    st.from_regex(r"[a-z]{3,6}x(_[a-z]{2}x)?", fullmatch=True),
    st.tuples(TYPES, st.sampled_from(["", " = idl.field(optional=True)", " = idl.field(out=True)"])),
    min_size=1,
    max_size=5,
)


@settings(max_examples=10, deadline=None)
@given(fields=FIELDS)
def test_every_package_survives_its_schema(tmp_path_factory, fields):
    """What is compiled is read from schema.json unchanged, and compiles to the same text again."""
    body = "".join(f"    {name}: {type_}{options}\n" for name, (type_, options) in fields.items())
    folder = write_package(tmp_path_factory.mktemp("package"), a=f"class A(idl.Resource):\n{body}")
    package = compiled(folder).package

    assert from_json(to_json(package)) == package
    assert to_json(compiled(folder).package) == to_json(package)
    assert [each.name for each in package.modules[0].resources[0].fields] == list(fields)


NAMES = ["str", "list", "typing", "pack", "plugin", "dataclasses", "self", "cls", "record", "datetime", "type", "b"]


@settings(max_examples=10, deadline=None)
@given(types=st.lists(TYPES, min_size=len(NAMES), max_size=len(NAMES)))
def test_every_package_gives_modules_that_can_be_used(tmp_path_factory, types):
    """The modules for users, providers and editors work with all types, and with fields that have names of Python."""
    folder = tmp_path_factory.mktemp("package")
    body = "".join(
        f"    {name}: {type_} = idl.field(optional=True)\n" for name, type_ in zip(NAMES, types, strict=True)
    )
    package = compiled(write_package(folder / "idl", a=f"class A(idl.Resource):\n{body}")).package
    for path, text in {**PYTHON.pack(package), **PYTHON.provider(package), "schema.json": to_json(package)}.items():
        (folder / path).write_text(text)
    names = {"a": "A", "a_stub": "A"}
    for module, name in names.items():
        spec = importlib.util.spec_from_file_location(f"{module}_{folder.name}", folder / f"{module}.py")
        made = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = made
        spec.loader.exec_module(made)
        assert [each.name for each in dataclasses.fields(getattr(made, name)())] == NAMES
        assert construct(made.A, {}) is not None
    Draft7Validator.check_schema(package_schema(package))


SOURCE = (EXAMPLE / "ec2/security_group.py").read_text()
PIECES = st.sampled_from(
    [
        "(",
        ")",
        "[",
        "]",
        "\n",
        "    ",
        "idl.",
        "idl.field(",
        "None",
        "|",
        "'",
        '"',
        "lambda: 0",
        "5",
        "*",
        "\x00",
        "é",
        "@",
        "class X:",
        "= ",
    ]
)


@settings(max_examples=40, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, len(SOURCE)), st.integers(0, 12), PIECES), min_size=1, max_size=4))
def test_no_edit_makes_a_traceback(tmp_path_factory, edits):
    """A damaged source is a package or has problems, each with its file, code and message."""
    folder = write_package(tmp_path_factory.mktemp("package"))
    text = SOURCE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    (folder / "vpc.py").write_text((EXAMPLE / "ec2/vpc.py").read_text())
    (folder / "security_group.py").write_text(text)
    package, problems = None, ()
    try:
        package = compiled(folder).package
    except CompileError as error:
        problems = error.problems

    assert all(each.message and each.location.file.startswith(str(folder)) for each in problems)
    if package is not None:
        assert from_json(to_json(package)) == package


def test_the_head_of_test_packages_has_two_lines():
    """Places in other tests count from there."""
    assert TEXT.type == "text"
    assert HEAD.count("\n") == 2
