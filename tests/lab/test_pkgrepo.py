"""Repositories of packages with a real apt: a signed one, in a directory and on a web server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
import signed
from driver import Driver, Failed
from lab import Host
from repairs import repair_times, settled

pytestmark = pytest.mark.lab

LINE = "deb [arch=amd64,arm64] copy:/srv/signed stable main"
FILE = "/etc/apt/sources.list.d/lab.list"
KEY = "/etc/apt/keyrings/srv-signed.asc"
PORT = 8099
WEB = f"deb http://127.0.0.1:{PORT} stable main"
SERVER = f"cd /srv/signed; exec /opt/holdfast/bin/python -m http.server {PORT} --bind 127.0.0.1"


@pytest.fixture(scope="module")
def keys() -> Iterator[tuple[signed.Signer, signed.Signer]]:
    """Return the key of the repository, and another key."""
    with signed.signer() as own, signed.signer() as other:
        yield own, other


@pytest.fixture(scope="module")
def guest(
    run: lab.Run, layers: tuple[Path, ...], keys: tuple[signed.Signer, signed.Signer]
) -> Iterator[tuple[Host, Driver]]:
    """Return a host with a signed repository, which is not configured, and a driver."""
    host = run.host("pkgrepo", layers=layers)
    try:
        keys[0].publish(host, "faraway")
        host.write("/srv/signed/key.asc", keys[0].key)
        host.write("/srv/signed/other.asc", keys[1].key)
        with Driver(host) as driver:
            yield host, driver
    finally:
        host.down()


@pytest.fixture
def host(guest: tuple[Host, Driver]) -> Host:
    """Return the host, without the repository."""
    guest[0].sh("rm -rf /etc/apt/sources.list.d/* /etc/apt/keyrings /run/holdfast/repositories")
    guest[0].sh("rm -f /var/lib/apt/lists/*signed* /var/lib/apt/lists/127*; dpkg --purge faraway 2>/dev/null || true")
    return guest[0]


@pytest.fixture
def driver(guest: tuple[Host, Driver]) -> Driver:
    """Return the driver of the host."""
    return guest[1]


def files(host: Host) -> str:
    """Return the names of the files of repositories and keys."""
    return host.sh("ls -A /etc/apt/sources.list.d /etc/apt/keyrings 2>/dev/null || true")


def test_a_repository_is_configured_with_its_key(host: Host, driver: Driver):
    """A plan and a second apply change nothing, packages can be installed at once, and absent removes everything."""
    declared = {"file": FILE, "key_url": "/srv/signed/key.asc", "humanname": "Lab"}
    before = host.contents()

    planned = driver.plan("pkgrepo.managed", LINE, **declared)
    assert (planned.right, planned.changes["repo"]) == (False, LINE)
    own = ("/root/", "/opt/", "/var/log/journal", "/var/lib/holdfast")
    assert {path for path in host.contents().items() ^ before.items() if not path[0].startswith(own)} == set()

    assert driver.apply("pkgrepo.managed", LINE, **declared).changes == planned.changes | {
        "key": {"old": None, "new": f"key {KEY}"}
    }
    assert host.read(FILE) == f"deb [arch=amd64,arm64 signed-by={KEY}] copy:/srv/signed stable main\n"
    assert host.sh(f"stat -c %a {FILE} {KEY}").split() == ["644", "644"]
    assert driver.apply("pkgrepo.managed", LINE, **declared).right
    assert host.sh("ls -A /run/holdfast/repositories 2>/dev/null || true") == "", "what apt has tried is removed"
    assert driver.apply("pkg.installed", "faraway", refresh=False).changes == {"faraway": {"old": "", "new": "1.0"}}

    assert driver.apply("pkgrepo.absent", LINE).changes["repo"] == LINE
    assert driver.apply("pkgrepo.absent", LINE).right
    assert "lab.list" not in files(host)
    assert "srv-signed" not in files(host)


@pytest.mark.parametrize(
    "damage",
    [
        f"rm {FILE}",
        f"sed -i 's/^deb/# deb/' {FILE}",
        f"sed -i 's/main/main extra/' {FILE}",
        f"rm {KEY}",
        f"cp /srv/signed/other.asc {KEY}",
        f"chmod 600 {KEY}",
    ],
)
def test_damage_is_reported_and_repaired(host: Host, driver: Driver, damage: str):
    """The damage is to the content and the mode of the entry and of the key."""
    declared = {"file": FILE, "key_url": "/srv/signed/key.asc"}
    driver.apply("pkgrepo.managed", LINE, **declared)
    before = host.read(FILE), host.read(KEY)
    watch = driver.watch("pkgrepo.managed", LINE, **declared)
    watch.quiet()

    host.sh(damage)
    watch.wait()

    assert not driver.apply("pkgrepo.managed", LINE, **declared).right
    assert (host.read(FILE), host.read(KEY)) == before
    assert driver.apply("pkgrepo.managed", LINE, **declared).right


def test_a_repository_that_cannot_be_fetched_leaves_nothing(host: Host, driver: Driver):
    """If there is no server, or the key is a wrong one, the error says so. Neither entry nor key is written."""
    before, lists = files(host), host.sh("ls /var/lib/apt/lists")
    with pytest.raises(Failed, match=r"cannot fetch its lists of packages: .*127\.0\.0\.1") as caught:
        driver.apply("pkgrepo.managed", WEB, key_text=host.read("/srv/signed/key.asc"))
    assert caught.value.kind == "Temporary"
    with pytest.raises(Failed, match=r"cannot fetch its lists of packages: .*NO_PUBKEY"):
        driver.apply("pkgrepo.managed", LINE, key_url="/srv/signed/other.asc")

    assert (files(host), host.sh("ls /var/lib/apt/lists")) == (before, lists)


def test_a_key_that_is_none_is_refused(host: Host, driver: Driver):
    """A file that is not a key, a secret key, and a key with another hash are refused before anything is written."""
    host.write("/srv/signed/page.html", "<html>not found</html>\n")
    wrong = hashlib.sha256(b"").hexdigest()
    for arguments, told in (
        ({"key_url": "/srv/signed/page.html"}, "it is not an OpenPGP key"),
        ({"key_url": "/srv/signed/key.asc", "key_hash": f"sha256={wrong}"}, "its sha256 is .*, but source_hash says"),
        ({"key_url": "/srv/signed/none.asc"}, "No such file"),
    ):
        with pytest.raises(Failed, match=told):
            driver.apply("pkgrepo.managed", LINE, **arguments)
    assert FILE not in files(host)


def test_it_is_served_by_http_with_key_and_keyserver(host: Host, driver: Driver, keys: tuple[signed.Signer, ...]):
    """A fetched key is kept, so it can be restored without the server. A key server must send the right key."""
    lookup = f"/pks/lookup?op=get&options=mr&exact=on&search=0x{keys[0].fingerprint.lower()}"
    digest = hashlib.sha256(keys[0].key.encode()).hexdigest()
    page = (
        "import http.server, pathlib, sys\n"
        "class Handler(http.server.SimpleHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        f"        self.path = '/key.asc' if self.path == {lookup!r} else self.path\n"
        "        super().do_GET()\n"
        f"http.server.HTTPServer(('127.0.0.1', {PORT}), Handler).serve_forever()\n"
    )
    host.write("/root/server.py", page)
    server = host.spawn("sh", "-c", "cd /srv/signed; exec /opt/holdfast/bin/python /root/server.py")
    lab.wait_for("the server", lambda: host.run("curl", "-sf", f"127.0.0.1:{PORT}/key.asc", check=False).stdout)
    name = "/etc/apt/keyrings/127.0.0.1-8099.asc"
    by_url = {"key_url": f"http://127.0.0.1:{PORT}/key.asc", "key_hash": f"sha256={digest}"}
    by_id = {"keyid": keys[0].fingerprint, "keyserver": f"http://127.0.0.1:{PORT}", "file": f"{FILE[:-5]}.sources"}

    assert not driver.apply("pkgrepo.managed", WEB, **by_url).right
    assert driver.apply("pkgrepo.absent", WEB).changes["repo"] == WEB
    assert not driver.apply("pkgrepo.managed", WEB, **by_id).right
    assert f"Signed-By: {name}" in host.read(by_id["file"])
    with pytest.raises(Failed, match=f"it is {keys[0].fingerprint}, not {keys[1].fingerprint}|404"):
        driver.apply("pkgrepo.managed", WEB, keyid=keys[1].fingerprint, keyserver=f"http://127.0.0.1:{PORT}")
    server.terminate()
    server.wait()

    host.sh(f"chmod 600 {name}")
    assert not driver.apply("pkgrepo.managed", WEB, refresh=False, **by_id).right
    host.sh(f"echo x >{name}")
    assert not driver.apply("pkgrepo.managed", WEB, refresh=False, **by_id).right
    assert driver.apply("pkgrepo.managed", WEB, **by_id).right


def test_a_running_agent_repairs_in_order(host: Host, keys: tuple[signed.Signer, ...]):
    """Packages wait for the repository without a requisite.

    Its damage is repaired. A removed state is undone, and `absent` keeps the repository away.
    """
    host.write("/etc/holdfast/states/lab.asc", keys[0].key)
    host.write(
        "/etc/holdfast/states/site.sls",
        f"lab:\n  pkgrepo.managed:\n    - name: {LINE}\n    - key_url: salt://lab.asc\n    - file: {FILE}\n"
        "    - reverse: true\n"
        "faraway:\n  pkg.installed: []\n",
    )
    host.run("holdfast", "install")
    host.wait_journal(lambda entry: entry.get("RESOURCE") == "pkg.installed[faraway]", unit="holdfast")
    settled(host)
    right = f"text({FILE!r}) + text({KEY!r}) == {host.read(FILE) + host.read(KEY)!r}"
    assert host.run("dpkg-query", "-W", "faraway").stdout

    edit = f"echo '{LINE} extra' >{FILE}.new; mv {FILE}.new {FILE}"  # in one step
    for damage in (f"rm {FILE}", f"echo x >{KEY}", edit, f"rm -r {KEY} {FILE}"):
        repair_times(host, damage, right, times=1)
        settled(host)

    host.write("/etc/holdfast/states/site.sls", "faraway:\n  pkg.installed: []\n")
    lab.wait_for("it is undone", lambda: not {"lab.list", "srv-signed.asc"} & {*files(host).split()})
    host.write("/etc/holdfast/states/site.sls", f"lab:\n  pkgrepo.absent:\n    - name: {LINE}\n")
    lab.wait_for("the new states", lambda: "pkgrepo.absent" in host.run("holdfast", "status", "--all").stdout)
    settled(host)
    repair_times(host, f"echo '{LINE}' >{FILE}", f"not os.path.exists({FILE!r})", times=2)
    assert [entry for entry in host.journal("holdfast") if entry.get("RESULT") == "failed"] == []
