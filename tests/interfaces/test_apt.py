"""How the apt provider reads and drives dpkg and apt, without either; the lab has them for real."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.results import Pkg, PkgSpec
from holdfast.resources.providers import _claims, _complaints, _dpkg, _locks, apt

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


def test_database_is_read_with_all_its_states():
    """Installed, foreign, provided, held, left behind and unfinished packages are told apart."""
    database = _dpkg.parse(STATUS)

    assert database.find("libc6:i386") == [Pkg(name="libc6", version="2.36", arch="i386")]
    assert [pkg.name for pkg in database.find("mail-transport-agent")] == ["exim4"]
    assert [pkg.name for pkg in database.find("smtp-server")] == ["exim4"]
    assert database.find("gone") == database.find("half") == database.find("never") == []
    assert (database.held, database.residual, database.unfinished) == ({"vim"}, {"gone"}, {"half"})
    assert database.versions()["libc6"] == "2.36"


def test_what_packages_ship_is_read_once_from_their_lists(tmp_path, monkeypatch):
    """No command; a list is read again when it has changed, or when something new is asked for.

    What all hosts have is nobody's.
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


def test_a_package_has_files_of_others_from_its_source(tmp_path):
    """What it depends on, near or far, or only in one of several ways; not what is made from another source.

    Without a database: nothing more.
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


def test_policy_gives_candidate_and_versions():
    """The newest first; a package that only left something behind has no candidate."""
    assert list(_dpkg.policies(POLICY)) == [("tiny", "2.0", ["2.0", "1.0"]), ("gone", None, ["1.0"])]


def test_plan_is_read_from_a_simulation():
    """New, changed and removed packages."""
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


def test_lock_holder_is_named(tmp_path):
    """Another process that holds a lock is found without touching the lock; nobody is nobody."""
    lock = tmp_path / "lock"
    lock.touch()
    assert _locks.lock_holder([lock, tmp_path / "missing"]) == ""

    code = (
        "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert _locks.lock_holder([lock]).startswith(f"process {holder.pid} (")
        holder.stdin.close()
        holder.wait()
    with lock.open("w") as own:
        fcntl.lockf(own, fcntl.LOCK_EX)
        assert _locks.lock_holder([lock]) == "", "a lock of our own does not stop us"


async def test_endless_lock_is_temporary(host, monkeypatch):
    """After the patience has run out the error names the holder; it was logged once."""
    monkeypatch.setattr(apt, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(apt, "LOCK_INTERVAL", 0.01)
    monkeypatch.setattr(apt, "lock_holder", lambda: "process 7 (unattended-upgr)")

    with pytest.raises(Temporary, match=r"its lock has been held by process 7 \(unattended-upgr\)"):
        await apt.Apt(host).refresh(force=True)
    assert [event for _, event, _ in host.log.lines] == [
        "waiting for apt's lock, which is held by process 7 (unattended-upgr)"
    ]


async def test_a_lock_that_others_are_always_quicker_to_take_is_temporary(host, monkeypatch):
    """However often apt is tried, all tries together have one deadline."""
    monkeypatch.setattr(apt, "LOCK_TIMEOUT", 0.05)
    monkeypatch.setattr(apt, "LOCK_INTERVAL", 0.01)
    monkeypatch.setattr(apt, "lock_holder", lambda: "")
    host.answers["apt-get"] = (100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend\n")

    async with asyncio.timeout(5):
        with pytest.raises(Temporary, match="other programs locked it first"):
            await apt.Apt(host).refresh(force=True)
    assert len(host.ran) > 1


async def test_install_is_one_transaction_with_the_options_asked_for(host):
    """Names, versions and files in one call; switches as declared."""
    provider = apt.Apt(host)
    specs = [PkgSpec(name="a"), PkgSpec(name="b", version="1.0"), PkgSpec(name="c", source="/tmp/c.deb")]
    await provider.install(
        specs, test=True, options={"fromrepo": "backports", "install_recommends": False, "skip_verify": True}
    )

    (asked,) = (line for line in host.ran if " install " in line)
    assert asked.endswith(
        "install --allow-unauthenticated --target-release=backports --no-install-recommends --allow-downgrades a "
        "b=1.0 /tmp/c.deb"
    )


async def test_each_transaction_tells_its_own_changes(host, events, monkeypatch):
    """One that waits while another works does not count what that one has installed."""
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


async def test_failed_update_is_temporary_when_nothing_could_be_fetched(host):
    """One bad repository of two is a warning; all bad ones are an error."""
    host.answers["apt-get"] = "Hit:1 file:/a ./ Packages\nErr:2 file:/b ./ Packages\n"

    provider = apt.Apt(host)
    result = await provider.refresh(force=True)

    assert set(result.values()) == {"unchanged", "failed"}
    host.answers["apt-get"] = (100, "Err:1 file:/b ./ Packages\n", "E: Failed to fetch file:/b\n")
    with pytest.raises(Temporary, match="cannot refresh the lists of packages: Failed to fetch file:/b"):
        await provider.refresh(force=True)


async def test_unknown_package_gets_the_nearest_name(host):
    """Names with the same beginning are searched."""
    host.answers |= {
        "apt-get": (100, "", "E: Unable to locate package ngnix\n"),
        "apt-cache pkgnames ng": "ng-utils\nngircd\nnginx\n",
    }
    with pytest.raises(Permanent, match=r"cannot install ngnix: Unable to locate package ngnix; did you mean nginx\?"):
        await apt.Apt(host).install([PkgSpec(name="ngnix")], test=True)


def test_complaint_quotes_the_script_that_failed():
    """What a package's script said comes first, apt's own summary last; chatter is left out."""
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
"""What dpkg writes to the terminal that apt gives it."""
SUB = "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"


def test_complaint_of_a_terminal_has_no_carriage_returns():
    """The error and its second line are one; the percents of a look at the database are not among the words."""
    out = f"(Reading database ... \r(Reading database ... 5%\r\n(Reading database ... 100%\r\n{PTY}"

    text = (
        "no disk; dpkg: error processing package toy (--configure): status 1; "
        "Sub-process /usr/bin/dpkg returned an error code (1)"
    )
    assert _complaints.complaint(Completed(("apt-get",), 1, 100, out, SUB)) == text


def test_complaint_where_apt_has_lost_the_error_of_dpkg():
    """A script that writes very much: its last words are told, and no more than eight of them."""
    out = "Setting up toy (1) ...\n" + "".join(f"line {number}\n" for number in range(3000))

    assert _complaints.complaint(Completed(("apt-get",), 1, 100, out, SUB)).startswith("line 2992; line 2993; ")


def test_complaint_is_bounded():
    """However many lines there are and however long they are."""
    err = "".join(f"E: {number}{'x' * 10_000}\n" for number in range(1000))

    text = _complaints.complaint(Completed(("apt-get",), 1, 100, "", err))
    assert len(text) < 10_000
    assert "[980 more lines]" in text


async def test_refresh_that_fails_as_a_whole_is_an_error(host):
    """A list of sources that apt cannot read names no repository."""
    host.answers["apt-get"] = (100, "", "E: Type 'dob' is not known on line 1 in source list /etc/apt/a.list\n")
    with pytest.raises(Temporary, match="Type 'dob' is not known on line 1"):
        await apt.Apt(host).refresh(force=True)


async def test_warnings_of_apt_are_the_reason_where_there_is_no_error(host):
    """Of a repository that cannot be reached apt only warns."""
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
async def test_words_of_apt_are_part_of_each_error(host, command, ask):
    """Also of those who only mark or look."""
    host.answers[command] = (100, "", "dpkg: the database is damaged\nE: Executing dpkg failed. Are you root?\n")
    with pytest.raises(Permanent, match=r"dpkg: the database is damaged; Executing dpkg failed. Are you root\?$"):
        await ask(apt.Apt(host))


class Events:
    """Stands for a host's `watch_path`: all that are watched change when told."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[None]] = []
        self._waiting = 0

    async def __call__(self, *paths: str, recursive: bool = False):
        """Armed, then one event each time."""
        self._queues.append(queue := asyncio.Queue())
        yield None
        while True:
            self._waiting += 1
            await queue.get()
            self._waiting -= 1
            yield None

    def tell(self) -> None:
        """Something has changed."""
        for queue in self._queues:
            queue.put_nowait(None)

    def seen(self) -> bool:
        """All who watch have dealt with all of it, and wait for more."""
        return self._waiting > 0 and all(queue.empty() for queue in self._queues)


