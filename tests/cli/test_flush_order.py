"""The order in which a run writes and flushes data, read from its system calls."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast_process import COMMAND, Tree, environment

STATES = """\
HOST/x/a:
  file.managed: [contents: a]
HOST/x/b:
  file.managed: [contents: b]
HOST/y/c:
  file.managed: [contents: c]
any action:
  cmd.run: [name: /bin/true action]
conf:
  file.managed: [name: HOST/z/conf, contents: conf]
reload:
  cmd.run:
    - name: /bin/true reload
    - onchanges: [file: conf]
HOST/u/first:
  file.managed: [contents: first]
HOST/v/second:
  file.managed:
    - contents: second
    - require: [file: HOST/u/first]
HOST/w/last:
  file.managed: [contents: last]
"""
CALLS = "fsync,fdatasync,rename,renameat,renameat2,pwrite64,execve,exit_group"
FLUSH = re.compile(r"f(?:data)?sync\(\d+<(.*)>\)")
RENAME = re.compile(r'rename(?:at2?)?\(.*"([^"]*)",.* "([^"]*)"')
WRITE = re.compile(r"pwrite64\(\d+<(.*?)>")


@pytest.fixture
def calls(tmp_path: Path) -> list[str]:
    """The calls of one run, in order: `flush PATH`, `rename FROM TO`, `write PATH`, `run WORD`, `exit`."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tree = Tree(tmp_path)
    for name in "xyzuvw":
        (tree.host / name).mkdir()
    tree.settings("")
    tree.config.write_text(tree.config.read_text().replace("durable: false", "durable: true"))
    tree.sls("top", "base:\n  '*': [web]\n")
    tree.sls("web", STATES)
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "300",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(trace),
        *COMMAND,
        "apply",
        "--config",
        str(tree.config),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if "ptrace" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("processes cannot be traced here")
    assert done.returncode == 0, done.stdout + done.stderr
    found = []
    whole = re.sub(r"(?m)^(\d+) (.*) <unfinished \.\.\.>$", r"\1 \2)", trace.read_text())
    main = whole.split(maxsplit=1)[0]
    for line in whole.splitlines():
        process, _, call = line.partition(" ")
        if flush := FLUSH.match(call.strip()):
            found.append(f"flush {flush[1]}")
        elif rename := RENAME.match(call.strip()):
            found.append(f"rename {rename[1]} {rename[2]}")
        elif write := WRITE.match(call.strip()):
            found.append(f"write {write[1]}")
        elif "execve" in call and (word := re.search(r"/bin/true (\w+)", call)):
            found.append(f"run {word[1]}")
        elif "exit_group" in call and process == main:
            found.append("exit")
    return [call.replace(str(tree.host), "") for call in found]


def test_the_order_of_system_calls_survives_power_loss(calls: list[str]) -> None:
    """The test starts one run under strace, with Python and two commands, and takes about two seconds."""
    renames = {call.split()[2]: call.split()[1] for call in calls if call.startswith("rename /")}
    for target, temporary in renames.items():
        assert calls.index(f"flush {temporary}") < calls.index(f"rename {temporary} {target}"), (
            "data is flushed before the rename"
        )

    def renamed(target: str) -> int:
        return calls.index(f"rename {renames[target]} {target}")

    assert {"/x/a", "/x/b", "/y/c", "/z/conf", "/u/first", "/v/second", "/w/last"} <= renames.keys()
    assert [calls.count(f"flush /{name}") for name in "xyzuvw"] == [1] * 6, "each directory is flushed once"
    assert renamed("/x/a") < renamed("/x/b") < calls.index("flush /x") < calls.index("run action")
    assert renamed("/y/c") < calls.index("flush /y") < calls.index("run action")

    written = [at for at, call in enumerate(calls) if call.startswith("write") and "journal.db" in call]
    intent = [at for at in written if at < renamed("/z/conf")][-1]
    done = next(at for at in written if at > renamed("/z/conf"))
    secured = next(
        at for at in range(intent, len(calls)) if calls[at].startswith("flush") and "journal.db" in calls[at]
    )
    assert intent < secured < renamed("/z/conf"), "the journal has the intended change on disk before the rename"
    assert renamed("/z/conf") < calls.index("flush /z") < done, "the journal records the change after it is on disk"
    assert calls.index("flush /z") < calls.index("run reload"), "the change is on disk before its delivery"

    assert renamed("/u/first") < calls.index("flush /u") < renamed("/v/second"), (
        "the change is on disk before a dependent one"
    )
    assert renamed("/w/last") < calls.index("flush /w") < calls.index("exit")
