"""A kind that is made of others: it says which, and they do the work.

    class Site(Composite, kind="site.up"):
        port: int = 80

        def parts(self) -> Sequence[Part]:
            return (
                Part("server", "pkg.installed", {"name": "nginx"}),
                Part("config", "file.managed", {"name": "/etc/nginx/conf.d/site.conf", "contents": f"listen {self.port};"}),
                Part("service", "service.running", {"name": "nginx"}, {"watch": ("config",)}),
            )

The compiler puts each part before the composite, as a resource of its own: watched, repaired and reported like any other. The composite
itself comes last, fails when a part has failed, and has changed when one of them has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.traits import Refreshable


class Part(NamedTuple):
    """One resource that a composite is made of."""

    id: str
    """Its name among the parts; `web/config` is the part `config` of the state `web`."""
    kind: str
    """`family.function`; may be a composite again."""
    arguments: Mapping[str, Any] = MappingProxyType({})
    """As in a state file, meta parameters included. Without `name` its id stands in."""
    requisites: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Kind of requisite (`require`, `watch`, `onchanges`, ...) -> ids of other parts. Parts run as listed, and after what they require."""


class Composite(Refreshable, Resource):
    """Base of kinds that are made of others. Subclasses say of which in `parts`."""

    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """The parts, in the order in which they are to run. Pure: it follows from the arguments alone."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Nothing is left to do when all parts are right."""
        ctx.report.comment = f"all parts of {self.name} are right"
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """A part has changed, so this has."""
        ctx.report.changes = {self.name: "changed" if apply else "would change"}
        ctx.report.comment = f"parts of {self.name} {'were' if apply else 'would be'} changed"
        return False
