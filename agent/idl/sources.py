"""The sources of a package: the manifest `package.yaml` and every `.py` below `idl/`, read and parsed."""

from __future__ import annotations

import ast
import keyword
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agent.idl.names import unknown
from holdfast.resources.builtin import KIND_MODULES
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.parse.loader import parse_yaml
from holdfast.states.parse.marks import Document, Map
from holdfast.states.source.refusals import decode, display

MANIFEST = "package.yaml"
LARGEST = 1 << 20
"""Most bytes of a source."""
MOST = 10_000
"""Most sources of a package."""
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
"""Names of packages, folders and modules: they become parts of the names of kinds, and of file names."""
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
FAMILIES = frozenset(name.partition(".")[0] for name in KIND_MODULES)
MEMBERS = {"name": "", "version": "", "description": "", "user": ""}
"""Members of the manifest; each is text."""


@dataclass
class IdlSource:
    """One source file."""

    module: str
    """Path below `idl/` without extension: `ec2/vpc`."""
    file: str
    """Path for messages."""
    text: str
    tree: ast.Module
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Split the text."""
        self.lines = self.text.split("\n")

    def line(self, number: int) -> str:
        """Return a line; empty if there is no such line."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def location(self, line: int, offset: int) -> Location:
        """Return the location of an offset, which counts bytes of UTF-8."""
        text = self.line(line)
        column = offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))
        return Location(self.file, line, column + 1)


class Manifest(NamedTuple):
    """The content of package.yaml."""

    name: str
    version: str
    description: str
    user: str = ""
    """User as which the plugin must run; empty: any."""


class PackageSources(NamedTuple):
    """The whole package as it was read; files that cannot be read are missing, and have a problem."""

    manifest: Manifest
    modules: dict[str, IdlSource]
    """Sorted by name."""
    problems: list[Problem]


def read(root: Path) -> PackageSources:
    """Read a package. Raises `CompileError` if there is nothing to read."""
    if not root.is_dir():
        hint = "name the folder with package.yaml; `holdfast idl new NAME` makes a package"
        raise CompileError([Problem(Location(display(root)), "source-missing", "there is no such folder", hint)])
    problems: list[Problem] = []
    manifest = _manifest(root / MANIFEST, problems)
    modules = {}
    for path in _paths(root, problems):
        if (source := _source(root, path, problems)) is not None:
            modules[source.module] = source
    if not modules and not problems:
        problems.append(Problem(Location(display(root)), "idl-package", "the package has no sources", "write a .py"))
    return PackageSources(manifest, modules, problems)


def _paths(root: Path, problems: list[Problem]) -> list[Path]:
    """Return all sources, sorted by the name of the module."""

    def fail(error: OSError) -> None:
        problems.append(_refused(Path(error.filename), f"cannot read the folder: {error.strerror}"))

    found: list[Path] = []
    for folder, folders, files in os.walk(root, onerror=fail):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "__pycache__")
        found += [Path(folder, each) for each in files if each.endswith(".py")]
        if len(found) > MOST:
            problems.append(_refused(root, f"the package has more than {MOST} sources"))
            return []
    return sorted(found, key=lambda path: path.relative_to(root).with_suffix("").parts)


def _refused(path: Path, message: str, hint: str = "", code: str = "source-unreadable", line: int = 0) -> Problem:
    return Problem(Location(display(path), line), code, message, hint)


def _source(root: Path, path: Path, problems: list[Problem]) -> IdlSource | None:
    module = path.relative_to(root).with_suffix("")
    if (wrong := _wrong_name(root, module)) is not None:
        problems.append(_refused(path, *wrong, "idl-module-name"))
        return None
    if (text := _text(path, problems)) is None:
        return None
    try:
        source = IdlSource("/".join(module.parts), display(path), text, parsed(text))
    except SyntaxError as error:
        line = error.lineno or 0
        told = Location(display(path), line, min(error.offset or 0, len(error.text or "") + 1))
        shown = (error.text or "").rstrip("\n")
        problems.append(Problem(told, "idl-syntax", f"this is not Python: {error.msg}", "", shown))
    except (ValueError, RecursionError, MemoryError):
        problems.append(_refused(path, "this is not Python: it is nested too deeply", code="idl-syntax"))
    else:
        problems += _no_texts(source)
        return source
    return None


