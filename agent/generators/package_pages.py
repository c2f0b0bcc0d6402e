"""Pages of documentation in Markdown for the modules of a package: `ec2/vpc.md` for `ec2/vpc.py`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from holdfast.agent.generators.markdown import default, example, listed, table
from holdfast.agent.generators.remote_types import described
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote, Rule, argument
from holdfast.agent.model.package import Enumeration, FunctionModel, Module, Package
from holdfast.agent.model.types import WORDS, Type, members, written
from holdfast.agent.phrases import number_of


def module_page(package: Package, module: Module) -> str:
    """Return the page of a module."""
    return _ModulePage(package, module).text()


class _ModulePage:
    """The page of one module."""

    def __init__(self, package: Package, module: Module) -> None:
        self.package = package
        self.module = module
        self.kinds = {
            kind.remote.token: (each.name, kind.name)
            for each in package.modules
            for kind in each.resources
            if kind.remote is not None
        }
        """Token of a resource -> the module that declares it, and its kind."""

    def text(self) -> str:
        """Return the text of the page."""
        return "\n".join(self._lines()).rstrip() + "\n"

    def _lines(self) -> Iterator[str]:
        module = self.module
        yield from (f"# `{module.name}`", "", *_paragraphs(module.docs))
        about = f" {self.package.docs.summary}" if self.package.docs.summary else ""
        yield from (f"Part of the package `{self.package.name}` {self.package.version}.{about}", "")
        for kind in module.resources:
            yield from self._kind(kind)
        for function in module.functions:
            yield from self._function(function)
        for record in module.records:
            yield from self._record(record)
        for enumeration in module.enumerations:
            yield from _enumeration(enumeration)
        rows = [
            {"alias": f"`{each.name}`", "type": self._type(each.type), "meaning": each.doc} for each in module.aliases
        ]
        yield from _section("Aliases", rows)
        constants = [
            {"constant": f"`{each.name}`", "value": f"`{written(each.value)}`", "meaning": each.doc}
            for each in module.constants
        ]
        yield from _section("Constants", constants)

    # -- declarations ------------------------------------------------------------------------------------------

    def _kind(self, kind: KindModel) -> Iterator[str]:
        remote = kind.remote or Remote("")
        yield from (f"## `{kind.name}`", "", *_notes(remote.deprecated, remote.since), *_paragraphs(kind.docs))
        for text in kind.docs.examples:
            yield from (*example(text), "")
        yield from self._table("argument", [argument(each) for each in kind.fields if not each.out])
        yield from _rules(remote.rules)
        yield from self._outputs("set by the provider", [each for each in kind.fields if each.out])
        yield from listed("Behaviour", dict(behaviour(kind)), code=False)

    def _function(self, function: FunctionModel) -> Iterator[str]:
        yield from (f"## Function `{self.package.name}.{function.name}`", "")
        yield from (*_notes(function.deprecated, function.since), *_paragraphs(function.docs))
        for text in function.docs.examples:
            yield from (*example(text), "")
        yield from self._table("argument", function.parameters)
        yield from _rules(function.rules)
        yield from self._outputs("result", function.results)

    def _record(self, record: Record) -> Iterator[str]:
        configures = f"{self.module.name}:{record.name}" == self.package.config
        yield from (f"## `{record.name}`", "", *_notes(record.deprecated, record.since), *_paragraphs(record.docs))
        if configures:
            yield from (f"Configures the plugin: `config` of `{self.package.name}` under `plugins` in agent.yaml.", "")
            if named := ", ".join(f"`{each.name}_file`" for each in record.fields if each.secret):
                yield from (f"agent.yaml has no secrets. It names the files that hold them: {named}.", "")
        if record.tag:
            yield from (f"Its member `type` is `{record.tag}`.", "")
        yield from self._table("field", record.fields)
        yield from _rules(record.rules)

    # -- fields ------------------------------------------------------------------------------------------------

    def _table(self, title: str, fields: Iterable[Field]) -> Iterator[str]:
        yield from table(
            [
                {
                    title: f"`{each.name}`",
                    "type": ", ".join(filter(None, (self._type(each.type), "secret" if each.secret else ""))),
                    "default": "`null`" if each.default is None else default(each),
                    "meaning": _meaning(each),
                }
                for each in fields
            ]
        )

    def _outputs(self, title: str, fields: Iterable[Field]) -> Iterator[str]:
        rows = [
            {
                title: f"`{each.name}`",
                "type": ", ".join(filter(None, (self._type(each.type), "secret" if each.secret else ""))),
                "present": "always" if each.required else "sometimes",
                "meaning": _meaning(each),
            }
            for each in fields
        ]
        yield from table(rows)

    def _type(self, type_: Type) -> str:
        """Return a type as text, with links to its declarations."""
        return " or ".join(dict.fromkeys(self._member(each) for each in members(type_)))

    def _member(self, type_: Type) -> str:
        if type_.type in ("record", "tagged"):
            return " or ".join(self._link(each.record) for each in type_.members or (type_,))
        if type_.type == "choice":
            shown = " or ".join(f"`{each}`" for each in type_.choices)
            return self._link(type_.enumeration) if type_.enumeration else shown
        word = {"none": "null", "set": "set"}.get(type_.type, WORDS.get(type_.type, type_.type))
        if type_.type == "reference":
            module, kind = self.kinds.get(type_.target, ("", type_.target))
            shown = f"[`{kind}`]({self._file(module)}#{_anchor(kind)})" if module else f"`{kind}`"
            word = f"reference to {shown}"
        items = f" of {self._type(type_.items)}" if type_.items is not None and type_.items.type != "any" else ""
        limits = restrictions(type_)
        return f"{word}{items}" + (f" ({', '.join(limits)})" if limits else "")

    def _link(self, qualified: str) -> str:
        module, _, name = qualified.partition(":")
        return f"[{name}]({self._file(module)}#{_anchor(name)})"

    def _file(self, module: str) -> str:
        """Return the path to the page of a module from this page; empty for this page."""
        if module == self.module.name:
            return ""
        return posixpath.relpath(f"{module}.md", posixpath.dirname(self.module.name) or ".")


def behaviour(kind: KindModel) -> Iterator[tuple[str, str]]:
    """Yield the behaviour of a remote kind: word, text."""
    remote = kind.remote or Remote("")
    polled = f"checked every {remote.poll:g} seconds, because it reports no events"
    yield "events", polled if remote.poll else "the provider reports changes at once"
    if any(each.replaces for each in kind.fields):
        first = "deletes the old resource first" if remote.delete_first else "creates the new resource first"
        yield "replacement", first
    if remote.named:
        yield "name", "the ID of the state where none is given"
    yield "ensure", "`ensure: absent` deletes the resource"


def restrictions(type_: Type) -> list[str]:
    """Return the restrictions of a type as text."""
    unit = {"text": "character", "bytes": "byte"}.get(type_.type, "item")
    limits = {
        "at least {}": type_.minimum,
        "at most {}": type_.maximum,
        "greater than {}": type_.above,
        "less than {}": type_.below,
        "at least {} ": type_.shortest and number_of(type_.shortest, unit),
        "at most {} ": type_.longest and number_of(type_.longest, unit),
    }
    found = [text.format(limit).strip() for text, limit in limits.items() if limit is not None]
    if type_.minimum is not None and type_.maximum is not None:
        found[:2] = [f"{type_.minimum} to {type_.maximum}"]
    return [*found, *(f"matches `{each}`" for each in type_.patterns)]


def _enumeration(enumeration: Enumeration) -> Iterator[str]:
    rows = [{"value": f"`{each.value}`", "meaning": each.doc} for each in enumeration.values]
    yield from (f"## `{enumeration.name}`", "", *_paragraphs(enumeration.docs), *table(rows))


def _section(title: str, rows: Sequence[dict[str, str]]) -> Iterator[str]:
    if rows:
        yield from (f"## {title}", "", *table(rows))


def _paragraphs(docs: Docs) -> Iterator[str]:
    for paragraph in filter(None, (docs.summary, *docs.text)):
        yield from (paragraph, "")


def _notes(deprecated: str, since: str) -> Iterator[str]:
    if deprecated:
        yield from (f"Deprecated: {deprecated}", "")
    if since:
        yield from (f"Since version {since}.", "")


def _meaning(field: Field) -> str:
    return " ".join(described(field))


def _rules(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        listed_ = ", ".join(f"`{each}`" for each in rule.fields)
        told = {
            "ordered": "These do not decrease",
            "together": "All of these are given, or none",
        }.get(rule.rule, f"{rule.rule.capitalize()} of these is given")
        yield from (f"{told}: {listed_}.", "")


def _anchor(title: str) -> str:
    """Return the anchor that a heading gets: letters, digits, `-` and `_`."""
    return "".join(each for each in title.lower() if each.isalnum() or each in "-_")
