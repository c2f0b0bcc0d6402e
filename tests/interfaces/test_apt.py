"""How the apt provider reads and calls dpkg and apt, with fakes of both; tests/lab uses the real ones."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.resources import package_locks
from holdfast.resources.context import Completed
from holdfast.resources.errors import ChangedMeanwhile, Permanent, Temporary
from holdfast.resources.interfaces.results import Pkg, PkgSpec, Repo
from holdfast.resources.providers import _claims, _complaints, _dpkg, _locks, _pkg_database, _shared_tool, apt

STATUS = "\n".join(
    "\t".join(fields)
    for fields in [
        ("bash", "amd64", "ii ", "5.2", ""),
        ("libc6", "amd64", "ii ", "2.36", ""),
        ("libc6", "i386", "ii ", "2.36", ""),
        ("exim4", "all", "ii ", "4.96", "mail-transport-agent, smtp-server (= 1)"),
        ("vim", "amd64", "hi ", "9.0", "editor"),
        ("gone", "all", "rc ", "1.0", ""),
        ("half", "all", "iF ", "1.0", ""),
        ("never", "all", "un ", "", ""),
    ]
)
POLICY = """\
tiny:
  Installed: 1.0
  Candidate: 2.0
  Version table:
     2.0 500
        500 file:/srv/apt ./ Packages
 *** 1.0 100
        100 /var/lib/dpkg/status
gone:
  Installed: (none)
  Candidate: (none)
  Version table:
     1.0 -1
        100 /var/lib/dpkg/status
