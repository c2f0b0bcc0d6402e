"""The target `python`: the stub of a provider, which holds the dataclasses and the tokens that its author uses.

The provider's directory is the root of its imports: a program there imports `ec2/vpc_stub.py` as `ec2.vpc_stub`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from holdfast.agent.idl.targets.python_types import PythonTypes
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Alias, Constant, Enumeration, FunctionModel, Module, Package

INDENT = "    "


class PythonTarget:
    """Generates the stubs of providers."""

    name = "python"

    def pack(self, package: Package) -> Mapping[str, str]:  # noqa: ARG002 - it generates nothing for users of packages
        """Return no files."""
        return {}

    def provider(self, package: Package) -> Mapping[str, str]:
        """Return one stub for each module."""
        return {f"{module.name}_stub.py": _Stub(package, module).text() for module in package.modules}


class _Stub:
    """The stub of one module."""

    def __init__(self, package: Package, module: Module) -> None:
        self.package = package
        self.module = module
        self.types = PythonTypes(module)

    def text(self) -> str:
        """Return the text of the file. Aliases stand last: only they are evaluated when the module is imported."""
        parts = [*map(self._constant, self.module.constants), *map(self._enumeration, self.module.enumerations)]
        parts += [*map(self._record, self.module.records), *map(self._resource, self.module.resources)]
        parts += [*map(self._function, self.module.functions), *map(self._alias, self.module.aliases)]
        head = [*_comment(self.module.comment), *_docstring(self.module.docs, ""), ""]
        return "\n".join([*head, *self.types.imports(), "", "", "\n\n\n".join(parts), ""])

    def _alias(self, alias: Alias) -> str:
        lines = [*_comment(alias.comment), f"{alias.name} = {self.types.word(alias.type, aliased=False)}"]
        return "\n".join([*lines, *_docstring(Docs(alias.doc), "")])

    def _constant(self, constant: Constant) -> str:
        declared = f"{constant.name}: typing.Final = {_literal(constant.value)}"
        return "\n".join([*_comment(constant.comment), declared, *_docstring(Docs(constant.doc), "")])

    def _enumeration(self, enumeration: Enumeration) -> str:
        lines = [*_comment(enumeration.comment), f"class {enumeration.name}(enum.StrEnum):"]
        lines += [*_docstring(enumeration.docs, INDENT), ""]
        for each in enumeration.values:
            lines += [*_comment(each.comment, INDENT), f"{INDENT}{each.name} = {_literal(each.value)}"]
            lines += _docstring(Docs(each.doc), INDENT)
        return "\n".join(lines)

    def _record(self, record: Record) -> str:
        tag = [f"{INDENT}tag: typing.ClassVar[str] = {_literal(record.tag)}"] if record.tag else []
        return self._struct(f"{self.module.name}:{record.name}", record.docs, record.fields, record.comment, tag)

    def _resource(self, kind: KindModel) -> str:
        remote = kind.remote or Remote("")
        name = remote.token.rpartition(":")[2]
        struct = self._struct(remote.token, kind.docs, kind.fields, remote.comment)
        wire = [f"{INDENT}{each.name.upper()} = {_literal(each.wire or each.name)}" for each in kind.fields]
        names = [f"class {name}Property(enum.StrEnum):", f'{INDENT}"""Names of the fields on the wire."""', "", *wire]
        operations = [
            f"class {name}Operations(plugin.Operations[{name}]):",
            f'{INDENT}"""Derive from this class, and write check, diff, read, create, update, delete and watch."""',
            "",
            f"{INDENT}token = {_literal(remote.token)}",
            f"{INDENT}struct = {name}",
        ]
        return "\n\n\n".join([struct, "\n".join(names), "\n".join(operations)])

    def _function(self, function: FunctionModel) -> str:
        name, token = function.name, f"{self.package.name}:{self.module.name}:{function.name}"
        arguments = self._struct(token, function.docs, function.parameters, function.comment)
        result = self._struct(f"{token}Result", Docs(f"What `{name}` returns."), function.results, "")
        base = [
            f"class {name}Function(plugin.Function[{name}, {name}Result]):",
            f'{INDENT}"""Derive from this class, and write call."""',
            "",
            f"{INDENT}token = {_literal(token)}",
            f"{INDENT}arguments = {name}",
            f"{INDENT}result = {name}Result",
        ]
        return "\n\n\n".join([arguments, result, "\n".join(base)])

    def _struct(self, key: str, docs: Docs, fields: Sequence[Field], comment: str, more: Sequence[str] = ()) -> str:
        name = key.rpartition(":")[2]
        lines = [
            *_comment(comment),
            "@dataclasses.dataclass(frozen=True, kw_only=True)",
            f"class {name}(plugin.Struct):",
        ]
        lines += [*_docstring(docs, INDENT), "", f"{INDENT}record: typing.ClassVar[str] = {_literal(key)}", *more]
        for each in fields:
            lines += [*_comment(each.comment, INDENT), f"{INDENT}{each.name}: {self._field(each)}"]
            lines += _docstring(Docs(each.doc), INDENT)
        return "\n".join(lines)

    def _field(self, field: Field) -> str:
        """Return type and default: only an argument that is required is always given."""
        word = "plugin.Secret" if field.secret else self.types.word(field.type)
        if field.required and not field.out and not field.write_only:
            return word
        return f"{word} | plugin.Unset = plugin.UNSET"


def _literal(value: object) -> str:
    """Return a constant as Python writes it, with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _comment(text: str, indent: str = "") -> Iterator[str]:
    return (f"{indent}# {line}".rstrip() for line in text.splitlines())


def _docstring(docs: Docs, indent: str) -> list[str]:
    """Return the lines of a docstring, without quotes or escapes that would end or change it."""
    if not docs.summary:
        return []
    paragraphs = [docs.summary, *docs.text, *(f"{INDENT}{each}".replace("\n", f"\n{INDENT}") for each in docs.examples)]
    text = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    lines = [f'"""{text}"""' if len(paragraphs) == 1 else f'"""{text}\n"""']
    return [f"{indent}{line}".rstrip() for line in lines[0].split("\n")]


TARGET = PythonTarget()
