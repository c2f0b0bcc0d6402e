"""Log lines on a terminal, as JSON, and in journald's protocol. No reader can block the agent."""

import asyncio
import json
import logging
import os
import pty
import re
import select
import socket
import time

import pytest
import structlog

from deadline import DEADLINE
from effort import effort
from holdfast.agent import logs, nonblocking_output
from holdfast.agent.console import Console, to_json
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.logs import Logs, choose, to_journal
from holdfast.agent.nonblocking_output import JournalOutput, StreamOutput, encode_journal
from holdfast.agent.settings import LogSettings

REPAIRED = Ran(
    7, Outcome("file.managed[motd]", 0, True, {"diff": "-a\n+b\n"}, diff="-a\n+b\n", duration=0.0031, cause="drift")
)


@pytest.fixture(autouse=True)
def restored():
    """Restore structlog and logging after each test."""
    handlers = logging.getLogger().handlers[:]
    yield
    logging.captureWarnings(capture=False)
    logging.getLogger().handlers[:] = handlers
    structlog.reset_defaults()


@pytest.fixture
def pipe():
    """A pipe; the log is written to its second end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read(descriptor):
    """Return all that can be read now."""
    data = b""
    while select.select([descriptor], [], [], 0.05)[0]:
        data += os.read(descriptor, 1 << 16)
    return data.decode()


def parse_journal(data):
    """Return the fields of one datagram, by journald's rules."""
    fields = {}
    while data:
        head, _, data = data.partition(b"\n")
        name, equals, value = head.partition(b"=")
        if not equals:
            size = int.from_bytes(data[:8], "little")
            value, data = data[8 : 8 + size], data[8 + size + 1 :]
        fields[name.decode()] = value.decode()
    return fields


def test_a_console_line_has_time_sentence_and_diff(pipe):
    """The diff is indented below the line. A pipe gets no colours."""
    log = Logs(LogSettings(format="console"), pipe[1])
    log.emit(REPAIRED)

    first, *rest = read(pipe[0]).splitlines()

    assert first[2] == first[5] == ":"
    assert first[9:] == "repaired file.managed[motd] in 3 ms (drift)"
    assert rest == ["         -a", "         +b"]


