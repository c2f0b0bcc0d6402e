"""What the operations on all kinds of grants have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple, TypeVar

from psycopg import sql

import identifiers
import privileges
from holdfast import plugin
from managed import ManagedOperations, SeenResource, WantedResource
from privileges import Declared, Holding, PrivilegeStatements
from sessions import Session

G = TypeVar("G", bound=Declared)


class GrantTarget(NamedTuple):
    """The objects of a grant, for statements and for messages."""

    kind: str
    """A key of `privileges.EACH`."""
    word: LiteralString
    """Words of a statement before the names of the objects."""
    prefix: sql.Composable = sql.SQL("")
    """Beginning of the statements."""


class Privileged(ManagedOperations[G]):
    """The operations on a kind of grants. A subclass reads the privileges of roles."""

    @abstractmethod
    def target(self, names: Sequence[str]) -> GrantTarget:
        """Return the objects of the grant with these names."""

    @abstractmethod
    def missing(self, inputs: G) -> str:
        """Return the message if the role or the objects do not exist."""

    @abstractmethod
    def state(self, names: Sequence[str], fields: Mapping[str, Any]) -> G:
        """Return the state of the grant with these names."""

    @abstractmethod
    async def holdings(self, session: Session, wanted: Sequence[tuple[str, ...]]) -> Sequence[Sequence[Holding] | None]:
        """Return the privileges of each grant with these names; None if the role or an object does not exist."""

    async def find(self, session: Session, wanted: Sequence[WantedResource[G]]) -> Sequence[SeenResource[G] | None]:
        """Read the privileges of all roles at once."""
        held = await self.holdings(session, [each.names for each in wanted])
        return [self._seen(each, holdings, session.version) for each, holdings in zip(wanted, held, strict=True)]

    def _seen(
        self, wanted: WantedResource[G], holdings: Sequence[Holding] | None, version: int
    ) -> SeenResource[G] | None:
        if holdings is None:
            return None
        kind = self.target(wanted.names).kind
        fields = privileges.as_declared(holdings, wanted.inputs, kind, version, known=wanted.known)
        return None if fields is None else SeenResource(self.state(wanted.names, fields), holdings)

    async def make(self, session: Session, inputs: G) -> None:
        """Grant what is declared."""
        names = identifiers.parts(self.identifier(inputs))
        if (seen := (await self.find(session, [WantedResource(names, inputs)]))[0]) is None:
            raise plugin.Permanent(self.missing(inputs))
        await self.alter(session, seen, inputs)

    async def alter(self, session: Session, seen: SeenResource[G], inputs: G) -> None:
        """Grant and revoke what differs, and check that the server has done so."""
        names = identifiers.parts(self.identifier(inputs))
        target = self.target(names)
        change = PrivilegeStatements(session, target.word, inputs.role, target.prefix)
        want, grantable = privileges.wanted(inputs, target.kind, session.version), inputs.grantable is True
        if want - privileges.possible(target.kind, session.version):
            told = f"PostgreSQL {session.version // 10000} has no privilege 'maintain'"
            raise plugin.Permanent(f"{told}: it came with {privileges.MAINTAIN // 10000}")
        await change.make(seen.facts, want, grantable=grantable, exact=inputs.exact is not False)
        now = (await self.find(session, [WantedResource(names, inputs)]))[0]
        if now is None or set(now.state.privileges) != set(inputs.privileges) or now.state.grantable is not grantable:
            told = f"the role {session.user} may not change all privileges of {inputs.role} on these {target.kind}"
            raise plugin.Permanent(f"{told}: only their owner or grantor may")

    async def drop(self, session: Session, seen: SeenResource[G]) -> None:
        """Revoke all privileges, or the declared ones if others may have granted more."""
        target = self.target(identifiers.parts(self.identifier(seen.state)))
        lost = privileges.possible(target.kind, session.version)
        if seen.state.exact is False:
            lost = privileges.wanted(seen.state, target.kind, session.version)
        change = PrivilegeStatements(session, target.word, seen.state.role, target.prefix)
        await change.revoke(seen.facts, lost)