@pytest.fixture
def events(host, monkeypatch) -> Events:
    """Events of the database, which has another stamp at each look."""
    stamps = iter(range(10**6))
    monkeypatch.setattr(_dpkg.Dpkg, "_look", lambda _: (next(stamps),))
    monkeypatch.setattr(apt, "lock_holder", lambda: "")
    host.watch_path = Events()
    host.answers["dpkg-query"] = STATUS
    return host.watch_path


async def test_a_watch_tells_of_its_own_packages_alone(host, events):
    """Of what changes for the others nothing; without names, of all."""
    provider = apt.Apt(host)
    mine, all_ = provider.watch(["vim"]), provider.watch()
    await anext(mine)
    await anext(all_)
    news = asyncio.ensure_future(anext(mine))

    host.answers["dpkg-query"] = STATUS.replace("5.2", "5.3")
    events.tell()
    await asyncio.wait_for(anext(all_), 5)
    while not events.seen():
        await asyncio.sleep(0)
    assert not news.done()
    host.answers["dpkg-query"] = STATUS.replace("9.0", "9.1")
    events.tell()

    await asyncio.wait_for(news, 5)


async def test_what_our_own_apt_does_on_the_way_is_not_told(host, events):
    """A package whose configuration fails is half-configured before and after each attempt.

    Its own attempts do not wake it.
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

    await asyncio.wait_for(news, 5)


def locked(path: Path) -> subprocess.Popen[str]:
    """A process that holds a lock until its standard input ends."""
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


async def test_what_others_have_in_their_hands(host, events, tmp_path, monkeypatch):
    """Packages that are not installed, or are not as before, with what they ship, until the lock is given up.

    Not what only our own commands change.
    """
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "bash.list").write_text("/.\n/bin\n/bin/bash\n")
    (tmp_path / "info" / "base-files:.list").write_text("/.\n/bin\n")
    monkeypatch.setattr(_locks, "PACKAGES", (tmp_path / "lock",))
    dpkg = _dpkg.Dpkg(host)
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
    """Whoever holds a lock below `tmp_path` counts as somebody else.

    His packages are listed, registered and diverted there.
    """
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "base-files.list").write_text("/.\n/etc\n/etc/default\n")
    monkeypatch.setattr(_locks, "PACKAGES", (tmp_path / "lock",))
    monkeypatch.setattr(_locks, "is_ours", lambda _: False)
    return _locks.Others(_dpkg.Dpkg(host), host, tmp_path, tmp_path / "registry")


async def held(others: _locks.Others, *paths: str) -> list[str]:
    """Those of the paths that others have in their hands."""
    return [path for path in paths if await others.have(frozenset(), frozenset({path}))]


async def test_files_that_ucf_keeps_are_held_with_their_package(host, others, tmp_path):
    """Also one that is registered or forgotten while it is held.

    What is no entry is skipped, and entries of other packages are not held.
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


