"""Pages of documentation contain what the model contains."""

from __future__ import annotations

from holdfast.agent.generators.interface_page import interface_page
from holdfast.agent.generators.markdown import fields_table, listed, table, type_text
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import (
    Field,
    Function,
    InterfaceModel,
    ProviderFunction,
    ProviderModel,
    Record,
    argument,
)
from holdfast.agent.model.types import BOOLEAN, INTEGER, NONE, NUMBER, TEXT, Type, union

COLOUR = Record("Colour", Docs("A colour."), (Field("name", TEXT, "Its name.", required=True),))
ON = Function(
    name="on",
    docs=Docs("Turn a lamp on.", ("It shines.",)),
    parameters=(
        Field("name", TEXT, required=True),
        Field("colours", Type("list", items=Type("record", record="Colour")), default=[]),
        Field("test", BOOLEAN, default=False),
    ),
    keyword_only=("test",),
    returns=Type("mapping", keys=TEXT, items=Type("record", record="Colour")),
    supported={"kernel": ("Linux", "FreeBSD")},
    not_applicable={"os": ("Plan9",)},
    open=True,
    since=2,
    added=("colours",),
    replaces=("switch_on",),
)
OFF = Function("off", Docs("Turn a lamp off."), (), (), NONE, since=3)
BULB = ProviderModel(
    tool="bulb",
    docs=Docs("A bulb."),
    priority=0,
    targets=3,
    functions=(ProviderFunction("on", "Option `slow`: take time.", (Field("dim", INTEGER, "How dark.", default=3),)),),
    grains={"kernel": ("Linux",)},
    commands=("bulb",),
    paths=("/dev/bulb",),
)


def test_a_page_of_an_interface_shows_functions_results_and_providers() -> None:
    """The page has signatures, platforms, versions, former names, records, and what each provider lacks or adds."""
    lamp = InterfaceModel("lamp", 3, Docs("Lamps."), (OFF, ON), (BULB,), chosen_by_name=True)

    page = interface_page(lamp, {"Colour": COLOUR})

    for line in (
        "Version 3 of the interface. Each caller names the provider.",
        "### `on(name: text, colours: list of Colour = [], *, test: true/false = false, ...)`",
        "Only where `kernel` is Linux, FreeBSD.",
        "Does nothing where `os` is Plan9.",
        "`colours` exist since version 2 of the interface.",
        "Former names: `switch_on`.",
        "Returns mapping of [Colour](#colour).",
        "It exists since version 3 of the interface.",
        "Returns nothing.",
        "### Colour",
        "| `name` | text | required | Its name. |",
        "| `bulb` | `kernel` is Linux, there is the command `bulb`, `/dev/bulb` exists | `off` |",
        "- `on`: Option `slow`: take time.",
        "| `dim` | number | `3` | How dark. |",
    ):
        assert line in page.splitlines()


def test_a_table_of_fields_says_where_a_value_comes_from_and_what_null_is() -> None:
    """The name comes from the ID of the state. The table explains null where it differs from omitting the argument."""
    choice = union([Type("choice", choices=("jinja",)), NONE])
    fields = (
        argument(Field("name", TEXT, "The path.", required=True)),
        Field("template", choice, "Render it.", default="jinja"),
        Field("user", union([TEXT, NONE]), "Its owner.", default=None),
    )

    assert list(fields_table("argument", fields))[2:5] == [
        "| `name` | text | the ID | The path. |",
        "| `template` | 'jinja' or null | `'jinja'` | Render it. |",
        "| `user` | text |  | Its owner. |",
    ]


def test_a_table_of_fields_says_what_is_required_secret_and_in_which_unit() -> None:
    """The table omits empty defaults; a bar in a text does not end its cell."""
    fields = (
        Field("wait", union([NUMBER, NONE]), "Time | span.", default=None, unit="seconds"),
        Field("password", TEXT, required=True, secret=True),
    )

    assert list(fields_table("argument", fields))[2:] == [
        "| `wait` | number, seconds |  | Time &#124; span. |",
        "| `password` | text, secret | required |  |",
        "",
    ]
    assert list(table([])) == []


def test_words_with_the_same_text_share_an_item() -> None:
    """A list names each reason once."""
    assert list(listed("Refused", {"a": "why", "b": "other", "c": "why"})) == [
        "Refused:",
        "",
        "- `a`, `c`: why",
        "- `b`: other",
        "",
    ]


def test_types_inside_of_lists_and_mappings_are_named() -> None:
    """A record is a link, except in code."""
    type_ = union([Type("list", items=Type("mapping", items=Type("record", record="Colour"))), TEXT])

    assert type_text(type_) == "list of mapping of [Colour](#colour) or text"
    assert type_text(type_, links=False) == "list of mapping of Colour or text"