"""


def test_the_database_is_read_with_all_states():
    """Installed, foreign, provided, held, removed and unfinished packages are distinguished."""
    database = _dpkg.parse(STATUS)

    assert database.find("libc6:i386") == [Pkg(name="libc6", version="2.36", arch="i386")]
    assert [pkg.name for pkg in database.find("mail-transport-agent")] == ["exim4"]
    assert [pkg.name for pkg in database.find("smtp-server")] == ["exim4"]
    assert database.find("gone") == database.find("half") == database.find("never") == []
    assert (database.held, database.residual, database.unfinished) == ({"vim"}, {"gone"}, {"half"})
    assert database.versions()["libc6"] == "2.36"


def test_the_files_of_packages_are_read_once(tmp_path, monkeypatch):
    """Reading them needs no command. A list is read again when it has changed, or for a new request.

    Directories that all hosts have belong to no package.
    """
    info = tmp_path / "info"
    info.mkdir()
    (info / "base-files.list").write_text("/.\n/etc\n")
    (info / "nginx.list").write_text("/.\n/etc\n/etc/nginx\n/etc/nginx/nginx.conf\n")
    (info / "libc6:amd64.list").write_text("/etc/nginx\n")
    read, real = [], Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **options: read.append(path.name) or real(path, **options))
    files = _dpkg.Files("amd64", tmp_path)
    names, paths = ["nginx", "libc6", "gone"], frozenset({"/etc", "/etc/nginx", "/etc/other"})

    assert files.owners(names, paths) == {"/etc/nginx": ["libc6", "nginx"]}
    assert files.owners(names, paths - {"/etc/other"}) == {"/etc/nginx": ["libc6", "nginx"]}
    assert sorted(read) == ["base-files.list", "libc6:amd64.list", "nginx.list"]
    os.utime(info / "nginx.list", ns=(1, 1))
    files.owners(names, paths)
    assert len(read) == 4
    assert files.owners(names, paths | {"/etc/nginx/nginx.conf"})["/etc/nginx/nginx.conf"] == ["nginx"]
    assert len(read) == 7


def test_files_of_related_packages_are_included(tmp_path):
    """Files of dependencies from the same source package count, also of indirect and alternative ones.

    Without a database there are none.
    """
    paragraphs = [
        "Package: nginx-light\nSource: nginx (1.2)\nDepends: libc6 (>= 2), nginx-core | nginx-full, iproute2:any",
        "Package: nginx-core\nSource: nginx\nPre-Depends: nginx-common (= 1.2)",
        "Package: nginx-common\nSource: nginx\nDepends: nginx-light",
        "Package: libc6\nDepends: libgcc\nSource: glibc",
        "Package: nginx\nDepends: nginx-light",
    ]
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "nginx-common.list").write_text("/etc/nginx\n")
    files, paths = _dpkg.Files("amd64", tmp_path), frozenset({"/etc/nginx"})
    assert files.owners(["nginx-light"], paths) == {}

    (tmp_path / "status").write_text("\n\n".join(paragraphs))

    assert files.owners(["nginx-light", "libc6"], paths) == {"/etc/nginx": ["nginx-light"]}
    assert files.owners(["nginx", "nginx-core"], paths) == {"/etc/nginx": ["nginx", "nginx-core"]}


def test_policy_yields_candidate_and_versions():
    """The newest version comes first; a removed package with remaining configuration has no candidate."""
    assert list(_dpkg.policies(POLICY)) == [("tiny", "2.0", ["2.0", "1.0"]), ("gone", None, ["1.0"])]


def test_the_plan_is_read_from_a_simulation():
    """New, changed and removed packages are recognised."""
    plan = (
        "NOTE: ...\nInst new (2.0 Debian:12 [all])\nInst old [1.0] (1.1 Debian:12 [amd64]) []\n"
        "Remv gone [3.0]\nPurg dust [4.0]\nConf new (2.0)\n"
    )

    assert _dpkg.planned(plan) == {
        "new": {"old": "", "new": "2.0"},
        "old": {"old": "1.0", "new": "1.1"},
        "gone": {"old": "3.0", "new": ""},
        "dust": {"old": "4.0", "new": ""},
    }


def test_the_holder_of_a_lock_is_named(tmp_path):
    """Another process that holds a lock is found without taking the lock."""
    lock = tmp_path / "lock"
    lock.touch()
    assert package_locks.lock_holder([lock, tmp_path / "missing"]) == ""

    code = (
        "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert package_locks.lock_holder([lock]).startswith(f"process {holder.pid} (")
        holder.stdin.close()
        holder.wait()
    with lock.open("w") as own:
        fcntl.lockf(own, fcntl.LOCK_EX)
        assert package_locks.lock_holder([lock]) == "", "a lock of our own does not stop us"


async def test_a_lock_that_is_not_released_is_a_temporary_error(host, monkeypatch):
    """The error after the timeout names the holder, which was logged once."""
    monkeypatch.setattr(_shared_tool, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(_shared_tool, "LOCK_INTERVAL", 0.01)
    monkeypatch.setattr(_shared_tool, "lock_holder", lambda _: "process 7 (unattended-upgr)")

    with pytest.raises(Temporary, match=r"its lock has been held by process 7 \(unattended-upgr\)"):
        await apt.Apt(host).refresh(force=True)
    assert [event for _, event, _ in host.log.lines] == [
        "waiting for apt's lock, which is held by process 7 (unattended-upgr)"
    ]


async def test_a_lock_that_others_keep_taking_is_a_temporary_error(host, monkeypatch):
    """All attempts together have one deadline."""
    monkeypatch.setattr(_shared_tool, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(_shared_tool, "LOCK_INTERVAL", 0.01)
    monkeypatch.setattr(_shared_tool, "lock_holder", lambda _: "")
    host.answers["apt-get"] = (100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend\n")

    async with asyncio.timeout(DEADLINE):
        with pytest.raises(Temporary, match="other programs took its lock first"):
            await apt.Apt(host).refresh(force=True)
    assert len(host.ran) > 1


async def test_each_transaction_reports_its_own_changes(host, events, monkeypatch):
    """A transaction that waits for another one does not report the changes of the other."""
    provider, begun, go_on, run = apt.Apt(host), asyncio.Event(), asyncio.Event(), host.run

    async def installing(*argv: str, **how: object) -> Completed:
        if "install" in argv:
            begun.set()
            await go_on.wait()
            host.answers["dpkg-query"] += f"\n{argv[-1]}\tamd64\tii \t1.0\t"
        return await run(*argv, **how)

    monkeypatch.setattr(host, "run", installing)
    first = asyncio.ensure_future(provider.install([PkgSpec(name="slow")]))
    await begun.wait()
    second = asyncio.ensure_future(provider.install([PkgSpec(name="quick")]))
    await asyncio.sleep(0)
    go_on.set()

    assert (await first).changes == {"slow": {"old": "", "new": "1.0"}}
    assert (await second).changes == {"quick": {"old": "", "new": "1.0"}}


def test_the_error_quotes_the_script_that_failed():
    """Messages of the package's script come first, the summary of apt last; progress messages are omitted."""
    out = (
        "Setting up other (1)\nfine\nSetting up toy (1)\nno disk\n"
        "dpkg: error processing package toy (--configure):\n status 1\nErrors were encountered\n"
    )
    done = Completed(("apt-get",), 1, 100, out, "W: chatter\nE: Sub-process dpkg returned an error code (1)\n")

    assert _complaints.complaint(done).startswith("no disk; dpkg: error processing package toy (--configure):")
    assert _complaints.complaint(done).endswith("Sub-process dpkg returned an error code (1)")
    assert "chatter" not in _complaints.complaint(done)
    assert "fine" not in _complaints.complaint(done)


