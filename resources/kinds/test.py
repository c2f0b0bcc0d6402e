"""`test.*`: states that change nothing, to try requisites and reports. Their results are exactly those of Salt."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.effects import EffectVerb
from holdfast.resources.errors import Final, Permanent
from holdfast.resources.fields import Texts, field
from holdfast.resources.lookup import lookup_value
from holdfast.resources.traits import Refreshable

PRETENDED = {"testing": {"old": "Unchanged", "new": "Something pretended to change"}}


class Pretence(Resource, Refreshable):
    """Base of the kinds of this family. As in Salt, unknown arguments are accepted."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ()

    model_config = ConfigDict(extra="ignore")

    def action(self) -> bool:
        """Return True: there is nothing to probe, so the state cannot tell whether it needs to run."""
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Report a refresh. As in Salt, the result is the same without `apply`."""
        ctx.report.changes = {"Requisites with changes": ["a state that is watched has changed"]}
        ctx.report.comment = "Watch statement fired."
        return not apply


def pretend(ctx: Context, apply: bool) -> None:
    """Report a change that was made or would be."""
    ctx.report.changes = PRETENDED
    ctx.report.comment = "Success!" if apply else "If we weren't testing, we would be successful"


class Nop(Pretence, kind="test.nop"):
    """Does nothing and succeeds.

    anchor:
      test.nop
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Succeed."""
        ctx.report.comment = "Success!"
        return True


class SucceedWithoutChanges(Pretence, kind="test.succeed_without_changes"):
    """Succeeds and changes nothing.

    quiet:
      test.succeed_without_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Succeed."""
        ctx.report.comment = "Success!"
        return True


class SucceedWithChanges(Pretence, kind="test.succeed_with_changes"):
    """Succeeds and reports a change each time.

    loud:
      test.succeed_with_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report a change."""
        pretend(ctx, apply)
        return False


class FailWithoutChanges(Pretence, kind="test.fail_without_changes"):
    """Fails, also without apply.

    broken:
      test.fail_without_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Raise `Final`."""
        raise Final("Failure!")


class FailWithChanges(Pretence, kind="test.fail_with_changes"):
    """Reports a change and fails; without apply, only reports the change.

    broken:
      test.fail_with_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report a change. Raises `Final` with `apply`."""
        pretend(ctx, apply)
        if apply:
            ctx.report.comment = ""
            raise Final("Failure!")
        return False


@accepts(VALUE, Literal["Random"])
def parse_chance(value: object) -> object:
    """Return true, false, or `random` for `Random` in any case."""
    return "random" if isinstance(value, str) and value.lower() == "random" else value


Chance = Annotated[bool | Literal["random"], BeforeValidator(parse_chance)]


class Configurable(Pretence, kind="test.configurable_test_state"):
    """Has the declared result and changes.

    any:
      test.configurable_test_state:
        - changes: true
        - result: false
        - comment: as told
    """

    pretended: Chance = field(True, alias="changes")
    """Whether to report a change; `Random` decides at random."""
    result: Chance = True
    """The result; `Random` decides at random."""
    comment: str = ""
    """The comment. Default: a text that names the result."""
    warnings: Texts = ()
    """Accepted; shown in the log."""
    allow_test_mode_failure: bool = False
    """Use `result: false` without apply, too."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report what is declared. Raises `Final` if the result is false."""
        changed, good = toss(self.pretended), toss(self.result)
        for warning in self.warnings:
            ctx.log.warning(warning)
        if changed:
            pretend(ctx, apply)
        ctx.report.comment = self.comment or ("Success!" if good or not apply else "Failure!")
        if not good and (apply or self.allow_test_mode_failure):
            comment, ctx.report.comment = ctx.report.comment, ""
            raise Final(comment if self.comment else "Failure!")
        return not changed


def toss(value: bool | Literal["random"]) -> bool:
    """Return the value, or a random value."""
    return random.random() < 0.5 if value == "random" else value  # noqa: S311 - a result for tests


class ShowNotification(Pretence, kind="test.show_notification"):
    """Shows a text in the report.

    Note:
      test.show_notification:
        - text: Reboot this host by hand.

    """

    text: str
    """The text to show."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report the text."""
        ctx.report.comment = self.text
        return True


class CheckPillar(Pretence, kind="test.check_pillar"):
    """Fails unless the pillar has these keys with values of these types.

    pillar_is_complete:
      test.check_pillar:
        - present: app:name
        - integer: app:port
    """

    TYPES: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "present": (object,),
        "boolean": (bool,),
        "integer": (int,),
        "string": (str,),
        "listing": (list, tuple),
        "dictionary": (Mapping,),
    }

    present: Texts = ()
    """Keys (`a:b`) that must exist."""
    boolean: Texts = ()
    """Keys of booleans."""
    integer: Texts = ()
    """Keys of integers."""
    string: Texts = ()
    """Keys of strings."""
    listing: Texts = ()
    """Keys of lists."""
    dictionary: Texts = ()
    """Keys of mappings."""
    verbose: bool = False
    """Accepted: mistakes are always reported in full."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Raise `Final` with the keys that are missing or have another type."""
        wrong = [
            f"{key} ({word})" for word in self.TYPES for key in getattr(self, word) if not self._fits(ctx, word, key)
        ]
        if wrong:
            raise Final(f"the pillar lacks these keys, or their values have other types: {', '.join(wrong)}")
        ctx.report.comment = "the pillar has all declared keys and types"
        return True

    def _fits(self, ctx: Context, word: str, key: str) -> bool:
        try:
            value: Any = lookup_value(ctx.pillar, key, ":", "pillar")
        except Permanent:
            return False
        return isinstance(value, self.TYPES[word]) and not (word == "integer" and isinstance(value, bool))
