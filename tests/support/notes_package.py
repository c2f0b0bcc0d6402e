"""The package of the tests of plugins: notes, which are files."""

from __future__ import annotations

from pathlib import Path

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import FunctionModel, Module, Package, to_json
from holdfast.agent.model.types import INTEGER, NONE, TEXT, Type

HOME = Path(__file__).parent.parent / "plugins/notes"
"""The provider and its stub."""
NOTE = KindModel(
    name="notes.note",
    docs=Docs("A note, which the provider keeps as a file."),
    fields=(
        Field("name", Type("text", shortest=1), replaces=True, computed=True),
        Field("owner", TEXT, required=True, replaces=True),
        Field("lines", Type("list", items=Type("record", record="note:Line")), default=[]),
        Field("size", INTEGER, required=True, out=True),
        Field("password", Type("union", members=(TEXT, NONE)), secret=True, write_only=True),
    ),
    remote=Remote("notes:note:Note", named=True, version=2),
)
LINE = Record("Line", Docs("A line."), (Field("text", TEXT, required=True), Field("number", INTEGER)))
CONFIG = Record(
    "Config",
    Docs("Where notes are."),
    (Field("directory", Type("path"), required=True), Field("token", TEXT, secret=True)),
)
COUNT = FunctionModel(
    "Count",
    Docs("Count the notes of an owner."),
    (Field("owner", TEXT, required=True), Field("password", TEXT, secret=True)),
    (Field("total", INTEGER, required=True), Field("largest", TEXT)),
)
NOTES = Package(
    name="notes",
    version="1.0.0",
    modules=(
        Module(
            "note",
            order=("Line", "Config", "Note", "Count"),
            resources=(NOTE,),
            records=(LINE, CONFIG),
            functions=(COUNT,),
        ),
    ),
    config="note:Config",
)
SCHEMA = to_json(NOTES)
