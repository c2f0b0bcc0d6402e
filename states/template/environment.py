"""The Jinja environment: sandboxed, strict about undefined names, with templates from the states directory only."""

from __future__ import annotations

import posixpath
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from jinja2.environment import TemplateModule
from jinja2.runtime import Context
from jinja2.utils import missing

from holdfast.resources.errors import HoldfastError
from holdfast.resources.expressions import Unbounded
from holdfast.resources.lookup import near_name
from holdfast.resources.spelling import nearest
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.filters.formats import readable
from holdfast.states.filters.table import FILTERS, TESTS
from holdfast.states.helpers.calls import NoSuchCall
from holdfast.states.parse.line_masking import mask_line
from holdfast.states.source.extensions import grain_of
from holdfast.states.source.files import Tree
from holdfast.states.template.bounded import BoundedEnvironment
from holdfast.states.template.imports import Imports
from holdfast.states.template.tags import DataTags, LineMarks
from holdfast.states.template.unclosed_tags import unclosed_tag
from holdfast.states.view.budget import Spent, check_data
from holdfast.states.view.grains import Grains
from holdfast.states.view.host_view import Forbidden, TemplateStop

_READER = jinja2.Environment()  # noqa: S701 - it only splits a text into words
CACHED = 2000
"""Maximum number of compiled templates in the cache."""

WHOLE = r"(?<![\w.\])])[A-Za-z_]\w*(?:\.\w+|\[[^\[\]]*\])*"
"""A name with its attributes and keys."""
COMPUTED = r"\[(?!\s*(?:'[^']*'|\"[^\"]*\"|\d+)\s*\])"
"""A key that is computed."""
GIVEN = " given"
"""Key of a context with the names that every file gets. It contains a space, so that no template can use it."""


def file_variables(name: str) -> dict[str, str]:
    """Return variables that describe the template itself. `name` is its path from the root."""
    directory = posixpath.dirname(name)
    return {"tpldir": directory or ".", "tplfile": name, "tpldot": directory.replace("/", ".")}


class TreeLoader(jinja2.BaseLoader):
    """Loads templates of a states directory."""

    def __init__(self, imports: Imports) -> None:
        self.imports = imports

    def get_source(
        self,
        environment: jinja2.Environment,  # noqa: ARG002 - of Jinja
        template: str,
    ) -> tuple[str, str, Callable[[], bool]]:
        """Return the text of a template, its path, and a function that tells whether it is unchanged."""
        try:
            text = self.imports.read(template)
        except OSError as error:
            raise jinja2.TemplateNotFound(template) from error
        return text.text, str(text.path), lambda: self.imports.still(template, text.digest)


class FreshTemplate(jinja2.Template):
    """A template that each `import` runs again.

    Jinja would run the template once and reuse its variables while its own text is unchanged. One file would then see
    changes that another file made to its lists, and changes of templates that it imports itself would be missed.
    """

    def _get_default_module(self, ctx: Context | None = None) -> TemplateModule:
        """Return the module for `import` without context.

        The template sees the names of every file, and its own variables.
        """
        if ctx is None:
            return self.make_module({})
        given = {name: ctx.parent[name] for name in ctx.parent.get(GIVEN, ()) if name in ctx.parent}
        if "tpldir" in given and self.name is not None:
            given.update(file_variables(self.name))
        return self.make_module({**given, GIVEN: ctx.parent.get(GIVEN, ())})


class NoSuchKey(jinja2.UndefinedError):
    """A template uses a key that a mapping does not have."""

    def __init__(self, _: str, mapping: Mapping[Any, Any], name: Any) -> None:
        super().__init__(f"the mapping has no key {name!r}")
        self.mapping, self.name = mapping, name


class Undefined(jinja2.StrictUndefined):
    """The value of an undefined name or key. Any use raises an error, which has the mapping that lacks the key."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: Any = None,
        exc: Callable[[str], Exception] | None = None,
    ) -> None:
        told = (
            partial(NoSuchKey, mapping=obj, name=name)
            if isinstance(obj, Mapping) and hint is None
            else jinja2.UndefinedError
        )
        super().__init__(hint, obj, name, exc or told)  # type: ignore[arg-type]  # Jinja calls it with a message


class StateEnvironment(BoundedEnvironment):
    """The Jinja environment of state files.

    Relative names (`./x`, `../x`) begin at the directory of the importing template.
    """

    template_class = FreshTemplate

    def join_path(self, template: str, parent: str) -> str:
        """Return the name of a template from the root of the states directory."""
        template = template.removeprefix("salt://").removeprefix("tree://")
        if template.startswith(("./", "../")):
            return posixpath.normpath(posixpath.join(posixpath.dirname(parent), template))
        return template


def environment(loader: jinja2.BaseLoader | None, *, marks: bool) -> StateEnvironment:
    """Return a new environment; with `marks`, it keeps track of the lines of rendered text."""
    extensions: list[Any] = ["jinja2.ext.do", "jinja2.ext.loopcontrols", DataTags, *([LineMarks] if marks else [])]
    made = StateEnvironment(
        loader=loader, extensions=extensions, undefined=Undefined, finalize=printed, cache_size=CACHED
    )
    made.filters.update(FILTERS)
    made.bound_filters()
    del made.globals["lipsum"]  # prints a different text each time, of any length
    made.tests.update({name: test for name, test in TESTS.items() if name not in made.tests})
    return made


def printed(value: Any) -> Any:
    """Convert a value that a template prints to text that YAML can read.

    Raises `TypeError` for a value that has only a representation of Python, which differs in each run.
    """
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Iterator):
        raise TypeError("an iterator has no text: make a list of it, with the filter 'list'")
    if callable(value) and not isinstance(value, jinja2.Undefined):
        raise TypeError("a function has no text: call it, with '()' after its name")
    check_data((value,))
    return readable(value)


def explain(
    error: BaseException,
    file: Path | str,
    texts: Mapping[str, str],
    names: Iterable[str],
    *,
    secret: bool = False,
    tree: Tree | None = None,
) -> Problem:
    """Return the problem for an exception while `file` was rendered.

    `texts` has the text of each template by its path.
    """
    location = template_place(error, str(file), texts)
    code, message, hint = _words(error, list(names), tree)
    if isinstance(error, jinja2.TemplateSyntaxError) and (
        told := unclosed_tag(_READER, error.source or texts.get(location.file, ""), error)
    ):
        location, message, hint = location._replace(line=told[0]), f"the template cannot be parsed: {told[1]}", ""
    lines = texts.get(location.file, "").split("\n")
    line = lines[location.line - 1].rstrip("\r") if 0 < location.line <= len(lines) else ""
    text = mask_line(line[:500]) if secret else line
    if secret and code in ("template-data", "template-error"):
        message, hint = f"the template failed: {type(error).__name__}", ""  # the message may contain secret data
    if isinstance(error, jinja2.UndefinedError) and text:
        column, whole = _pinned(str(error), line[:500])
        location = Location(location.file, location.line, column)
        message = message.replace("the mapping has", f"the mapping {whole} has") if whole else message
    return Problem(location, code, message, hint, text[:500])


def template_place(error: BaseException, file: str, texts: Mapping[str, str]) -> Location:
    """Return the innermost line of a template in the traceback of an error."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return Location(error.filename or file, error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    return next(
        (Location(frame.filename, frame.lineno or 0) for frame in reversed(frames) if frame.filename in texts),
        Location(file),
    )


