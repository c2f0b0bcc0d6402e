"""Privileges in the server's records, and the statements that grant and revoke them.

A grant has several objects. It is as declared if the role has the declared privileges on each of them and, unless
`exact` is false, no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, LiteralString, NamedTuple, Protocol

from psycopg import sql

from grant_stub import Privilege
from holdfast import plugin
from sessions import Session

PUBLIC = "public"
"""Word for all roles; no role can have this name."""
EACH: Mapping[str, Sequence[str]] = {
    "databases": ("create", "temporary", "connect"),
    "schemas": ("create", "usage"),
    "tables": ("select", "insert", "update", "delete", "truncate", "references", "trigger"),
    "sequences": ("usage", "select", "update"),
    "functions": ("execute",),
}
"""Kind of object -> its privileges."""
MAINTAIN = 170000
"""First version of the server with the privilege `maintain`."""


class Declared(Protocol):
    """What all grants declare."""

    @property
    def role(self) -> str:
        """Role that has the privileges."""

    @property
    def privileges(self) -> list[Privilege]:
        """What the role may do."""

    @property
    def grantable(self) -> bool | plugin.Unset:
        """Whether the role may grant these privileges to others."""

    @property
    def exact(self) -> bool | plugin.Unset:
        """Whether the role must not have other privileges."""


class HeldPrivilege(NamedTuple):
    """One privilege that the role has on one object."""

    privilege: str
    grantable: bool
    grantor: str


class Holding(NamedTuple):
    """The privileges of the role on one object."""

    object: sql.Composable
    """Name of the object for statements."""
    entries: tuple[HeldPrivilege, ...]

    def has(self, *, grantable: bool | None = None) -> frozenset[str]:
        """Return the privileges: all, or those that the role may grant to others, or those that it may not."""
        return frozenset(each.privilege for each in self.entries if grantable in (None, each.grantable))


def possible(objects: str, version: int) -> frozenset[str]:
    """Return all privileges that a kind of object has."""
    more = ("maintain",) if objects == "tables" and version >= MAINTAIN else ()
    return frozenset((*EACH[objects], *more))


def wanted(declared: Declared, objects: str, version: int) -> frozenset[str]:
    """Return the declared privileges, with `all` expanded."""
    names = frozenset(str(each) for each in declared.privileges)
    return possible(objects, version) if "all" in names else names


def wrong(declared: Declared, objects: str) -> list[plugin.Violation]:
    """Return what is wrong with declared privileges."""
    legal = {*EACH[objects], "all", *(["maintain"] if objects == "tables" else [])}
    listed = ", ".join(sorted(legal))
    return [
        plugin.Violation("rule", "privileges", f"{objects} have no privilege {str(each)!r}; legal: {listed}")
        for each in declared.privileges
        if each not in legal
    ]


def as_declared(
    holdings: Sequence[Holding], declared: Declared, objects: str, version: int, *, known: bool
) -> dict[str, Any] | None:
    """Return the fields of the state: those of the declaration if all objects are as declared, else the present ones.

    Without objects, everything is as declared. None if the role has no privileges and the grant is not `known` to have
    been made.
    """
    want, may_grant, exact = wanted(declared, objects, version), declared.grantable is True, declared.exact is not False
    kept = holdings if exact else [_only(each, want) for each in holdings]
    if not known and not any(each.entries for each in kept):
        return None
    all_have = frozenset.intersection(*(each.has() for each in kept)) if kept else want
    some_have = frozenset[str]().union(*(each.has() for each in kept)) if kept else want
    shown = all_have if all_have != want else some_have
    named = declared.privileges if shown == want else [Privilege(each) for each in sorted(shown)]
    right = all(not each.has(grantable=not may_grant) for each in kept)
    return {"privileges": named, "grantable": may_grant if right else not may_grant, "exact": exact}


def _only(holding: Holding, names: Collection[str]) -> Holding:
    return holding._replace(entries=tuple(each for each in holding.entries if each.privilege in names))


def held(entries: Iterable[Mapping[str, Any]]) -> tuple[HeldPrivilege, ...]:
    """Return the entries of the server in the words of declarations, in a fixed order.

    Unknown privileges are left out.
    """
    known = frozenset(Privilege)
    found = (HeldPrivilege(each["privilege"].lower(), each["grantable"], each["grantor"]) for each in entries)
    return tuple(sorted(each for each in found if each.privilege in known))


class PrivilegeStatements:
    """The statements that make the privileges as declared."""

    def __init__(self, session: Session, what: LiteralString, role: str, prefix: sql.Composable | None = None) -> None:
        self._session = session
        self._what = sql.SQL(what)
        self._role = sql.SQL("PUBLIC") if role == PUBLIC else sql.Identifier(role)
        self._prefix = prefix or sql.SQL("")

    async def make(self, holdings: Sequence[Holding], want: frozenset[str], *, grantable: bool, exact: bool) -> None:
        """Grant missing privileges and revoke superfluous ones: one statement for all objects that differ equally."""
        missing = ((want - each.has(grantable=True if grantable else None), each) for each in holdings)
        for names, objects in _grouped(missing):
            option = " WITH GRANT OPTION" if grantable else ""
            await self._do("GRANT {} ON {} {} TO {}" + option, names, objects)
        if not grantable:
            for names, objects in _grouped((want & each.has(grantable=True), each) for each in holdings):
                await self._revoke("REVOKE GRANT OPTION FOR {} ON {} {} FROM {}", names, objects)
        if exact:
            for names, objects in _grouped((each.has() - want, each) for each in holdings):
                await self._revoke("REVOKE {} ON {} {} FROM {}", names, objects)

    async def revoke(self, holdings: Sequence[Holding], names: frozenset[str]) -> None:
        """Revoke these privileges."""
        for lost, objects in _grouped((each.has() & names, each) for each in holdings):
            await self._revoke("REVOKE {} ON {} {} FROM {}", lost, objects)

    async def _revoke(self, statement: LiteralString, names: frozenset[str], objects: Sequence[Holding]) -> None:
        """Revoke privileges as the roles that have granted them; no other role can."""
        grantors = {each.grantor for holding in objects for each in holding.entries if each.privilege in names}
        for grantor in sorted(grantors):
            theirs = [
                each for each in objects if any(e.grantor == grantor and e.privilege in names for e in each.entries)
            ]
            if self._session.is_superuser and grantor != self._session.user:
                await self._session.do("SET LOCAL ROLE {}", grantor)
            await self._do(statement, names, theirs)
            await self._session.do("RESET ROLE")

    async def _do(self, statement: LiteralString, names: frozenset[str], objects: Sequence[Holding]) -> None:
        listed = sql.SQL(", ").join(sql.SQL(WORDS[each]) for each in sorted(names))
        composed = sql.SQL(statement).format(
            listed, self._what, sql.SQL(", ").join([each.object for each in objects]), self._role
        )
        await self._session.connection.execute(sql.SQL("{}{}").format(self._prefix, composed))


WORDS: Mapping[str, LiteralString] = {
    "select": "SELECT",
    "insert": "INSERT",
    "update": "UPDATE",
    "delete": "DELETE",
    "truncate": "TRUNCATE",
    "references": "REFERENCES",
    "trigger": "TRIGGER",
    "maintain": "MAINTAIN",
    "usage": "USAGE",
    "create": "CREATE",
    "execute": "EXECUTE",
    "connect": "CONNECT",
    "temporary": "TEMPORARY",
}
"""Privilege -> its word in statements."""


def _grouped(pairs: Iterable[tuple[frozenset[str], Holding]]) -> Iterator[tuple[frozenset[str], list[Holding]]]:
    groups: dict[frozenset[str], list[Holding]] = {}
    for names, holding in pairs:
        if names:
            groups.setdefault(names, []).append(holding)
    yield from groups.items()
