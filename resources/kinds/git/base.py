"""Base of the kinds of clones: the arguments, the repository, and the references of the remote repository."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, model_validator

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Services, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.dependencies import Dependency, lies_in, owned_by
from holdfast.resources.effects import EffectVerb
from holdfast.resources.errors import HoldfastError, Permanent, StillDiffers
from holdfast.resources.fields import AbsPath, Owner, Paths, Text, field, shaped
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.kinds.git import nested, stale_lock
from holdfast.resources.kinds.git.making import New, make, must_clear
from holdfast.resources.kinds.git.program import Credentials, Git
from holdfast.resources.kinds.git.seen import HEADS, RemoteReferences, SeenRepository, ask, bare_url, look
from holdfast.resources.kinds.git.steps import Steps
from holdfast.resources.kinds.git.trusted import TrustedDirectory, target_of, uid_of
from holdfast.resources.traits import Backed, Edgeable
from holdfast.resources.watches import either

_REST = r"[^\s\x00-\x1f\x7f]*"
URL = re.compile(
    rf"(https?|ssh|git)://(?!-)[^\s/@\x00-\x1f\x7f]+(@(?!-)[^\s/\x00-\x1f\x7f]+)?/{_REST}"
    rf"|file:///{_REST}|/[^\x00-\x1f\x7f]+|(?!-)([\w.+-]+@(?!-))?[\w.-]+:(?!//)[^\s:\x00-\x1f\x7f-]{_REST}"
)
"""Matches the URLs that git accepts; `host:path` is a URL of ssh."""
FOREIGN = {"password": "Windows only", "output_encoding": "names of files are shown as UTF-8"}
REF = (
    r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock$|[./]$))[^\x00-\x20\x7f~^:?*\[\\]+",
    "a name that git allows: a name has no blanks, none of ~^:?*[\\, and does not begin with - . or /",
)
Rev = Annotated[Text, shaped(*REF, 255)]
"""A branch, a tag or a commit."""
Glob = Annotated[Text, shaped(r"(?!-)(?!.*\*.*\*)[^\x00-\x20\x7f~^:?\[\\]+", "a name with at most one *", 255)]
"""Names of branches or tags, as a pattern."""


def demand_url(value: str) -> str:
    """Check the URL of a repository. Raises `ValueError`."""
    if not URL.fullmatch(value) or value.startswith("-") or "::" in value.partition("/")[0]:
        raise ValueError(
            f"{value!r} is not the URL of a repository; write https://..., ssh://..., git://..., user@host:path, "
            "file:///... or an absolute path"
        )
    if re.match(r"https?://[^/@]*:[^/@]*@", value):
        raise ValueError(
            "a URL must not contain a password, because others could see it: set https_user and https_pass"
        )
    return value


Url = Annotated[str, AfterValidator(demand_url)]


class RemoteAnswers:
    """The last answers of remote repositories, so that a check after a local event need not ask them."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], RemoteReferences] = {}


class DeclaredRepository(NamedTuple):
    """A repository on this host, and git to run in it."""

    git: Git
    seen: SeenRepository | None