def test_a_terminal_gets_colours_unless_no_color_is_set(monkeypatch):
    """The verb and the diff are coloured."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    try:
        Logs(LogSettings(format="console"), theirs).emit(REPAIRED)
        shown = read(ours)
        monkeypatch.setenv("NO_COLOR", "1")
        Logs(LogSettings(format="console"), theirs).emit(REPAIRED)
        plain = read(ours)
    finally:
        os.close(ours)
        os.close(theirs)

    assert "\x1b[1;33mrepaired\x1b[0m file.managed[motd]" in shown
    assert "\x1b[31m-a\x1b[0m" in shown
    assert "\x1b" not in plain


def test_a_line_of_another_day_has_its_date():
    """In the log of an agent that runs for weeks, old problems must not look like those of today."""
    old, new = (
        Console(colour=False).render({"time": at, "event": "said", "details": "more"}).decode()
        for at in (time.time() - 9e5, time.time())
    )

    assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d said\n {15}more\n", old)
    assert re.fullmatch(r"\d\d:\d\d:\d\d said\n {9}more\n", new)


def test_sentences_are_wrapped_and_details_are_not():
    """Sentences are wrapped between words and indented. A diff is not wrapped, so that it can be copied.

    Each line uses the current width of the terminal.
    """
    entry = {"event": "failed cmd.run[x]: " + "many words " * 9, "level": "error", "details": "-" + "a b" * 30}
    widths = [60, 30, None]
    console = Console(colour=False, width=lambda: widths.pop(0))

    first, second, third = ([line.rstrip() for line in console.render(entry).decode().splitlines()] for _ in range(3))

    assert all(len(line) <= 60 and line.startswith(" " * 9) for line in first[1:-1])
    assert all(len(line) <= 30 for line in second[:-1])
    assert len(third) == 2
    assert {lines[-1] for lines in (first, second, third)} == {" " * 9 + "-" + "a b" * 30}
    assert {" ".join(" ".join(lines[:-1]).split()[1:]) for lines in (first, second, third)} == {entry["event"].rstrip()}


def test_wrapped_sentences_keep_their_colours():
    """The verb keeps its colour, and each line of a warning."""
    console = Console(colour=True, width=lambda: 30)

    assert console.text({"event": "repaired " + "word " * 9}).startswith("\x1b[1;33mrepaired\x1b[0m word")
    warned = console.text({"event": "watch " + "broke " * 9, "level": "warning"}).split("\n    ")
    assert len(warned) > 1
    assert all(line.startswith("\x1b[33m") and line.endswith("\x1b[0m") for line in warned)


def test_control_characters_are_escaped():
    """The output of commands cannot control the terminal of an operator."""
    shown = Console(colour=False).render({"event": "said \x1b[2J\x07", "details": "a\tb\x9b"}).decode()

    assert "\x1b" not in shown
    assert "\\x1b[2J\\x07" in shown
    assert "a\tb\\x9b" in shown


def test_additional_fields_of_a_kind_are_shown():
    """The resource precedes the sentence."""
    shown = (
        Console(colour=False)
        .render({"event": "waiting for apt's lock", "resource": "pkg.installed[jq]", "holder": 77})
        .decode()
    )

    assert shown.endswith("pkg.installed[jq]: waiting for apt's lock  holder=77\n")


def test_json_has_one_object_for_each_line(pipe):
    """Numbers and mappings keep their types."""
    Logs(LogSettings(format="json"), pipe[1]).emit(REPAIRED)

    entry = json.loads(read(pipe[0]))

    assert entry["message"] == "repaired file.managed[motd] in 3 ms (drift)"
    assert (entry["resource"], entry["pass"], entry["result"], entry["cause"]) == (
        "file.managed[motd]",
        7,
        "changed",
        "drift",
    )
    assert (entry["diff"], entry["duration"]) == ("-a\n+b\n", 0.0031)
    assert entry["time"].endswith("Z")


def test_unencodable_text_does_not_break_the_log():
    """File names that are not UTF-8 are logged in escaped form."""
    for render in (Console(colour=False).render, to_json, to_journal):
        assert b"bad" in render({"event": "bad \udcff", "level": "info"})


def test_the_journal_gets_each_value_as_a_field(tmp_path, monkeypatch):
    """MESSAGE has the sentence and the diff."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(tmp_path / "journal"))
    monkeypatch.setattr(nonblocking_output.JournalOutput.__init__, "__defaults__", (str(tmp_path / "journal"),))
    log = Logs(LogSettings(format="journal"))
    log.emit(REPAIRED)
    log.close()

    fields = parse_journal(server.recv(1 << 16))
    server.close()

    assert fields["MESSAGE"] == "repaired file.managed[motd] in 3 ms (drift)\n-a\n+b"
    assert {
        n: fields[n]
        for n in ("PRIORITY", "RESOURCE", "PASS", "RESULT", "CAUSE", "DURATION_MS", "DIFF", "SYSLOG_IDENTIFIER")
    } == {
        "PRIORITY": "6",
        "RESOURCE": "file.managed[motd]",
        "PASS": "7",
        "RESULT": "changed",
        "CAUSE": "drift",
        "DURATION_MS": "3.100",
        "DIFF": "-a\n+b\n",
        "SYSLOG_IDENTIFIER": "holdfast",
    }
    assert json.loads(fields["CHANGES"]) == {"diff": "-a\n+b\n"}