PTY = (
    "Setting up toy (1)\r\nno disk\r\n"
    "dpkg: error processing package toy (--configure):\r\n status 1\r\nErrors were encountered\r\n"
)
"""Output of dpkg on the terminal that apt gives it."""
SUB = "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"


def test_the_error_has_no_carriage_returns():
    """The error and its continuation line are one line, without the progress of reading the database."""
    out = f"(Reading database ... \r(Reading database ... 5%\r\n(Reading database ... 100%\r\n{PTY}"

    text = (
        "no disk; dpkg: error processing package toy (--configure): status 1; "
        "Sub-process /usr/bin/dpkg returned an error code (1)"
    )
    assert _complaints.complaint(Completed(("apt-get",), 1, 100, out, SUB)) == text


def test_an_error_of_dpkg_that_apt_has_lost():
    """If a script writes very much, its last eight lines are reported."""
    out = "Setting up toy (1) ...\n" + "".join(f"line {number}\n" for number in range(3000))

    assert _complaints.complaint(Completed(("apt-get",), 1, 100, out, SUB)).startswith("line 2992; line 2993; ")


def test_the_length_of_the_error_is_limited():
    """The limit holds for many lines and for long lines."""
    err = "".join(f"E: {number}{'x' * 10_000}\n" for number in range(1000))

    text = _complaints.complaint(Completed(("apt-get",), 1, 100, "", err))
    assert len(text) < 10_000
    assert "[980 more lines]" in text


async def test_a_refresh_that_fails_completely_is_an_error(host):
    """The error names no repository if apt cannot read the list of sources."""
    host.answers["apt-get"] = (100, "", "E: Type 'dob' is not known on line 1 in source list /etc/apt/a.list\n")
    with pytest.raises(Temporary, match="Type 'dob' is not known on line 1"):
        await apt.Apt(host).refresh(force=True)


async def test_warnings_of_apt_are_the_reason_if_there_is_no_error(host):
    """If a repository cannot be reached, apt only warns."""
    host.answers["apt-get"] = (
        0,
        "Hit:1 file:/a ./ Packages\nErr:2 http://b ./ InRelease\n",
        "W: Failed to fetch http://b: refused\n",
    )

    await apt.Apt(host).refresh(force=True)
    assert host.log.lines[-1][2]["why"] == "Failed to fetch http://b: refused"


@pytest.mark.parametrize(
    ("command", "ask"),
    [
        ("apt-mark", lambda provider: provider.hold(["toy"])),
        ("apt-cache", lambda provider: provider.latest(["toy"])),
        ("apt-get", lambda provider: provider.upgrades(refresh=False)),
    ],
)
async def test_messages_of_apt_are_part_of_each_error(host, command, ask):
    """Errors of apt-mark and apt-cache contain them, too."""
    host.answers[command] = (100, "", "dpkg: the database is damaged\nE: Executing dpkg failed. Are you root?\n")
    with pytest.raises(Permanent, match=r"dpkg: the database is damaged; Executing dpkg failed. Are you root\?$"):
        await ask(apt.Apt(host))


