"""A user exchanges components of managed paths in a tight loop, while each kind of file is applied thousands of times.

The test runs on the machine itself, in a directory of its own: a real second user needs a uid, but no host. It takes
about a minute, because each kind is called `CALLS` times: a window of a few microseconds is hit by chance, and the
exhaustive tests of the path module lack the timing of the kernel.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from git_remote import GitRemote, git
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.diff import PRIVATE
from holdfast.resources.errors import HoldfastError, Permanent

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody whom others attack"),
]

CALLS = int(os.environ.get("HOLDFAST_RACE_CALLS", "2000"))
LONGEST = 60.0
"""Seconds of CPU time after which the test gives up a kind and fails."""
UID = 12345
SECRET = "the victim's secret\n"
TEXT = "key=1\n# old=1\n#-- start\n#-- end\nanchor\n"
HERE = Path(__file__).parent
Arguments = Callable[[int, dict[str, str]], dict[str, Any]]


class Ground:
    """The directories: the user's home, root's victims beside it, and a directory of root that everybody can read."""

    def __init__(self, base: Path) -> None:
        self.base = base
        base.chmod(0o755)
        for name in ("home", "home/d", "victims", "out", "states", "states/tree", "states/tree/sub", "var"):
            (base / name).mkdir()
        (base / "var").chmod(0o700)
        for name in ("a", "sub/b"):
            (base / "states/tree" / name).write_text(name)
        for number in (0, 1):
            (base / f"states/given{number}").write_text(f"given {number}\n")
        for top in ("victims", "home/inner"):
            self._victims(base / top)
        (base / "home/inner-file").write_text(SECRET)
        (base / "home/inner-file").chmod(0o600)
        os.chown(base / "home", UID, UID)
        os.chown(base / "home/d", UID, UID)
        (base / "count").write_bytes(bytes(8))
        kept = [base / "home/inner-file", *self.inner_paths(base / "home/inner")]
        self.held = {str(path.relative_to(base)): os.open(path, os.O_RDONLY) for path in kept}
        self.inner_before = self.inner()
        self.before = self.outside()

    @classmethod
    def _victims(cls, top: Path) -> None:
        """Create root's directory with the files that the user would like to have."""
        (top / "t/b").mkdir(parents=True)
        for path in cls.inner_paths(top):
            if not path.is_dir():
                path.write_text(SECRET + TEXT)
                path.chmod(0o600)

    @staticmethod
    def inner_paths(top: Path) -> list[Path]:
        """Return its entries; no resource names `kept`."""
        return [top, top / "t", top / "t/b", top / "f", top / "t/a", top / "t/kept", top / "t/b/c", top / "t/b/kept"]

    def outside(self) -> dict[str, Any]:
        """Return everything that must not change, except for the user's entries in the home."""
        tops = (self.base, self.base / "victims", self.base / "states")
        paths = [path for top in tops[1:] for path in (top, *top.rglob("*"))]
        seen = {str(path): self.status(path.lstat(), path) for path in paths}
        return seen | {"entries": sorted(path.name for path in self.base.iterdir())}

    @staticmethod
    def status(info: os.stat_result, path: Path) -> tuple[Any, ...]:
        """Return the compared properties of a path."""
        content = path.read_bytes() if path.is_file() else None
        return info.st_ino, info.st_uid, info.st_gid, oct(info.st_mode), info.st_mtime_ns, info.st_nlink, content

    def inner(self) -> dict[str, tuple[Any, ...]]:
        """Return root's own files in the user's home: owner, mode, content; only their existence, if unmanaged."""
        found = {}
        for name, descriptor in self.held.items():
            info = os.fstat(descriptor)
            content = os.pread(descriptor, 1000, 0) if stat.S_ISREG(info.st_mode) else None
            found[name] = (
                info.st_uid,
                info.st_gid,
                oct(info.st_mode),
                content,
                info.st_nlink if name.endswith("kept") else None,
            )
        return found

    def readable(self) -> list[str]:
        """Return files that the user can read and that contain the secret."""
        found = []
        for top in ("home", "out"):
            for place, _, names in os.walk(self.base / top):
                for name in names:
                    path = Path(place, name)
                    info = path.lstat()
                    if path.is_symlink() or not path.is_file() or not (info.st_uid == UID or info.st_mode & 0o044):
                        continue
                    if SECRET.strip().encode() in path.read_bytes():
                        found.append(f"{path}: {oct(info.st_mode)} of {info.st_uid}")
        return found

    def exchanges(self) -> int:
        """Return the number of exchanges so far."""
        return int(struct.unpack("<q", (self.base / "count").read_bytes())[0])

    @contextmanager
    def attacked(self) -> Iterator[None]:
        """Run the adversary within this context."""
        argv = [
            sys.executable, str(HERE / "adversary.py"), str(self.base / "home"), str(UID), str(self.base / "count"),
            str(self.base / "victims"),
        ]  # fmt: skip
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            try:
                while self.exchanges() == 0:
                    assert process.poll() is None
                yield
            finally:
                process.stdin.close()
                process.wait(DEADLINE)