async def test_what_a_package_ships_anew_is_held_from_when_it_is_unpacked(host, others, tmp_path):
    """Its list is another one then: that of a package that was not there before, too."""
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
    """The one that ships the file, whose place is elsewhere now, and the one that has it diverted and moves both.

    What others divert is not.
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
def test_the_registry_of_ucf_and_the_diversions_of_dpkg_are_read(tmp_path):
    """As the tools themselves write them."""
    (tmp_path / "diversions").write_text("")
    for name, path in (("bash", "/etc/default/bash"), ("vim", "/etc/vimrc")):
        subprocess.run(["ucfr", "--state-dir", tmp_path, name, path], check=True)
    divert = ["dpkg-divert", "--quiet", "--admindir", tmp_path, "--add", "--no-rename"]
    subprocess.run([*divert, "--package", "bash", "--divert", "/nonexistent/sh.real", "/nonexistent/sh"], check=True)
    subprocess.run([*divert, "--local", "/nonexistent/local"], check=True)

    claims = _claims.Claims(tmp_path, tmp_path / "registry")
    claims.update(["bash"])
    assert claims.paths == {"/etc/default/bash", "/nonexistent/sh", "/nonexistent/sh.real"}


async def test_a_package_whose_configuration_was_purged_is_held(host, others, tmp_path):
    """It was removed before the session: only what dpkg has kept of it goes now."""
    with locked(tmp_path / "lock") as process:
        assert not await others.have(frozenset({"gone"}), frozenset())
        host.answers["dpkg-query"] = "\n".join(line for line in STATUS.split("\n") if not line.startswith("gone"))
        assert await others.have(frozenset({"gone"}), frozenset())
        process.stdin.close()
