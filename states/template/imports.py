"""Keeps track of the templates that renderings use, and of their changes."""

from __future__ import annotations

from holdfast.states.errors import CompileError
from holdfast.states.source.files import Text, Tree


class Imports:
    """Records which templates a rendering uses.

    `used` maps a name to the digest of its content (None: the template does not exist).
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.used: dict[str, str | None] = {}
        self._digests: dict[str, str | None] = {}

    def begin(self, tree: Tree) -> None:
        """Start a new compilation, which reads files through `tree`."""
        self.tree = tree
        self._digests.clear()

    def digest(self, name: str) -> str | None:
        """Return the digest of a template now; None if it cannot be read."""
        if name not in self._digests:
            try:
                self._digests[name] = self._text(name).digest
            except (OSError, CompileError):
                self._digests[name] = None
        return self._digests[name]

    def read(self, name: str) -> Text:
        """Read a template and record its use. Raises `OSError` and `CompileError`."""
        self.used[name] = None
        text = self._text(name)
        self.used[name] = text.digest
        return text

    def still(self, name: str, digest: str) -> bool:
        """Record the use of a cached template; returns whether it is unchanged."""
        self.used[name] = self.digest(name)
        return self.used[name] == digest

    def _text(self, name: str) -> Text:
        path = self.tree.template(name)
        if not self.tree.has(path):
            raise FileNotFoundError(name)
        return self.tree.read(path)
