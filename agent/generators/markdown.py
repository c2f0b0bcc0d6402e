"""Parts of pages: tables and lists in Markdown, and the behaviour of a kind as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.agent.model.model import ABSENT, Field, KindModel
from holdfast.agent.model.types import NONE, Type, members, words, written
from holdfast.states.requisite_kinds import RECV


def example(text: str) -> Iterator[str]:
    """Yield an example in YAML."""
    yield from ("```yaml", text, "```")


def table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield a table, whose columns have the names of the keys of the rows; nothing without rows."""
    if rows:
        yield f"| {' | '.join(rows[0])} |"
        yield "|" + "---|" * len(rows[0])
        for row in rows:
            yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row.values())} |"
        yield ""


def fields_table(title: str, fields: Iterable[Field]) -> Iterator[str]:
    """Yield a table of fields with type, default and meaning."""
    yield from table(
        [
            {
                title: f"`{field.name}`",
                "type": ", ".join(filter(None, (typed, field.unit, "secret" if field.secret else ""))),
                "default": default(field),
                "meaning": field.doc,
            }
            for field in fields
            for typed in [type_text(field.type) + " or null" * null_differs(field)]
        ]
    )


def null_differs(field: Field) -> bool:
    """Return whether a field may be null with another meaning than an omitted field."""
    return NONE in members(field.type) and field.default not in (ABSENT, None, "", [], {})


def type_text(type_: Type, *, links: bool = True) -> str:
    """Return a type as text; a record by its name, a list or mapping with the type of its items."""
    found = []
    for member in members(type_):
        if member.type == "record":
            found.append(f"[{member.record}](#{member.record.lower()})" if links else member.record)
        elif member.items is not None and member.items.type in ("record", "list", "mapping"):
            found.append(f"{member.type} of {type_text(member.items, links=links)}")
        elif member.type != "none":
            found.append(words(member))
    return " or ".join(dict.fromkeys(found))


def default(field: Field) -> str:
    """Return the default of a field, or that it is required; empty if it depends on the host or is empty."""
    if field.required:
        return "required"
    if field.from_id:
        return "the ID"
    return "" if field.default is ABSENT or field.default is None else f"`{written(field.default)}`"


def listed(title: str, items: Mapping[str, str], *, code: bool = True) -> Iterator[str]:
    """Yield a list of words, each with a text; nothing without words. Words with one text share an item."""
    if items:
        yield from (f"{title}:", "")
        for text in dict.fromkeys(items.values()):
            names = [name for name, its in items.items() if its == text]
            yield f"- {', '.join(f'`{name}`' if code else name for name in names)}: {text}"
        yield ""


def abilities(kind: KindModel) -> dict[str, str]:
    """Return the abilities of a kind apart from its arguments: word -> text."""
    found = {
        "effects": ", ".join(kind.effects),
        "events": kind.watch,
        "refresh": kind.refresh,
        "sends": ", ".join(f"{key} ({words(type_)})" for key, type_ in kind.sends.items()),
        RECV: "receives arguments from other states" if kind.receives else "",
        "reverse": "restores what was there before" if kind.reversible else "",
        "autogroup": "is repaired together with others of its kind" if kind.grouped else "",
        "autoedge": "is ordered by what it offers and needs" if kind.automatic_edges else "",
    }
    return {word: text for word, text in found.items() if text}
