"""Who changed something: a process of this host, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.resources.secrets import MASK
from holdfast.resources.visible import escaped

SHOWN = 200
"""Most characters of a command line that are shown."""
NO_LOGIN = 0xFFFF_FFFF
"""What the kernel reports as the login user of a process that no login has started."""


class Author(NamedTuple):
    """A process that changed something. The process itself chooses `name` and `command`; the kernel knows the rest."""

    pid: int
    """Its process id; 0 if it belongs to the host or to another container, which this one cannot see."""
    name: str = ""
    """Its name; empty if it had ended before it could be read."""
    command: str = ""
    """Its command line, with the arguments separated by spaces; empty if it is not known."""
    uid: int | None = None
    """The user that it ran as."""
    user: str = ""
    """The name of that user; the number if there is no name."""
    login: str = ""
    """The user that logged in: it stays the same through sudo. Empty for a process that no login has started."""
    unit: str = ""
    """The unit of systemd in which it ran."""

    def __str__(self) -> str:
        """Return the author in one line: `vim /etc/motd, pid 4242, login user deploy`."""
        if not self.name:
            ended = f"pid {self.pid} had ended" if self.pid else "a process outside of this container"
            return f"unknown: {ended}"
        text = escaped(_cut(self.command or self.name))
        words = [f'"{text}"' if "," in text else text, f"pid {self.pid}"]  # a comma may forge the words that follow
        if self.login:
            words.append(f"login user {escaped(self.login)}")
        else:
            words += [f"user {escaped(self.user)}"] if self.user else []
            words += [escaped(self.unit)] if self.unit else []
        return ", ".join(words)

    def masked(self, redacted: Callable[[Any], Any]) -> Author:
        """Return the author with the secrets redacted in the texts that the process has chosen."""
        name, command = redacted((self.name, self.command))
        return self._replace(name=name, command=command)

    def without_arguments(self) -> Author:
        """Return the author with its command line masked, for a resource whose details are hidden."""
        return self._replace(command=f"{self.name} {MASK}" if self.command else "")

    def fields(self) -> dict[str, Any]:
        """Return the known fields, for programs. `way` says that the change was made on the host."""
        known = {name: value for name, value in self._asdict().items() if value not in ("", None)}
        return {**known, **({"command": _cut(self.command)} if self.command else {}), "way": "host"}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Author:
        """Return the author with these fields; unknown fields, which a later version has written, are ignored."""
        return cls(**{"pid": 0, **{name: value for name, value in fields.items() if name in cls._fields}})


def _cut(text: str) -> str:
    return f"{text[:SHOWN]}..." if len(text) > SHOWN else text
