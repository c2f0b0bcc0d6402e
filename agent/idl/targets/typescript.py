"""The target `typescript`: typed classes for users of a package, and the stub of a provider that runs on Node.js.

The runtime that both need is copied from `agent/plugins/typescript`, so that the output depends on no library of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.agent.idl.targets.javascript_patterns import javascript
from holdfast.agent.idl.targets.typescript_modules import PackModule, StubModule
from holdfast.agent.idl.targets.typescript_text import quoted
from holdfast.agent.model.model import Field
from holdfast.agent.model.package import Package, to_json
from holdfast.agent.model.types import Type
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.expressions import expression

SOURCE = Path(__file__).parents[2] / "plugins/typescript"
RUNTIME = "holdfast-runtime"
"""Folder of the runtime in the output; no source can have this name."""
OF_PACKS = ("decode", "encode", "forms", "json", "pack", "restrictions", "schema", "spelling", "values")
"""Modules of the runtime that packs need; they use no library and nothing of Node.js."""


class TypeScriptTarget:
    """Generates classes for users, and the stubs of providers."""

    name = "typescript"

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return one module for each source, and the runtime."""
        modules = {f"{each.name}.ts": PackModule(package, each, RUNTIME).text() for each in package.modules}
        return {**modules, **_runtime(package, OF_PACKS)}

    def provider(self, package: Package) -> Mapping[str, str]:
        """Return one stub for each source, and the runtime."""
        stubs = {f"{each.name}_stub.ts": StubModule(package, each, RUNTIME).text() for each in package.modules}
        return {**stubs, **_runtime(package, sorted(each for each in _sources() if each != "pack"))}


@functools.cache
def _sources() -> Mapping[str, str]:
    """Return the modules of the runtime: name -> text."""
    return {each.stem: each.read_text(encoding="utf-8") for each in sorted(SOURCE.glob("*.ts"))}


def _runtime(package: Package, names: tuple[str, ...] | list[str]) -> dict[str, str]:
    files = {f"{RUNTIME}/{name}.ts": _sources()[name] for name in names}
    return {**files, f"{RUNTIME}/package.ts": _package_text(package)}


def _package_text(package: Package) -> str:
    """Return the module with the schema: its text, its digest, and its patterns as expressions of JavaScript."""
    lines = "".join(f"    {quoted(line)},\n" for line in to_json(package).split("\n"))
    patterns = "".join(f"    {quoted(each)}: {_expression(each)},\n" for each in sorted(set(patterns_of(package))))
    return (
        "/** The schema of the package. */\n\n"
        'import type { PackageText } from "./schema.js";\n\n'
        "export const PACKAGE: PackageText = {\n"
        f'  text: [\n{lines}  ].join("\\n"),\n'
        f"  digest: {quoted(Schema(package).digest)},\n"
        f"  patterns: {{\n{patterns}  }},\n"
        "};\n"
    )


def _expression(pattern: str) -> str:
    constant, degree = expression(pattern).ways
    return f"[{quoted(javascript(pattern))}, {constant}, {degree}]"


def patterns_of(package: Package) -> Iterator[str]:
    """Yield the patterns of all types."""
    for module in package.modules:
        fields: list[Field] = [field for each in module.resources for field in each.fields]
        fields += [field for each in module.records for field in each.fields]
        fields += [field for each in module.functions for field in (*each.parameters, *each.results)]
        for field in fields:
            yield from _of_type(field.type)


def _of_type(type_: Type) -> Iterator[str]:
    yield from type_.patterns
    for inner in (type_.items, type_.keys, *type_.members):
        if inner is not None:
            yield from _of_type(inner)


TARGET = TypeScriptTarget()
