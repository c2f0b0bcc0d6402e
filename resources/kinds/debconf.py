"""Answers to questions of packages in debconf's database."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, field_validator

from holdfast.resources import paths
from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.downloads import shown_url
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Final, Permanent, Temporary
from holdfast.resources.fields import Line, Text, Variables, field, parse_text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._debconf import PASSWORD, Answer, demand_answer, known, selections
from holdfast.resources.kinds._source_hash import declared_digest
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import present_text
from holdfast.resources.kinds.file.content import SCHEMES
from holdfast.resources.traits import Edgeable, FromSources, UsedSource

DATABASE = ("/var/cache/debconf/config.dat", "/var/cache/debconf/passwords.dat")
"""Files of the database in Debian's configuration; only root can read the second one."""
LOOKS, MOMENT = 50, 0.01
"""How often to look for a file that debconf is replacing, and the seconds between two looks."""
LOCKED = "locked by another process"
"""Part of debconf's error while a package is being configured."""
HIDDEN = "(password hidden)"


@accepts(VALUE, bool, str, numbers=True)
def parse_answer(value: object) -> object:
    """Return an answer in debconf's notation: a boolean as true or false, None as an empty text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else parse_text(value)


async def _saved(ctx: Context, path: str) -> str:
    """Return a file of the database; empty if it does not exist.

    debconf writes `-new`, renames the old file away, and only then renames the new file, so the file is briefly
    missing.
    """
    for look in range(LOOKS):
        text = await present_text(ctx, path)
        if text is not None:
            return text
        if look and not paths.exists(f"{path}-new"):
            break
        await asyncio.sleep(MOMENT)
    return ""


class Answers(Edgeable, Resource):
    """Base of the kinds of this family: compares answers with the database and sets those that differ.

    inotify reports changes of the files of the database.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)

    @abstractmethod
    async def answers(self, ctx: Context) -> Sequence[Answer]:
        """Return the declared answers. Raises `Permanent` or `Temporary`."""

    def desired(self) -> State:
        """Return that no answer differs."""
        return {}

    async def probe(self, ctx: Context) -> State:
        """Return nothing; `check_apply` compares."""
        return {}

    async def wrong(self, ctx: Context) -> list[Answer]:
        """Return the answers that the database lacks or does not have for this package."""
        if ctx.facts.get("os_family") != "Debian":
            raise Final(f"cannot set answers of {self.name}: only Debian and its derivatives have debconf")
        present = known([await _saved(ctx, path) for path in DATABASE])
        found = []
        for answer in await self.answers(ctx):
            question = present.get(answer.question)
            if question is None or question.value != answer.value or answer.owner not in question.owners:
                found.append(answer)
        return found

    async def _difference(self, ctx: Context) -> Delta | None:
        """Return the answers that differ, never with a password."""
        wrong = await self.wrong(ctx)
        if not wrong:
            return None
        after = {each.question: HIDDEN if each.type == PASSWORD else each.value for each in wrong}
        return Delta({}, after, tuple(after))

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Pass the answers on standard input, one state at a time. Raises `Temporary` while debconf is in use."""
        async with file_lock(DATABASE[0]):
            lines = "".join(answer.line for answer in await self.wrong(ctx))
            done = await ctx.run("debconf-set-selections", stdin=lines, check=False)
        if done.retcode != 0:
            text = f"cannot set answers of {self.name}: {reason(done)}"
            raise Temporary(text, delay=1.0) if LOCKED in done.stderr else Permanent(text)

    async def account(self, ctx: Context, delta: Delta) -> None:
        """After an error, report the answers that were set before it."""
        left = {answer.question for answer in await self.wrong(ctx)}
        if done := tuple(question for question in delta.fields if question not in left):
            changed = Delta(delta.before, delta.after, done)
            ctx.report.changes = self.changes(changed)
            ctx.report.did(self.effect(changed), applied=True)

    def watch(self, ctx: Context) -> Watch:
        """Watch the files of the database."""
        return ctx.watch_path(*DATABASE)

    def touches(self) -> tuple[Uid, ...]:
        """Return the files of the database."""
        return tuple([("path", path) for path in DATABASE])

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the packages of debconf."""
        return (Dependency("pkg", "debconf", vital=False), Dependency("pkg", "debconf-utils", vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new answers, as Salt does; passwords are hidden."""
        return {question: (delta.after or {})[question] for question in delta.fields}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        answers = f"{len(delta.fields)} answers" if len(delta.fields) > 1 else f"the answer to {delta.fields[0]}"
        return Effect(("set",), self.name, answers)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the answers of {self.name} are as declared"


class Set(Answers, kind="debconf.set"):
    """Questions of a package have answers, so that its installation does not ask them.

    An installed package reads its answers again only when it is reconfigured. Later states of packages wait for the
    answers of their packages.

    postfix:
      debconf.set:
        - data:
            postfix/main_mailer_type: {type: select, value: Satellite system}
            postfix/relayhost: {type: string, value: mail.example.org}
    """

    name: Annotated[Text, shaped(r"[A-Za-z0-9][A-Za-z0-9+.-]*", "the name of a package", 256)]
    """The package that asks."""
    data: dict[str, dict[Literal["type", "value"], Annotated[str, BeforeValidator(parse_answer)]]] = field(secret=True)
    """Question -> `{type: ..., value: ...}`; types are select, boolean, string, multiselect, note, password, text."""

    @field_validator("data")
    @classmethod
    def _complete(cls, data: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for question, answer in data.items():
            if answer.keys() != {"type", "value"}:
                raise ValueError(f"{question}: write {{type: ..., value: ...}}")
            demand_answer(Answer("package", question, **answer))
        return data

    async def answers(self, ctx: Context) -> Sequence[Answer]:
        """Return the declared answers."""
        return [Answer(self.name, question, each["type"], each["value"]) for question, each in self.data.items()]

    def offers(self) -> tuple[Uid, ...]:
        """Return the answers of the package; its installation waits for them."""
        return (("debconf", self.name),)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the questions."""
        return tuple([("question", question) for question in self.data])

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction: two states answer a question differently."""
        theirs = other.data if isinstance(other, Set) else {}
        differ = [name for name, answer in self.data.items() if name in theirs and theirs[name] != answer]
        return f"the answer to {differ[0]} differs" if differ else None


class SetFile(FromSources, Answers, kind="debconf.set_file"):
    """Questions have the answers of a file for debconf-set-selections.

    answers:
      debconf.set_file:
        - source: salt://answers.selections
    """

    source: Annotated[Line, shaped(r"(salt|tree|file|https?)://.+|/.+", "the URL of a file")]
    """URL of the file: salt://, file://, an absolute path, http(s)://."""
    source_hash: Text | None = None
    """Hash of the source, or the URL of a file with hashes."""
    template: Literal["jinja"] | None = None
    """Render the file first."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""

    def used_sources(self) -> list[UsedSource]:
        """Return the file and a file with hashes."""
        hashes = [UsedSource(url) for url in (self.source_hash,) if url and url.startswith(SCHEMES)]
        return [UsedSource(self.source, template=self.template is not None), *hashes]

    async def answers(self, ctx: Context) -> Sequence[Answer]:
        """Return the answers in the file; the last answer to a question counts."""
        digest = await declared_digest(ctx, self.source_hash, self.source) if self.source_hash else None
        data = await ctx.source(self.source, trusted=self.template is not None, digest=digest)
        text = content.decoded(data, self.source)
        if self.template is not None:
            variables = {"source": self.source, "name": self.name, **(self.defaults or {}), **(self.context or {})}
            text = ctx.render(text, name=self.source, variables=variables)
        try:
            return list({answer.question: answer for answer in selections(text)}.values())
        except ValueError as error:
            raise Permanent(f"cannot read {shown_url(self.source)}: {error}") from None

    def watch(self, ctx: Context) -> Watch:
        """Also watch the file."""
        return ctx.watch_path(*DATABASE, *self.outside_paths(ctx))

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: only the file names the packages."""
        return ()
