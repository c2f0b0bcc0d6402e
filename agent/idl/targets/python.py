"""The target `python`: modules for users of a package, and the stub of its provider.

The directory of the provider is the root of its imports: a program there imports `ec2/vpc_stub.py` as `ec2.vpc_stub`.
The directory for users is a package of Python under any name: `aws/ec2/vpc.py` is imported as `aws.ec2.vpc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from holdfast.agent.idl.targets.python_module import PythonModule
from holdfast.agent.idl.targets.python_text import INDENT, literal
from holdfast.agent.idl.targets.python_types import PythonTypes
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Remote
from holdfast.agent.model.package import FunctionModel, Package
from holdfast.agent.model.types import Type, members

SCHEMA = "schema.json"


class PythonTarget:
    """Generates modules of Python."""

    name = "python"

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return one module for each source, and the marker file for type checkers (`py.typed`)."""
        modules = {f"{module.name}.py": _Pack(package, module, _PackTypes(module)).text() for module in package.modules}
        return {**modules, "py.typed": ""}

    def provider(self, package: Package) -> Mapping[str, str]:
        """Return one stub for each source."""
        return {
            f"{module.name}_stub.py": _Stub(package, module, _StubTypes(module)).text() for module in package.modules
        }


# -- for users ---------------------------------------------------------------------------------------------------


class _PackTypes(PythonTypes):
    """Annotations for users: a reference may be the resource itself."""

    library = "pack"

    def foreign(self, module: str) -> tuple[str, str]:
        """Return a relative import, which does not depend on the name of the directory."""
        here, there = self.home.split("/")[:-1], module.split("/")
        while here and there[:-1] and here[0] == there[0]:
            here, there = here[1:], there[1:]
        origin, local = f".{'.' * len(here)}{'.'.join(there[:-1])}", f"_module_{module.replace('/', '_')}"
        return f"from {origin} import {there[-1]} as {local}", local

    def reference(self, type_: Type) -> str:
        """Return the annotation of a reference: the resource, or its identifier."""
        return f"{self.named(type_.target.partition(':')[2])} | {self.builtin('str')}"


class _Pack(PythonModule):
    """A module for users."""

    def resource(self, kind: KindModel) -> str:
        remote = kind.remote or Remote("")
        folders = len(PurePosixPath(self.module.name).parts) - 1
        more = [f"_token = {literal(remote.token)}", f"_schema = {literal('../' * folders + SCHEMA)}"]
        fields = [each for each in kind.fields if not each.out]
        name, options = remote.token.rpartition(":")[2], "eq=False, kw_only=True"
        return self.struct(name, _docs(kind), fields, remote.comment, base="Resource", options=options, more=more)

    def function(self, function: FunctionModel) -> str:  # noqa: ARG002 - the agent calls functions, not their users
        return ""

    def field(self, field: Field) -> str:
        """Return type and default; the name comes first, and secrets do not appear in the text of a resource."""
        word, options = self.types.word(field.type), []
        if not field.required:
            word += f" | {self.types.of_library('Unset')}"
            options.append(f"default={self.types.of_library('UNSET')}")
        if field.name == "name" and field.computed:
            options.append("kw_only=False")
        if field.secret:
            options.append("repr=False")
        if len(options) == 1 and not field.required:
            return f"{word} = {self.types.of_library('UNSET')}"
        return f"{word} = {self.types.module('dataclasses')}.field({', '.join(options)})" if options else word


def _docs(kind: KindModel) -> Docs:
    """Return the documentation of a resource, with the fields that only its provider sets."""
    outputs = [f"`{each.name}`" for each in kind.fields if each.out]
    told = (
        [f"The provider sets {' and '.join(filter(None, [', '.join(outputs[:-1]), outputs[-1]]))}."] if outputs else []
    )
    return kind.docs._replace(text=(*kind.docs.text, *told))


# -- for the author of the provider ------------------------------------------------------------------------------


class _StubTypes(PythonTypes):
    """Annotations for the author of a provider."""

    library = "plugin"

    def foreign(self, module: str) -> tuple[str, str]:
        """Return an import from the root of the provider."""
        stub = f"{module.replace('/', '.')}_stub"
        if stub.partition(".")[0] not in self.taken:
            return f"import {stub}", stub
        local = f"_{stub.replace('.', '_')}"
        return f"import {stub} as {local}", local


class _Stub(PythonModule):
    """The stub of one module."""

    def resource(self, kind: KindModel) -> str:
        remote = kind.remote or Remote("")
        name = remote.token.rpartition(":")[2]
        struct = self.struct(name, kind.docs, kind.fields, remote.comment)
        wire = [f"{INDENT}{each.name.upper()} = {literal(each.wire or each.name)}" for each in kind.fields]
        base = f"{self.types.module('enum')}.StrEnum"
        names = [f"class {name}Property({base}):", f'{INDENT}"""Names of the fields on the wire."""', "", *wire]
        operations = [
            f"class {name}Operations({self.types.of_library('Operations')}[{name}]):",
            f'{INDENT}"""Derive from this class, and write check, diff, read, create, update, delete and watch."""',
            "",
            f"{INDENT}token = {literal(remote.token)}",
            f"{INDENT}struct = {name}",
        ]
        return "\n\n\n".join([struct, "\n".join(names), "\n".join(operations)])

    def function(self, function: FunctionModel) -> str:
        name, token = function.name, f"{self.package.name}:{self.module.name}:{function.name}"
        arguments = self.struct(name, function.docs, function.parameters, function.comment)
        result = self.struct(f"{name}Result", Docs(f"What `{name}` returns."), function.results, "")
        base = [
            f"class {name}Function({self.types.of_library('Function')}[{name}, {name}Result]):",
            f'{INDENT}"""Derive from this class, and write call."""',
            "",
            f"{INDENT}token = {literal(token)}",
            f"{INDENT}arguments = {name}",
            f"{INDENT}result = {name}Result",
        ]
        return "\n\n\n".join([arguments, result, "\n".join(base)])

    def field(self, field: Field) -> str:
        """Return type and default: only an argument that is required is always given."""
        word = self.types.word(field.type)
        if field.secret:
            null = " | None" if any(each.type == "none" for each in members(field.type)) else ""
            word = self.types.of_library("Secret") + null
        if field.required and not field.out and not field.write_only:
            return word
        return f"{word} | {self.types.of_library('Unset')} = {self.types.of_library('UNSET')}"


TARGET = PythonTarget()
