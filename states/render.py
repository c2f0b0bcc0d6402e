"""From a state file to its data: which renderers it asks for, Jinja with its context, then YAML or JSON.

A text without Jinja never meets Jinja. What was rendered and parsed is kept, and used again as long as the file and all
that its rendering depended on (templates, grains, pillar, settings) are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.states.firstline import OPTIONS, split_shebang
from holdfast.states.grains import seen
from holdfast.states.host_view import HostView
from holdfast.states.imports import Imports
from holdfast.states.line_breaks import by_yaml_lines, has_odd_breaks
from holdfast.states.marks import Document
from holdfast.states.parse import parse_json, parse_yaml
from holdfast.states.source import Text, Tree

if TYPE_CHECKING:
    from holdfast.states.jinja import StateTemplates

SPENT: Any = object()
"""Stands for data that are gone."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The data of one file, and what they depended on."""

    document: Document
    data: Any
    digest: str
    sls: str
    view: str = ""
    """Digest of the view but for the grains; empty when no template was run."""
    grains: Mapping[str, str] = field(default_factory=dict)
    """Those that the template has read: name -> what it was."""
    used: Mapping[str, str | None] = field(default_factory=dict)
    """Templates: name -> digest."""
    stable: bool = True
    """False: a template looked at something that may change at any time."""


class Renderer:
    """Renders the files of one directory, again and again as they change."""

    def __init__(self, root: Path, *, secret: bool = False, lenient: Sequence[str] = ()) -> None:
        self.imports = Imports(Tree(root))
        self.secret = secret
        self._lenient = lenient
        self.view = HostView()
        self._digest = ""
        self._kept: dict[Path, Rendered] = {}
        self._templates: StateTemplates | None = None
        self.renders = 0
        """How many files were rendered and parsed rather than taken from what was kept."""

    def begin(self, tree: Tree, view: HostView) -> None:
        """Start a new compilation: files are seen through `tree`."""
        self.imports.begin(tree)
        self.view = view
        self._digest = view.freeze()

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that the templates of the last compilation have read."""
        return frozenset(name for kept in self._kept.values() for name in kept.grains)

    def end(self) -> None:
        """Forget what files that are gone were rendered to."""
        self._kept = {path: kept for path, kept in self._kept.items() if path in self.imports.tree.read_files}

    def render(self, path: Path, sls: str, spent: Rendered | None = None) -> Rendered:
        """The data of a file. Raises `CompileError`. `spent` is good enough if the same would come out, though its data are gone."""
        text = self.imports.tree.read(path)
        kept = self._kept.get(path)
        if kept is None or not self._still(kept, text, sls) or (kept.data is SPENT and kept is not spent):
            kept = self._kept[path] = self._render(text, sls)
            self.renders += 1
        return kept

    def render_with(self, path: Path, sls: str, variables: Mapping[str, Any]) -> Rendered:
        """The same, for a file whose template sees more variables; it is rendered each time."""
        return self._render(self.imports.tree.read(path), sls, variables)

    def spend(self, path: Path) -> Rendered:
        """Let go of the data of a file: they have been used, and are most of what is kept."""
        spent = self._kept[path] = replace(self._kept[path], data=SPENT)
        return spent

    def _still(self, kept: Rendered, text: Text, sls: str) -> bool:
        """Whether rendering again would give the same."""
        if (kept.digest, kept.sls) != (text.digest, sls) or not kept.stable:
            return False
        if not kept.view:
            return True
        if kept.view != self._digest or any(self.imports.digest(name) != was for name, was in kept.used.items()):
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
            from holdfast.states.jinja import StateTemplates  # noqa: PLC0415 - a text without Jinja never meets Jinja

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
            self._digest,
            seen(self.view.grains, view.read),
            used,
            not view.looked,
        )
