"""Checks the parts of composites, and inserts them into the order of execution before their composite.

Low data shows a state as it is written. Its parts are made from its checked resource, as chunks, so that their
arguments and uids are checked like those of any state. Problems of a part are reported at the line of the composite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.resources.composite import Composite, Part
from holdfast.resources.errors import RAISED
from holdfast.resources.meta import META_FIELDS
from holdfast.resources.traits import Refreshable
from holdfast.states.compile.check import Checker
from holdfast.states.compile.low import CONTROL, Chunk, Verdict
from holdfast.states.data import Call, Low
from holdfast.states.requisite_kinds import EARLIER, KINDS, LISTENING, PROBED, RECV, REQUISITES, WATCH

DEPTH, MOST = 8, 10_000
"""Maximum depth of nested composites, and maximum number of all parts of one state."""
OWN = frozenset({"check_cmd", "fire_event", "parallel", RECV})
"""Meta parameters that apply to the composite alone; all others are passed to its parts."""
BETWEEN = frozenset(REQUISITES).difference(PROBED)
"""Requisites that parts may have on each other."""
CONTROLLED = ("state", "fun", "order", "__id__", "__sls__", "__env__")


@dataclass(slots=True, eq=False, repr=False)
class Inner:
    """One part: its chunk, its requisites on its siblings, and its own parts."""

    part: Part
    chunk: Chunk
    inside: list[Inner] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Opened:
    """The parts of one state; valid while the check of the state gives the same verdict."""

    verdict: Verdict | None
    inside: list[Inner]

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of all parts, at all levels."""
        todo = [*self.inside]
        for inner in todo:
            todo += inner.inside
            yield inner.chunk


class Opener:
    """Makes the parts of composites with one checker, and reuses those of unchanged states without problems."""

    def __init__(self, checker: Checker, kept: Mapping[str, Opened]) -> None:
        self._checker, self._kept = checker, kept
        self._room = 0

    def open(self, chunks: Sequence[Chunk]) -> dict[str, Opened]:
        """Return the parts of each composite, by its identity."""
        opened: dict[str, Opened] = {}
        for chunk in chunks:
            if chunk.checked is None or not isinstance(chunk.checked.resource, Composite):
                continue
            known = self._kept.get(chunk.identity)
            if known is None or known.verdict is not chunk.checked or not self._hold(known, chunk):
                self._room = MOST
                before = len(self._checker.problems)
                inside = self._inside(chunk, chunk.checked.resource, chunk, ())
                known = Opened(chunk.checked if len(self._checker.problems) == before else None, inside)
            opened[chunk.identity] = known
        return opened

    def _hold(self, known: Opened, whole: Chunk) -> bool:
        """Check parts of the last compilation; returns whether they are unchanged.

        Their number is set to that of the composite.
        """
        same = True
        for part in known.chunks():
            verdict = part.checked
            self._checker.check(part)
            same = same and verdict is not None and part.checked is verdict
            if part.low["order"] != whole.low["order"]:
                part.low = {**part.low, "order": whole.low["order"]}
        return same

    def _inside(self, outer: Chunk, composite: Composite, whole: Chunk, above: tuple[Composite, ...]) -> list[Inner]:
        """Return the parts of one composite; `above` are the composites that contain it."""
        try:
            parts = list(composite.parts())
            found = [self._part(outer, part) for part in _sorted(parts)]
        except RAISED as error:  # a kind's own code
            self._refuse(whole, f"{outer.identity} cannot list its parts: {error}")
            return []
        for inner in found:
            self._room -= 1
            self._checker.check(inner.chunk)
            resource = inner.chunk.checked and inner.chunk.checked.resource
            if not isinstance(resource, Composite):
                continue
            chain = (*above, composite)
            if any(resource.cmp(other) is None for other in chain):
                self._refuse(whole, f"{inner.chunk.identity} contains itself")
            elif len(chain) >= DEPTH or self._room <= 0:
                limit = (
                    f"composites contain each other more than {DEPTH} deep"
                    if self._room > 0
                    else f"it has more than {MOST} parts"
                )
                self._refuse(whole, f"{whole.identity} cannot be made: {limit}, down to {inner.chunk.identity}")
            else:
                inner.inside = self._inside(inner.chunk, resource, whole, chain)
            if self._room <= 0:
                break
        return found

    def _part(self, outer: Chunk, part: Part) -> Inner:
        """Make the chunk of a part. Raises `ValueError` if the part is invalid."""
        family, _, function = part.kind.partition(".")
        if wrong := sorted((CONTROL - {"name"}) & part.arguments.keys()):
            raise ValueError(
                f"{wrong[0]!r} is not an argument of the part {part.id!r}; requisites are a separate argument of Part"
            )
        if RECV in part.arguments:
            raise ValueError(f"the part {part.id!r} cannot receive from another state")
        inner = outer.identity.partition("[")[2][:-1]
        down = {key: value for key, value in outer.low.items() if key in META_FIELDS and key not in OWN}
        low: Low = {**down, **part.arguments}
        low |= {key: outer.low[key] for key in CONTROLLED if key in outer.low}
        low |= {
            "state": family,
            "fun": function,
            "__id__": f"{inner}/{part.id}",
            "name": part.arguments.get("name", part.id),
        }
        return Inner(part, Chunk(low, outer.state, (), {}, several=False))

    def _refuse(self, whole: Chunk, message: str) -> None:
        self._checker.problems.append(whole.spot.problem("kind-broken", message, "the kind's `parts` is wrong"))


