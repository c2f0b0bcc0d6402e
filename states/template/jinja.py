"""Runs templates of state files, whose lines are tracked, and of managed files.

This module is imported for the first text that contains Jinja.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from holdfast.resources.errors import RAISED
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.helpers.template_names import variables as given
from holdfast.states.parse.line_breaks import by_yaml_lines, has_odd_breaks
from holdfast.states.parse.line_marks import split_marks
from holdfast.states.parse.marks import Document
from holdfast.states.source.files import Text, Tree
from holdfast.states.template.environment import (
    GIVEN,
    StateEnvironment,
    TreeLoader,
    environment,
    explain,
    file_variables,
)
from holdfast.states.template.firstline import template_options
from holdfast.states.template.imports import Imports
from holdfast.states.view.budget import METER
from holdfast.states.view.host_view import HostView


def names_for(view: HostView) -> dict[str, Any]:
    """Return the names that every template with this view can use."""
    view.render = render_text
    return given(view)


class StateTemplates:
    """Templates of state files that are read through `imports`."""

    def __init__(self, imports: Imports, *, secret: bool) -> None:
        self.imports = imports
        self.secret = secret
        self._environment: StateEnvironment | None = None

    def run(
        self, text: Text, sls: str, own: Mapping[str, Any], view: HostView
    ) -> tuple[Document, str, dict[str, str | None]]:
        """Run the template; returns its document, the rendered text, and the templates that it has used.

        Raises `CompileError` with the line of the error.
        """
        root = self.imports.tree.root
        name, file = text.path.relative_to(root).as_posix(), str(text.path)
        variables = {**names_for(view), **sls_variables(sls, name), **own}
        variables[GIVEN] = tuple(variables)
        self.imports.used = {}
        options, body = template_options(text.text, file)
        try:
            marked = self._template(text.path, name, body, options).render(variables) + "\n" * text.text.endswith("\n")
        except RAISED as error:  # helpers call providers, which may be foreign code
            raise CompileError(
                [explain(error, file, self._texts(), variables, secret=self.secret, tree=self.imports.tree)]
            ) from error
        rendered, origins = split_marks(marked, name)
        files = {used: str(root / used) for used in {origin for origin, _ in origins}}
        lines = [(files[origin], line) for origin, line in origins]
        if has_odd_breaks(rendered):
            lines = by_yaml_lines(rendered, lines)
        others = self._texts() if len(files) > 1 else {}
        used = {used: digest for used, digest in self.imports.used.items() if used != name}
        return Document(file, text.text, lines, others, secret=self.secret), rendered, used

    def _template(self, path: Path, name: str, body: str, options: Mapping[str, Any] | None) -> jinja2.Template:
        """Return the compiled template of a state file, with the options that the file sets."""
        if self._environment is None:
            self._environment = environment(TreeLoader(self.imports), marks=True)
        METER.begin()
        if options is None:
            return self._environment.get_template(name)
        made = self._environment.overlay(**options)
        return made.template_class.from_code(made, made.compile(body, name, str(path)), made.make_globals(None))

    def _texts(self) -> dict[str, str]:
        return {str(path): known.text for path, known in self.imports.tree.read_files.items()}


def sls_variables(sls: str, name: str) -> dict[str, str]:
    """Return variables that describe the state file itself. `name` is its path from the root."""
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

    `name` is the name of the template in errors. It sees salt, grains, pillar, opts and `variables`. The names of
    grains that it reads are added to `read`. It may import templates from `tree`, which is read anew each time; if
    `name` is a file of the tree (`salt://...`), `./x` is beside that file. Raises `CompileError` with the line of the
    error.
    """
    options, root = options or {}, None if tree is None else tree.root
    view = HostView(
        grains, pillar, options, str(grains.get("id", "")), str(options.get("saltenv", "base")), tree
    ).copy()
    context = {**names_for(view), **variables}
    context[GIVEN] = tuple(context)
    chosen, body = template_options(text, name)
    made = _environment(root) if chosen is None else _environment(root).overlay(**chosen)
    if made.loader is not None and isinstance(made.loader, TreeLoader) and tree is not None:
        made.loader.imports.begin(tree)
    METER.begin()
    try:
        own = _name_in_tree(name)
        template = _template(text, own, root) if chosen is None else _compiled(made, body.replace("\n", "", 1), own)
        return template.render(context) + "\n" * text.endswith("\n")
    except RAISED as error:
        problem = explain(error, "<template>", {"<template>": text, "<unknown>": text}, context, tree=tree)
        line = problem.location.line + (chosen is not None)
        location = Location(name, line) if problem.location.file.startswith("<") else problem.location
        raise CompileError([Problem(location, problem.code, problem.message, problem.hint, problem.text)]) from error
    finally:
        if read is not None:
            read |= view.read


def syntax_problem(text: Text, name: str | None, root: Path | None = None) -> Problem | None:
    """Return the syntax error of the template of a managed file, without running it; None if it is valid.

    `name` is its path from `root`; None if it is not a file there. The compiled template is cached for `render_text`.
    """
    file = str(text.path)
    try:
        chosen, body = template_options(text.text, file)
        _template(text.text, name, root) if chosen is None else _environment(root).overlay(**chosen).from_string(body)
    except CompileError as error:
        return error.problems[0]
    except (jinja2.TemplateSyntaxError, RecursionError, ValueError, SyntaxError) as error:
        problem = explain(error, file, {file: text.text}, ())
        return problem._replace(location=Location(file, problem.location.line))  # Jinja names a text '<template>'
    return None


@lru_cache(maxsize=8)
def _environment(root: Path | None) -> StateEnvironment:
    return environment(None if root is None else TreeLoader(Imports(Tree(root))), marks=False)


@lru_cache(maxsize=256)
def _template(text: str, name: str | None, root: Path | None) -> jinja2.Template:
    return _compiled(_environment(root), text, name)


def _compiled(made: jinja2.Environment, text: str, name: str | None) -> jinja2.Template:
    """Return the template of a text.

    Relative names in it begin at the directory of `name`; without one, at the root.
    """
    return made.template_class.from_code(made, made.compile(text, name), made.make_globals(None))


def _name_in_tree(name: str) -> str | None:
    """Return the path of a source from the root of the states directory; None for a text from elsewhere."""
    scheme, separator, path = name.partition("://")
    return path.partition("?")[0].lstrip("/") if separator and scheme in ("salt", "tree") else None
