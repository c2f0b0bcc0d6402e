"""Names of addresses in /etc/hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.fields import AbsPath, Text, parse_list, shaped
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._hosts import added, canonical, lines, pairs, rewritten, without
from holdfast.resources.traits import Declaration, Reversible


@accepts(pattern=r"[0-9a-fA-F:.]+(%\w+)?")
def known_address(value: str) -> str:
    """Return an address in its canonical form. Raises `ValueError`."""
    try:
        return canonical(value)
    except ValueError:
        raise ValueError(f"{value!r} is not an address; write an address such as 192.0.2.1 or 2001:db8::1") from None


@accepts(VALUE, ITEM, str, None)
def split_names(value: object) -> object:
    """Return a list of names; split text at blanks."""
    return value.split() if isinstance(value, str) else parse_list(value)


Address = Annotated[Text, AfterValidator(known_address)]
"""An IPv4 or IPv6 address."""
Addresses = Annotated[tuple[Address, ...], BeforeValidator(parse_list)]
"""A list of addresses; a single address is a list with one item."""
HostName = Annotated[Text, shaped(r"[\w]([\w.-]*[\w.])?", "the name of a host: letters, digits and .-_", 253)]
"""The name of a host."""


class InHosts(Reversible, ConfigEntry):
    """Base of the kinds of this family."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")

    config: AbsPath = "/etc/hosts"
    """The file, for example that of a container."""

    def file(self) -> str:
        """Return the path of the file."""
        return self.config

    def known(self) -> dict[str, Any]:
        """Return the arguments that make another state of the family concern the same entries."""
        return {"name": self.name, **({"config": self.config} if "config" in self.model_fields_set else {})}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is as declared in {self.config}"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the name or address."""
        if delta.remove:
            return Effect(("remove",), self.name, detail=f" from {self.config}")
        if delta.create:
            return Effect(("add",), self.name, detail=f" to {self.config}")
        return Effect(("change",), self.name, detail=f" in {self.config}")


class OfName(InHosts):
    """Base of the kinds that concern one name."""

    name: HostName
    """The name of the host; case does not matter."""

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the name with each address."""
        return tuple([("host", f"{self.config} {self.name.lower()} {address}") for address in self.addresses()])

    def addresses(self) -> tuple[str, ...]:
        """Return the declared addresses."""
        return ()


class Present(OfName, kind="host.present"):
    """A host name has these addresses. Other lines, names and comments of the file stay as they are.

    A missing name is added to the first line of its address, or to a new line at the end. inotify reports changes.

    db.example.org:
      host.present:
        - ip: [192.0.2.7, "2001:db8::7"]
        - clean: true
    """

    ip: Addresses
    """One address or a list of addresses."""
    comment: Annotated[Text, shaped(r"[^\0-\x1f\x7f#]*", "one line of text without #")] | None = None
    """Comment of the line. A name on a line with another comment gets a line of its own. Default: unchanged."""
    clean: bool = False
    """Remove the name from all other addresses."""

    def addresses(self) -> tuple[str, ...]:
        """Return the declared addresses, each once."""
        return tuple(dict.fromkeys(self.ip))

    def _said(self) -> str | None:
        return None if self.comment is None else self.comment.strip()

    def desired(self) -> State:
        """Return the addresses; with `clean`, no others."""
        said = {} if not self.comment else {"comment": self._said()}
        return {"ip": [*self.addresses()], **({"others": []} if self.clean else {}), **said}

    def read(self, text: str) -> State:
        """Return which of the addresses the name has, and its other addresses."""
        seen = pairs(text, self.name)
        found = dict(reversed(seen))
        right = [address for address in self.addresses() if address in found]
        wrong = (comment for address, comment in seen if address in right and comment != self._said())
        return {
            "ip": right,
            "others": [address for address in found if address not in right],
            "comment": next(wrong, self._said()),
        }

    def edited(self, text: str) -> str:
        """Return the text with the addresses of the name."""
        wanted = self.addresses()
        said = self._said() or None
        if self.clean:
            text = without(text, self.name, lambda line: line.address not in wanted)
        if said is not None:
            text = without(text, self.name, lambda line: line.address in wanted and line.comment != said)
        for address in wanted:
            if address not in dict(pairs(text, self.name)):
                text = added(text, address, self.name, said)
        return text

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the changes of the name, as Salt does."""
        before, after = delta.before or {}, delta.after or {}
        old, new = before.get("ip", []), after.get("ip", [])
        done: dict[str, Any] = {}
        if missing := [address for address in new if address not in old]:
            done["added"] = {address: [self.name] for address in missing}
        if "comment" in delta.fields:
            done["comment_added"] = {address: [after.get("comment")] for address in new}
        if "others" in delta.fields:
            done["removed"] = {address: [self.name] for address in before.get("others", [])}
        return done

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction; several states may give a name different addresses."""
        if not isinstance(other, Present):
            return super().contradicts(other)
        if self.comment and other.comment and self.comment != other.comment:
            return "comment differs"
        clean = any(one.clean and {*two.ip} - {*one.ip} for one, two in ((self, other), (other, self)))
        return "ip differs" if clean else None

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of exactly the present addresses of the name."""
        seen = pairs(await self.text(ctx), self.name)
        if not seen:
            return Declaration("host.absent", {**self.known(), "ip": [*self.addresses()]})
        comments = {comment for _, comment in seen}
        said = {"comment": comments.pop()} if self.comment and len(comments) == 1 and "" not in comments else {}
        found = [*dict(seen)]
        return Declaration("host.present", {**self.known(), "ip": found, "clean": True, **said})


