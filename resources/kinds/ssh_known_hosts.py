"""Keys of other hosts that ssh(1) trusts: single lines of known_hosts files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, PrivateAttr, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Final, Permanent, Temporary
from holdfast.resources.fields import Account, Line, Text, field, shaped
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._home_entry import HomeEntry
from holdfast.resources.kinds._known_hosts import (
    DIGESTS,
    KnownKey,
    address,
    fingerprint,
    hashed,
    is_plain,
    keys_of,
    parsed_fingerprint,
    without,
)
from holdfast.resources.kinds._ssh_keys import KeyPath, KeyType, declared, inner_type, parsed
from holdfast.resources.traits import Declaration, Reversible

FILE, FILE_OF_USER = "/etc/ssh/ssh_known_hosts", ".ssh/known_hosts"
GRACE = 5.0
"""Seconds that ssh-keyscan may take beyond its own limit, which applies to each connection."""


@accepts(pattern=r"SHA256:\S+|MD5:\S+|[0-9a-fA-F:]+")
def known_fingerprint(value: str) -> str:
    """Check a fingerprint. Raises `ValueError`."""
    parsed_fingerprint(value)
    return value


class InKnownHosts(Reversible, HomeEntry):
    """Base of the kinds of this family."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    name: Annotated[Text, shaped(r"[A-Za-z0-9_:.%]([A-Za-z0-9_:.%-]*)", "the name or the address of one host", 255)]
    """The host: one name or address, as in the command line of ssh."""
    user: Account | None = None
    """User whose file it is. Default: the file of the system, for all users."""
    config: KeyPath | None = None
    """The file. Default: `.ssh/known_hosts` in the home directory of the user, or `/etc/ssh/ssh_known_hosts`."""

    @model_validator(mode="after")
    def _absolute(self) -> Self:
        if self.user is None and self.config is not None and not self.config.startswith("/"):
            raise ValueError("without `user`, `config` must be an absolute path")
        return self

    def pattern(self) -> str:
        """Return the path of the file."""
        return self.config or (FILE if self.user is None else FILE_OF_USER)

    def address(self) -> str:
        """Return the name of the host in the file."""
        return address(self.name, None)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the host in this file."""
        return (("known-host", f"{self.user or ''} {self.pattern()} {self.address()}"),)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the only present key, or of its absence; None if there are several keys."""
        text = await self.text(ctx)
        present = [*keys_of(text, self.address())]
        known: dict[str, Any] = {"name": self.name}
        known |= {} if self.user is None else {"user": self.user}
        known |= {} if self.config is None else {"config": self.config}
        if len(present) > 1:
            return None
        if not present:
            return Declaration("ssh_known_hosts.absent", known)
        ((enc, key),) = present
        hides = not is_plain(text, self.address())
        return Declaration("ssh_known_hosts.present", {**known, "enc": enc, "key": key, "hash_known_hosts": hides})

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.address()} is {'not known' if self.desired() is None else 'known as declared'}"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the key of the host."""
        verb: EffectVerb = "add" if delta.create else "remove" if delta.remove else "change"
        whose = f" of {self.user}" if self.user else ""
        return Effect((verb,), f"key of {self.address()}", detail=f" in the known hosts{whose}")