@pytest.fixture
def ground() -> Iterator[Ground]:
    """Create the directories, in memory if possible: the more exchanges, the better."""
    shared = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="holdfast-race-", dir=shared if shared.is_dir() else None))
    ground = Ground(base)
    try:
        yield ground
    finally:
        for descriptor in ground.held.values():
            os.close(descriptor)
        shutil.rmtree(base)


def alternate(number: int, *choices: Any) -> Any:
    """Return one of some values in turn, the next one in each round of all variants."""
    return choices[number // 8 % len(choices)]


def variants(kind: str, base: str) -> list[Callable[[int], dict[str, Any]]]:
    """Return arguments of one kind, with the user's components in the middle and at the end of the path."""
    home, out = f"{base}/home", f"{base}/out"
    inside, leaf, tree, user = f"{home}/d/f", f"{home}/f", f"{home}/d/t", str(UID)
    both = {"append": lambda n: {"text": f"line {n}"}, "prepend": lambda n: {"text": f"line {n}"}}
    both |= {
        "replace": lambda n: {"pattern": "^key=.*$", "repl": f"key={n}"},
        "line": lambda n: {"mode": "ensure", "content": f"line {n}", "after": "^anchor"},
        "blockreplace": lambda n: {"marker_start": "#-- start", "marker_end": "#-- end", "content": str(n)},
        "keyvalue": lambda n: {"key": "key", "value": str(n)},
        "comment": lambda n: {"regex": alternate(n, "^key", "^anchor"), "ignore_missing": True},
        "uncomment": lambda n: {"regex": alternate(n, "^old", "^key=1")},
        "ini.options_present": lambda n: {"sections": {"key": str(n), "section": {"key": str(n)}}},
        "ini.options_absent": lambda n: {"sections": alternate(n, {"key": None}, {"none": ["key"]})},
    }
    if kind in both:
        words = both[kind]
        return [
            lambda n: {"name": inside, **words(n)},
            lambda n: {"name": leaf, **words(n)},
            lambda n: {"name": f"{tree}/b/c", **words(n)},
            lambda n: {
                "name": inside,
                **({} if "." in kind else {"backup": alternate(n, ".bak", "minion")}),
                **words(n),
            },
        ]
    everything: dict[str, list[Callable[[int], dict[str, Any]]]] = {
        "serialize": [
            lambda n: {"name": inside, "dataset": {"key": n}, "user": user},
            lambda n: {"name": leaf, "dataset": {"key": n}, "user": user, "backup": "minion"},
            lambda n: {"name": leaf, "dataset": {"key": n}, "merge_if_exists": True},
        ],
        "managed": [
            lambda n: {"name": inside, "contents": str(n), "user": user},
            lambda n: {"name": leaf, "contents": str(n), "user": user, "backup": "minion"},
            lambda n: {
                "name": leaf, "replace": False, "user": alternate(n, user, "0"), "mode": alternate(n, "0644", "0666"),
            },
            lambda n: {
                "name": inside, "contents": str(n), "mode": alternate(n, "0644", "4755"),
                "follow_symlinks": alternate(n, True, False),
            },
            lambda n: {"name": f"{home}/d/m/a/f{n}", "contents": str(n), "makedirs": True, "user": user},
            lambda n: {"name": f"{out}/copy{n % 100}", "source": leaf, "mode": "0644"},
            lambda n: {"name": f"{out}/inside{n % 100}", "source": inside, "mode": "0644"},
            lambda n: {"name": f"{tree}/b/c", "source": f"salt://given{n % 2}", "user": user},
        ],
        "directory": [
            lambda n: {
                "name": tree, "user": user, "mode": alternate(n, "0755", "0750"),
                "file_mode": alternate(n, "0644", "0640"), "recurse": ["user", "mode"],
            },
            lambda n: {"name": f"{home}/d/n/{n}", "user": user, "makedirs": True},
            lambda n: {
                "name": f"{home}/d", "user": user, "mode": alternate(n, "0755", "0711"),
                "follow_symlinks": alternate(n, True, False),
            },
            lambda n: {"name": tree, "clean": True},
            lambda n: {"name": leaf, "force": True},
            lambda n: {"name": inside, "backupname": f"{home}/d/taken"},
            lambda n: {"name": tree, "user": "0", "mode": "0755", "recurse": ["user", "mode"]},
        ],
        "recurse": [
            lambda n: {
                "name": f"{home}/d/r", "source": "salt://tree", "user": user, "file_mode": alternate(n, "0644", "0640"),
            },
            lambda n: {"name": tree, "source": "salt://tree", "clean": True, "user": user},
            lambda n: {"name": f"{home}/d/m/{n}", "source": "salt://tree", "user": user},
            lambda n: {"name": f"{out}/tree", "source": tree, "clean": True},
        ],
        "symlink": [
            lambda n: {"name": f"{home}/d/s", "target": str(n), "user": user},
            lambda n: {"name": tree, "target": str(n), "force": True},
            lambda n: {"name": f"{home}/d/m/{n}/s", "target": "x", "makedirs": True, "user": user},
            lambda n: {"name": inside, "target": "x", "backupname": "f.old", "force": True},
        ],
        "absent": [
            lambda _: {"name": tree},
            lambda _: {"name": inside},
            lambda _: {"name": leaf},
            lambda _: {"name": f"{tree}/b"},
        ],
        "touch": [
            lambda n: {"name": inside, "mtime": n, "atime": n},
            lambda n: {"name": leaf, "mtime": n, "atime": n},
            lambda n: {"name": f"{home}/d/m/{n}/f", "makedirs": True},
        ],
        "copy": [
            lambda n: {"name": inside, "source": f"{base}/states/given{n % 2}", "force": True, "user": user},
            lambda n: {"name": leaf, "source": f"{base}/states/given{n % 2}", "force": True, "user": user},
            lambda n: {"name": f"{out}/a", "source": inside, "force": True, "mode": "0644"},
            lambda n: {"name": f"{out}/b", "source": leaf, "force": True, "mode": "0644"},
            lambda n: {"name": f"{home}/d/m/{n}/f", "source": f"{base}/states/given0", "makedirs": True, "user": user},
        ],
        "rename": [
            lambda n: {"name": f"{out}/r{n}", "source": inside},
            lambda n: {"name": inside, "source": f"{out}/r{n - 3}", "force": True},
            lambda n: {"name": f"{home}/d/n", "source": tree, "force": True},
            lambda n: {"name": leaf, "source": inside, "force": True},
        ],
        "pruned": [
            lambda _: {"name": tree}, lambda _: {"name": inside}, lambda _: {"name": f"{tree}/b", "if_empty": True},
        ],
        "exists": [lambda _: {"name": inside}, lambda _: {"name": leaf}],
        "missing": [lambda _: {"name": inside}, lambda _: {"name": f"{home}/d/none"}],
    }  # fmt: skip
    return everything[kind]


KINDS = (
    "managed", "directory", "recurse", "symlink", "absent", "touch", "copy", "rename", "pruned", "exists",
    "missing", "append", "prepend", "replace", "line", "blockreplace", "keyvalue", "comment", "uncomment",
    "serialize", "ini.options_present", "ini.options_absent",
)  # fmt: skip


def test_each_kind_of_file_takes_part() -> None:
    """A new kind of file must be added to the table."""
    files = {kind for kind in KINDS if "." not in kind}
    assert {*files, "accumulated"} == set(registry.functions("file"))  # this kind touches no file


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_exchange_affects_files_outside(ground: Ground, kind: str) -> None:
    """No file of root is changed, created, or copied to a place that the user can read; everything else is applied."""
    made = variants(kind, str(ground.base))
    full = kind if "." in kind else f"file.{kind}"
    model = registry.find(full)
    succeeded, refused, bugs = 0, {}, {}
    start, spent = time.monotonic(), time.process_time()
    async with LocalHost(states=ground.base / "states", var_dir=ground.base / "var", durable=False) as host:
        with ground.attacked():
            first = ground.exchanges()
            for number in itertools.count():
                exchanges = ground.exchanges() - first
                if (number >= CALLS and exchanges >= CALLS) or time.process_time() - spent > LONGEST:
                    break
                resource = model.model_validate(made[number % len(made)](number))
                try:
                    await resource.check_apply(host.context(f"{full}[x]"), True)
                    succeeded += 1
                except HoldfastError as error:
                    refused.setdefault(str(error)[:60], str(error))
                except Exception as error:  # noqa: BLE001 - reported below
                    bugs.setdefault(repr(error)[:60], error)
    taken = time.monotonic() - start
    told = f"{kind}: {number} calls, {succeeded} succeeded, {exchanges} exchanges, {taken:.1f} s"
    print(told)  # noqa: T201 - shown with -rP, and after a failure

    outside = ground.outside()
    changed = [
        f"{path}: {seen} -> {outside.get(path)}" for path, seen in ground.before.items() if outside.get(path) != seen
    ]
    changed += [f"{path}: made" for path in outside.keys() - ground.before.keys()]
    assert changed == []
    assert ground.readable() == []
    assert ground.inner() == ground.inner_before
    assert {text: repr(error) for text, error in bugs.items()} == {}
    assert min(number, exchanges) >= CALLS, f"only {number} calls and {exchanges} exchanges in {taken} s"
    assert succeeded > 0, refused


CHECKS = 40
"""Calls of `git.latest`, each of which runs git five times."""


@pytest.mark.parametrize("force", [True, False])
async def test_git_of_root_affects_no_files_outside(ground: Ground, force: bool) -> None:
    """A clone of root contains the home of the user, and tracks files there; git neither changes nor shows them."""
    tracked = ("f", "d/f", "d/t/a", "d/t/b/c")
    remote = GitRemote(ground.base / "remote")
    remote.commit({"top": "tracked\n", **{f"home/{name}": "tracked\n" for name in tracked}})
    git(ground.base, "clone", "--quiet", "--no-checkout", remote.url, "out/clone")
    (ground.base / "out/clone/.git").rename(ground.base / ".git")
    git(ground.base, "reset", "--quiet")
    git(ground.base, "checkout", "--quiet", "--", "top")
    before, shown, succeeded = ground.outside(), set(), 0
    model = registry.find("git.latest").declare(remote.url, target=str(ground.base), rev="main", force_reset=force)
    async with LocalHost(states=ground.base / "states", var_dir=ground.base / "var", durable=False) as host:
        with ground.attacked():
            first = ground.exchanges()
            for number in itertools.count():
                if number >= CHECKS and ground.exchanges() - first >= CALLS:
                    break
                context = host.context("git.latest[x]")
                with contextlib.suppress(Permanent):
                    await model.check_apply(context, True)
                    succeeded += 1
                shown.add(context.report.diff)

    assert ground.outside() == before
    assert ground.readable() == []
    assert ground.inner() == ground.inner_before
    assert shown == ({""} if force else {PRIVATE})
    assert succeeded == (0 if force else number)


def test_a_file_system_that_is_mounted_at_the_wrong_moment_delays_nothing(ground: Ground) -> None:
    """A user may mount a file system that never answers, between root's checks of the mount table and of the path."""
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no FUSE here")
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1] / 'src'}:{HERE.parent / 'support'}"}
    argv = ["unshare", "--mount", "--propagation=private", sys.executable, str(HERE / "hangs.py"), str(ground.base)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(told)  # noqa: T201 - the same
    assert not told["hung"], told
    assert told["longest"] < 20, told
