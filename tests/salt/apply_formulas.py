"""Applies public formulas with Salt and with Holdfast to equal hosts, and prints how the hosts differ afterwards.

    scripts/formulas --apply DIRECTORY [NAME...]

The trees are those of `formulas`. Each is applied twice by Holdfast to one host of tests/lab, and by Salt to another:
without a master, with the host's own Python and the Salt that `scripts/test --salt` has installed. The hosts see a
mirror of Debian and no other server. This needs root, and about a minute for each tree.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml
from applied import Applied, accounts, brief, damages, differences, disk, of_holdfast, of_salt
from formulas import SALT, found
from stage import plain_umask
from trees import Tree

from holdfast.agent.phrases import number_of
from holdfast.resources.visible import clean

LAB = Path(__file__).parents[1] / "lab"
sys.path.insert(0, str(LAB))

import image  # noqa: E402 - the lab's modules are in a folder of their own
import installed  # noqa: E402 - the same
from lab import Host, Run, running  # noqa: E402 - the same
from repairs import repair_times, settled  # noqa: E402 - the same

MIRROR: Final = "http://deb.debian.org/"
PORT: Final = 3142
PACKAGES: Final = "".join(
    f"deb {MIRROR}{place} main\n"
    for place in ("debian bookworm", "debian bookworm-updates", "debian-security bookworm-security")
)
SEEN_AT: Final = "/opt/salt"
"""The place of Salt's environment in the hosts."""
SETTINGS: Final = {
    "lenient": ["*"],
    "template_commands": True,
    "engine": {"recheck": 0},
}
MINION: Final = {
    "id": "web1",
    "file_client": "local",
    "file_roots": {"base": ["/srv/formula/states"]},
    "pillar_roots": {"base": ["/srv/formula/pillar"]},
}
LONGEST: Final = 200
"""Seconds after which a run of an agent is ended."""
ACTIONS: Final = ("cmd.", "module.")
"""States that run each time they are applied."""
FACTS: Final = (
    "dpkg-query --show --showformat 'package ${Package} ${Version} ${db:Status-Status}\\n';"
    "systemctl list-unit-files --no-legend --plain --type=service,timer,socket | awk '{print \"unit\", $1, $2}';"
    "systemctl list-units --no-legend --plain --type=service,timer,socket --state=active,failed"
    " | awk '$1 !~ /^(systemd-|user@|apt-)/ {print \"unit\", $1, $3}';"
    "for dump in 'iptables-save' 'nft list ruleset' 'crontab -l'; do"
    " $dump 2>/dev/null | sed -e '/^#/d' -e 's/\\[[0-9:]*\\]//' -e \"s/^/$dump: /\"; done"
)
"""A script that prints what is installed, enabled and running, one fact a line."""


class Mirror(BaseHTTPRequestHandler):
    """A proxy that passes on requests for the mirror of Debian only, and keeps the packages."""

    def do_GET(self) -> None:
        """Answer with what the mirror answers."""
        try:
            data = _from_mirror(self.path)
        except (ValueError, OSError) as error:
            self.send_error(error.code if isinstance(error, urllib.error.HTTPError) else 502)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _from_mirror(url: str) -> bytes:
    """Return a file of the mirror, a package from the cache. Raise `ValueError` for a URL of another server."""
    if not url.startswith(MIRROR):
        raise ValueError(url)
    kept = image.CACHE / "mirror" / hashlib.sha256(url.encode()).hexdigest()
    if kept.exists():
        return kept.read_bytes()
    with urllib.request.urlopen(url, timeout=60) as answer:
        data: bytes = answer.read()
    if "/pool/" in url:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as part:
            part.write(data)
        Path(part.name).rename(kept)
    return data


@contextmanager
def mirror(run: Run) -> Iterator[None]:
    """Serve the mirror on the bridge of a run."""
    run.ensure_bridge()
    with ThreadingHTTPServer((f"{run.network}.1", PORT), Mirror) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def package_lists(run: Run, directory: Path) -> Path:
    """Return a layer with the package lists of the mirror, and the proxy's address."""
    host = run.host("lists")
    host.write("/etc/apt/apt.conf.d/90lab", f'Acquire::http::Proxy "http://{run.network}.1:{PORT}";\n')
    host.write("/etc/apt/sources.list", PACKAGES)
    host.sh("apt-get -qq update", timeout=300)
    host.save(directory, "/var/lib/apt/lists", "/etc/apt")
    host.down()
    return directory


