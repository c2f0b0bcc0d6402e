"""pip, npm and gem by `holdfast call` as root on a copy of this machine: for all users, and as another user.

The copy is a mount namespace with overlays over the directories that the tools write.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_gem
import test_npm
from test_pip import wheel

from holdfast.resources.context import PATH

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
index = test_npm.index
gems = test_gem.index
COPY = """set -e
mount -t tmpfs tmpfs /mnt
for directory in etc home root srv usr var/lib; do
    mkdir -p "/mnt/$directory/upper" "/mnt/$directory/work"
    mount -t overlay -o "lowerdir=/$directory,upperdir=/mnt/$directory/upper,workdir=/mnt/$directory/work" \
        overlay "/$directory"
done
echo ready
exec cat
"""
SPY = "import os\nwith open('/srv/ran', 'a') as file:\n    print(os.geteuid(), file=file)\n"
"""A module that records the user who runs it."""


class Machine:
    """The copy."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *command: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the copy, with further variables in its environment."""
        env = {"PATH": f"{Path(sys.executable).parent}:{PATH}", "HOME": "/root", "LANG": "C.UTF-8", **variables}
        inside = ("nsenter", "--target", str(self._process.pid), "--mount", *command)
        done = subprocess.run(inside, capture_output=True, text=True, check=False, env=env, cwd="/")
        assert not (check and done.returncode), done.stdout + done.stderr
        return done

    def sh(self, script: str) -> str:
        """Run a shell script; return its output."""
        return self.run("sh", "-euc", script).stdout

    def call(self, function: str, *words: str) -> Any:
        """Call a function; return its result."""
        return json.loads(self.run("holdfast", "call", function, *words, "--format", "json").stdout)

    def refused(self, function: str, *words: str) -> str:
        """Call a function that fails; return the message."""
        done = self.run("holdfast", "call", function, *words, check=False)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Yield the copy, which has a user carol."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", COPY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        machine = Machine(process)
        machine.sh("useradd --create-home carol; install -d -m 1777 /srv; rm -f /root/.npmrc /etc/pip.conf")
        yield machine
        process.stdin.close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment of the system's Python, for copies: creating one takes seconds."""
    path = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(path)], check=True)
    return path


def need(command: str) -> None:
    """Skip the test if a command is missing; on CI, a skipped test makes the run fail."""
    if shutil.which(command) is None:
        pytest.skip(f"there is no command {command}; scripts/test installs it")


def wheels(machine: Machine, tmp_path: Path) -> str:
    """Put a wheel of `tiny` into /srv of the copy; return the directory."""
    file = wheel(tmp_path, "tiny", "1.0")
    machine.sh(f"mkdir /srv/wheels; cp {file} /srv/wheels; chmod -R a+rX /srv/wheels")
    return "/srv/wheels"


def test_pip_for_all_users(machine: Machine, tmp_path: Path):
    """Debian's Python refuses with the remedy; in a Python that is not marked, the package is installed."""
    marks = machine.sh("ls /usr/lib/python3*/EXTERNALLY-MANAGED || true").split()
    where = f"index={wheels(machine, tmp_path)}"
    if marks:
        said = machine.refused("pip.install", "tiny", where)
        assert "belongs to the package manager of the system" in said
        assert "`target`" in said
    machine.run("rm", "-f", *marks, "/none")

    assert machine.call("pip.install", "tiny", where)["changes"] == {"tiny": {"old": "", "new": "1.0"}}
    assert machine.run("runuser", "-u", "carol", "--", "/usr/bin/python3", "-c", "import tiny").returncode == 0
    assert machine.call("pip.remove", "tiny")["changes"] == {"tiny": {"old": "1.0", "new": ""}}


def test_npm_for_all_users(machine: Machine, index: str):
    """The package is installed into the global directory, in which every user finds it."""
    need("npm")
    for test in ("--test",), ():
        done = machine.call("npm.install", "tiny", f"index={index}", *test)
        assert done["changes"] == {"tiny": {"old": "", "new": "1.10.0"}}
    assert "tiny@1.10.0" in machine.run("runuser", "-u", "carol", "--", "npm", "ls", "--global", "tiny").stdout
    assert machine.call("npm.remove", "tiny")["changes"] == {"tiny": {"old": "1.10.0", "new": ""}}


