"""A package for which generated files must be right: quotes, names that hide others, import circles, every type."""

from __future__ import annotations

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Constant, Enumeration, EnumValue, FunctionModel, Module, NamedType, Package
from holdfast.agent.model.types import BOOLEAN, INTEGER, NONE, NUMBER, TEXT, Type, TypeWord

QUOTES = 'It ends with "quotes" and \\N{x}, """three""", */ --> | and "'
PLAIN: tuple[TypeWord, ...] = (
    *("any", "boolean", "integer", "number", "text", "bytes", "moment", "duration", "path", "address"),
)
HIDING = (
    *("bool", "builtins", "b", "bytes", "dataclasses", "datetime", "dict", "enum", "float", "int", "ipaddress"),
    *("kind", "list", "nasty", "pack", "pathlib", "plugin", "record", "state", "str", "tag", "token", "typing"),
)
"""Names of fields that generated modules use for something else."""
COLOUR = Type("choice", choices=("red", "blue"), enumeration="nasty:Colour")
ONE, OTHER = Type("record", record="nasty:One"), Type("record", record="b/nasty:Other")
MAYBE = Type("tagged", members=(ONE, OTHER))
R = Type("reference", target="p:b/nasty:R")

FIRST = Module(
    "nasty",
    Docs(QUOTES),
    comment="two\nlines",
    enumerations=(
        Enumeration("Colour", Docs(QUOTES), (EnumValue("RED", "red", QUOTES), EnumValue("BLUE", "blue")), "Why.\nSo."),
    ),
    records=(
        Record(
            "One",
            Docs(QUOTES),
            (
                *(Field(f"a_{word}", Type(word), doc=QUOTES, comment="two\nlines") for word in PLAIN),
                *(Field(name, TEXT, required=name < "d") for name in HIDING),
                Field("numbers", Type("set", items=INTEGER)),
                Field("mapping", Type("mapping", keys=COLOUR, items=Type("list", items=NUMBER))),
                Field("other", OTHER),
                Field("choice", Type("choice", choices=("x",))),
                Field("flag", BOOLEAN, default=True),
            ),
            tag="one",
        ),
    ),
    aliases=(
        NamedType("Others", Type("list", items=OTHER)),
        NamedType("Same", Type("list", items=TEXT, alias="b/nasty:Few")),
    ),
)
SECOND = Module(
    "b/nasty",
    records=(
        Record(
            "Other",
            Docs("O."),
            (
                Field("back", Type("union", members=(ONE, NONE))),
                Field("few", Type("list", items=TEXT, alias="b/nasty:Few")),
            ),
            tag="other",
        ),
        Record("Nothing", Docs(), ()),
    ),
    aliases=(
        NamedType("Few", Type("list", items=TEXT), "A few.", "two\nlines"),
        NamedType("Many", Type("mapping", keys=TEXT, items=ONE)),
        NamedType("Targets", Type("list", items=R)),
    ),
    constants=(Constant("WORD", TEXT, QUOTES), Constant("NUMBER", INTEGER, 5)),
    resources=(
        KindModel(
            "p-b.r",
            Docs("R."),
            (
                Field("pw", TEXT, secret=True, required=True),
                Field("maybe", MAYBE),
                Field("r", R),
                Field("id_out", INTEGER, out=True, wire="idOut"),
            ),
            remote=Remote("p:b/nasty:R"),
        ),
        KindModel("p-b.empty", Docs(), (), remote=Remote("p:b/nasty:Empty", poll=5)),
    ),
    functions=(FunctionModel("Count", Docs("C."), (Field("plugin", TEXT),), (Field("total", INTEGER),)),),
)
NASTY = Package("p", "1.0.0", modules=(SECOND, FIRST))
