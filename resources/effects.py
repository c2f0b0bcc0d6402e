"""Effects: what a run did to its resource, or would do in noop, in verbs for programs and for sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

EffectVerb = Literal[
    "create",
    "add",
    "link",
    "mount",
    "install",
    "change",
    "replace",
    "set",
    "touch",
    "start",
    "stop",
    "restart",
    "reload",
    "enable",
    "disable",
    "mask",
    "unmask",
    "hold",
    "release",
    "refresh",
    "repair",
    "run",
    "send",
    "unmount",
    "remove",
]
Counted = Literal["created", "changed", "replaced", "removed"]
"""What a summary counts."""


class Forms(NamedTuple):
    """The past tense of a verb, and what a summary counts it as."""

    past: str
    counted: Counted = "changed"


FORMS: Mapping[EffectVerb, Forms] = {
    "create": Forms("created", "created"),
    "add": Forms("added", "created"),
    "link": Forms("linked", "created"),
    "mount": Forms("mounted", "created"),
    "install": Forms("installed", "created"),
    "change": Forms("changed"),
    "replace": Forms("replaced", "replaced"),
    "set": Forms("set"),
    "touch": Forms("touched"),
    "start": Forms("started"),
    "stop": Forms("stopped"),
    "restart": Forms("restarted"),
    "reload": Forms("reloaded"),
    "enable": Forms("enabled"),
    "disable": Forms("disabled"),
    "mask": Forms("masked"),
    "unmask": Forms("unmasked"),
    "hold": Forms("held"),
    "release": Forms("released"),
    "refresh": Forms("refreshed"),
    "repair": Forms("repaired"),
    "run": Forms("ran"),
    "send": Forms("sent"),
    "unmount": Forms("unmounted", "removed"),
    "remove": Forms("removed", "removed"),
}
"""All verbs. A kind uses one of these; `refresh` and `repair` are for runs whose cause matters more than their verb."""


class Effect(NamedTuple):
    """What a run did, or would do."""

    verbs: tuple[EffectVerb, ...]
    """The most important one is first."""
    what: str
    """The thing, for people: `group alice`, `/etc/motd`."""
    parts: str = ""
    """Which parts of the thing are affected: `mode and owner`, `3 entries`; empty: the thing as a whole."""
    detail: str = ""
    """The rest of the sentence, from its first space or comma on: ` with mode 0644`."""

    @property
    def counted(self) -> Counted:
        """What a summary counts the effect as. To remove a part of a thing is a change of the thing."""
        return "changed" if self.parts else FORMS[self.verbs[0]].counted

    def sentence(self, *, applied: bool, what: str = "") -> str:
        """Return `created group alice` or `would create group alice`; `what` replaces the name of the thing."""
        parts = f"{self.parts} of " if self.parts else ""
        return f"{phrase(*self.verbs, applied=applied)} {parts}{what or self.what}{self.detail}"


def phrase(*verbs: EffectVerb, applied: bool) -> str:
    """Return `started and enabled`, or `would start and enable`."""
    return " and ".join(FORMS[verb].past for verb in verbs) if applied else f"would {' and '.join(verbs)}"


def further(verb: EffectVerb, what: str, *, applied: bool) -> str:
    """Return the detail of a second effect of the same run: `, removed 3 entries` or, in noop, `, remove 3 entries`."""
    return f", {FORMS[verb].past if applied else verb} {what}"
