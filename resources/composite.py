"""Composite kinds: a composite lists its parts, which are resources of other kinds and do the work.

    class Site(Composite, kind="site.up"):
        port: int = 80

        def parts(self) -> Sequence[Part]:
            return (
                Part("server", "pkg.installed", {"name": "nginx"}),
                Part("config", "file.managed", {"name": "/etc/nginx/conf.d/x.conf", "contents": f"listen {self.port}"}),
                Part("service", "service.running", {"name": "nginx"}, {"watch": ("config",)}),
            )

The compiler puts each part before the composite, as a separate resource: watched, repaired and reported like any other.
The composite comes last. It fails if a part has failed, and counts as changed if a part has changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.traits import Refreshable


class Part(NamedTuple):
    """One part of a composite."""

    id: str
    """Name among the parts; `web/config` is the part `config` of the state `web`."""
    kind: str
    """`family.function`; may be a composite."""
    arguments: Mapping[str, Any] = MappingProxyType({})
    """Arguments as in a state file, meta parameters included. `name` defaults to the id."""
    requisites: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Kind of requisite (`require`, `watch`, `onchanges`, ...) -> ids of other parts.

    Parts run in the listed order, and after the parts that they require.
    """


class Composite(Refreshable, Resource):
    """Base of composite kinds. Subclasses return their parts from `parts`."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("change",)

    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """Return the parts in the order in which they run. Pure: the result follows from the arguments alone."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing: the composite runs when all its parts are as declared."""
        ctx.report.comment = f"all parts of {self.name} are as declared"
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Report the change of a part as a change of the composite."""
        ctx.report.changes = {self.name: "changed" if apply else "would change"}
        ctx.report.did(Effect(("change",), self.name, "parts"), applied=apply)
        return False