def _sorted(parts: Sequence[Part]) -> list[Part]:
    """Return the parts in the listed order, each after the parts that it requires.

    Raises `ValueError` for invalid requisites.
    """
    by_id = {part.id: part for part in parts}
    if len(by_id) < len(parts):
        raise ValueError("two parts have one id")
    for part in parts:
        _demand_known(part, by_id)
    done: dict[str, Part] = {}

    def put(part: Part, under_way: tuple[str, ...]) -> None:
        if part.id in under_way:
            raise ValueError(f"its parts require each other in a cycle: {' -> '.join([*under_way, part.id])}")
        if part.id in done:
            return
        for kind, targets in part.requisites.items():
            for target in targets if kind in EARLIER else ():
                put(by_id[target], (*under_way, part.id))
        done[part.id] = part

    for part in parts:
        put(part, ())
    return list(done.values())


def _demand_known(part: Part, by_id: Mapping[str, Part]) -> None:
    """Raise `ValueError` for requisites that parts cannot have, and for unknown targets."""
    for kind, targets in part.requisites.items():
        if kind not in BETWEEN:
            raise ValueError(f"the part {part.id!r} cannot have {kind!r} on another part")
        for target in targets:
            if target not in by_id:
                raise ValueError(f"the part {part.id!r} has {kind} on {target!r}, which is not a part")


@dataclass(slots=True, eq=False, repr=False)
class Slot:
    """One position in the order of execution."""

    made_of: Call | Inner
    """An existing call, or a part."""
    requisites: dict[str, list[Slot]]
    position: int = 0
    owner: str = ""
    """The identity of the composite, for a part."""
    inside: list[Slot] = field(default_factory=list)

    def all(self) -> Iterator[Slot]:
        """Yield all parts of this slot, and then the slot itself."""
        for slot in self.inside:
            yield from slot.all()
        yield self


class Expander:
    """Inserts parts into the order. A call that is equal to the one of the last compilation is the same object."""

    def __init__(self) -> None:
        self._made: dict[str, Call] = {}
        """Identity -> the call that was made for it."""

    def expand(self, calls: Sequence[Call], opened: Mapping[str, Opened]) -> tuple[Call, ...]:
        """Return the calls, with all parts directly before their composites."""
        if not opened:
            self._made.clear()
            return tuple(calls)
        slots = [Slot(call, {}) for call in calls]
        for slot, call in zip(slots, calls, strict=True):
            slot.requisites = {kind: [slots[target] for target in targets] for kind, targets in call.requisites.items()}
            if call.identity in opened:
                self._fill(slot, call.identity, opened[call.identity].inside)
        ordered = [each for slot in slots for each in slot.all()]
        for position, slot in enumerate(ordered):
            slot.position = position
        before, self._made = self._made, {}
        return tuple([self._call(slot, before) for slot in ordered])

    def _fill(self, slot: Slot, identity: str, inside: Sequence[Inner]) -> None:
        """Insert the parts: each has the requisites of the composite and those on its siblings.

        The composite then watches the parts.
        """
        siblings = {inner.part.id: Slot(inner, {}, owner=identity) for inner in inside}
        slot.inside = list(siblings.values())
        for inner, part in zip(inside, slot.inside, strict=True):
            part.requisites = {kind: [*targets] for kind, targets in slot.requisites.items()}
            for kind, names in inner.part.requisites.items():
                part.requisites.setdefault(kind, []).extend(siblings[name] for name in names)
            if inner.chunk.checked is None or not isinstance(inner.chunk.checked.resource, Refreshable):
                for kind in LISTENING:
                    part.requisites.pop(kind, None)  # a part without a refresh cannot react
            if isinstance(inner.chunk.checked and inner.chunk.checked.resource, Composite):
                self._fill(part, inner.chunk.identity, inner.inside)
        slot.requisites = _watching_parts(slot)

    def _call(self, slot: Slot, before: Mapping[str, Call]) -> Call:
        requisites = {kind: _positions(kind, targets) for kind, targets in slot.requisites.items() if targets}
        wanted = _part_call(slot.made_of, slot.owner) if isinstance(slot.made_of, Inner) else slot.made_of
        if wanted.position == slot.position and wanted.requisites == requisites:
            return wanted
        call = replace(wanted, position=slot.position, requisites=requisites)
        known = before.get(call.identity)
        if (
            known
            and known.low is call.low
            and known.resource is call.resource
            and known.meta is call.meta
            and known == call
        ):
            call = known
        self._made[call.identity] = call
        return call


def _watching_parts(slot: Slot) -> dict[str, list[Slot]]:
    """Return the requisites of a composite: it requires what it watches, does not listen, and watches its parts."""
    requisites = {kind: targets for kind, targets in slot.requisites.items() if not KINDS[kind].refreshes}
    for kind, targets in slot.requisites.items():
        effective = KINDS[kind].effective(refreshable=False)
        if effective not in ("", kind):
            requisites[effective] = list(dict.fromkeys([*requisites.get(effective, ()), *targets]))
    requisites[WATCH] = [*slot.inside]
    return requisites


def _part_call(inner: Inner, owner: str) -> Call:
    """Return the call of a part, without its position. Raises `ValueError` if the part is invalid."""
    chunk = inner.chunk
    if chunk.checked is None:
        raise ValueError(f"{chunk.identity} is invalid, so it has no call")
    return Call(
        -1,
        chunk.identity,
        chunk.low,
        chunk.spot,
        chunk.checked.resource,
        chunk.checked.meta,
        {},
        f"part of {owner}",
        part=True,
    )


def _positions(kind: str, targets: Sequence[Slot]) -> tuple[int, ...]:
    """Return the positions of the targets, each once.

    A prereq on a composite applies to all of its parts, because only they can change.
    """
    if kind in PROBED:
        targets = [slot for target in targets for slot in target.all()]
    return tuple(dict.fromkeys(slot.position for slot in targets))
