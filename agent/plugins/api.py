"""The API for authors of providers: `from holdfast import plugin`.

The stub that the compiler generates has a class for each resource. The author derives from it and writes the
operations:

    class Roles(RoleOperations):
        async def read(self, key: plugin.Key, inputs: Role) -> plugin.Found[Role] | None: ...
        async def create(self, inputs: Role) -> plugin.Found[Role]: ...
        async def update(self, found: plugin.Found[Role], inputs: Role) -> plugin.Found[Role]: ...
        async def delete(self, found: plugin.Found[Role]) -> None: ...

    if __name__ == "__main__":
        plugin.serve(SCHEMA, Roles())

Values arrive decoded and validated, and what the author returns is validated as well. An exception of the author's code
becomes a failure with a code: `Temporary` may be tried again, `Permanent` may not, `Conflict` says that the resource
has another revision, `Partial` that a resource was created but not finished. `Trial` calls a provider in a test.
"""

from __future__ import annotations

from typing import Any

from holdfast.agent.plugins.payloads import InvalidPayload as Invalid
from holdfast.agent.plugins.stub import (
    Configure,
    Conflict,
    Found,
    Function,
    Key,
    Operations,
    Partial,
    Struct,
    Unwatched,
)
from holdfast.agent.plugins.values import UNKNOWN, Secret, Violation
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.idl import UNSET, Unset

try:
    from holdfast.agent.plugins.trial import Trial
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "google":
        raise
    raise ImportError(f"plugins need {error.name}, which is not installed: pip install 'holdfast[plugins]'") from None

__all__ = [
    "UNKNOWN",
    "UNSET",
    "Conflict",
    "Found",
    "Function",
    "Invalid",
    "Key",
    "Operations",
    "Partial",
    "Permanent",
    "Secret",
    "Struct",
    "Temporary",
    "Trial",
    "Unset",
    "Unwatched",
    "Violation",
    "serve",
]


def serve(schema: str, *operations: Operations[Any] | Function[Any, Any], configure: Configure | None = None) -> None:
    """Serve as a plugin until the agent ends the process.

    `schema` is the text of schema.json. `configure` receives the configuration of agent.yaml, before any other call.
    Started by an operator with `--listen HOST:PORT`, the process serves agents over the network (docs/plugins.md).
    """
    from holdfast.agent.plugins import server, standalone  # noqa: PLC0415 - gRPC is loaded by a process that serves

    (server if server.started_by_agent() else standalone).run(schema, operations, configure)
