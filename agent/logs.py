"""The log: structlog in front, and behind it a terminal, JSON lines or journald, as the settings and the surroundings say.

What the engine tells comes in as events and is put into sentences by `narrate`; everything is also kept for a while, and
handed to those who follow (`holdfast log --follow`). `outlet` sees to it that no reader can make the agent wait.
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

from holdfast.agent.console import Console, Entry, to_json
from holdfast.agent.engine.report import Event
from holdfast.agent.loggers import Late, prepared_by
from holdfast.agent.narrate import Narrator
from holdfast.agent.outlet import JournalOutlet, Outlet, StreamOutlet, encode_journal
from holdfast.agent.recent import Recent
from holdfast.agent.settings import LogSettings
from holdfast.resources import visible
from holdfast.resources.secrets import Redactor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
PRIORITIES = {"debug": "7", "info": "6", "warning": "4", "error": "3", "critical": "2"}
"""Level -> syslog priority."""


class Logs:
    """The log of this process. Making a second one replaces the first."""

    def __init__(self, settings: LogSettings, descriptor: int = 2) -> None:
        self.recent = Recent(settings.recent)
        """The last entries, oldest first."""
        self.followers: set[Callable[[Entry], None]] = set()
        """Called with each entry; must not block."""
        self.redactor = Redactor()
        """Covers secrets in all that this process tells."""
        self._descriptor = descriptor
        self._narrator = Narrator()
        self._log = Late("holdfast")
        self._bridge = _Bridge(logging.WARNING)
        self._outlet: Outlet | None = None
        self.configure(settings)

    def configure(self, settings: LogSettings) -> None:
        """Take new settings; what was written before stays as it is."""
        self.close()
        form = choose(settings.format, self._descriptor)
        self._level = LEVELS[settings.level]
        self.recent = Recent(settings.recent, self.recent)
        outlet = self._outlet = JournalOutlet() if form == "journal" else StreamOutlet(self._descriptor)
        render: Callable[[Entry], bytes] = {"journal": to_journal, "json": to_json}.get(form) or Console.at(
            self._descriptor
        ).render
        prepared_by(partial(self._set_up, render, outlet, self._level))
        root = logging.getLogger()
        root.handlers[:] = [self._bridge]
        logging.captureWarnings(capture=True)

    def _set_up(self, render: Callable[[Entry], bytes], outlet: Outlet, level: int, structlog: ModuleType) -> None:
        """Have structlog write through `render` to `outlet` what is of this level."""
        structlog.configure(
            processors=[
                _complete,
                structlog.processors.format_exc_info,
                self._covered,
                self._keep,
                lambda _, __, entry: render(entry),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=lambda *args: _Sink(outlet, *args),
            cache_logger_on_first_use=False,
        )

    def emit(self, event: Event) -> None:
        """Log one event of the engine."""
        line = self._narrator.tell(event)
        if line is not None and LEVELS[line.level] >= self._level:  # asked here: structlog takes its time to say no
            self._log.log(LEVELS[line.level], line.text, **line.fields)

    def close(self) -> None:
        """Write what is left; for at most a second."""
        if self._outlet is not None:
            self._outlet.close()

    def _covered(self, _: Any, __: str, entry: Entry) -> Entry:
        redacted: Entry = self.redactor(entry)
        return redacted

    def _keep(self, _: Any, __: str, entry: Entry) -> Entry:
        self.recent.append(entry)
        for follower in tuple(self.followers):
            follower(entry)
        return entry


class _Sink:
    """What structlog calls with a rendered line; the name of the logger rides along for `_complete`."""

    def __init__(self, outlet: Outlet, name: str = "holdfast") -> None:
        self.name = name
        self.msg = self.debug = self.info = self.warning = self.error = self.critical = self.exception = outlet.write


class _Bridge(logging.Handler):
    """Lines of libraries that use the standard library's logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on, traceback and all."""
        error = record.exc_info[1] if record.exc_info else None
        level = min(logging.ERROR, record.levelno)
        fields = {"exc_info": error} if error else {}
        Late(record.name).log(level, record.getMessage(), **fields)


def _complete(sink: Any, method: str, entry: Entry) -> Entry:
    entry["time"] = time.time()
    entry["level"] = method
    entry["logger"] = getattr(sink, "name", "holdfast")
    return entry


def choose(form: str, descriptor: int) -> str:
    """`console`, `json` or `journal`: systemd says in JOURNAL_STREAM which stream it connected to the journal."""
    if form != "auto":
        return form
    info = os.fstat(descriptor)
    return "journal" if os.environ.get("JOURNAL_STREAM") == f"{info.st_dev}:{info.st_ino}" else "console"


def to_journal(entry: Entry) -> bytes:
    """One entry as journald's fields; MESSAGE is the sentence with its details, for whoever reads plain `journalctl`."""
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
    """A field name that journald takes: capitals, digits, underscores, not beginning with one of the latter."""
    return re.sub(r"[^A-Z0-9_]", "_", name.upper()).lstrip("_0123456789")[:64] or "FIELD"
