"""The messages and methods of the protocol, read from provider.proto, which is their only definition.

The reader knows the part of the language that this file uses: messages with plain fields, and methods.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agent.protobuf_messages import classes

OLDEST, NEWEST = 1, 1
"""Versions of the protocol that this code speaks."""
PACKAGE = "holdfast.plugin.v1"
SECRET = "holdfast-secret"  # noqa: S105 - the name of the metadata
START = "holdfast-start"
"""Metadata of a call: the start of the plugin that the caller has connected to."""
SECRET_VARIABLE = "HOLDFAST_PLUGIN_SECRET"  # noqa: S105 - the name of a variable
READY = "holdfast-plugin ready"
"""The line that a plugin writes to its standard output once it listens."""
LARGEST = 64 << 20
"""Greatest size of a message, in bytes."""
MESSAGE = re.compile(r"^message (\w+) \{(.*?)\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
METHOD = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\);")


class Method(NamedTuple):
    """One method of the service."""

    name: str
    request: str
    response: str
    streams: bool
    """The response is a stream."""

    @property
    def path(self) -> str:
        """Return the path by which gRPC calls it."""
        return f"/{PACKAGE}.Provider/{self.name}"


def _read() -> tuple[dict[str, str], dict[str, Method]]:
    text = re.sub("//.*", "", (Path(__file__).parent / "provider.proto").read_text())
    messages = {
        name: ", ".join(
            f"{number} {field} {'*' if many else ''}{kind}" for many, kind, field, number in FIELD.findall(body)
        )
        for name, body in MESSAGE.findall(text)
    }
    methods = {
        name: Method(name, request, response, bool(streams))
        for name, request, streams, response in METHOD.findall(text)
    }
    return messages, methods


_MESSAGES, METHODS = _read()
message: dict[str, Any] = classes(PACKAGE, _MESSAGES)
"""Name -> class of the message."""
