"""The program that provides the package `postgres`: it creates the operations and serves them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    import psycopg as _  # noqa: F401 - the modules below need it
except ImportError as error:
    sys.exit(f"psycopg is not usable: {' '.join(str(error).split())}; pip install 'holdfast[postgres]'")

from database_grants import DatabaseGrants
from databases import Databases
from default_grants import DefaultGrants
from events import Events
from extensions import Extensions
from grants import Grants
from holdfast import plugin
from roles import Roles
from schemas import Schemas
from sessions import Sessions

SCHEMA = Path(__file__).parent / "schema.json"


class PostgresProvider:
    """The operations of all resources, which share the connections to one server."""

    def __init__(self) -> None:
        self.sessions = Sessions()
        self.events = Events(self.sessions)
        self.operations: Sequence[plugin.Operations[Any]] = [
            Roles(self.sessions),
            Databases(self.sessions, self.events),
            DatabaseGrants(self.sessions),
            Schemas(self.sessions, self.events),
            Extensions(self.sessions, self.events),
            Grants(self.sessions, self.events),
            DefaultGrants(self.sessions, self.events),
        ]

    async def configure(self, config: Mapping[str, Any]) -> None:
        """Receive the configuration. The first operation connects to the server."""
        self.sessions.configure(config)


def main() -> None:
    """Serve until the agent ends the process."""
    provider = PostgresProvider()
    plugin.serve(SCHEMA.read_text(), *provider.operations, configure=provider.configure)


if __name__ == "__main__":
    main()
