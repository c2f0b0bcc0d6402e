"""Code that slipped through the check of the syntax can compute, and nothing else."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from holdfast.agent.idl import sandbox
from holdfast.agent.idl.evaluation import EvaluationError, evaluate

REACH = "from holdfast import idl\nmodules = idl.enum.sys.modules\nos = modules['os']\nbuiltins = modules['builtins']\n"
"""The start of hostile code: it gets at the modules that the interpreter has loaded."""


def ran(source: str, deadline: float = 30) -> str:
    """Evaluate hostile code without any check; return how that ended."""
    try:
        evaluate([("hostile", compile(f"{REACH}{source}\n__idl_limits__ = ()", "hostile.py", "exec"))], deadline)
    except EvaluationError as error:
        return str(error)
    return "done"


def test_the_code_reaches_modules_of_the_interpreter():
    """The other tests try what they say."""
    assert ran("1 / (os.path.join('a', 'b') == 'c')") == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    "attack",
    [
        "os.open('/tmp/holdfast-idl-hostile', os.O_CREAT | os.O_WRONLY)",
        "os.open('/etc/passwd', os.O_RDONLY)",
        "os.mkdir('/tmp/holdfast-idl-hostile')",
        "os.unlink('/tmp/holdfast-idl-victim')",
        "os.listdir('/')",
        "os.fork()",
        "os.kill(os.getppid(), 9)",
        "os.execv('/bin/true', ['true'])",
        "os.chmod('/tmp', 0)",
        "os.setuid(0)",
        "os.symlink('/', '/tmp/holdfast-idl-hostile')",
    ],
)
def test_it_cannot_use_the_system(attack):
    """No files, no processes, no signals: the kernel refuses the call."""
    told = ran(attack)

    assert "PermissionError" in told or "Operation not permitted" in told
    assert not Path("/tmp/holdfast-idl-hostile").exists()


def test_it_cannot_connect():
    """Connections by TCP and by a local socket fail."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = ran(
            "ctypes = modules['ctypes']\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "n = libc.socket(2, 1, 0)\nm = libc.socket(1, 1, 0)\n"
            f"1 / (n == m == -1 and ctypes.get_errno() == 1 and {port} and 0)"
        )

    assert "ZeroDivisionError" in told


def test_it_cannot_start_threads():
    """A thread is a process for the kernel."""
    assert "RuntimeError" in ran("modules['_thread'].start_new_thread(os.getpid, ())")


def test_its_memory_is_limited():
    """One large allocation fails, and so do many small ones."""
    assert "MemoryError" in ran("x = 'x' * (1 << 40)")
    assert "MemoryError" in ran(
        "x = []\nwhile True: x.append(b'x' * (1 << 20))".replace("x.append(b'x' *", "x.append(os.urandom and b'x' *")
    )


WAIT = "lock = modules['_thread'].allocate_lock()\nlock.acquire()\nlock.acquire()"


@pytest.mark.parametrize("attack", ["while True: pass", WAIT], ids=["loop", "wait"])
def test_it_cannot_hang(attack):
    """A loop and a wait end at the deadline."""
    began = time.monotonic()

    assert ran(attack, 1.0) == "the evaluation takes too long"
    assert time.monotonic() - began < 20


def test_a_flood_is_cut_off():
    """The answer has a limit."""
    assert "an answer of more than 64 MB" in ran("while True: os.write(1, b'x' * 65536)")


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"modules": 5}', '{"modules": {}, "more": 1}', '{"modules": NaN}'])
def test_a_false_answer_is_refused(answer):
    """The answer is data that must have the form of an answer."""
    told = ran(f"os.write(1, {answer.encode()!r})\nos._exit(0)")

    assert "wrong answer" in told


def test_a_crash_is_reported():
    """The error has the exit status."""
    assert ran("os._exit(7)") == "the evaluation ended with status 7"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_an_ordinary_user_is_confined_as_root_is():
    """The sandbox needs no privilege."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            sandbox.confine(parent)
            os.getpid()
            os.fork()
        except PermissionError:
            code = 0
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