def write(tree: Tree, directory: Path) -> None:
    """Write a tree with its top file and the settings of both agents."""
    top = yaml.safe_dump({"base": {"*": list(tree.sls)}})
    files = {
        **{f"states/{name}": text for name, text in tree.files.items()},
        **{f"pillar/{name}": text for name, text in tree.pillar.items()},
        "states/top.sls": top,
        "agent.yaml": yaml.safe_dump(SETTINGS),
        "salt/minion": yaml.safe_dump(MINION),
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (directory / "pillar").mkdir(exist_ok=True)


def by_holdfast(host: Host) -> Applied:
    """Apply the tree with Holdfast, and again."""
    host.sh("mkdir -p /etc/holdfast; cp -r /srv/formula/. /etc/holdfast/")
    results = []
    for _ in range(2):
        done = limited(host, "holdfast", "apply", "--format", "json")
        try:
            results.append(of_holdfast(json.loads(done.stdout)["results"]))
        except (ValueError, KeyError):
            return Applied(refused=brief(done.stderr or done.stdout, 800) or f"status {done.returncode}")
    return Applied(results[0], again(results[1]))


def by_salt(host: Host, *, twice: bool) -> Applied:
    """Apply the tree with Salt, and again if the result of that is needed."""
    script = "import sys; from salt.scripts import salt_call; sys.argv[0] = 'salt-call'; salt_call()"
    words = ("--local", "--config-dir=/srv/formula/salt", "--log-level=quiet", "--out=json", "state.apply")
    path = f"PYTHONPATH={SEEN_AT}/lib/python3.11/site-packages"
    results = []
    for _ in range(1 + twice):
        done = limited(host, "env", path, "python3", "-W", "ignore", "-c", script, *words)
        try:
            results.append(of_salt(json.loads(done.stdout)))
        except ValueError as error:
            return Applied(refused=brief(str(error) + done.stderr, 800))
    return Applied(results[0], again(results[1]) if twice else frozenset())


def limited(host: Host, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a host with a limit of time."""
    return host.run("nice", "timeout", str(LONGEST), *command, check=False, timeout=LONGEST + 30)


def again(results: dict[str, Any]) -> frozenset[str]:
    """Return the states that have changed something, except those that run each time."""
    return frozenset(state for state, result in results.items() if result.changed and not state.startswith(ACTIONS))


def repair(host: Host, applied: Applied) -> None:
    """If all states are as declared, start the agent, damage files and a service, and print when they are repaired."""
    if applied.refused or not all(result.good for result in applied.results.values()):
        return
    try:
        host.run("holdfast", "install")
        settled(host)
        for prepare, damage, right in damages(applied.results):
            if host.run("sh", "-ec", prepare, check=False).returncode == 0:
                repair_times(host, damage, right, times=1)
    except (RuntimeError, TimeoutError) as error:
        print(f"not repaired: {clean(brief(str(error)[-600:], 600))}")


def examined(host: Host, upper: Path, layers: Sequence[Path], applied: Applied) -> Applied:
    """Add to what an agent reported what it has made of the host."""
    owners = {of: accounts(host.run("getent", of).stdout) for of in ("passwd", "group")}
    facts = frozenset(host.sh(FACTS).splitlines())
    return replace(applied, facts=facts, disk=disk(upper, [*layers, image.root()], owners, host.address))


def trial(run: Run, layers: Sequence[Path], tree: Tree) -> tuple[Applied, Applied]:
    """Apply a tree with both to equal hosts; return what Salt did, and what Holdfast did."""
    with tempfile.TemporaryDirectory() as directory:
        write(tree, Path(directory))
        Path(directory).chmod(0o755)
        binds = [f"{directory}:/srv/formula", f"{SALT.parents[1].resolve()}:{SEEN_AT}"]
        found = []
        for agent in ("holdfast", "salt"):
            host = run.host("web1", layers=layers, binds=binds)
            try:
                own = by_holdfast(host) if agent == "holdfast" else by_salt(host, twice=bool(found[0].again))
                found.append(examined(host, run.directory / "web1" / "upper", layers, own))
                if agent == "holdfast":
                    repair(host, own)
            finally:
                host.down()
    return found[1], found[0]


def report(tree: Tree, salt: Applied, own: Applied, seconds: float) -> Iterator[str]:
    """Yield a line that says whether the hosts are equal, one for each difference, and one for each failed state."""
    found = [*differences(salt, own)]
    failed = [(state, result) for state, result in own.results.items() if not result.good and result.ran]
    counts = f"{len(own.results)} states, {len(own.disk)} entries of the disk, {len(failed)} failed, {seconds:.0f} s"
    equal = "refused by both" if own.refused and not found else "equal"
    yield f"{tree.name}: {number_of(len(found), 'difference') if found else equal}; {counts}"
    yield from (f"  {text}".replace("\n", "\n    ") for text in found)
    yield from (f"  changes again with both: {state}" for state in sorted(own.again & salt.again))
    yield from (f"  both fail: {state}: {brief(result.comment)}" for state, result in failed if not _good(salt, state))


def _good(salt: Applied, state: str) -> bool:
    return state not in salt.results or salt.results[state].good


def main() -> None:
    """Print the report of each tree."""
    if len(sys.argv) < 2:
        sys.exit("usage: scripts/formulas --apply DIRECTORY [NAME...]")
    if not SALT.exists():
        sys.exit("no Salt to compare with: scripts/test --salt installs it")
    plain_umask()
    with running() as run, tempfile.TemporaryDirectory() as directory, mirror(run):
        layers = (package_lists(run, Path(directory)), *installed.layers(run))
        for tree in found(Path(sys.argv[1]), sys.argv[2:]):
            start = time.monotonic()
            salt, own = trial(run, layers, tree)
            for line in report(tree, salt, own, time.monotonic() - start):
                print(clean(line), flush=True)


if __name__ == "__main__":
    main()
