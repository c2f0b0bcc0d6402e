"""What templates see of the host: grains, pillar, settings. The calls that they may make are in `helpers`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.states.grains import Grains, unnoted
from holdfast.states.source import Tree


@dataclass(slots=True)
class World:
    """One host, as templates of one tree see it."""

    grains: Mapping[str, Any] = field(default_factory=dict)
    pillar: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    minion_id: str = ""
    env: str = "base"
    tree: Tree | None = None
    """The directory that `import` and `include` begin at; None: there is none."""
    looked: bool = False
    """A template has asked for something that may change without any file changing."""
    asked: set[str] = field(default_factory=set)
    """Modules whose calls it has made, each as `CALLS` and its name."""
    render: Callable[..., str] | None = None
    """Renders a text as a template that sees the same, for calls that do; whoever renders a template with this world says how."""
    _frozen: tuple[bytes, bytes, str] | None = None
    """The grains, the rest, and the digest of that."""

    def _freeze(self) -> tuple[bytes, bytes, str]:
        """All data as they are when the first template asks for them."""
        import pickle  # noqa: PLC0415 - only templates need it

        if self._frozen is None:
            rest = pickle.dumps((dict(self.pillar), dict(self.options)))
            digest = hashlib.sha256(rest + repr((self.minion_id, self.env)).encode()).hexdigest()
            self._frozen = pickle.dumps(unnoted(self.grains)), rest, digest
        return self._frozen

    @property
    def digest(self) -> str:
        """Stands for all data but the grains, which each copy notes the reading of."""
        return self._freeze()[2]

    def copy(self) -> World:
        """A copy for one template, which may change it without others seeing that."""
        import pickle  # noqa: PLC0415 - only templates need it

        frozen_grains, frozen_rest, _ = self._freeze()
        grains, (pillar, options) = pickle.loads(frozen_grains), pickle.loads(frozen_rest)  # noqa: S301 - bytes that _freeze() has made
        return World(Grains(grains), pillar, options, self.minion_id, self.env, self.tree)

    @property
    def read(self) -> set[str]:
        """Names of the grains that the template of this copy has read, and the modules that it has called."""
        return self.asked | self.grains.read if isinstance(self.grains, Grains) else self.asked

    def opts(self) -> dict[str, Any]:
        """The settings as templates see them, with those of Salt's that have a meaning here."""
        roots = {self.env: [str(self.tree.root)]} if self.tree is not None else {}
        known = {
            "id": self.minion_id,
            "saltenv": self.env,
            "pillarenv": self.env,
            "environment": self.env,
            "file_client": "local",
            "__cli": "salt-call",
        }
        return {**known, "file_roots": roots, "grains": self.grains, "pillar": self.pillar, **self.options}


class TemplateStop(Exception):
    """`raise('text')` in a template."""


class Forbidden(ValueError):
    """A template wants what templates may not; `hint` says what to do instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


Helper = Callable[..., Any]
"""A call of the table: takes the world first, then what the template gives."""
