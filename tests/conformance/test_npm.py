"""npm with a registry on this host, in a project and in the directory of one user."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from languages import Body, changes, with_tool

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers.npm import UNPREPARED

VERSIONS = {"tiny": ("1.9.0", "1.10.0", "2.0.0-rc.1"), "tiny-needs": ("1.0.0",)}
LATEST = {"tiny": "1.10.0", "tiny-needs": "1.0.0"}


def manifest(name: str, version: str) -> dict[str, Any]:
    """Return the `package.json` of a package, with a script that runs when it is installed."""
    needs = {"tiny": "*"} if name == "tiny-needs" else {}
    scripts = {"postinstall": "touch ran"}
    return {"name": name, "version": version, "dependencies": needs, "scripts": scripts}


def tarball(name: str, version: str) -> bytes:
    """Return a package file."""
    text = json.dumps(manifest(name, version)).encode()
    info = tarfile.TarInfo("package/package.json")
    info.size = len(text)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        archive.addfile(info, io.BytesIO(text))
    return file.getvalue()


FILES = {f"/{name}/{version}.tgz": tarball(name, version) for name in VERSIONS for version in VERSIONS[name]}


class Registry(BaseHTTPRequestHandler):
    """Serves the descriptions of packages, and their files."""

    def do_GET(self) -> None:
        """Answer with a file, with a description, or with 404."""
        body = FILES.get(self.path) or self.description(self.path.strip("/"))
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def description(self, name: str) -> bytes:
        """Return the description of a package with all its versions; nothing if there is no such package."""
        if name not in VERSIONS:
            return b""
        versions = {}
        for version in VERSIONS[name]:
            path = f"/{name}/{version}.tgz"
            digest = base64.b64encode(hashlib.sha512(FILES[path]).digest()).decode()
            dist = {"tarball": f"http://{self.headers['Host']}{path}", "integrity": f"sha512-{digest}"}
            versions[version] = {**manifest(name, version), "hasInstallScript": True, "dist": dist}
        return json.dumps({"name": name, "dist-tags": {"latest": LATEST[name]}, "versions": versions}).encode()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def index() -> Iterator[str]:
    """Yield the URL of a registry with `tiny` and `tiny-needs`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory; npm keeps its cache there."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


def with_npm(tmp_path: Path, body: Body) -> Any:
    """Return the result of a body, which gets the provider on this host."""
    return with_tool("npm", "npm", tmp_path, body)


def test_packages_are_installed_upgraded_and_removed(tmp_path: Path, index: str):
    """Each plan equals the change, which leaves other packages alone."""
    target = str(tmp_path / "project")

    async def body(npm: LanguageInterface) -> None:
        old, needs = PkgSpec(name="tiny", version="1.9.0"), PkgSpec(name="tiny-needs")
        assert await npm.list_installed([], target) == {}
        assert await npm.latest(["tiny", "gone"], target, index=index) == {"tiny": "1.10.0", "gone": None}
        for test in (True, False):
            done = await npm.install([old], target, index=index, test=test)
            assert changes(done) == {"tiny": ("", "1.9.0")}
        for test in (True, False):
            done = await npm.install([needs, PkgSpec(name="tiny")], target, index=index, test=test)
            assert changes(done) == {"tiny-needs": ("", "1.0.0")}
        for test in (True, False):
            done = await npm.upgrade(["tiny", "gone"], target, index=index, test=test)
            assert changes(done) == {"tiny": ("1.9.0", "1.10.0")}
        assert changes(await npm.upgrade(target=target, index=index)) == {}
        for test in (True, False):
            done = await npm.install([old], target, index=index, test=test)
            assert changes(done) == {"tiny": ("1.10.0", "1.9.0")}
        for test in (True, False):
            done = await npm.remove(["tiny-needs", "gone"], target, test=test)
            assert changes(done) == {"tiny-needs": ("1.0.0", "")}
        assert changes(await npm.remove(["tiny-needs"], target)) == {}
        assert list(await npm.list_installed(target=target)) == ["tiny"]

    with_npm(tmp_path, body)


def test_the_packages_of_a_user_are_below_his_home(tmp_path: Path, index: str, home: Path):
    """They are in `.local`, with commands in `.local/bin`, and are upgraded and removed there."""
    there = home / ".local/lib/node_modules/tiny/package.json"

    async def body(npm: LanguageInterface) -> None:
        assert await npm.list_installed([], "user") == {}
        done = await npm.install(
            [PkgSpec(name="tiny", version="1.9.0"), PkgSpec(name="tiny-needs")], "user", index=index
        )
        assert changes(done) == {"tiny": ("", "1.9.0"), "tiny-needs": ("", "1.0.0")}
        assert there.exists()
        for test in (True, False):
            done = await npm.upgrade(["tiny"], "user", index=index, test=test)
            assert changes(done) == {"tiny": ("1.9.0", "1.10.0")}
        assert changes(await npm.remove(["tiny"], "user")) == {"tiny": ("1.10.0", "")}
        assert list(await npm.list_installed(target="user")) == ["tiny-needs"]

    with_npm(tmp_path, body)
    assert not there.exists()