class Absent(OfName, kind="host.absent"):
    """A host name does not have these addresses. A line without further names is removed.

    old.example.org:
      host.absent:
        - ip: 192.0.2.8
    """

    ip: Addresses
    """One address or a list of addresses."""

    def addresses(self) -> tuple[str, ...]:
        """Return the declared addresses."""
        return tuple(dict.fromkeys(self.ip))

    def desired(self) -> State:
        """Return None: absent."""
        return None

    def read(self, text: str) -> State:
        """Return which of the addresses the name has."""
        found = [address for address, _ in pairs(text, self.name) if address in self.ip]
        return {"ip": found} if found else None

    def edited(self, text: str) -> str:
        """Return the text without the name on the lines of these addresses."""
        return without(text, self.name, lambda line: line.address in self.ip)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the name, as Salt does."""
        return {"host": self.name}

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the addresses that the name has, with their comment; None if it has none."""
        seen = [pair for pair in pairs(await self.text(ctx), self.name) if pair[0] in self.ip]
        comments = {comment for _, comment in seen}
        said = {"comment": comments.pop()} if len(comments) == 1 and "" not in comments else {}
        arguments = {**self.known(), "ip": [address for address, _ in seen], **said}
        return Declaration("host.present", arguments) if seen else None


class Only(InHosts, kind="host.only"):
    """An address has exactly these names, in this order. Its comment stays.

    127.0.1.1:
      host.only:
        - hostnames: [web1.example.org, web1]
    """

    name: Address
    """The address."""
    hostnames: Annotated[tuple[HostName, ...], BeforeValidator(split_names)]
    """The names; an empty list removes the lines of the address."""

    def desired(self) -> State:
        """Return the names on one line."""
        return {"hostnames": [" ".join(self.hostnames)] if self.hostnames else []}

    def read(self, text: str) -> State:
        """Return the names of each line of the address."""
        return {"hostnames": [" ".join(line.names) for _, line in lines(text) if line and line.address == self.name]}

    def edited(self, text: str) -> str:
        """Return the text with one line of the address, at its first position or at the end."""
        new, done = [], not self.hostnames
        for raw, line in lines(text):
            if line is None or line.address != self.name:
                new.append(raw)
            elif not done:
                done = True
                new.append(rewritten(raw, self.hostnames))
        text = "".join(new)
        for name in () if done else self.hostnames:
            text = added(text, self.name, name, None)
        return text

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the old and the new names, as Salt does."""
        old, new = ((state or {}).get("hostnames", []) for state in (delta.before, delta.after))
        return {self.name: {"old": " ".join(old), "new": " ".join(new)}}

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the address."""
        return (("hosts-of", f"{self.config} {self.name}"),)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present names."""
        present = (line for _, line in lines(await self.text(ctx)) if line and line.address == self.name)
        found = [name for line in present for name in line.names]
        return Declaration("host.only", {**self.known(), "hostnames": found})