def test_gem_for_all_users(machine: Machine, gems: str):
    """The package is installed into Ruby's directory of gems, in which every user finds it."""
    for test in ("--test",), ():
        done = machine.call("gem.install", "tiny", f"index={gems}", *test)
        assert done["changes"] == {"tiny": {"old": "", "new": "1.10"}}
    machine.run("runuser", "-u", "carol", "--", "ruby", "-e", "gem 'tiny', '1.10'")
    assert machine.call("gem.remove", "tiny")["changes"] == {"tiny": {"old": "1.10", "new": ""}}


def test_pip_as_a_user(machine: Machine, tmp_path: Path, environment: Path):
    """Written files belong to the user, and code in her environment runs only with her rights."""
    where = ("target=/home/carol/venv", f"index={wheels(machine, tmp_path)}")
    machine.sh(f"cp -a {environment} /home/carol/venv")
    packages = machine.sh("echo /home/carol/venv/lib/python3*/site-packages").strip()
    machine.sh(f"echo 'import spy' >{packages}/spy.pth; cat >{packages}/spy.py <<'END'\n{SPY}END")
    machine.sh("chown -R carol: /home/carol/venv")

    assert "set `runas` to the user that it belongs to" in machine.refused("pip.install", "tiny", *where)
    assert machine.run("test", "-e", "/srv/ran", check=False).returncode == 1
    done = machine.call("pip.install", "tiny", "runas=carol", *where)

    assert done["changes"] == {"tiny": {"old": "", "new": "1.0"}}
    assert set(machine.sh("cat /srv/ran").split()) == {machine.sh("id -u carol").strip()}
    assert machine.sh("find /home/carol ! -user carol") == ""


def test_npm_as_a_user(machine: Machine, index: str):
    """The settings come from the user's home, and written files belong to her."""
    need("npm")
    machine.sh("echo 'tag=none' >/home/carol/.npmrc; chown carol: /home/carol/.npmrc")

    done = machine.call("npm.install", "tiny", "target=user", "runas=carol", f"index={index}")

    assert done["changes"] == {"tiny": {"old": "", "new": "1.10.0"}}
    assert machine.sh("find /home/carol ! -user carol") == ""
    assert machine.call("npm.list_installed", "target=user") == {}


def test_gem_as_a_user(machine: Machine, gems: str):
    """Written files belong to the user."""
    machine.sh(f"cp -r {gems} /srv/gems; chmod -R a+rX /srv/gems")

    done = machine.call("gem.install", "tiny", "target=user", "runas=carol", "index=/srv/gems")

    assert done["changes"] == {"tiny": {"old": "", "new": "1.10"}}
    assert machine.sh("find /home/carol ! -user carol") == ""
    assert machine.call("gem.list_installed", "target=user") == {}


MINE = """mkdir -p /home/carol/evil/pip; cd /home/carol
echo "import os; open('/srv/ran', 'w')" | tee spy.py evil/pip.py >evil/pip/__main__.py; touch evil/pip/__init__.py
packages=$(HOME=/home/carol /usr/bin/python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p $packages .config/pip; mv spy.py $packages; echo 'import spy' >$packages/spy.pth
printf '[global]\nindex-url = http://127.0.0.1:9/\nno-index = true\n' >.config/pip/pip.conf
echo "require('fs').writeFileSync('/srv/ran', '')" >spy.js
printf 'node-options=--require=/home/carol/spy.js\nregistry=http://127.0.0.1:9/\nprefix=/home/carol/x\n' >.npmrc
cp .npmrc evil; echo '{"name": "evil", "version": "1.0.0"}' >evil/package.json
echo "File.write('/srv/ran', '')" >spy.rb
printf ':gemhome: /home/carol/gems\ngem: --no-such-switch\n' >.gemrc
if command -v ruby; then
    plugins=$(HOME=/home/carol ruby -e 'puts Gem.user_dir')/plugins; mkdir -p $plugins; cp spy.rb $plugins/spy_plugin.rb
fi >/dev/null
chown -R carol: /home/carol; touch /srv/began
"""
"""Settings of carol, each of which makes a tool that obeys them run her code, or fail, or write elsewhere."""
VARIABLES = {
    "HOME": "/home/carol",
    "PYTHONPATH": "/home/carol/evil",
    "PIP_INDEX_URL": "http://127.0.0.1:9/",
    "PIP_NO_INDEX": "1",
    "PIP_TARGET": "/home/carol/x",
    "PIP_CONFIG_FILE": "/home/carol/.config/pip/pip.conf",
    "NPM_CONFIG_REGISTRY": "http://127.0.0.1:9/",
    "NPM_CONFIG_PREFIX": "/home/carol/x",
    "NODE_OPTIONS": "--require=/home/carol/spy.js",
    "RUBYOPT": "-r/home/carol/spy.rb",
    "GEM_HOME": "/home/carol/gems",
    "GEM_PATH": "/home/carol/gems",
}


