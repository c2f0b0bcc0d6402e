"""Models for the tests of the northbound store: machines, services on them, and embedded records."""

from __future__ import annotations

from typing import Annotated

from holdfast.agent.northbound.mixins import Named, Topic, UniqueKey, Versioned
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.ref import OnDelete, Ref


class Site(Named, Model, table="test-sites"):
    """Where machines stand."""


class Machine(Versioned, Model, table="test-machines"):
    """Refers to its site, which cannot be deleted while the machine exists."""

    indexes = {"os": "facts.os", "role": "labels.role", "site": "site"}
    site: Ref[Site] | None = None
    facts: dict[str, object] = {}
    labels: dict[str, str] = {}
    note: str | None = None


class Port(Struct):
    """A part of a `Service`."""

    number: int
    protocol: str = "tcp"


class Service(Model, table="test-services"):
    """Is deleted with its machine."""

    indexes = {"by_state": ("machine", "state"), "port": ("ports.number", "ports.protocol")}
    machine: Annotated[Ref[Machine], OnDelete.CASCADE]
    state: str
    ports: list[Port] = []
    after: Annotated[list[Ref[Machine]], OnDelete.DANGLE] = []


class Tenant(Topic, UniqueKey, Model, table="test-tenants"):
    """Has a topic and a number."""


class Folder(Topic, Model, table="test-folders"):
    """Belongs to a topic, and refers to a site, which belongs to none."""

    site: Ref[Site]


class Page(Model, table="test-pages"):
    """Refers to a record of a topic."""

    folder: Ref[Folder]


class Hooked(Model, table="test-hooked"):
    """Its hooks refuse the text `bad` and shorten others."""

    text: str

    def on_create_pre(self) -> Hooked:
        """Refuse and shorten."""
        return super().on_create_pre()._checked()

    def on_update_pre(self, original: Hooked) -> Hooked:
        """Refuse and shorten."""
        return super().on_update_pre(original)._checked()

    def on_delete_pre(self) -> None:
        """Refuse."""
        super().on_delete_pre()
        if self.text == "kept":
            raise ValueError("this record is kept")

    def _checked(self) -> Hooked:
        if self.text == "bad":
            raise ValueError("this text is bad")
        return self.replace(text=self.text.strip())


class Part(Model, table="test-parts"):
    """Exists by itself, or in a `Container`."""

    indexes = {"text": "text"}
    text: str


class Container(Model, table="test-containers"):
    """Contains parts."""

    parts: list[Part] = []
    named: dict[str, Part] = {}
