"""Keys with which users can log in by SSH: single lines of authorized_keys files."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import PrivateAttr, model_validator

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.downloads import shown_url
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Final
from holdfast.resources.fields import Account, Line, Text, Texts, shaped
from holdfast.resources.kinds._home_entry import HomeEntry
from holdfast.resources.kinds._ssh_keys import AuthorizedKey, KeyOptions, KeyPaths, KeyType, declared, lines
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.traits import Declaration, FromSources, Reversible, UsedSource
from holdfast.resources.watches import either

NEVER = "the keys themselves are compared"
OTHERS_WRITE = 0o022
SOURCE = r"|(salt|tree|file|https)://[^\0-\x20]+|/[^\0\n]+"


class InAuthorizedKeys(Reversible, HomeEntry):
    """Base of the kinds of this family."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    ignored: ClassVar[Mapping[str, str]] = {"fingerprint_hash_type": NEVER}
    user: Account
    """User who can log in with the key."""
    enc: KeyType | None = None
    """Type of keys that are written without one: `ed25519`, `rsa`, or the full name. Default: the type in the key data.

    A key whose data have another type is refused, because sshd would ignore it.
    """
    comment: Annotated[Text, shaped(r"[^\0-\x1f\x7f]*", "one line of text")] = ""
    """Comment of keys that are written without one."""
    options: KeyOptions = ""
    """Options of keys that are written without options, as a list: `no-pty`, `from="10.0.0.0/8"`, `cert-authority`."""
    config: KeyPaths = ".ssh/authorized_keys"
    """The file, as in AuthorizedKeysFile of sshd_config(5): relative to the home directory, with `%h` and `%u`.

    With several files, separated by blanks, keys are added to the first file and removed from all. A new file outside
    of the home directory belongs to root, so that the user cannot change it.
    """

    _keys: tuple[AuthorizedKey, ...] = PrivateAttr(())
    """The keys of the source after it has been read."""

    def stated(self) -> Sequence[str]:
        """Return the keys that the state itself lists."""
        return ()

    def keys(self) -> Mapping[str, AuthorizedKey]:
        """Return the declared keys by their data."""
        given = (declared(text, self.enc or "", self.options, self.comment) for text in self.stated())
        return {key.key: key for key in (*given, *self._keys)}

    @model_validator(mode="after")
    def _parse(self) -> Self:
        self.keys()
        return self

    def pattern(self) -> str:
        """Return the path of the first file."""
        return self.config.partition(" ")[0]

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the keys."""
        return tuple([("ssh-key", f"{self.user} {self.config} {key}") for key in self.keys()])

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction; keys that several states declare must have equal options and comments."""
        if not (isinstance(self, Strict) and isinstance(other, Strict)):
            return super().contradicts(other)
        mine, theirs = self.keys(), other.keys()
        for name in ("options", "comment"):
            if any(getattr(mine[key], name) != getattr(theirs[key], name) for key in mine.keys() & theirs.keys()):
                return f"{name} differs"
        return None

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the change of each key, as Salt does."""
        old, new = delta.before or {}, delta.after or {}
        keys = [name for name in delta.fields if name not in EXTRA]
        done = {key: "Removed" if key not in new else "Updated" if key in old else "New" for key in keys}
        done |= dict.fromkeys(old.get("others", ()) if "others" in delta.fields else (), "Key removed")
        return done | {path: {"mode": "go-w"} for path in old.get("writable", ()) if "writable" in delta.fields}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the keys."""
        done = [word for word in self.changes(delta).values() if isinstance(word, str)]
        known = self.keys()
        called = known[next(iter(known))].called() if len(known) == 1 else "keys"
        verbs = {"New": "add", "Updated": "change", "Removed": "remove", "Key removed": "remove"}
        made: list[EffectVerb] = [verb for verb in self.effect_verbs if verb in {verbs[word] for word in done}]
        if not made:
            return Effect(("change",), self.user, "access rights", " to the keys")
        return Effect(tuple(made), called, detail=f" of {self.user}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the keys of {self.user} are as declared"


EXTRA = frozenset({"others", "writable"})
"""Fields of a state that are not keys."""


class WithSource(FromSources, InAuthorizedKeys):
    """Base of the kinds of one key, or of those of a source."""

    name: Line
    """The key: `ssh-ed25519 AAAA... alice@laptop`, possibly with options before it, or only its data.

    With `source`, it is any text.
    """
    source: Annotated[Text, shaped(SOURCE, "a source: salt://, file://, https:// or a path")] | None = None
    """A file with one key on each line, as in a .pub file, instead of the name.

    A file on this host must belong to root. `http://` is refused, because an attacker could replace keys in transit.
    """

    def stated(self) -> Sequence[str]:
        """Return the name, unless there is a source."""
        return () if self.source else (self.name,)

    def used_sources(self) -> Iterable[UsedSource]:
        """Return the source."""
        return (UsedSource(self.source),) if self.source else ()

    def watch(self, ctx: Context) -> Watch:
        """Also watch a source on this host."""
        sources = self.outside_paths(ctx)
        return either(super().watch(ctx), ctx.watch_path(*sources)) if sources else super().watch(ctx)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Read the source first."""
        if self.source and not self._keys:
            copy = self.model_copy()
            copy._keys = tuple(await self._fetched(ctx, self.source))  # noqa: SLF001 - a copy of this resource
            return await copy.check_apply(ctx, apply)
        for key in self.keys().values():
            key.demand()
        return await super().check_apply(ctx, apply)

    async def _fetched(self, ctx: Context, url: str) -> list[AuthorizedKey]:
        text = (await ctx.source(url, trusted=True)).decode(errors="surrogateescape")
        keys = [key for _, key in lines(text) if key is not None]
        if not keys:
            raise Final(
                f"cannot use {shown_url(url)}: it has no public keys; a key is one line: `ssh-ed25519 AAAA... comment`"
            )
        return [key._replace(options=self.options or key.options) for key in keys]

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the changes of the keys; the keys of a source are one change, as in Salt."""
        done = super().changes(delta)
        words = [done[key] for key in self.keys() if key in done]
        if not self.source or not words:
            return done
        return {self.name: "Updated" if "Updated" in words else words[0]}

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present line of the key, or of its absence; None for a source."""
        if self.source:
            return None
        known = {"user": self.user, "config": self.config}
        (wanted,) = self.keys()
        line = next((key.line() for _, key in lines(await self.text(ctx)) if key and key.key == wanted), None)
        kind = "ssh_auth.absent" if line is None else "ssh_auth.present"
        return Declaration(kind, {"name": line or self.name, **known})


class Strict(InAuthorizedKeys):
    """Base of the kinds that declare keys: sshd must accept the file (StrictModes), and each key has one line."""

    def desired(self) -> State:
        """Return each key with its line, and that only the user can write the file."""
        return {key: wanted.line() for key, wanted in self.keys().items()} | {"writable": []}

    async def probe(self, ctx: Context) -> State:
        """Return the present keys, and the paths that others than the user can write."""
        state = await super().probe(ctx)
        return {**(state or {}), "writable": await self._writable(ctx)}

    async def _writable(self, ctx: Context) -> list[str]:
        """Return the file and its directory if others can write them, because sshd then ignores the keys."""
        file = await self.home_file(ctx)
        if file is None:
            return []
        parent = os.path.dirname(file.path)  # noqa: PTH120 - Path objects are slow
        own = [parent] if file.inside and parent != file.home.rstrip("/") else []
        seen = {path: found(path, follow=True)[1] for path in (*own, file.path)}
        return [path for path, status in seen.items() if status is not None and status.st_mode & OTHERS_WRITE]

    def read(self, text: str) -> State:
        """Return the lines of the declared keys."""
        known, wanted = [key for _, key in lines(text) if key is not None], self.keys()
        found_lines: dict[str, list[str]] = {}
        for key in known:
            if key.key in wanted:
                found_lines.setdefault(key.key, []).append(key.line())
        return {key: "\n".join(present) for key, present in found_lines.items()}

    def edited(self, text: str) -> str:
        """Return the text with each key once: at its first position, or at the end."""
        wanted = {key: f"{each.line()}\n" for key, each in self.keys().items()}
        done: set[str] = set()
        new = []
        for line, key in lines(text):
            if key is None or self.keeps(key):
                new.append(line)
            elif key.key in wanted and key.key not in done:
                done.add(key.key)
                new.append(line if key.line() == wanted[key.key].rstrip("\n") else wanted[key.key])
        if new and not new[-1].endswith("\n"):
            new[-1] += "\n"
        return "".join([*new, *(line for key, line in wanted.items() if key not in done)])

    def keeps(self, key: AuthorizedKey) -> bool:
        """Return whether a key stays as it is."""
        return key.key not in self.keys()

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the keys, then remove the write access of others."""
        if {*delta.fields} - {"writable"}:
            await super().apply(ctx, delta)
        for path in await self._writable(ctx):
            place, seen = found(path, follow=True)
            if place is not None and seen is not None:
                with os_errors("change the mode of", path):
                    paths.change(place, seen, -1, -1, seen.st_mode & 0o7777 & ~OTHERS_WRITE)


class Present(WithSource, Strict, kind="ssh_auth.present"):
    """A user can log in with a key. Other lines of the file stay as they are.

    The state compares the whole line of a key, with its options and its comment, and removes further lines of the same
    key, because sshd would use them, too. A new file has mode 0600, a new directory 0700, and both belong to the user.
    If others can write the file or directory, the state corrects its mode, because sshd would ignore it. inotify
    reports changes of the file, and of a source on this host.

    ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7 alice@laptop:
      ssh_auth.present:
        - user: alice
        - options:
            - no-agent-forwarding
            - from="192.0.2.0/24"
    """


class Absent(WithSource, kind="ssh_auth.absent"):
    """A user cannot log in with a key: no line of the file has the key, with any options.

    ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7 alice@laptop:
      ssh_auth.absent:
        - user: alice
    """

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the lines of the keys in all files; None if there are none, or no such user."""
        if await self.located_or_none(ctx) is None:
            return None
        present = [await super(Absent, each).probe(ctx) for each in self.each()]
        return {key: line for state in present if state for key, line in state.items()} or None

    def each(self) -> list[Self]:
        """Return one copy of this resource for each file."""
        paths = self.config.split()
        return [self] if len(paths) == 1 else [self.model_copy(update={"config": path}) for path in paths]

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the keys from each file that has them."""
        for each in self.each():
            if await each.present(ctx) is not None:
                await each.rewrite(ctx, each.edited)

    def watch(self, ctx: Context) -> Watch:
        """Watch all files and the accounts."""
        return either(*[super(Absent, each).watch(ctx) for each in self.each()])

    def read(self, text: str) -> State:
        """Return the lines that have the keys."""
        wanted = self.keys()
        return {key.key: key.line() for _, key in lines(text) if key and key.key in wanted} or None

    def edited(self, text: str) -> str:
        """Return the text without these lines."""
        wanted = self.keys()
        return "".join(line for line, key in lines(text) if key is None or key.key not in wanted)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return nothing: the user need not exist."""
        return ()


class Manage(Strict, kind="ssh_auth.manage"):
    """A user can log in with exactly these keys: all other lines with keys are removed. Comments and blank lines stay.

    keys of alice:
      ssh_auth.manage:
        - user: alice
        - ssh_keys:
            - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7 alice@laptop
    """

    refused: ClassVar[Mapping[str, str]] = {
        "source": "Salt would remove the keys of the source at each run; list all keys in `ssh_keys`",
    }
    ssh_keys: Texts
    """All keys of the user: `ssh-ed25519 AAAA... comment`, possibly with options before them.

    An empty list removes all keys.
    """

    def stated(self) -> Sequence[str]:
        """Return the keys."""
        return self.ssh_keys

    @model_validator(mode="after")
    def _one_file(self) -> Self:
        if " " in self.config:
            raise ValueError("config must be one file: declare a state for each file that sshd reads")
        return self

    def desired(self) -> State:
        """Return the keys, and no others."""
        return {**(super().desired() or {}), "others": []}

    def read(self, text: str) -> State:
        """Return the declared keys and the other keys."""
        wanted = self.keys()
        return {
            **(super().read(text) or {}),
            "others": list(dict.fromkeys(key.key for _, key in lines(text) if key and key.key not in wanted)),
        }

    def keeps(self, key: AuthorizedKey) -> bool:
        """Return False: keep only declared keys."""
        return False

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Check the data of the keys first."""
        for key in self.keys().values():
            key.demand()
        return await super().check_apply(ctx, apply)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return all present keys."""
        present = [key.line() for _, key in lines(await self.text(ctx)) if key]
        return Declaration(
            "ssh_auth.manage", {"name": self.name, "user": self.user, "config": self.config, "ssh_keys": present}
        )

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the keys and that of the whole file."""
        return (*super().uids(), ("ssh-keys", f"{self.user} {self.config}"))