def test_a_large_journal_message_is_sent_as_a_memory_file(tmp_path):
    """A diff that is larger than a datagram arrives complete."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(tmp_path / "journal"))
    sender = JournalOutput(str(tmp_path / "journal"))
    sender.write(encode_journal({"MESSAGE": "x" * 3_000_000, "PRIORITY": "6"}))

    _, descriptors, _, _ = socket.recv_fds(server, 10, 1)
    with os.fdopen(descriptors[0], "rb") as file:
        file.seek(0)
        fields = parse_journal(file.read())
    sender.close()
    server.close()

    assert len(fields["MESSAGE"]) == 3_000_000


def test_without_journald_lines_are_lost_without_an_error(tmp_path):
    """Logging must not stop the agent."""
    sender = JournalOutput(str(tmp_path / "nobody"))
    sender.write(b"MESSAGE=x\n")
    sender.close()


def test_the_format_auto_depends_on_the_stream(monkeypatch, pipe):
    """The journal is used only if systemd has connected this very stream to it."""
    info = os.fstat(pipe[1])
    monkeypatch.setenv("JOURNAL_STREAM", f"{info.st_dev}:{info.st_ino}")
    assert choose("auto", pipe[1]) == "journal"
    assert choose("json", pipe[1]) == "json"

    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    assert choose("auto", pipe[1]) == "console"


def test_the_level_of_the_settings_applies_and_can_change(pipe):
    """Less important lines are not written; a reload changes the level."""
    log = Logs(LogSettings(format="console"), pipe[1])
    structlog.get_logger("x").debug("quiet")
    log.configure(LogSettings(format="console", level="debug"))
    structlog.get_logger("x").debug("loud")

    assert read(pipe[0]).splitlines()[0].endswith("loud")


def test_new_settings_apply_to_existing_loggers(pipe):
    """A logger that has written a line writes the next one in the new format and at the new level."""
    log, logger = Logs(LogSettings(format="console"), pipe[1]), LazyLogger("x")
    logger.info("first")
    log.configure(LogSettings(format="json", level="debug"))
    logger.debug("second")

    first, second = read(pipe[0]).splitlines()
    assert first.endswith("first")
    assert json.loads(second)["message"] == "second"


def test_lines_of_libraries_and_tracebacks_are_logged(pipe):
    """Entries of the standard logging are written, with the traceback below the line."""
    Logs(LogSettings(format="console"), pipe[1])
    try:
        int("inner")
    except ValueError:
        logging.getLogger("asyncio").exception("a callback failed")

    shown = read(pipe[0])

    assert "a callback failed" in shown
    assert "ValueError: invalid literal" in shown


def test_the_last_entries_are_kept_and_followers_get_new_ones(pipe):
    """The number of kept entries is that of the settings."""
    log = Logs(LogSettings(format="console", recent=2), pipe[1])
    seen = []
    log.followers.add(seen.append)
    for number in range(3):
        structlog.get_logger("x").info("line", number=number)

    assert [entry["number"] for entry in log.buffer] == [1, 2]
    assert [entry["number"] for entry in seen] == [0, 1, 2]


async def test_a_reader_that_stops_never_blocks(pipe):
    """Lines are kept while no process reads, and arrive later in order and complete."""
    stream = StreamOutput(pipe[1])
    lines = [f"{n:06d} {'x' * 90}\n".encode() for n in range(5000)]
    for line in lines:
        stream.write(line)
    received = b""
    while len(received) < sum(map(len, lines)):
        await asyncio.sleep(0)
        if select.select([pipe[0]], [], [], 0)[0]:
            received += os.read(pipe[0], 1 << 16)
    stream.close()

    assert received == b"".join(lines)


async def test_lines_are_dropped_beyond_a_limit_if_no_process_reads(pipe, monkeypatch):
    """The log says how many lines were dropped."""
    monkeypatch.setattr(nonblocking_output, "LIMIT", 1 << 17)
    stream = StreamOutput(pipe[1])
    for _ in range(400):
        stream.write(b"y" * 1023 + b"\n")
    received = b""
    async with asyncio.timeout(DEADLINE):
        while b"dropped" not in received:
            await asyncio.sleep(0)
            if select.select([pipe[0]], [], [], 0)[0]:
                received += os.read(pipe[0], 1 << 16)
    stream.close()

    assert received.splitlines()[-1].endswith(b"lines of the log were dropped: no process read them]")


def test_a_closed_pipe_is_no_error():
    """A terminal that was closed must not stop the agent."""
    here, there = os.pipe()
    os.close(here)
    StreamOutput(there).write(b"x\n")
    os.close(there)


def test_thousands_of_lines_a_second_can_be_logged(tmp_path):
    """A quiet machine logs 20 000 repairs with diffs in a second of CPU time."""
    with (tmp_path / "log").open("wb") as file:
        log = Logs(LogSettings(format="console"), file.fileno())

        assert effort(lambda: [log.emit(REPAIRED) for _ in range(1000)], 5) < 5


def test_field_names_are_converted_for_journald():
    """A kind may use any name for its fields."""
    assert logs._journal_name("_odd-name 1") == "ODD_NAME_1"
    assert logs._journal_name("9") == "FIELD"