class Events:
    """Replaces `watch_path` of a host: all watched paths change on request."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[None]] = []
        self._waiting = 0

    async def __call__(self, *paths: str, recursive: bool = False):
        """Report that the watch is armed, then one event for each change."""
        self._queues.append(queue := asyncio.Queue())
        yield None
        while True:
            self._waiting += 1
            await queue.get()
            self._waiting -= 1
            yield None

    def tell(self) -> None:
        """Report a change."""
        for queue in self._queues:
            queue.put_nowait(None)

    def seen(self) -> bool:
        """Wait until all watches have handled all changes."""
        return self._waiting > 0 and all(queue.empty() for queue in self._queues)


@pytest.fixture
def events(host, monkeypatch) -> Events:
    """Return events of the database, whose time of change differs at each check."""
    stamps = iter(range(10**6))
    monkeypatch.setattr(_pkg_database.Cache, "_look", lambda _: (next(stamps),))
    monkeypatch.setattr(_shared_tool, "lock_holder", lambda _: "")
    host.watch_path = Events()
    host.answers["dpkg-query"] = STATUS
    return host.watch_path


async def test_a_watch_reports_its_own_packages_only(host, events):
    """Changes of other packages are not reported; without names, all are."""
    provider = apt.Apt(host)
    mine, all_ = provider.watch(["vim"]), provider.watch()
    await anext(mine)
    await anext(all_)
    news = asyncio.ensure_future(anext(mine))

    host.answers["dpkg-query"] = STATUS.replace("5.2", "5.3")
    events.tell()
    await asyncio.wait_for(anext(all_), DEADLINE)
    while not events.seen():
        await asyncio.sleep(0)
    assert not news.done()
    host.answers["dpkg-query"] = STATUS.replace("9.0", "9.1")
    events.tell()

    await asyncio.wait_for(news, DEADLINE)


async def test_intermediate_states_of_our_own_apt_are_not_reported(host, events):
    """A package whose configuration fails is half-configured before and after each attempt.

    Attempts of the agent do not wake the resource.
    """
    provider = apt.Apt(host)
    watch = provider.watch(["half"])
    await anext(watch)
    news = asyncio.ensure_future(anext(watch))

    with provider._at_work():
        host.answers["dpkg-query"] = STATUS.replace("iF", "ii")
        events.tell()
        for _ in range(10):
            await asyncio.sleep(0)
        host.answers["dpkg-query"] = STATUS
    while not events.seen():
        await asyncio.sleep(0)
    assert not news.done()
    host.answers["dpkg-query"] = STATUS.replace("iF", "ii")
    events.tell()

    await asyncio.wait_for(news, DEADLINE)


def locked(path: Path) -> subprocess.Popen[str]:
    """Run a process that holds a lock until its standard input ends."""
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


async def test_packages_that_another_process_is_changing(host, events, tmp_path, monkeypatch):
    """Packages that are not installed, or have changed, are left alone with their files until the lock is released.

    Packages that only the agent's own commands change are not left alone.
    """
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "bash.list").write_text("/.\n/bin\n/bin/bash\n")
    (tmp_path / "info" / "base-files:.list").write_text("/.\n/bin\n")
    monkeypatch.setattr(_locks, "PACKAGES", (tmp_path / "lock",))
    dpkg = apt.Apt(host)._cache
    others = _locks.Others(dpkg, host, tmp_path, tmp_path / "registry")
    await dpkg.read()
    bash, vim = frozenset({"bash"}), frozenset({"vim"})
    assert not await others.have(frozenset({"half"}), frozenset())

    with locked(tmp_path / "lock") as process:
        assert others.at_work() == "", "our own command"
        monkeypatch.setattr(_locks, "is_ours", lambda _: False)
        assert others.at_work().startswith(f"process {process.pid} (")
        assert await others.have(frozenset({"half"}), frozenset()), (
            "it was half-configured before, and nobody knows why"
        )
        assert not await others.have(bash, frozenset({"/bin/bash"}))
        host.answers["dpkg-query"] = STATUS.replace("\tii \t5.2", "\tiF \t5.2")
        assert await others.have(bash, frozenset())
        assert await others.have(frozenset(), frozenset({"/bin/bash"}))
        host.answers["dpkg-query"] = STATUS.replace("bash", "bush")
        (tmp_path / "info" / "bash.list").unlink()
        assert await others.have(frozenset(), frozenset({"/bin/bash"})), "gone, but still in their hands"
        assert not await others.have(vim, frozenset({"/usr/bin/vim", "/bin"})), "a directory that every host has"
        process.stdin.close()

    assert others.at_work() == ""
    assert not await others.have(bash, frozenset({"/bin/bash"}))
    with locked(tmp_path / "lock") as process:
        others.at_work()
        host.answers["dpkg-query"] = STATUS.replace("exim4", "exim5")
        await dpkg.read()
        assert await others.have(frozenset({"exim4"}), frozenset()), "whoever reads the database in between"
        process.stdin.close()


@pytest.fixture
def others(host, events, tmp_path, monkeypatch):
    """Treat every process that holds a lock below `tmp_path` as another one.

    Its packages, registered files and diversions are read there.
    """
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "base-files.list").write_text("/.\n/etc\n/etc/default\n")
    monkeypatch.setattr(_locks, "PACKAGES", (tmp_path / "lock",))
    monkeypatch.setattr(_locks, "is_ours", lambda _: False)
    return _locks.Others(apt.Apt(host)._cache, host, tmp_path, tmp_path / "registry")


async def held(others: _locks.Others, *paths: str) -> list[str]:
    """Return which of the paths another process may be changing."""
    return [path for path in paths if await others.have(frozenset(), frozenset({path}))]


async def test_files_that_ucf_keeps_are_held_with_their_package(host, others, tmp_path):
    """A file that is registered or removed from the registry meanwhile is held, too.

    Malformed entries are skipped, and files of other packages are not held.
    """
    registry = tmp_path / "registry"
    registry.write_text(
        "bash \t /etc/default/bash\nvim \t /etc/vimrc\nbash\n\x00\nbash relative\n /etc/nobody\nbash \t /etc/with "
        "space\n"
    )
    asked = ("/etc/default/bash", "/etc/vimrc", "/etc/with space", "relative", "/etc/nobody", "/etc/new")
    with locked(tmp_path / "lock") as process:
        assert await held(others, *asked) == []
        host.answers["dpkg-query"] = STATUS.replace("\tii \t5.2", "\tiF \t5.2")
        assert await held(others, *asked) == ["/etc/default/bash", "/etc/with space"]

        registry.write_text("bash /etc/new\n")
        assert await held(others, *asked) == ["/etc/default/bash", "/etc/with space", "/etc/new"]
        registry.unlink()
        assert await held(others, "/etc/default/bash") == ["/etc/default/bash"]
        process.stdin.close()
    assert await held(others, *asked) == []


async def test_new_files_of_a_package_are_held_once_it_is_unpacked(host, others, tmp_path):
    """Its list of files has changed by then; a new package has one."""
    bash = tmp_path / "info" / "bash.list"
    bash.write_text("/.\n/etc\n/etc/bash.conf\n")
    with locked(tmp_path / "lock") as process:
        assert await held(others, "/etc/bash.conf") == []
        host.answers["dpkg-query"] = STATUS.replace("\tii \t5.2", "\tiH \t5.2") + "\nfresh\tall\tiH \t1.0\t"
        assert await held(others, "/etc/bash.conf", "/etc/new.conf", "/etc/fresh.conf", "/etc") == ["/etc/bash.conf"]

        bash.write_text("/.\n/etc\n/etc/new.conf\n")
        (tmp_path / "info" / "fresh.list").write_text("/.\n/etc\n/etc/fresh.conf\n")
        found = await held(others, "/etc/bash.conf", "/etc/new.conf", "/etc/fresh.conf", "/etc")
        assert found == ["/etc/bash.conf", "/etc/new.conf", "/etc/fresh.conf"]
        process.stdin.close()


async def test_diverted_files_are_held_with_both_packages(host, others, tmp_path):
    """A diverted file is held with the package that ships it and with the package that diverts it.

    Files that other packages divert are not held.
    """
    diversions = (
        "/bin/sh\n/bin/sh.bash\nbash\n",
        "/usr/bin/vim\n/usr/bin/vim.local\n:\n",
        "/usr/bin/exim\n/usr/bin/exim.real\nexim4\n",
        "/cut\n",
    )
    (tmp_path / "diversions").write_text("".join(diversions))
    (tmp_path / "info" / "vim.list").write_text("/usr/bin/vim\n")
    asked = (
        "/bin/sh",
        "/bin/sh.bash",
        "/usr/bin/vim",
        "/usr/bin/vim.local",
        "/usr/bin/exim",
        "/usr/bin/exim.real",
        "/cut",
    )
    with locked(tmp_path / "lock") as process:
        assert await held(others, *asked) == []
        host.answers["dpkg-query"] = STATUS.replace("\tii \t5.2", "\tiF \t5.2")
        assert await held(others, *asked) == ["/bin/sh", "/bin/sh.bash"]
        host.answers["dpkg-query"] = STATUS.replace("\thi \t", "\thU \t")
        assert await held(others, *asked) == ["/bin/sh", "/bin/sh.bash", "/usr/bin/vim", "/usr/bin/vim.local"]
        process.stdin.close()


@pytest.mark.skipif(not (shutil.which("ucfr") and shutil.which("dpkg-divert")), reason="needs ucf and dpkg")
def test_the_registry_of_ucf_and_the_diversions_of_dpkg_are_parsed(tmp_path):
    """The files are read as the tools write them."""
    (tmp_path / "diversions").write_text("")
    for name, path in (("bash", "/etc/default/bash"), ("vim", "/etc/vimrc")):
        subprocess.run(["ucfr", "--state-dir", tmp_path, name, path], check=True)
    divert = ["dpkg-divert", "--quiet", "--admindir", tmp_path, "--add", "--no-rename"]
    subprocess.run([*divert, "--package", "bash", "--divert", "/nonexistent/sh.real", "/nonexistent/sh"], check=True)
    subprocess.run([*divert, "--local", "/nonexistent/local"], check=True)

    claims = _claims.Claims(tmp_path, tmp_path / "registry")
    claims.update(["bash"])
    assert claims.paths == {"/etc/default/bash", "/nonexistent/sh", "/nonexistent/sh.real"}


async def test_a_package_whose_configuration_is_purged_is_held(host, others, tmp_path):
    """The package was removed earlier; now the files that dpkg had kept are removed."""
    with locked(tmp_path / "lock") as process:
        assert not await others.have(frozenset({"gone"}), frozenset())
        host.answers["dpkg-query"] = "\n".join(line for line in STATUS.split("\n") if not line.startswith("gone"))
        assert await others.have(frozenset({"gone"}), frozenset())
        process.stdin.close()


async def test_a_repository_that_another_program_changes_while_its_lists_are_fetched_is_not_overwritten(
    host, tmp_path, monkeypatch
):
    """The error says that something else has changed the file; the agent then repairs the file again at once."""
    host.root = tmp_path
    provider = apt.Apt(host)
    repo = Repo(id="x", uris=("https://x.example.org/apt",), extra={"suites": ["stable"], "components": ["main"]})
    file = tmp_path / "etc/apt/sources.list.d/x.sources"
    file.parent.mkdir(parents=True)
    await provider.repo_set(repo)
    file.write_text(file.read_text().replace("main", "extra"))

    async def removed(*_: object) -> None:
        file.unlink()

    monkeypatch.setattr(provider, "_try", removed)
    with pytest.raises(ChangedMeanwhile, match="cannot set repository x: another program has changed it"):
        await provider.repo_set(repo, refresh=True)
    assert not file.exists()
