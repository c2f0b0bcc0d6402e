"""`holdfast` as its users call it, with a configuration in a private directory: verbs, and running agents."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from deadline import DEADLINE
from forked import fork
from holdfast.agent.cli.main import main

SRC = Path(__file__).parents[2] / "src"
COMMAND = [sys.executable, "-W", "error", "-m", "holdfast.agent.cli.main"]


def environment():
    """Return an environment in which the checkout can be imported and nothing is coloured."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM")
    }
    return {**kept, "PYTHONPATH": str(SRC), "NO_COLOR": "1"}


def holdfast(*words, check=None, timeout=DEADLINE, **options):
    """Run one verb in a process of its own; return its exit code and its output.

    `check` is the exit code that it must have.
    """
    done = subprocess.run(
        [*COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
        check=False,
        **options,
    )
    return _checked(done, check)


def in_process(*words, check=None, input="", cwd="."):
    """Do the same as `holdfast` in the process of the tests, which takes a tenth of the time.

    Only `holdfast` shows that a verb imports everything that it uses and that its process ends, so at least one test of
    each verb uses `holdfast`.
    """
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(_redirected(number, name)) for number, name in enumerate(("stdin", "stdout", "stderr"))
        ]
        streams[0].write(input.encode())
        streams[0].seek(0)
        stack.enter_context(mock.patch.dict(os.environ, environment(), clear=True))
        stack.enter_context(contextlib.chdir(cwd))
        try:
            main([*map(str, words)])
        except SystemExit as ended:
            code = ended.code
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        out, err = (_written(stream) for stream in streams[1:])
    return _checked(subprocess.CompletedProcess(words, code, out, err), check)


def _checked(done, code):
    """Check that a verb printed no traceback and has this exit code; None accepts every code."""
    assert "Traceback" not in done.stderr, done.stderr
    if code is not None:
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@contextlib.contextmanager
def _redirected(number, name):
    """Replace a standard stream and its descriptor by a temporary file."""
    kept = os.dup(number)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), number)
        try:
            with (
                open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False) as stream,
                mock.patch.object(sys, name, stream),
            ):
                yield file
        finally:
            os.dup2(kept, number)
            os.close(kept)


def _written(file):
    """Return all text that was written to a file."""
    file.seek(0)
    return file.read().decode()


class Tree:
    """A private configuration: settings, states, pillar, and a directory for managed files.

    `tree(VERB, ...)` runs a verb on this configuration, by means of `run`: `in_process` or `holdfast`.
    """

    def __init__(self, root, run=in_process):
        self.root, self.run = root, run
        self.etc, self.host = root / "etc", root / "host"
        for directory in (self.etc / "states", self.etc / "pillar", self.host):
            directory.mkdir(parents=True)
        for directory in (root, self.etc, self.etc / "states", self.etc / "pillar"):
            directory.chmod(0o755)
        self.settings("")

    @property
    def config(self):
        """Return the path of the settings."""
        return self.etc / "agent.yaml"

    def settings(self, text):
        """Write agent.yaml."""
        self.config.write_text(f"state_dir: ../state\nid: test\nlog: {{format: console}}\ndurable: false\n{text}")

    def sls(self, name, text):
        """Write a state file; `HOST` in it is replaced by the directory for managed files."""
        path = self.etc / "states" / f"{name}.sls"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("HOST", str(self.host)))
        return path

    def pillar(self, text):
        """Write a pillar for all hosts."""
        (self.etc / "pillar/top.sls").write_text("base:\n  '*':\n    - app\n")
        (self.etc / "pillar/app.sls").write_text(text)

    def file(self, name="motd", contents="hello"):
        """Write a state file that manages one file."""
        return self.sls(name, f"HOST/{name}:\n  file.managed:\n    - contents: {contents}\n")

    def __call__(self, *words, **options):
        """Run one verb on this configuration."""
        return self.run(*words, "--config", self.config, **options)

    def json(self, *words, **options):
        """Return the JSON output of one verb."""
        return json.loads(self(*words, "--format", "json", **options).stdout)


class Running:
    """A process of Holdfast that runs until it is stopped; its output is collected in a file."""

    def __init__(self, words, log_path, **variables):
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.process = self.started(words, log, {**environment(), **variables})

    def started(self, words, log, variables):
        """Start the process."""
        return subprocess.Popen(words, stdout=log, stderr=log, env=variables)

    @property
    def log(self):
        """Return the output so far."""
        return self.log_path.read_text()

    def wait(self, condition, what, timeout=DEADLINE):
        """Wait until the condition holds; return its value."""
        until = time.monotonic() + timeout
        while not (found := condition()):
            assert self.process.poll() is None, f"the process has ended\n{self.log}"
            assert time.monotonic() < until, f"waited in vain for {what}\n{self.log}"
            time.sleep(0.01)
        return found

    def signal(self, number):
        """Send a signal to the process."""
        self.process.send_signal(number)

    def stop(self, timeout=DEADLINE):
        """Stop the process; return its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def __enter__(self):
        """Return the process."""
        return self

    def __exit__(self, *_):
        """Stop the process. Its output must contain no traceback."""
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        assert "Traceback" not in self.log, self.log


class Agent(Running):
    """A running agent. `variables` are added to its environment.

    It is a fork of a process that has imported it. With `fresh`, or with variables, it is a new interpreter.
    """

    def __init__(self, tree, *, fresh=False, **variables):
        self.tree, self.fresh = tree, fresh or bool(variables)
        super().__init__([*COMMAND, "run", "--config", str(tree.config)], tree.root / "log", **variables)

    def started(self, words, log, variables):
        """Start the process."""
        return super().started(words, log, variables) if self.fresh else fork(words[len(COMMAND) :], log, variables)

    def wait_log(self, text, since=0, timeout=DEADLINE):
        """Wait until the log has this text after position `since`; return the position after it."""
        return self.wait(lambda: self.log.find(text, since) + 1, f"{text!r} in the log", timeout) + len(text) - 1

    def __enter__(self):
        """Wait until the agent has started, and has applied or refused its first states."""
        self.wait(
            lambda: any(
                word in self.log
                for word in (
                    "converged in",
                    "checked in",
                    "there is nothing to do",
                    "nothing runs until",
                    "paused until",
                )
            ),
            "the first pass",
        )
        return self