def _words(error: BaseException, names: list[str], tree: Tree | None) -> tuple[str, str, str]:  # noqa: C901, PLR0912
    """Return the code, message and hint for an error of a template."""
    said = str(error)
    match error:
        case jinja2.TemplateSyntaxError():
            words = (
                "template-syntax",
                f"the template cannot be parsed: {error.message}",
                _syntax_hint(error.message or ""),
            )
        case jinja2.TemplateNotFound():
            words = (
                "template-missing",
                f"there is no template {error.name or said}",
                "paths begin at the states directory; './x' is in the directory of this file",
            )
        case jinja2.UndefinedError():
            words = (
                "template-undefined",
                f"the template uses an undefined name or key: {said}",
                _undefined_hint(error, names, tree),
            )
        case jinja2.exceptions.SecurityError():
            words = "template-forbidden", f"templates may not do this: {said}", ""
        case NoSuchCall():
            words = "template-call", said, error.hint
        case Forbidden():
            words = "template-forbidden", said, error.hint
        case TemplateStop():
            words = "template-raise", f"the template stops: {said}", ""
        case CompileError():
            words = "template-data", "; ".join(problem.message for problem in error.problems), error.problems[0].hint
        case Spent() | Unbounded():
            words = (
                "template-limit",
                f"the template is stopped: {said}",
                "look for nested loops, macros that call themselves, and lists that contain each other many times",
            )
        case RecursionError():
            words = "template-error", "the template includes or calls itself without end, or is nested too deeply", ""
        case HoldfastError():
            words = "template-error", f"the template failed: {said}", ""
        case SyntaxError():  # Jinja's generated code is not valid Python
            words = "template-error", f"the template cannot be run: {error.msg}", "nest it less deeply"
        case _:
            words = "template-error", f"the template failed: {type(error).__name__}: {said}", ""
    return words


def _syntax_hint(message: str) -> str:
    known = re.search(r"No (filter|test) named '(\w+)'", message)
    if known:
        near = nearest(known[2], FILTERS if known[1] == "filter" else TESTS)
        return f"did you mean {near}?" if near else ""
    return "look for a tag that is not closed" if "end of" in message or "unexpected" in message else ""


def _pinned(message: str, line: str) -> tuple[int, str]:
    """Return the column of an undefined name or key in its line, and the expression that lacks the key.

    Returns 0 and "" if they are not certain.
    """
    missing = re.match(r"'(\w+)' is undefined|the mapping has no key '(.*)'", message)
    if missing is None or re.search(COMPUTED, line):
        return 0, ""
    name, key = missing[1], re.escape(missing[2] or "")
    word = rf"(?<![\w.'\"]){name}(?![\w'\"])" if name else rf"\.{key}(?!\w)|\[\s*(?:'{key}'|\"{key}\")\s*\]"
    found = [
        use.start() for use in re.finditer(word, line) if re.search(r"\{[{%](?:(?![%}]\}).)*$", line[: use.start()])
    ]
    if len(found) != 1:
        return 0, ""
    before = None if name else re.search(rf"{WHOLE}$", line[: found[0]])
    return (before.start() + 1, before[0]) if before else (found[0] + 1, "")


def _undefined_hint(error: jinja2.UndefinedError, names: list[str], tree: Tree | None) -> str:
    if isinstance(error, NoSuchKey):
        known = near_name(error.mapping, str(error.name))
        near = known and repr(known)
        if isinstance(error.mapping, Grains) and (module := grain_of(tree, str(error.name))):
            return module
    else:
        name = re.match(r"'(\w+)' is undefined", str(error))
        near = nearest(name[1], names) if name else None
    return (
        f"did you mean {near}?"
        if near
        else "give a default: salt['pillar.get']('a:b', 'value'), or {{ x | default('value') }}"
    )
