"""Renders state files to data: Jinja with its context, then YAML or JSON, as the first line of the file asks.

Text without Jinja is not passed to Jinja. Results are cached, and reused while the file and everything that its
rendering depended on (templates, grains, pillar, settings) are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.states.parse.line_breaks import by_yaml_lines, has_odd_breaks
from holdfast.states.parse.loader import parse_json, parse_yaml
from holdfast.states.parse.marks import Document
from holdfast.states.source.files import Text, Tree
from holdfast.states.template.firstline import OPTIONS, split_shebang
from holdfast.states.template.imports import Imports
from holdfast.states.view.grains import seen
from holdfast.states.view.host_view import HostView

if TYPE_CHECKING:
    from holdfast.states.template.jinja import StateTemplates

SPENT: Any = object()
"""Stands for data that was dropped."""


class Rendered(NamedTuple):
    """The data of one file, and its dependencies."""

    document: Document
    data: Any
    digest: str
    sls: str
    view: str = ""
    """Digest of the view without its grains; empty if no template was run."""
    grains: Mapping[str, str] = {}
    """Grains that the template has read: name -> value."""
    used: Mapping[str, str | None] = {}
    """Templates: name -> digest."""
    stable: bool = True
    """False: a template has read something that may change at any time."""


class Renderer:
    """Renders the files of one directory at each change."""

    def __init__(self, root: Path, *, secret: bool = False, lenient: Sequence[str] = ()) -> None:
        self.imports = Imports(Tree(root))
        self.secret = secret
        self._lenient = lenient
        self.view = HostView()
        self._kept: dict[Path, Rendered] = {}
        self._templates: StateTemplates | None = None
        self.renders = 0
        """Number of files that were rendered and parsed, not counting cached results."""

    def begin(self, tree: Tree, view: HostView) -> None:
        """Start a new compilation, which reads files through `tree`."""
        self.imports.begin(tree)
        self.view = view

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that the templates of the last compilation have read."""
        return frozenset(name for kept in self._kept.values() for name in kept.grains)

    def end(self) -> None:
        """Drop the results of files that no longer exist."""
        self._kept = {path: kept for path, kept in self._kept.items() if path in self.imports.tree.read_files}

    def render(self, path: Path, sls: str, spent: Rendered | None = None) -> Rendered:
        """Return the data of a file. Raises `CompileError`.

        `spent` may be returned if it would be rendered to the same data, even though its data was dropped.
        """
        text = self.imports.tree.read(path)
        kept = self._kept.get(path)
        if kept is None or not self._still(kept, text, sls) or (kept.data is SPENT and kept is not spent):
            kept = self._kept[path] = self._render(text, sls)
            self.renders += 1
        return kept

    def render_with(self, path: Path, sls: str, variables: Mapping[str, Any]) -> Rendered:
        """Render a file whose template sees more variables. The result is not cached."""
        return self._render(self.imports.tree.read(path), sls, variables)

    def spend(self, path: Path) -> Rendered:
        """Drop the data of a file after it was used, because it takes most of the memory."""
        spent = self._kept[path] = self._kept[path]._replace(data=SPENT)
        return spent

    def _still(self, kept: Rendered, text: Text, sls: str) -> bool:
        """Return whether rendering again would give the same result."""
        if (kept.digest, kept.sls) != (text.digest, sls) or not kept.stable:
            return False
        if not kept.view:
            return True
        if kept.view != self.view.digest or any(self.imports.digest(name) != was for name, was in kept.used.items()):
            return False
        return kept.grains == seen(self.view.grains, kept.grains)

    def _is_lenient(self, sls: str) -> bool:
        return any(fnmatchcase(sls, pattern) for pattern in self._lenient)

    def _render(self, text: Text, sls: str, more: Mapping[str, Any] | None = None) -> Rendered:
        pipe, body = split_shebang(text)
        parse = parse_json if pipe[-1] == "json" else parse_yaml
        if "jinja" not in pipe or not any(mark in body for mark in ("{{", "{%", "{#", OPTIONS)):
            file = str(text.path)
            lines = (
                by_yaml_lines(body, ((file, line) for line in count(1)))
                if parse is parse_yaml and has_odd_breaks(body)
                else None
            )
            document = Document(file, text.text, lines, secret=self.secret, lenient=self._is_lenient(sls))
            return Rendered(document, parse(document, body), text.digest, sls)
        if self._templates is None:
            from holdfast.states.template.jinja import StateTemplates  # noqa: PLC0415 - slow to import

            self._templates = StateTemplates(self.imports, secret=self.secret)
        view = self.view.copy()
        document, rendered, used = self._templates.run(text, sls, more or {}, view)
        document = replace(document, lenient=self._is_lenient(sls))
        if parse is parse_json and rendered.startswith("#!"):
            rendered = rendered[rendered.find("\n") :]
        return Rendered(
            document,
            parse(document, rendered),
            text.digest,
            sls,
            self.view.digest,
            seen(self.view.grains, view.read),
            used,
            not view.looked,
        )
