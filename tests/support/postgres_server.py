"""A real PostgreSQL in a directory of its own, for the tests of the package `postgres`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from deadline import DEADLINE
from etcd_server import free_port

SHARED = Path("/dev/shm")
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "log_statement": "all",
    "log_line_prefix": "%a ",
    "deadlock_timeout": "200ms",
    "shared_preload_libraries": "pg_stat_statements",
}
ACCESS = """local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""
"""Anyone may connect to the socket as any role; on loopback, the server demands a password."""


def programs() -> Path | None:
    """Return the directory of the server's programs; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: float(each.parts[4]))
    return found[-1].parent if found else None


class PostgresServer:
    """A cluster of its own, with a superuser `postgres`. It runs as an unprivileged user if the tests run as root."""

    def __init__(self) -> None:
        self._programs = programs() or Path()
        self.home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=SHARED if SHARED.is_dir() else None))
        self.port = free_port()
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.home, owner.pw_uid, owner.pw_gid)
            self.home.chmod(0o711)
            self._owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        """The file of its log."""
        return self.home / "log"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the provider."""
        return {"host": str(self.home), "port": self.port, "user": "postgres"}

    def __enter__(self) -> Self:
        """Create the cluster and start it."""
        self._call("initdb", "--pgdata", self.home / "data", "--username", "postgres", "--no-sync",
                   "--encoding", "UTF8", "--locale", "C.UTF-8", "--auth", "trust", "--no-instructions")  # fmt: skip
        (self.home / "data/pg_hba.conf").write_text(ACCESS)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server and remove its data."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def _call(self, program: str, *words: object) -> None:
        subprocess.run(
            [self._programs / program, *map(str, words)],
            check=True, capture_output=True, timeout=4 * DEADLINE, cwd="/", env={"LC_ALL": "C"}, **self._owner,
        )  # fmt: skip

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.home / "data", "-k", self.home, "-p", str(self.port),
                 *options],
                stdout=log, stderr=log, cwd="/", env={"LC_ALL": "C"}, **self._owner,
            )  # fmt: skip
        until = time.monotonic() + 2 * DEADLINE
        while True:
            try:
                self.sql("SELECT")
            except psycopg.OperationalError:
                assert self._process.poll() is None, self.log_path.read_text()[-2000:]
                assert time.monotonic() < until, self.log_path.read_text()[-2000:]
                time.sleep(0.01)
            else:
                return

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends all sessions first, SIGQUIT ends it at once."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(DEADLINE)
            self._process = None

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Return a connection of an administrator, independent of Holdfast."""
        given = {"host": str(self.home), "port": self.port, "user": "postgres", "dbname": database, **options}
        return psycopg.connect(autocommit=True, row_factory=dict_row, **given)

    def sql(self, *statements: str, database: str = "postgres", **options: Any) -> list[dict[str, Any]]:
        """Execute statements; return the rows of the last one."""
        with self.connect(database, **options) as connection:
            for each in statements:
                cursor = connection.execute(each)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, database: str = "postgres") -> Any:
        """Return the first value of a query; None if it has no rows."""
        return next((next(iter(row.values()), None) for row in self.sql(query, database=database)), None)
