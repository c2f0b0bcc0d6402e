"""The data of the host that templates see: grains, pillar, settings.

The functions that they may call are in `helpers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.states.source.files import Tree
from holdfast.states.view.grains import Grains, unnoted


@dataclass(slots=True, eq=False, repr=False)
class HostView:
    """The data of one host that templates of one states directory see."""

    grains: Mapping[str, Any] = field(default_factory=dict)
    pillar: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    minion_id: str = ""
    env: str = "base"
    tree: Tree | None = None
    """The directory at which `import` and `include` begin; None: there is none."""
    looked: bool = False
    """A template has read something that may change although no file changes."""
    asked: set[str] = field(default_factory=set)
    """Modules whose functions the template has called, each as `CALLS` and its name."""
    render: Callable[..., str] | None = None
    """Renders a text with the same data, for helpers that render text. The renderer of the template sets it."""
    _frozen: tuple[bytes, bytes, str] | None = None
    """Pickled grains, the pickled rest, and the digest of the rest."""

    def _freeze(self) -> tuple[bytes, bytes, str]:
        """Pickle the present data when the first template needs them."""
        import pickle  # noqa: PLC0415 - only templates need it

        if self._frozen is None:
            rest = pickle.dumps((dict(self.pillar), dict(self.options)))
            digest = hashlib.sha256(rest + repr((self.minion_id, self.env)).encode()).hexdigest()
            self._frozen = pickle.dumps(unnoted(self.grains)), rest, digest
        return self._frozen

    @property
    def digest(self) -> str:
        """A digest of everything but the grains. Copies record which grains they read."""
        return self._freeze()[2]

    def copy(self) -> HostView:
        """Return a copy for one template, which may change its data without an effect on other templates."""
        import pickle  # noqa: PLC0415 - only templates need it

        frozen_grains, frozen_rest, _ = self._freeze()
        # _freeze() has made both
        grains, (pillar, options) = pickle.loads(frozen_grains), pickle.loads(frozen_rest)  # noqa: S301
        return HostView(Grains(grains), pillar, options, self.minion_id, self.env, self.tree)

    @property
    def read(self) -> set[str]:
        """Names of the grains, and of the modules of functions, that the template of this copy has used."""
        return self.asked | self.grains.read if isinstance(self.grains, Grains) else self.asked

    def opts(self) -> dict[str, Any]:
        """Return the settings that templates see as `opts`, with the settings of Salt that have a meaning here."""
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
    """A template does something that templates may not do; `hint` gives an alternative."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


Helper = Callable[..., Any]
"""A function that templates call; its first argument is the `HostView`, the others come from the template."""