def _wrong_name(root: Path, module: Path) -> tuple[str, str] | None:
    """Return the problem of the name of a source, and a hint; None if there is none."""
    legal = "allowed: small letters, digits and single underscores, with a letter first"
    for part in module.parts:
        if not NAME.fullmatch(part):
            return (
                f"{part!r} is not a valid name of a module",
                "folders need no such file" if part == "__init__" else legal,
            )
        if keyword.iskeyword(part):
            return f"{part!r} is a word of Python, so generated modules cannot be imported", "rename it"
    if len(module.parts) > 1 and module.parts[0] in sys.stdlib_module_names:
        told = f"{module.parts[0]!r} is a module of Python, which hides the folder from the provider"
        return told, "rename the folder"
    if (root / module).is_dir():
        hint = f"move the source into the folder: {module}/{module.name}.py"
        return f"{module.name!r} is a source and a folder, and a module of Python cannot be both", hint
    return None


def _no_texts(source: IdlSource) -> Iterator[Problem]:
    """Yield a problem for each text that cannot be written to a file, because it contains a surrogate."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node.value.encode()
            except UnicodeEncodeError as error:
                told = f"{error.object[error.start]!r} is half of a character"
                place = source.location(node.lineno, node.col_offset)
                yield Problem(place, "idl-value", told, "write the character itself", source.line(node.lineno))


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in patterns
        return ast.parse(text)


def _text(path: Path, problems: list[Problem]) -> str | None:
    """Return the text of a file; None after recording why it cannot be used."""
    try:
        if not path.is_file():
            problems.append(_refused(path, "this is not a regular file"))
            return None
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            problems.append(_refused(path, f"the file has more than {LARGEST >> 20} MB", "split it", "source-size"))
            return None
        return decode(path, content).replace("\r\n", "\n").replace("\f", " ")
    except CompileError as error:
        problems += error.problems
    except OSError as error:
        problems.append(_refused(path, f"cannot read the file: {error.strerror}"))
    return None


# -- the manifest ----------------------------------------------------------------------------------------------


def _manifest(path: Path, problems: list[Problem]) -> Manifest:
    """Return the manifest; members that are wrong are empty, and have a problem."""
    if not path.exists():
        hint = "it has the members name, version and description"
        problems.append(_refused(path, "the package has no manifest", hint, "idl-manifest"))
        return Manifest("", "", "")
    if (text := _text(path, problems)) is None:
        return Manifest("", "", "")
    document = Document(display(path), text)
    try:
        data = parse_yaml(document, text)
    except CompileError as error:
        problems += error.problems
        return Manifest("", "", "")
    if not isinstance(data, Map):
        told = f"a manifest is a mapping: {', '.join(MEMBERS)}"
        problems.append(_refused(path, told, code="idl-manifest"))
        return Manifest("", "", "")
    found = _members(data, document, problems)
    return Manifest(**{**MEMBERS, **found})


def _members(data: Map, document: Document, problems: list[Problem]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in data.items():
        told, hint = wrong_member(key, value) if key in MEMBERS else unknown("member", str(key), MEMBERS)
        if told:
            problems.append(document.problem(data.marks.get(key), "idl-manifest", told, hint))
        else:
            found[key] = value
    problems += [
        Problem(Location(document.file), "idl-manifest", f"the member {key!r} is missing")
        for key in ("name", "version")
        if key not in data
    ]
    return found


def wrong_member(key: str, value: Any) -> tuple[str, str]:
    """Return the problem of a member of a manifest, and a hint; both are empty if there is none."""
    if not isinstance(value, str):
        return f"{key} is text, not {value!r}", "write it in quotes"
    if key == "name" and not re.fullmatch(r"[a-z][a-z0-9]*", value):
        return f"{value!r} is not a valid name of a package", "allowed: small letters and digits, with a letter first"
    if key == "name" and value in FAMILIES:
        return f"{value!r} is a family of built-in kinds", "give the package another name"
    if key == "version" and not VERSION.fullmatch(value):
        return f"{value!r} is not a version", "a version has three numbers: 1.0.0"
    if key == "user" and not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", value):
        return (
            f"{value!r} is not a valid name of a user",
            "leave it out unless the plugin needs the rights of a certain user",
        )
    return "", ""
