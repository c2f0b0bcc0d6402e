"""The settings of the broker to which the agent publishes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationInfo, field_validator

from holdfast.agent.credential_settings import KeyFile, PasswordFile, User, demand_protected
from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.pubsub.topics import demand_topic
from holdfast.agent.settings_types import Location, SettingsGroup, stays_here

PORTS = {"mqtt": 1883, "mqtts": 8883}
"""Scheme -> the port of a URL that names none."""
URL = r"(?P<scheme>mqtts?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{1,5}))?/?"


class BrokerUrl(NamedTuple):
    """The address of a broker."""

    host: str
    port: int
    encrypted: bool

    @classmethod
    def of(cls, text: str) -> BrokerUrl:
        """Return the parts of a URL. Raises `ValueError`."""
        if "@" in text:
            raise ValueError("the URL contains a user or a password: write `user` and `password_file`")
        found = re.fullmatch(URL, text)
        port = int(found["port"] or PORTS[found["scheme"]]) if found else 0
        if not found or not 0 < port < 65536:
            raise ValueError("write mqtts://HOST or mqtt://HOST, and :PORT unless it is 8883 or 1883")
        return cls(found["host"].strip("[]"), port, found["scheme"] == "mqtts")

    @property
    def local(self) -> bool:
        """Whether the connection stays on this host."""
        return stays_here(self.host)


class MqttSettings(SettingsGroup):
    """The broker to which the agent publishes its presence, conditions, passes and changes. Off by default."""

    url: str | None = None
    """Its URL: mqtts://HOST, or mqtt://HOST without encryption. None: nothing is published."""
    user: User | None = None
    """The user at the broker. Default: none, or the one of the client certificate."""
    password_file: PasswordFile | None = None
    """A file whose first line is the password; only its owner and its group may be able to read it."""
    ca: Location | None = None
    """Certificates of the authorities that may have signed the broker's certificate, in PEM. Default: those of the
    system."""
    cert: Location | None = None
    """The client certificate of this host, in PEM."""
    key: KeyFile | None = None
    """Its private key, without a passphrase. Default: in the file of the certificate."""
    prefix: str = "holdfast"
    """Topics begin with this, a slash and the name of the host."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is not None:
            BrokerUrl.of(url)
        return url

    @field_validator("password_file")
    @classmethod
    def _protected(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("url") is not None:
            demand_protected([BrokerUrl.of(info.data["url"])], "use a URL with mqtts")
        return path

    @field_validator("ca", "cert")
    @classmethod
    def _used(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("url") is not None and not BrokerUrl.of(info.data["url"]).encrypted:
            raise ValueError("certificates are for a URL with mqtts")
        return path

    @field_validator("prefix")
    @classmethod
    def _topic(cls, prefix: str) -> str:
        try:
            return demand_topic(prefix)
        except Invalid as error:
            raise ValueError(str(error)) from None
