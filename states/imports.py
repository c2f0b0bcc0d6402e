"""The templates of a tree that renderings use, and whether they are still the same."""

from __future__ import annotations

from holdfast.states.errors import CompileError
from holdfast.states.source import Text, Tree


class Imports:
    """Keeps book of which templates a rendering has used.

    `used` has name -> digest of its content (None: it was looked for in vain).
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.used: dict[str, str | None] = {}
        self._digests: dict[str, str | None] = {}

    def begin(self, tree: Tree) -> None:
        """Start a new compilation: files are seen through `tree`."""
        self.tree = tree
        self._digests.clear()

    def digest(self, name: str) -> str | None:
        """What a template contains now; None when it cannot be read."""
        if name not in self._digests:
            try:
                self._digests[name] = self._text(name).digest
            except (OSError, CompileError):
                self._digests[name] = None
        return self._digests[name]

    def read(self, name: str) -> Text:
        """A template that is used. Raises `OSError` and `CompileError`."""
        self.used[name] = None
        text = self._text(name)
        self.used[name] = text.digest
        return text

    def still(self, name: str, digest: str) -> bool:
        """Whether a template that is used again is the same."""
        self.used[name] = self.digest(name)
        return self.used[name] == digest

    def _text(self, name: str) -> Text:
        path = self.tree.template(name)
        if not self.tree.has(path):
            raise FileNotFoundError(name)
        return self.tree.read(path)
