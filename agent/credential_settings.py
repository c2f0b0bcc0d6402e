"""Settings by which a host authenticates to a server: a user with a password, and a client certificate.

A group of settings declares them after the address of the server, so that they are checked against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, ValidationInfo

from holdfast.agent.settings_types import Location

NAME = r"[^\x00-\x1f\x7f]{1,1000}"
"""The name of a user, without characters that servers refuse."""


class Server(Protocol):
    """The address of a server."""

    @property
    def encrypted(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def local(self) -> bool:
        """Whether the connection stays on this host."""


def _named(user: str) -> str:
    if not re.fullmatch(NAME, user):
        raise ValueError("the name of a user has 1 to 1000 characters, none of them a control character")
    return user


def _of_user(path: Path, info: ValidationInfo) -> Path:
    if "user" in info.data and info.data["user"] is None:
        raise ValueError("a password needs a `user`")
    return path


def _of_certificate(path: Path, info: ValidationInfo) -> Path:
    if "cert" in info.data and info.data["cert"] is None:
        raise ValueError("a key needs a `cert`")
    return path


User = Annotated[str, AfterValidator(_named)]
PasswordFile = Annotated[Location, AfterValidator(_of_user)]
"""Declared after `user`."""
KeyFile = Annotated[Location, AfterValidator(_of_certificate)]
"""Declared after `cert`."""


def demand_protected(servers: Iterable[Server], advice: str) -> None:
    """Raise `ValueError` if a password would be sent to one of these servers where others could read it."""
    if any(not each.encrypted and not each.local for each in servers):
        raise ValueError(f"the password would cross the network unencrypted: {advice}")