class Present(InKnownHosts, kind="ssh_known_hosts.present"):
    """A host has one known key of a type. Keys of other types, other hosts and comments stay as they are.

    Declare the key, its fingerprint, or both. With only a fingerprint, ssh-keyscan fetches a missing key, and the state
    writes the key only if it has this fingerprint. With neither, the state trusts the keys that an unknown host shows
    at that moment; it does not ask a known host again. inotify reports changes of the file.

    git.example.org:
      ssh_known_hosts.present:
        - user: alice
        - key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7
    """

    key: Line | None = None
    """The key in base64, or with its type before it."""
    fingerprint: Annotated[Text, AfterValidator(known_fingerprint)] | None = None
    """Fingerprint of the key, as `ssh-keygen -l` prints it: `SHA256:...`, or hexadecimal digits with colons."""
    port: Annotated[int, field(ge=1, le=65535)] | None = None
    """Port of the server. Default: 22."""
    enc: KeyType | None = None
    """Type of the key. Default: the type in the key data; with a fingerprint, any."""
    hash_known_hosts: bool = True
    """Write the name of the host as a hash, so that readers of the file do not learn it. An existing line stays."""
    timeout: Annotated[int, field(ge=1, le=600)] = field(5, unit="seconds")
    """Maximum time to wait for an answer of the host."""
    fingerprint_hash_type: Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512"] | None = None
    """Hash algorithm of the fingerprint. Default: derived from its length."""

    _fetched: tuple[KnownKey, ...] = PrivateAttr(())
    """The keys that the host has shown and that will be written."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.key is not None:
            declared(self.key, self.enc or "", "", "")
        if self.fingerprint and self.fingerprint_hash_type not in {None, parsed_fingerprint(self.fingerprint)[0]}:
            length = DIGESTS[self.fingerprint_hash_type or "sha256"]
            raise ValueError(f"a fingerprint by {self.fingerprint_hash_type} has {length} bytes")
        return self

    def address(self) -> str:
        """Return host and port in the notation of the file."""
        return address(self.name, self.port)

    def own(self) -> KnownKey | None:
        """Return the declared key. Raises `Final` if it is not a key."""
        if self.key is None:
            return None
        key = declared(self.key, self.enc or "", "", "")
        key.demand()
        own = KnownKey(inner_type(key.key), key.key)
        if not self._has_fingerprint(own):
            raise Final(f"cannot trust {self.address()}: the declared key does not have the declared fingerprint")
        return own

    def desired(self) -> State:
        """Return the declared key or fingerprint, and that no other key of its type is trusted."""
        own = self.own()
        if own is not None:
            return {"key": own.key, "others": []}
        return {"fingerprint": self.fingerprint, "others": []} if self.fingerprint else {"known": True}

    def read(self, text: str) -> State:
        """Return the keys of the host without those of other types."""
        own = self.own()
        enc = own.enc if own else self.enc
        present = [each for each in keys_of(text, self.address()) if enc in {None, each.enc}]
        if not present:
            return None
        right = next((each for each in present if self._is_right(each)), None)
        first = right or present[0]
        others = [each.key for each in present if right and each.enc == right.enc and each != right]
        known = {"fingerprint": self.fingerprint if right else fingerprint(first.key, "sha256")}
        return {
            **(known if self.fingerprint and own is None else {"key": first.key}),
            "others": others,
            "known": True,
            "entries": [each.told(self.name) for each in present],
        }

    def _is_right(self, known: KnownKey) -> bool:
        return self._has_fingerprint(known) if self.key is None else known == self.own()

    def _has_fingerprint(self, known: KnownKey) -> bool:
        if self.fingerprint is None:
            return True
        hashing, digest = parsed_fingerprint(self.fingerprint)
        return fingerprint(known.key, hashing) == digest

    def edited(self, text: str) -> str:
        """Return the text with the keys to write; unchanged while they have not been fetched."""
        own = self.own()
        for each in (own,) if own else self._fetched:
            text = without(text, self.address(), each.key, each.enc)
            if each not in keys_of(text, self.address()):
                name = hashed(self.address()) if self.hash_known_hosts else self.address()
                end = "" if text.endswith("\n") or not text else "\n"
                text += f"{end}{name} {each.enc} {each.key}\n"
        return text

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Fetch the key if necessary, then write it."""
        if self.key is not None:
            await super().apply(ctx, delta)
            return
        known = [each for each in keys_of(await self.text(ctx), self.address()) if self._is_right(each)]
        keys = known if self.fingerprint and known else await self._fetch(ctx)
        entry = self.model_copy()
        entry._fetched = tuple(keys)  # noqa: SLF001 - a copy of this resource
        await entry.rewrite(ctx, entry.edited)
        ctx.report.changes = {**self.changes(delta), "new": [each.told(self.name) for each in keys]}

    async def _fetch(self, ctx: Context) -> list[KnownKey]:
        """Ask the host for its keys. Raises `Permanent` if none has the fingerprint."""
        wanted = ("-t", self.enc) if self.enc else ()
        argv = ("ssh-keyscan", "-T", str(self.timeout), "-p", str(self.port or 22), *wanted, "--", self.name)
        done = await ctx.run(*argv, check=False, timeout=5 * self.timeout + GRACE)
        lines = (line.partition(" ")[2] for line in done.stdout.splitlines() if not line.startswith("#"))
        shown = [KnownKey(key.enc, key.key) for key in map(parsed, lines) if key and inner_type(key.key) == key.enc]
        if not shown:
            said = reason(done) if done.stderr.strip() else "it did not answer"
            raise Temporary(f"cannot get a key of {self.address()}: {said}")
        right = [each for each in shown if self._is_right(each) and self.enc in {None, each.enc}]
        if not right:
            found = ", ".join(f"{each.enc} {fingerprint(each.key, 'sha256')}" for each in shown)
            raise Permanent(
                f"cannot trust {self.address()}: none of its keys has the declared fingerprint (it shows {found}); "
                "ask its operator whether the key has changed"
            )
        if self.fingerprint is None:
            ctx.log.warning("trusted the keys that the host has shown without any check", host=self.address())
        return right

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the old keys and the new key, as Salt does."""
        own = self.own()
        new = [own.told(self.name)] if own else [{"hostname": self.name, "fingerprint": self.fingerprint}]
        return {"old": (delta.before or {}).get("entries"), "new": new}

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return also the package of ssh-keyscan."""
        return (*super().dependencies(), Dependency("pkg", "openssh-client", vital=False))


class Absent(InKnownHosts, kind="ssh_known_hosts.absent"):
    """A host is not known: no line has its name, plain or hashed. Other names on such a line stay.

    old.example.org:
      ssh_known_hosts.absent:
        - user: alice
    """

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the keys of the host; None if there are none, or no such user."""
        return None if await self.located_or_none(ctx) is None else await super().probe(ctx)

    def read(self, text: str) -> State:
        """Return the keys of the host."""
        present = [each.told(self.name) for each in keys_of(text, self.address())]
        return {"entries": present} if present else None

    def edited(self, text: str) -> str:
        """Return the text without the host."""
        return without(text, self.address())

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the removed keys, as Salt does."""
        return {"old": (delta.before or {}).get("entries"), "new": None}
