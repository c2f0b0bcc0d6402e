"""The settings of the etcd cluster in which hosts share strings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from holdfast.agent.credential_settings import KeyFile, PasswordFile, User, demand_protected
from holdfast.agent.settings_types import Location, SettingsGroup, stays_here

PORT = 2379
"""The port of an endpoint that names none."""
URL = r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{1,5}))?/?"
PREFIX = r"/([A-Za-z0-9._-]{1,64}/){1,8}"


class Endpoint(NamedTuple):
    """The address of a member of the cluster."""

    host: str
    """In brackets if it is an IPv6 address."""
    port: int
    encrypted: bool

    @classmethod
    def of(cls, text: str) -> Endpoint:
        """Return the parts of a URL. Raises `ValueError`."""
        if "@" in text:
            raise ValueError("the URL contains a user or a password: write `user` and `password_file`")
        found = re.fullmatch(URL, text)
        port = int(found["port"] or PORT) if found else 0
        if not found or not 0 < port < 65536:
            raise ValueError(f"write https://HOST or http://HOST, and :PORT unless it is {PORT}")
        return cls(found["host"], port, found["scheme"] == "https")

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether the connection stays on this host."""
        return stays_here(self.host.strip("[]"))


class EtcdSettings(SettingsGroup):
    """The cluster in which hosts share strings. Off by default."""

    endpoints: tuple[str, ...] = ()
    """URLs of its members: https://HOST, or http://HOST without encryption. None: the resources of this host share
    strings among themselves."""
    user: User | None = None
    """The user in etcd. Default: none, or the one of the client certificate."""
    password_file: PasswordFile | None = None
    """A file whose first line is the password; only its owner and its group may be able to read it."""
    ca: Location | None = Field(None, validate_default=True)
    """Certificates of the authorities that may have signed the members' certificates, in PEM; needed with https."""
    cert: Location | None = None
    """The client certificate of this host, in PEM."""
    key: KeyFile | None = None
    """Its private key, without a passphrase. Default: in the file of the certificate."""
    prefix: str = "/holdfast/"
    """Keys in etcd begin with this. Hosts with the same prefix share strings."""

    @field_validator("endpoints")
    @classmethod
    def _addresses(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        if len({Endpoint.of(each).encrypted for each in endpoints}) > 1:
            raise ValueError("some members use https and some http: write the same for all")
        if len({Endpoint.of(each).address for each in endpoints}) < len(endpoints):
            raise ValueError("a member is named twice")
        return endpoints

    @field_validator("password_file")
    @classmethod
    def _protected(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None:
            demand_protected(map(Endpoint.of, info.data.get("endpoints", ())), "use endpoints with https")
        return path

    @field_validator("ca", "cert")
    @classmethod
    def _used(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        endpoints = info.data.get("endpoints", ())
        encrypted = any(Endpoint.of(each).encrypted for each in endpoints)
        if path is not None and endpoints and not encrypted:
            raise ValueError("certificates are for endpoints with https")
        if path is None and encrypted and info.field_name == "ca":
            raise ValueError("endpoints with https need the certificates of the authority that signs the members'")
        return path

    @field_validator("prefix")
    @classmethod
    def _of_keys(cls, prefix: str) -> str:
        if not re.fullmatch(PREFIX, prefix):
            raise ValueError(
                "a prefix begins and ends with '/', such as '/holdfast/'; it may have letters, digits, ._-"
            )
        return prefix

    @property
    def members(self) -> tuple[Endpoint, ...]:
        """The endpoints."""
        return tuple(map(Endpoint.of, self.endpoints))
