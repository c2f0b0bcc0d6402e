"""From a state file to its data: which renderers it asks for, Jinja with its context, then YAML or JSON.

A text without Jinja never meets Jinja. What was rendered and parsed is kept, and used again as long as the file and all
that its rendering depended on (templates, grains, pillar, settings) are the same.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import jinja2

from holdfast.states.breaks import by_yaml_lines, has_odd_breaks
from holdfast.states.budget import METER
from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.grains import seen
from holdfast.states.lines import split_marks
from holdfast.states.marks import Document
from holdfast.states.parse import parse_json, parse_yaml
from holdfast.states.source import Text, Tree
from holdfast.states.templates import GIVEN, StateEnvironment, TreeLoader, environment, explain, file_variables
from holdfast.states.world import World

PIPES = (("jinja", "yaml"), ("yaml",), ("json",), ("jinja", "json"))
"""What the first line of a file may ask for, `#!jinja|yaml` being the default."""

SPENT: Any = object()
"""Stands for data that are gone."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The data of one file, and what they depended on."""

    document: Document
    data: Any
    digest: str
    sls: str
    world: str = ""
    """Digest of the world but for the grains; empty when no template was run."""
    grains: Mapping[str, str] = field(default_factory=dict)
    """Those that the template has read: name -> what it was."""
    used: Mapping[str, str | None] = field(default_factory=dict)
    """Templates: name -> digest."""
    stable: bool = True
    """False: a template looked at something that may change at any time."""