class Clone(Edgeable, Backed, Resource):
    """Base of the kinds of clones."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change", "replace")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "content"}
    ignored: ClassVar[Mapping[str, str]] = FOREIGN
    polling: ClassVar[bool] = True
    """Whether the agent follows changes of the remote repository after the clone."""

    name: Url
    """URL of the remote repository, without a password."""
    target: AbsPath
    """The directory of the clone."""
    user: Owner | None = field(None)
    """User that runs git. Default: the user of the agent, root. The directory must belong to this user."""
    identity: Paths = ()
    """Private keys for ssh. No other user may be able to read them."""
    https_user: Text | None = field(None)
    """User name for an https URL."""
    https_pass: Text | None = field(None, secret=True)
    """Password for an https URL. It is not written into the repository."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.https_user or self.https_pass) and not self.name.startswith("https://"):
            raise ValueError("https_user and https_pass are for https URLs")
        if not self.target.strip("/"):
            raise ValueError("target is the root directory, which force_clone would empty; choose another directory")
        return self

    # -- the repository -----------------------------------------------------------------------------------------

    async def find(self, ctx: Context, *, submodules: bool = False, remote: str = "origin") -> DeclaredRepository:
        """Return the present repository. Raises `Permanent` if git must not work there."""
        git, present = await self._git(ctx)
        return DeclaredRepository(git, await look(git, remote, submodules=submodules) if present else None)

    async def _git(self, ctx: Context) -> tuple[Git, bool]:
        """Return git for the directory, and whether it exists. Raises `Permanent` if git must not work there."""
        place: TrustedDirectory = await ctx.blocking(target_of, self.target, self.user)
        credentials = Credentials(self.identity, self.https_user or "", self.https_pass or "")
        return Git(ctx, place.real, self.user, self.name, credentials), place.present

    def patterns(self) -> tuple[str, ...]:
        """Return patterns of the references of the remote repository that matter; empty: all."""
        return ()

    async def remote_of(self, ctx: Context, git: Git) -> RemoteReferences:
        """Return the references of the remote repository; in an agent, those of the last poll."""
        answers, key = ctx.background, (self.name, *self.patterns())
        if not isinstance(answers, RemoteAnswers):
            return await self._ask(ctx, git)
        if key not in answers.known:
            answers.known[key] = await self._ask(ctx, git)
        return answers.known[key]

    async def _ask(self, ctx: Context, git: Git) -> RemoteReferences:
        await ctx.blocking(self._demand_keys)
        return await ask(git, *self.patterns())

    def _demand_keys(self) -> None:
        """Raise `Permanent` for a private key that others can read or replace. Blocks."""
        for path in self.identity:
            with os_errors("use the identity", path):
                place = paths.at(path, follow=True)
                seen = place.look()
            if seen is None:
                raise Permanent(
                    f"cannot use the identity {path}: the file does not exist; declare it, or correct the path"
                )
            if seen.st_mode & 0o077 or seen.st_uid not in {*paths.trusted_uids(), uid_of(self.user)}:
                raise Permanent(
                    f"cannot use the identity {path}: other users can read it, or it belongs to another user; give it "
                    "mode 0600 and the user of git"
                )

    # -- the contract -------------------------------------------------------------------------------------------

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Take the remaining steps, then check that no step remains."""
        steps = Steps(ctx, self.target, apply)
        try:
            await self.approach(ctx, steps)
        except Permanent as error:
            if not (apply and stale_lock.NAME in str(error) and await stale_lock.removed((await self.find(ctx)).git)):
                raise
            await self.approach(ctx, steps)
        if steps.report():
            ctx.report.comment = ctx.report.comment or self.explain(ctx)
            return True
        if apply:
            again = Steps(ctx, self.target, apply=False)
            await self.approach(ctx, again)
            if again.told:
                raise StillDiffers(f"still differs after the repair: {', '.join(again.told)}")
        return False

    @abstractmethod
    async def approach(self, ctx: Context, steps: Steps) -> None:
        """Take the steps that lead to the declared state."""

    async def create(self, steps: Steps, git: Git, new: New, *, force: bool = False) -> None:
        """Create the clone. Raises `Permanent` if the directory contains something else."""
        clear = await must_clear(git, force=force)
        steps.verb = "replace" if force and clear else "create"
        forced = {"forced clone": True} if force and clear else {}
        at = f" at {new.commit[:40]}" if new.commit else ""
        told = f"clone of {bare_url(self.name)}{at}" + (
            ", which removes the content of the directory" if forced else ""
        )
        await steps.take(
            told, lambda: make(git, new, clear=clear), new=f"{bare_url(self.name)} => {self.target}", **forced
        )

    async def update_submodules(self, steps: Steps, git: Git, *options: str) -> None:
        """Check out the submodules."""
        await steps.take("update of submodules", partial(nested.update, git, *options))

    async def set_url(self, steps: Steps, git: Git, seen: SeenRepository, remote: str) -> None:
        """Set the URL of the remote. A password in the old URL is removed and not shown."""
        if seen.url == self.name:
            return
        shown = None if seen.url is None else bare_url(seen.url)
        values = {f"remote.{remote}.url": self.name}
        if seen.url is None and not seen.bare:
            values[f"remote.{remote}.fetch"] = f"+{HEADS}*:refs/remotes/{remote}/*"
        await steps.take(
            f"URL of {remote}",
            *[partial(git.run, "config", "--local", name, value) for name, value in values.items()],
            remote={"old": shown, "new": self.name},
        )

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.target} is as declared"

    # -- watching -----------------------------------------------------------------------------------------------

    @classmethod
    async def background(cls, services: Services) -> AsyncIterator[Any]:  # noqa: ARG003 - it needs none
        """Keep the answers of remote repositories."""
        yield RemoteAnswers()
        await asyncio.Event().wait()

    async def polls(self, ctx: Context, interval: float) -> Watch:
        """Ask the remote repository from time to time, because no event reports its changes; report a new answer."""
        yield None
        failure = ""
        while True:
            await asyncio.sleep(interval)
            answers, key = ctx.background, (self.name, *self.patterns())
            try:
                answer = await self._ask(ctx, (await self._git(ctx))[0])
            except HoldfastError as error:
                if failure != (failure := str(error)):
                    ctx.log.warning("cannot ask the remote repository", error=failure)
                continue
            failure = ""
            if isinstance(answers, RemoteAnswers) and answers.known.get(key) != answer:
                answers.known[key] = answer
                yield None

    def watching(self, ctx: Context, interval: float) -> Watch:
        """Watch the repository with its work tree, and poll the remote repository."""
        local = ctx.watch_path(self.target, recursive=True)
        return either(local, self.polls(ctx, interval)) if interval else local

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the clone."""
        return (("git", self.target),)

    def offers(self) -> tuple[Uid, ...]:
        """Return the directory."""
        return (("path", self.target),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory or its parent, the user, the keys and the package of git."""
        keys = [Dependency("path", path) for path in self.identity]
        return (
            Dependency("path", self.target, vital=False, above=True),
            lies_in(self.target),
            *owned_by(self.user, None),
            *keys,
            Dependency("pkg", "git", vital=False),
        )
