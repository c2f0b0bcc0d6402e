"""`test.*`: states that only pretend, for trying requisites and reports. Their results are exactly Salt's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict

from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Final, Permanent
from holdfast.resources.fields import Texts, field
from holdfast.resources.lookup import lookup_value
from holdfast.resources.traits import Refreshable

PRETENDED = {"testing": {"old": "Unchanged", "new": "Something pretended to change"}}


class Pretence(Resource, Refreshable):
    """What all of them share. Arguments they do not know are accepted, as in Salt."""

    model_config = ConfigDict(extra="ignore")

    def action(self) -> bool:
        """There is nothing to look at, so none can tell whether it is needed."""
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Tell that it was refreshed. As in Salt, the result without `apply` is no different."""
        ctx.report.changes = {"Requisites with changes": ["a state that is watched has changed"]}
        ctx.report.comment = "Watch statement fired."
        return not apply


def pretend(ctx: Context, apply: bool) -> None:
    """Report a change, made or not."""
    ctx.report.changes = PRETENDED
    ctx.report.comment = "Success!" if apply else "If we weren't testing, we would be successful"


class Nop(Pretence, kind="test.nop"):
    """Nothing, successfully.

    anchor:
      test.nop
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """All is right."""
        ctx.report.comment = "Success!"
        return True


class SucceedWithoutChanges(Pretence, kind="test.succeed_without_changes"):
    """Succeeds, and changes nothing.

    quiet:
      test.succeed_without_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """All is right."""
        ctx.report.comment = "Success!"
        return True


class SucceedWithChanges(Pretence, kind="test.succeed_with_changes"):
    """Succeeds, and pretends a change each time.

    loud:
      test.succeed_with_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Pretend a change."""
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
    """Pretends a change, and fails; without apply it would only change.

    broken:
      test.fail_with_changes
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Pretend a change. Raises `Final` with `apply`."""
        pretend(ctx, apply)
        if apply:
            ctx.report.comment = ""
            raise Final("Failure!")
        return False


def parse_chance(value: object) -> object:
    """True, false, or `Random` in any case."""
    return "random" if isinstance(value, str) and value.lower() == "random" else value


Chance = Annotated[bool | Literal["random"], BeforeValidator(parse_chance)]


class Configurable(Pretence, kind="test.configurable_test_state"):
    """Result and changes as told.

    any:
      test.configurable_test_state:
        - changes: true
        - result: false
        - comment: as told
    """

    pretended: Chance = field(True, alias="changes")
    """Whether to pretend a change; `Random` throws a coin."""
    result: Chance = True
    """The result; `Random` throws a coin."""
    comment: str = ""
    """The comment. Default: what the result is."""
    warnings: Texts = ()
    """Accepted; shown in the log."""
    allow_test_mode_failure: bool = False
    """Let `result: false` hold without apply, too."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do as told. Raises `Final` where the result is false."""
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
    """The value, or a coin's."""
    return random.random() < 0.5 if value == "random" else value  # noqa: S311 - a pretence


class ShowNotification(Pretence, kind="test.show_notification"):
    """Shows a text in the report.

    Note:
      test.show_notification:
        - text: Reboot this host by hand.

    """

    text: str
    """What to show."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Show it."""
        ctx.report.comment = self.text
        return True


class CheckPillar(Pretence, kind="test.check_pillar"):
    """Fails unless the pillar has these keys, with values of these types.

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
    """Keys (`a:b`) that must be there."""
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
    """Accepted: what is wrong is always told in full."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Look. Raises `Final` that names every key that is missing or of another type."""
        wrong = [
            f"{key} ({word})" for word in self.TYPES for key in getattr(self, word) if not self._fits(ctx, word, key)
        ]
        if wrong:
            raise Final(f"the pillar lacks, or has as another type: {', '.join(wrong)}")
        ctx.report.comment = "the pillar is as it should be"
        return True

    def _fits(self, ctx: Context, word: str, key: str) -> bool:
        try:
            value: Any = lookup_value(ctx.pillar, key, ":", "pillar")
        except Permanent:
            return False
        return isinstance(value, self.TYPES[word]) and not (word == "integer" and isinstance(value, bool))