def packages_of(tool: str, machine: Machine, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an index for a tool."""
    if tool == "pip":
        return wheels(machine, tmp_path)
    found: str = request.getfixturevalue({"npm": "index", "gem": "gems"}[tool])
    return found


@pytest.mark.parametrize("target", ["path", "user"])
@pytest.mark.parametrize("tool", ["pip", "npm", "gem"])
def test_settings_of_another_user_have_no_effect(
    machine: Machine, request: pytest.FixtureRequest, tmp_path: Path, tool: str, target: str
):
    """A root shell that was started in the user's shell may have the user's `HOME`, variables and working directory."""
    need(tool.replace("pip", "python3"))
    index = packages_of(tool, machine, request, tmp_path)
    machine.sh(f"rm -f /usr/lib/python3*/EXTERNALLY-MANAGED; chmod 755 /srv; {MINE}")
    if target == "path":
        environment = request.getfixturevalue("environment") if tool == "pip" else ""
        machine.sh(f"cp -a {environment} /srv/app" if environment else "mkdir /srv/app")
    where = f"target={'user' if target == 'user' else '/srv/app'}"

    for test in ("--test",), ():
        call = ("holdfast", "call", f"{tool}.install", "tiny", where, f"index={index}", "--format", "json", *test)
        done = json.loads(machine.run("env", "--chdir=/home/carol/evil", *call, **VARIABLES).stdout)
        assert list(done["changes"]) == ["tiny"]

    assert "tiny" in machine.call(f"{tool}.list_installed", where)
    assert machine.run("test", "-e", "/srv/ran", check=False).returncode == 1
    assert machine.sh("find /home/carol -newer /srv/began") == ""


@pytest.mark.parametrize(
    ("tool", "part"),
    [
        *(("npm", part) for part in ("node_modules", ".npmrc")),
        *(("gem", part) for part in ("specifications", "specifications/a.gemspec", "plugins", "plugins/a.rb", "cache")),
        *(("pip", part) for part in ("pip.conf", "lib/python3.11/site-packages/a.pth")),
    ],
)
def test_a_part_of_a_target_that_another_user_can_change_is_refused(machine: Machine, tool: str, part: str):
    """Root owns the target itself, but the tool would run or follow files that the user puts into the part."""
    need(tool.replace("pip", "python3"))
    machine.sh(f"mkdir -p /srv/app/{part}; chmod 755 /srv /srv/app; chown carol: /srv/app/{part}")

    assert f"cannot use /srv/app/{part}: " in machine.refused(f"{tool}.list_installed", "target=/srv/app")


def test_a_python_that_another_user_can_change_is_refused(machine: Machine):
    """Root owns the environment, but its Python is a link to a file of the user."""
    machine.sh("chmod 755 /srv; mkdir -p /srv/venv/bin; cp /usr/bin/true /home/carol/python; "
               "chown carol: /home/carol/python; ln -s /home/carol/python /srv/venv/bin/python")  # fmt: skip

    assert "set `runas`" in machine.refused("pip.list_installed", "target=/srv/venv")


@pytest.mark.parametrize("tool", ["pip", "npm", "gem"])
def test_a_target_below_a_directory_of_another_user_is_refused(machine: Machine, tool: str):
    """Root owns the target, but the user can replace it."""
    need(tool.replace("pip", "python3"))
    machine.sh("mkdir /home/carol/app")

    assert "set `runas`" in machine.refused(f"{tool}.list_installed", "target=/home/carol/app")
