"""The plan of a life: states, troubles, and an end.

A plan is plain data. It is made from a seed, can be reduced, and can be written as code.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from engine_bench import LATER, state
from holdfast.states.requisite_kinds import LISTENING, PROBED, REQUISITES, TABLE, targets_of

State = tuple[Any, ...]
"""A state as `state` makes it: name, kind, meta parameters, and arguments with requisites."""
Trouble = tuple[Any, ...]
"""Seconds to wait before, a method of `Life`, its arguments."""

NAMES = tuple(f"s{n}" for n in range(8))
CONDITIONAL = {kind.name for kind in TABLE if kind.conditional}
"""Requisites that may keep a state from running. A sender has none of them: its receivers might never run."""
ACTIONS = {"zaction.run", "zcaller.run"}
SENDERS = {"zspeaker.present", "zhearer.present", "zcaller.run"}
RECEIVERS = ("zhearer.present", "zhearer.present", "zcaller.run")
SPEAKERS = ("zspeaker.present", "zspeaker.present", "zcaller.run")
OTHERS = (
    *("zaction.run",) * 4,
    *("zplaced.present",) * 4,
    *("zlent.present",) * 2,
    *("zlined.present",) * 2,
    *("zbundle.present",) * 4,
    *("zsetting.present",) * 6,
)
"""All other kinds; one that is listed several times is drawn more often."""
RECEIVED = {"zhearer.present": "value", "zcaller.run": "what"}
"""Kind that receives values -> the argument that receives."""
PAUSES = (0, 0, 0, 0, 0.1, 3.0, 3.1)


@dataclass(frozen=True)
class Plan:
    """One life."""

    states: tuple[State, ...]
    troubles: tuple[Trouble, ...] = ()
    workers: int = 2
    recheck: bool = False
    """Whether there are rechecks. Without them, permanent failures are triggered at the end."""
    ordering: str = "definition"
    stop: tuple[float, ...] | None = None
    """None: the life ends when all troubles are over, and must have converged.

    Otherwise the life is stopped in the middle. If a number of seconds is given, it is hurried after that time.
    """
    seed: int = 0
    """Seed of the engine's own random choices."""

    def __str__(self) -> str:
        """Return the plan as Python."""
        lines = ["    states=(", *(f"        {written(each)}," for each in self.states), "    ),"]
        lines += ["    troubles=(", *(f"        ({', '.join(map(shown, each))})," for each in self.troubles), "    ),"]
        lines += [
            f"    {one.name}={getattr(self, one.name)!r},"
            for one in fields(self)[2:]
            if getattr(self, one.name) != one.default
        ]
        return "\n".join(["Plan(", *lines, ")"])


def shown(value: object) -> str:
    """Return a value as Python; states inside a trouble are written as calls of their constructor."""
    return f"[{', '.join(map(written, value))}]" if isinstance(value, list) else repr(value)


def written(one: State) -> str:
    """Return a plan as Python."""
    name, kind, meta, spec = one
    parts = [repr(name)] + ([repr(kind)] if kind != "zsetting.present" else []) + ([f"meta={meta!r}"] if meta else [])
    return f"state({', '.join([*parts, *(f'{key}={value!r}' for key, value in spec.items())])})"


def planned(seed: int) -> Plan:
    """Return the plan of a seed."""
    chance = random.Random(seed)
    states = random_states(chance)
    troubles = tuple(random_troubles(chance, states))
    stop = chance.choice(((), (0.0,), (0.5,), (3.0,))) if chance.random() < 0.2 else None
    ordering = "requisites" if chance.random() < 0.2 else "definition"
    if chance.random() < 0.3:
        states = with_sequence(chance, states)
        swaps = {index: with_sequence(chance, one[2]) for index, one in enumerate(troubles) if one[1] == "swap"}
        troubles = tuple((*one[:2], swaps[index]) if index in swaps else one for index, one in enumerate(troubles))
    return Plan(tuple(states), troubles, chance.choice((1, 2, 4)), seed % 2 == 0, ordering, stop, seed)


