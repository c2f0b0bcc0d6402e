"""The modules of TypeScript that are generated from one source: for users of the package, and for its provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.agent.idl.targets.typescript_text import comment, documented, literal, quoted
from holdfast.agent.idl.targets.typescript_types import TypeScriptTypes
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Constant, Enumeration, FunctionModel, Module, NamedType, Package

INDENT = "  "
MAKERS = {"moment": "moment", "duration": "duration", "path": "path", "address": "address", "bytes": "fromBase64"}
"""Word of a type -> the function of the runtime that makes its values from text."""


class TypeScriptModule:
    """The common part of both sorts of modules."""

    runtime: str
    """Module of the runtime that it uses."""
    end = ""
    """End of the name of its file."""

    def __init__(self, package: Package, module: Module, folder: str) -> None:
        self.package = package
        self.module = module
        self.folder = folder
        """Folder of the runtime."""
        self.types = TypeScriptTypes(module, self.end, resources=not self.end)

    def text(self) -> str:
        """Return the text of the file, with the declarations in the order of the source."""
        made = dict(self._declarations())
        parts = [made[name] for name in dict.fromkeys((*self.module.order, *made)) if name in made]
        head = [*comment(self.module.comment), *documented(self.module.docs)]
        used = any("$." in line for part in parts for line in part)
        imports = [*(self._imports() if used else ()), *self.types.imports()]
        return "\n\n".join("\n".join(each) for each in (head, imports, *parts) if each) + "\n"

    def _imports(self) -> Iterator[str]:
        yield f'import * as $ from "{self.types.path(f"{self.folder}/{self.runtime}")}.js";'

    def _declarations(self) -> Iterator[tuple[str, list[str]]]:
        module = self.module
        yield from ((each.name, self._alias(each)) for each in module.aliases)
        yield from ((each.name, self._constant(each)) for each in module.constants)
        yield from ((each.name, self._enumeration(each)) for each in module.enumerations)
        yield from ((each.name, self._record(each)) for each in module.records)
        yield from ((_name(each), list(self._resource(each))) for each in module.resources)
        yield from ((each.name, list(self._function(each))) for each in module.functions)

    def _resource(self, kind: KindModel) -> Iterator[str]:
        raise NotImplementedError

    def _function(self, function: FunctionModel) -> Iterator[str]:
        about = documented(function.docs, deprecated=function.deprecated, since=function.since)
        yield from [*comment(function.comment), *about]
        yield from self._interface(function.name, function.parameters)
        yield ""
        yield from documented(Docs(f"What `{function.name}` returns."))
        yield from self._interface(f"{function.name}Result", function.results)

    def _alias(self, alias: NamedType) -> list[str]:
        word = self.types.word(alias.type, aliased=False)
        return [*comment(alias.comment), *documented(Docs(alias.doc)), f"export type {alias.name} = {word};"]

    def _constant(self, constant: Constant) -> list[str]:
        maker = MAKERS.get(constant.type.type)
        value = f"$.{maker}({literal(constant.value)})" if maker else literal(constant.value)
        head = [*comment(constant.comment), *documented(Docs(constant.doc))]
        return [*head, f"export const {constant.name} = {value};"]

    def _enumeration(self, made: Enumeration) -> list[str]:
        lines = [*comment(made.comment), *documented(made.docs), f"export const {made.name} = {{"]
        for each in made.values:
            lines += [*comment(each.comment, INDENT), *documented(Docs(each.doc), INDENT)]
            lines += [f"{INDENT}{each.name}: {quoted(each.value)},"]
        return [*lines, "} as const;", f"export type {made.name} = (typeof {made.name})[keyof typeof {made.name}];"]

    def _record(self, record: Record) -> list[str]:
        about = documented(record.docs, deprecated=record.deprecated, since=record.since)
        return [*comment(record.comment), *about, *self._interface(record.name, record.fields, record.tag)]

    def _interface(self, name: str, fields: Sequence[Field], tag: str = "") -> Iterator[str]:
        yield f"export interface {name} {{"
        if tag:
            yield f"{INDENT}readonly type: {quoted(tag)};"
        for each in fields:
            yield from self._about(each)
            yield f"{INDENT}readonly {self._member(each)};"
        yield "}"

    def _about(self, field: Field) -> Iterator[str]:
        yield from comment(field.comment, INDENT)
        more = ["A change replaces the resource."] if field.replaces and "replaces" not in field.doc else []
        yield from documented(Docs(field.doc), INDENT, more, field.deprecated, field.since)

    def _member(self, field: Field) -> str:
        """Return name and type: an optional member may also be undefined."""
        name, word = wire(field), self._word(field)
        return f"{name}: {word}" if field.required else f"{name}?: {word} | undefined"

    def _word(self, field: Field) -> str:
        """Return the type of the field for code that reads it."""
        word = self.types.word(field.type)
        if not field.secret:
            return word
        plain = [each for each in word.split(" | ") if each != "null"]
        return " | ".join([f"$.Secret<{' | '.join(plain)}>", *(["null"] if "null" in word.split(" | ") else [])])


class StubModule(TypeScriptModule):
    """The stub of a provider."""

    runtime = "plugin"
    end = "_stub"

    def _resource(self, kind: KindModel) -> Iterator[str]:
        remote, name = kind.remote or Remote(""), _name(kind)
        yield from documented(Docs(f"Arguments of `{name}`."))
        yield from self._interface(f"{name}Args", [each for each in kind.fields if not each.out])
        yield ""
        yield from comment(remote.comment)
        yield from documented(kind.docs, deprecated=remote.deprecated, since=remote.since)
        yield from self._interface(name, [each for each in kind.fields if not each.write_only])
        yield ""
        yield "/** Names of the fields. */"
        yield f"export const {name}Property = {{"
        yield from (f"{INDENT}{each.name.upper()}: {quoted(wire(each))}," for each in kind.fields)
        yield "} as const;"
        yield ""
        yield "/** Derive from this class, and write check, diff, read, create, update, delete and watch. */"
        yield f"export abstract class {name}Operations extends $.Operations<{name}Args, {name}> {{"
        yield f"{INDENT}override readonly token = {quoted(remote.token)};"
        yield "}"

    def _function(self, function: FunctionModel) -> Iterator[str]:
        yield from super()._function(function)
        name, token = function.name, f"{self.package.name}:{self.module.name}:{function.name}"
        yield ""
        yield "/** Derive from this class, and write call. */"
        yield f"export abstract class {name}Function extends $.Function<{name}, {name}Result> {{"
        yield f"{INDENT}override readonly token = {quoted(token)};"
        yield "}"


class PackModule(TypeScriptModule):
    """The module for users of the package."""

    runtime = "pack"

    def _imports(self) -> Iterator[str]:
        yield from super()._imports()
        if self.module.resources:
            yield f'import {{ PACKAGE as $PACKAGE }} from "{self.types.path(f"{self.folder}/package")}.js";'

    def _word(self, field: Field) -> str:
        """Return the type of the field for code that writes it."""
        plain = self.types.word(field.type)
        return f"{plain} | $.Secret<{plain}>" if field.secret else plain

    def _resource(self, kind: KindModel) -> Iterator[str]:
        remote, name = kind.remote or Remote(""), _name(kind)
        fields = [each for each in kind.fields if not each.out]
        arguments = [each for each in fields if not (remote.named and each.name == "name")]
        if wrong := [each.name for each in fields if wire(each) in ("constructor", "declaration")]:
            told = f"{name}: a class of TypeScript has no field {wrong[0]!r}"
            raise ValueError(f"{told}; give it another name on the wire: `name='other'`")
        yield from documented(Docs(f"Arguments of `{name}`."))
        yield from self._interface(f"{name}Args", arguments)
        yield ""
        yield from comment(remote.comment)
        yield from documented(kind.docs, deprecated=remote.deprecated, since=remote.since)
        yield f"export class {name} extends $.Resource implements {name}Args {{"
        for each in fields:
            yield f"{INDENT}declare readonly {self._property(each)};"
        yield ""
        yield from self._constructor(name, remote, required=any(each.required for each in arguments))
        yield "}"

    def _property(self, field: Field) -> str:
        word = super()._word(field)
        return f"{wire(field)}: {word}" if field.required else f"{wire(field)}?: {word}"

    def _constructor(self, name: str, remote: Remote, *, required: bool) -> Iterator[str]:
        optional = "" if required else "?"
        given = f"args{optional}: {name}Args"
        if remote.named:
            yield f"{INDENT}/** `name` may be left out; then one is made. Throws `Invalid`. */"
            given = f"...given: $.{'Named' if required else 'NamedAny'}<{name}Args>"
        else:
            yield f"{INDENT}/** Throws `Invalid`, with everything that is wrong. */"
        yield f"{INDENT}constructor({given}) {{"
        yield f"{INDENT}{INDENT}super($PACKAGE, {quoted(remote.token)}, {'given' if remote.named else '[args]'});"
        yield f"{INDENT}}}"


def wire(field: Field) -> str:
    """Return the name of a field on the wire and in TypeScript."""
    return field.wire or field.name


def _name(kind: KindModel) -> str:
    return (kind.remote or Remote("")).token.rpartition(":")[2]
