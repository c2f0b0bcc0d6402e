"""The log: structlog writes to a terminal, as JSON lines or to journald, depending on settings and standard error.

`narrate` puts the engine's events into sentences. All entries are also kept for a while and sent to followers
(`holdfast log --follow`). `nonblocking_output` ensures that no reader can make the agent wait.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from holdfast.agent.console import Console, LogEntry, to_json
from holdfast.agent.engine.model.events import Event
from holdfast.agent.log_buffer import LogBuffer
from holdfast.agent.loggers import LazyLogger, prepared_by
from holdfast.agent.narrate import Narrator
from holdfast.agent.nonblocking_output import JournalOutput, NonblockingOutput, StreamOutput, encode_journal
from holdfast.agent.settings import LogSettings
from holdfast.resources import visible
from holdfast.resources.secrets import Redactor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
PRIORITIES = {"debug": "7", "info": "6", "warning": "4", "error": "3", "critical": "2"}
"""Level -> syslog priority."""


class Logs:
    """The log of this process. A second instance replaces the first."""

    def __init__(self, settings: LogSettings, descriptor: int = 2) -> None:
        self.buffer = LogBuffer(settings.recent)
        """The last entries, oldest first."""
        self.followers: set[Callable[[LogEntry], None]] = set()
        """Called with each entry; must not block."""
        self.redactor = Redactor()
        """Redacts secrets in all output of this process."""
        self._descriptor = descriptor
        self._narrator = Narrator()
        self._log = LazyLogger("holdfast")
        self._bridge = _Bridge(logging.WARNING)
        self._output: NonblockingOutput | None = None
        self.configure(settings)

    def configure(self, settings: LogSettings) -> None:
        """Apply new settings; earlier lines stay as they are."""
        self.close()
        form = choose(settings.format, self._descriptor)
        self._level = LEVELS[settings.level]
        self.buffer.resize(settings.recent)
        output = self._output = JournalOutput() if form == "journal" else StreamOutput(self._descriptor)
        render: Callable[[LogEntry], bytes] = {"journal": to_journal, "json": to_json}.get(form) or Console.at(
            self._descriptor
        ).render
        prepared_by(partial(self._set_up, render, output, self._level))
        root = logging.getLogger()
        root.handlers[:] = [self._bridge]
        logging.captureWarnings(capture=True)

    def _set_up(
        self, render: Callable[[LogEntry], bytes], output: NonblockingOutput, level: int, structlog: ModuleType
    ) -> None:
        """Configure structlog to write entries of at least this level through `render` to `output`."""
        structlog.configure(
            processors=[
                _complete,
                structlog.processors.format_exc_info,
                self._redacted,
                self._keep,
                lambda _, __, entry: render(entry),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=lambda *args: _Sink(output, *args),
            cache_logger_on_first_use=False,
        )

    def emit(self, event: Event) -> None:
        """Log one event of the engine."""
        # Most lines have the level debug: unless that level is logged, the narrator does not make them.
        line = self._narrator.tell(event, debug=self._level <= logging.DEBUG)
        # The level is checked here, because structlog's own check is slow.
        if line is not None and LEVELS[line.level] >= self._level:
            self._log.log(LEVELS[line.level], line.text, **line.fields)

    def close(self) -> None:
        """Write what is queued, for at most a second."""
        if self._output is not None:
            self._output.close()

    def _redacted(self, _: Any, __: str, entry: LogEntry) -> LogEntry:
        redacted: LogEntry = self.redactor(entry)
        return redacted

    def _keep(self, _: Any, __: str, entry: LogEntry) -> LogEntry:
        self.buffer.append(entry)
        for follower in tuple(self.followers):
            follower(entry)
        return entry


class _Sink:
    """Called by structlog with a rendered line; has the name of the logger, for `_complete`."""

    def __init__(self, output: NonblockingOutput, name: str = "holdfast") -> None:
        self.name = name
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = output.write


class _Bridge(logging.Handler):
    """Passes on log lines of libraries that use the standard library's logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record, with its traceback."""
        error = record.exc_info[1] if record.exc_info else None
        level = min(logging.ERROR, record.levelno)
        fields = {"exc_info": error} if error else {}
        LazyLogger(record.name).log(level, record.getMessage(), **fields)


def _complete(sink: Any, method: str, entry: LogEntry) -> LogEntry:
    entry["time"] = time.time()
    entry["level"] = method
    entry["logger"] = getattr(sink, "name", "holdfast")
    return entry


def choose(form: str, descriptor: int) -> str:
    """Return `console`, `json` or `journal`.

    JOURNAL_STREAM, which systemd sets, names the stream that is connected to the journal.
    """
    if form != "auto":
        return form
    info = os.fstat(descriptor)
    return "journal" if os.environ.get("JOURNAL_STREAM") == f"{info.st_dev}:{info.st_ino}" else "console"


def to_journal(entry: LogEntry) -> bytes:
    """Return one entry as journald's fields. MESSAGE is the sentence with its details, for plain `journalctl`."""
    fields = {
        "MESSAGE": visible.clean(
            "\n".join(str(entry[name]) for name in ("event", "details", "exception") if entry.get(name))
        ),
        "PRIORITY": PRIORITIES.get(str(entry.get("level")), "6"),
        "SYSLOG_IDENTIFIER": "holdfast",
    }
    for name, value in entry.items():
        if name in ("event", "details", "exception", "time", "level") or value is None:
            continue
        if name == "duration":
            fields["DURATION_MS"] = f"{value * 1000:.3f}"
        elif name in ("changes", "because") or isinstance(value, (dict, list, tuple, bool)):
            fields[_journal_name(name)] = visible.to_json(value)
        else:
            fields[_journal_name(name)] = visible.clean(str(value))
    return encode_journal(fields)


def _journal_name(name: str) -> str:
    """Return a field name that journald accepts: capitals, digits and underscores, starting with a capital."""
    return re.sub(r"[^A-Z0-9_]", "_", name.upper()).lstrip("_0123456789")[:64] or "FIELD"