def random_states(chance: random.Random) -> list[State]:
    """Return some states, with requisites that a compiler accepts."""
    names = [name for name in NAMES if chance.random() < 0.8]
    states: list[State] = []
    earliest = list(range(len(names)))  # everything that the target of a prereq requires comes before that prereq
    for position, name in enumerate(names):
        requisites: dict[str, list[str]] = {}
        for other, target in enumerate(names):
            kind = chance.choice((*REQUISITES, *[None] * 12))
            backwards = kind in PROBED
            if (
                kind
                and other != position
                and (other > position if backwards else other < earliest[position] or kind in LISTENING)
            ):
                if backwards:
                    earliest[other] = min(earliest[other], position)
                requisites.setdefault(kind, []).append(target)
        senders = [
            one[0] for one in states[: earliest[position]] if one[1] in SENDERS and CONDITIONAL.isdisjoint(one[3])
        ]
        sender = chance.choice(senders) if senders and chance.random() < 0.4 else None
        sends = CONDITIONAL.isdisjoint(requisites) and chance.random() < 0.25
        states.append(random_state(chance, name, requisites, sender, sends=sends))
    return states


def with_sequence(chance: random.Random, states: list[State]) -> list[State]:
    """Return the states with another state of the same setting, superseded by one of them and placed before it."""
    targets = {name for one in states for name in targets_of(one[3], PROBED)}
    last = [
        one[0]
        for one in states
        if one[1] == "zsetting.present" and one[0] not in targets and not {"noop", "poll"} & one[2].keys()
    ]
    last = [one[0] for one in states if one[0] in last and CONDITIONAL.isdisjoint(one[3])]
    if not last:
        return states
    chosen = chance.choice(last)
    place = chance.randrange(next(index for index, one in enumerate(states) if one[0] == chosen) + 1)
    meta = {"retry": chance.choice((2, -1))} if chance.random() < 0.2 else {}
    earlier = state(
        f"{chosen} before", meta=meta, name=chosen, value=chance.choice(("early", "earlier")), **{LATER: [chosen]}
    )
    return [*states[:place], earlier, *states[place:]]


def other_state(chance: random.Random, states: list[State]) -> list[State]:
    """Return the same states, except that one of them (at least one is given) declares something else.

    That state keeps its requisites and its place among the senders. States of one setting stay unchanged.
    """
    several = {name for one in states if LATER in one[3] for name in (one[0], *one[3][LATER])}
    single = [index for index, one in enumerate(states) if one[0] not in several]
    if not single:
        return states
    chosen = chance.choice(single)
    name, _, meta, spec = states[chosen]
    requisites = {kind: targets for kind, targets in spec.items() if kind in REQUISITES}
    sends = any(sender_of(each) == name for each in states)
    return [
        *states[:chosen],
        random_state(chance, name, requisites, sender_of((name, "", meta, spec)), sends=sends),
        *states[chosen + 1 :],
    ]


def sender_of(one: State) -> str | None:
    """Return the name of the sender of a state."""
    return next((source["id"] for source in one[2].get("recv", {}).values()), None)


def random_state(
    chance: random.Random,
    name: str,
    requisites: dict[str, list[str]],
    sender: str | None = None,
    *,
    sends: bool = False,
) -> State:
    """Return a state with random meta parameters, which receives from `sender` and may send."""
    meta = random_meta(chance)
    kind, spec = random_kind(chance, name, meta, receives=sender is not None, sends=sends)
    if sender:
        meta["recv"] = {RECEIVED[kind]: {"id": sender, "key": "said"}}
    if kind in ACTIONS:
        requisites = {each: targets for each, targets in requisites.items() if each != "listen"}
        if chance.random() < 0.2:
            meta["rerun"] = chance.choice((60.0, "start"))
    elif chance.random() < 0.05:
        meta["poll"] = 60.0
    return state(name, kind, meta=meta, **spec, **requisites)