def test_a_package_file_is_installed(tmp_path: Path):
    """The file is given by its path; the plan has its name and version."""
    file = tmp_path / "tiny.tgz"
    file.write_bytes(FILES["/tiny/1.9.0.tgz"])

    async def body(npm: LanguageInterface) -> None:
        for test in (True, False):
            done = await npm.install([PkgSpec(name="tiny", source=str(file))], str(tmp_path / "project"), test=test)
            assert changes(done) == {"tiny": ("", "1.9.0")}

    with_npm(tmp_path, body)


@pytest.mark.parametrize("allowed", [False, True])
def test_scripts_of_packages_run_only_if_they_are_allowed(tmp_path: Path, index: str, allowed: bool):
    """They run only with the option `scripts`, because they would run as root."""
    project, options = tmp_path / "project", {"scripts": allowed}

    with_npm(tmp_path, lambda npm: npm.install([PkgSpec(name="tiny")], str(project), index=index, options=options))

    assert (project / "node_modules/tiny/ran").exists() == allowed


def test_settings_of_the_host_stay_in_force(tmp_path: Path, index: str, home: Path):
    """With `--prefix` alone, npm would not read the file with these settings."""
    (home / "etc").mkdir()
    (home / ".npmrc").write_text(f"prefix={home}\n")
    (home / "etc/npmrc").write_text(f"registry={index}\n")

    latest = with_npm(tmp_path, lambda npm: npm.latest(["tiny"], str(tmp_path / "project")))

    assert latest == {"tiny": "1.10.0"}


def test_a_package_that_the_registry_does_not_have_is_an_error(tmp_path: Path, index: str):
    """The error has the words of npm; nothing is installed."""

    async def body(npm: LanguageInterface) -> None:
        wanted, project = [PkgSpec(name="tiny"), PkgSpec(name="gone")], str(tmp_path / "project")
        for test in (True, False):
            with pytest.raises(Permanent, match=r"cannot install tiny, gone: .*(404|Not Found).*gone"):
                await npm.install(wanted, project, index=index, test=test)
        assert await npm.list_installed([], project) == {}

    with_npm(tmp_path, body)


def test_versions_are_compared_by_semantic_versioning(tmp_path: Path):
    """The examples are those of the specification, in its order. Build metadata do not matter."""
    order = (
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.9.0 1.10.0"
    )
    versions = order.split()

    async def body(npm: LanguageInterface) -> None:
        for a, b in pairwise(versions):
            assert (await npm.compare(a, b), await npm.compare(b, a)) == (-1, 1), (a, b)
        assert await npm.compare("1.0.0+1", "1.0.0+2") == 0
        with pytest.raises(Permanent, match=r"cannot compare '1\.0': npm's versions have three numbers"):
            await npm.compare("1.0", "1.0.0")

    with_npm(tmp_path, body)


def test_what_npm_cannot_do_is_refused(tmp_path: Path):
    """A directory as index, and reinstalling, are refused with an alternative."""

    async def body(npm: LanguageInterface) -> None:
        with pytest.raises(Permanent, match=r"cannot use /packages as an index: .*`source` of a package"):
            await npm.latest(["tiny"], index="/packages")
        with pytest.raises(Permanent, match=r"cannot reinstall tiny: .*remove the package first"):
            await npm.install([PkgSpec(name="tiny", reinstall=True)], str(tmp_path / "project"))

    with_npm(tmp_path, body)


def test_a_plan_prepares_no_git_repository(tmp_path: Path):
    """The repository's scripts would run, so the plan says that the version is unknown."""
    repository, ran = tmp_path / "repository", tmp_path / "ran"
    repository.mkdir()
    text = {"name": "tiny", "version": "1.0.0", "scripts": {"prepare": f"touch {ran}", "prepack": f"touch {ran}"}}
    (repository / "package.json").write_text(json.dumps(text))
    git = ("git", "-c", "user.name=l", "-c", "user.email=l@example.org", "-C", str(repository))
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=tiny")):
        subprocess.run([*git, *words], check=True)
    url = f"git+file://{repository}"

    async def body(npm: LanguageInterface) -> None:
        for package in (PkgSpec(name=url), PkgSpec(name="tiny", source=url)):
            done = await npm.install([package], str(tmp_path / "project"), test=True)
            assert changes(done) == {package.name: ("", UNPREPARED)}
        file = PkgSpec(name="tiny", source=str(repository))
        done = await npm.install([file], str(tmp_path / "project"), test=True)
        assert changes(done) == {"tiny": ("", "1.0.0")}

    with_npm(tmp_path, body)
    assert not ran.exists()