class Renderer:
    """Renders the files of one directory, again and again as they change."""

    def __init__(self, root: Path, *, secret: bool = False) -> None:
        self.loader = TreeLoader(Tree(root))
        self.environment: StateEnvironment | None = None
        self.secret = secret
        self.world = World()
        self._digest = ""
        self._kept: dict[Path, Rendered] = {}
        self.renders = 0
        """How many files were rendered and parsed rather than taken from what was kept."""

    def begin(self, tree: Tree, world: World) -> None:
        """Start a new compilation: files are seen through `tree`."""
        self.loader.begin(tree)
        self.world = world
        self._digest = world.freeze()

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that the templates of the last compilation have read."""
        return frozenset(name for kept in self._kept.values() for name in kept.grains)

    def end(self) -> None:
        """Forget what files that are gone were rendered to."""
        self._kept = {path: kept for path, kept in self._kept.items() if path in self.loader.tree.read_files}

    def render(self, path: Path, sls: str, spent: Rendered | None = None) -> Rendered:
        """The data of a file. Raises `CompileError`. `spent` is good enough if the same would come out, though its data are gone."""
        text = self.loader.tree.read(path)
        kept = self._kept.get(path)
        if kept is None or not self._still(kept, text, sls) or (kept.data is SPENT and kept is not spent):
            kept = self._kept[path] = self._render(text, sls)
            self.renders += 1
        return kept

    def render_with(self, path: Path, sls: str, variables: Mapping[str, Any]) -> Rendered:
        """The same, for a file whose template sees more variables; it is rendered each time."""
        return self._render(self.loader.tree.read(path), sls, variables)

    def spend(self, path: Path) -> Rendered:
        """Let go of the data of a file: they have been used, and are most of what is kept."""
        spent = self._kept[path] = replace(self._kept[path], data=SPENT)
        return spent

    def _still(self, kept: Rendered, text: Text, sls: str) -> bool:
        """Whether rendering again would give the same."""
        if (kept.digest, kept.sls) != (text.digest, sls) or not kept.stable:
            return False
        if not kept.world:
            return True
        if kept.world != self._digest or any(self.loader.digest(name) != was for name, was in kept.used.items()):
            return False
        return kept.grains == seen(self.world.grains, kept.grains)

    def _render(self, text: Text, sls: str, more: Mapping[str, Any] | None = None) -> Rendered:
        pipe, body = split_shebang(text)
        parse = parse_json if pipe[-1] == "json" else parse_yaml
        if "jinja" not in pipe or not any(mark in body for mark in ("{{", "{%", "{#", OPTIONS)):
            file = str(text.path)
            lines = by_yaml_lines(body, ((file, line) for line in count(1))) if parse is parse_yaml and has_odd_breaks(body) else None
            document = Document(file, text.text, lines, secret=self.secret)
            return Rendered(document, parse(document, body), text.digest, sls)
        document, rendered, world, used = self._jinja(text, {**sls_variables(sls, self._name(text)), **(more or {})})
        if parse is parse_json and rendered.startswith("#!"):
            rendered = rendered[rendered.find("\n") :]
        return Rendered(
            document, parse(document, rendered), text.digest, sls, self._digest, seen(self.world.grains, world.read), used, not world.looked
        )

    def _jinja(self, text: Text, own: Mapping[str, Any]) -> tuple[Document, str, World, dict[str, str | None]]:
        """Run the template. Raises `CompileError` that names its line."""
        root = self.loader.tree.root
        name, file = text.path.relative_to(root).as_posix(), str(text.path)
        world = self.world.copy()
        variables = {**world.variables(), **own}
        variables[GIVEN] = tuple(variables)
        self.loader.used = {}
        options, body = template_options(text.text, file)
        try:
            marked = self._template(text.path, name, body, options).render(variables) + "\n" * text.text.endswith("\n")
        except Exception as error:
            raise CompileError([explain(error, file, self._texts(), variables, secret=self.secret)]) from error
        rendered, origins = split_marks(marked, name)
        files = {used: str(root / used) for used in {origin for origin, _ in origins}}
        lines = [(files[origin], line) for origin, line in origins]
        if has_odd_breaks(rendered):
            lines = by_yaml_lines(rendered, lines)
        others = self._texts() if len(files) > 1 else {}
        used = {used: digest for used, digest in self.loader.used.items() if used != name}
        return Document(file, text.text, lines, others, secret=self.secret), rendered, world, used

    def _name(self, text: Text) -> str:
        """The path of a file from the root."""
        return text.path.relative_to(self.loader.tree.root).as_posix()

    def _template(self, path: Path, name: str, body: str, options: Mapping[str, Any] | None) -> jinja2.Template:
        """The compiled template of a state file, with the options that it asks for."""
        if self.environment is None:
            self.environment = environment(self.loader, marks=True)
        METER.begin()
        if options is None:
            return self.environment.get_template(name)
        made = self.environment.overlay(**options)
        return made.template_class.from_code(made, made.compile(body, name, str(path)), made.make_globals(None))

    def _texts(self) -> dict[str, str]:
        return {str(path): known.text for path, known in self.loader.tree.read_files.items()}


def split_shebang(text: Text) -> tuple[tuple[str, ...], str]:
    """The renderers that a file asks for, and its text, in which that line is a comment or (for JSON) blank.

    Raises `CompileError` for renderers that there are not.
    """
    first, newline, rest = text.text.partition("\n")
    if not first.startswith("#!") or first.startswith("#!/"):
        return PIPES[0], text.text
    pipe = tuple(part.split()[0] if part.split() else "" for part in first[2:].split("|"))
    if pipe in PIPES:
        return pipe, newline + rest
    unknown = next((name for name in pipe if name not in ("jinja", "yaml", "json")), "|".join(pipe))
    hint = (
        "state files never run as programs: write the loop in Jinja, or a kind in Python"
        if unknown.startswith("py")
        else f"use one of {', '.join('#!' + '|'.join(known) for known in PIPES)}"
    )
    raise CompileError([Problem(Place(str(text.path), 1), "renderer-unknown", f"there is no renderer {unknown!r}", hint, first)])


OPTIONS = "#jinja2:"
"""How the line begins in which a template chooses options of Jinja: the first one, or the one after `#!`."""
CHOICES = (
    *(f"{kind}_{end}_string" for kind in ("block", "variable", "comment") for end in ("start", "end")),
    *("line_statement_prefix", "line_comment_prefix", "trim_blocks", "lstrip_blocks", "newline_sequence", "keep_trailing_newline"),
)
"""What it may choose."""


def template_options(text: str, file: str) -> tuple[dict[str, Any] | None, str]:
    """The options of Jinja that a text asks for (None: it does not), and the text with that line empty.

    Raises `CompileError` for a line that is no JSON mapping of options.
    """
    lines = text.split("\n", 2)
    at = int(len(lines) > 1 and lines[0].startswith("#!") and not lines[0].startswith("#!/"))
    asked = lines[at].removeprefix(OPTIONS).strip()
    if not lines[at].startswith(OPTIONS) or not asked:
        return None, text
    try:
        options = json.loads(asked)
    except ValueError:
        options = None
    wrong = [name for name in options if name.lower() not in CHOICES] if isinstance(options, dict) else [asked]
    if wrong:
        hint = 'write it like #jinja2: {"trim_blocks": true}; there are: ' + ", ".join(CHOICES)
        raise CompileError(
            [Problem(Place(file, at + 1), "template-options", f"these are no options of Jinja: {wrong[0]}", hint, lines[at])]
        )
    lines[at] = ""
    return {name.lower(): value for name, value in options.items()}, "\n".join(lines)


def sls_variables(sls: str, name: str) -> dict[str, str]:
    """What a state file is told about itself. `name` is its path from the root."""
    directory = posixpath.dirname(name)
    return {
        "sls": sls,
        "slspath": directory,
        "slsdotpath": directory.replace("/", "."),
        "slscolonpath": directory.replace("/", ":"),
        "sls_path": directory.replace("/", "_"),
        "tplpath": name,
        **file_variables(name),
    }


def render_text(
    text: str,
    *,
    name: str,
    variables: Mapping[str, Any],
    grains: Mapping[str, Any],
    pillar: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    read: set[str] | None = None,
    tree: Tree | None = None,
) -> str:
    """Render the template of a managed file, in the sandbox.

    `name` is what the template is called in errors. It sees salt, grains, pillar, opts and `variables`; `read` is given the names
    of the grains that it has read; `tree` is what it may import from, seen anew each time. Raises `CompileError` with the template's line.
    """
    options, root = options or {}, None if tree is None else tree.root
    world = World(grains, pillar, options, str(grains.get("id", "")), str(options.get("saltenv", "base")), tree).copy()
    context = {**world.variables(), **variables}
    context[GIVEN] = tuple(context)
    chosen, body = template_options(text, name)
    made = _environment(root) if chosen is None else _environment(root).overlay(**chosen)
    if made.loader is not None and isinstance(made.loader, TreeLoader) and tree is not None:
        made.loader.begin(tree)
    METER.begin()
    try:
        template = _template(text, root) if chosen is None else made.from_string(body.replace("\n", "", 1))
        return template.render(context) + "\n" * text.endswith("\n")
    except Exception as error:
        problem = explain(error, "<template>", {"<template>": text, "<unknown>": text}, context)
        line = problem.place.line + (chosen is not None)
        place = Place(name, line) if problem.place.file.startswith("<") else problem.place
        raise CompileError([Problem(place, problem.code, problem.message, problem.hint, problem.text)]) from error
    finally:
        if read is not None:
            read |= world.read


def syntax_problem(text: Text) -> Problem | None:
    """Why the template of a managed file cannot be read, without running it; None when it can."""
    file = str(text.path)
    try:
        chosen, body = template_options(text.text, file)
        (_environment(None) if chosen is None else _environment(None).overlay(**chosen)).from_string(body)
    except CompileError as error:
        return error.problems[0]
    except (jinja2.TemplateSyntaxError, RecursionError, ValueError, SyntaxError) as error:
        problem = explain(error, file, {file: text.text}, ())
        return replace(problem, place=Place(file, problem.place.line))  # Jinja has names of its own for a text
    return None


@lru_cache(maxsize=8)
def _environment(root: Path | None) -> StateEnvironment:
    return environment(None if root is None else TreeLoader(Tree(root)), marks=False)


@lru_cache(maxsize=256)
def _template(text: str, root: Path | None) -> jinja2.Template:
    return _environment(root).from_string(text)