def random_meta(chance: random.Random) -> dict[str, Any]:
    """Return meta parameters that any kind accepts."""
    meta: dict[str, Any] = {"parallel": True} if chance.random() < 0.2 else {}
    if chance.random() < 0.2:
        meta["retry"] = chance.choice((2, -1, {"attempts": 3, "interval": 2}))
    if chance.random() < 0.1:
        meta["limit"], meta["burst"] = 0.2, chance.choice((1, 3))
    if chance.random() < 0.1:
        meta["timeout"] = 5
    if chance.random() < 0.1:
        meta["sema"] = chance.choice((["disk"], ["disk:2"], ["net", "disk"]))
    if chance.random() < 0.05:
        meta["rewatch"] = False
    if chance.random() < 0.08:
        meta["noop"] = chance.random() < 0.6
    return meta


def random_kind(
    chance: random.Random, name: str, meta: dict[str, Any], *, receives: bool, sends: bool
) -> tuple[str, dict[str, Any]]:
    """Return a kind and its arguments; add what belongs to the kind to `meta`."""
    if receives:
        kind = chance.choice(RECEIVERS)
    elif sends:
        kind = chance.choice(SPEAKERS)
    else:
        kind = chance.choice(OTHERS)
    spec: dict[str, Any] = {} if kind in RECEIVED else {"value": chance.choice(("right", "other"))}
    match kind:
        case "zaction.run":
            spec = {}
        case "zplaced.present":
            meta |= {} if chance.random() < 0.8 else {"autoedge": False}
            spec = {
                "within": chance.choice([other for other in NAMES if other < name] or NAMES),
                "strict": False,
                "value": "right",
            }
        case "zlent.present":
            meta["reverse"] = True
        case "zbundle.present":
            meta |= chance.choice(({}, {}, {}, {"autogroup": False}, {"aggregate": False}, {"aggregate": True}))
            spec["bundle"] = chance.choice(("one", "one", "two"))
    return kind, spec


def random_troubles(chance: random.Random, states: list[State]) -> Iterator[Trouble]:
    """Yield troubles, each with the time before it."""
    for _ in range(chance.randrange(5, 45)):
        name, wait = chance.choice(NAMES), sum(chance.choice(PAUSES) for _ in range(chance.randrange(4)))
        number = chance.randrange(19)
        if number == 9 or (number == 10 and states):
            states = random_states(chance) if number == 9 else other_state(chance, states)
            yield wait, "swap", list(states)
        else:
            troubles = (*_of_one(number, name, chance), *_of_all(number, name, chance, states))
            yield from ((wait, *trouble) for trouble in troubles)


def _of_one(number: int, name: str, chance: random.Random) -> Iterator[Trouble]:
    """Yield the trouble of one resource, if the number stands for one."""
    match number:
        case 0 | 1 | 2:
            yield "drift", name, chance.choice(("drifted", "worse", "right", "odd"))
        case 3:
            yield "break_", name, chance.choice(("no", "busy", "busy for 3 s"))
        case 4:
            yield "break_", f"{chance.choice(('refresh', 'look'))} {name}", "busy"
        case 6:
            yield "unwatch", name
        case 13:
            yield chance.choice(("trigger", "cancel")), name
        case 14 if chance.random() < 0.3:
            yield "fight", name, chance.choice((3, 12, 40))
        case 14:
            yield "call", name


def _of_all(number: int, name: str, chance: random.Random, states: list[State]) -> Iterator[Trouble]:
    """Yield the trouble of the engine or of the machine, if the number stands for one."""
    match number:
        case 5:
            yield ("mend",)
        case 7:
            parts = ("together", name, f"apply {name}", f"refresh {name}", f"watch {name}")
            yield "hold", chance.choice(parts)
        case 8:
            yield ("free",)
        case 11:
            yield (chance.choice(("pause", "resume", "recheck")),)
        case 12:
            yield "noop", chance.random() < 0.5
        case 15 | 16:
            senders = [one[0] for one in states if one[1] in SENDERS]
            yield "say", chance.choice(senders or [name]), chance.choice(("this", "that"))
        case 17:
            yield chance.choice((("cut",), ("cut",), ("break_", "line", "no"), ("hold", "line")))
        case 18 if chance.random() < 0.4:
            yield ("full",)
