"""apt's repositories, also signed ones: apt reads the files that the provider writes."""

from __future__ import annotations

import pytest
from driver import Driver, Failed
from lab import Host

pytestmark = pytest.mark.lab

KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEYc+ZgBYJKwYBBAHaRw8BAQdAdzxdZyMCykQqRmYdTOeUPN+rMDswWWLA4j3r
h0Uzizu0FUxhYiA8bGFiQGV4YW1wbGUub3JnPoiQBBMWCAA4FiEEF8kKvBqQaSSq
wK/+0uJuKINc1PMFAmHPmYACGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQ
0uJuKINc1PNwiQEAw1IjV6HVDLtMTIGrqABOp4IA7UEo0PEslEvnldtscScBAII5
2lRvZfo7X7I+Kv9HCEvnpkcFPqNI1wSsJrHImLcI
=A0S0
-----END PGP PUBLIC KEY BLOCK-----
"""
RELEASE = """\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Origin: Lab
Suite: stable
Codename: stable
Date: Sat, 01 Jan 2022 00:00:00 UTC
Architectures: all amd64 arm64
Components: main
SHA256:
 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 main/binary-all/Packages
 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 main/binary-amd64/Packages
 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 main/binary-arm64/Packages
-----BEGIN PGP SIGNATURE-----

iHUEARYIAB0WIQQXyQq8GpBpJKrAr/7S4m4og1zU8wUCYc+ZgAAKCRDS4m4og1zU
8+6pAP44V3Hh/XH6alsgHQQ8I4DEl2SMS4Jw98gRDXE8qrOpqgD/ZcVDG5otOwHe
AzBzcKZJd5v3JxRoNXxcCpqa2CS8UQ8=
=wsQo
-----END PGP SIGNATURE-----
"""
"""An empty repository, signed with `KEY` by gpg 2.2; the private key no longer exists."""
REPO = {"id": "signed", "uris": ["copy:/srv/signed"], "extra": {"suites": ["stable"], "components": ["main"]}}


@pytest.fixture
def signed(host: Host) -> Host:
    """Return a host with a signed repository, which is not configured yet."""
    base = "/srv/signed/dists/stable"
    host.write(f"{base}/InRelease", RELEASE)
    host.sh(f"for arch in all amd64 arm64; do install -D /dev/null {base}/main/binary-$arch/Packages; done")
    return host


def outcome(driver: Driver) -> str:
    """Return the outcome of a refresh for the signed repository."""
    (found,) = {result for name, result in driver.call("pkg.refresh", force=True).items() if "/srv/signed" in name}
    return found


@pytest.mark.parametrize("one_line", [False, True])
def test_a_key_is_trusted_for_its_repository(signed: Host, driver: Driver, one_line: bool):
    """Without the key, apt refuses the repository.

    The key is removed with the repository. Both formats of files work.
    """
    driver.call("pkg.repo_set", REPO, options={"one_line": one_line})
    assert outcome(driver) == "failed"
    signed.sh("mv /etc/apt/sources.list /root")
    with pytest.raises(Failed, match=r"cannot refresh the lists of packages: .*NO_PUBKEY"):
        driver.call("pkg.refresh", force=True)
    signed.sh("mv /root/sources.list /etc/apt")

    changes = driver.call("pkg.repo_set", REPO, options={"key": KEY})["changes"]
    assert changes["/etc/apt/keyrings/signed.asc"] == {"old": None, "new": "key"}
    assert outcome(driver) in ("updated", "unchanged")
    ending = "list" if one_line else "sources"
    file = f"/etc/apt/sources.list.d/signed.{ending}"
    assert "/etc/apt/keyrings/signed.asc" in signed.read(file)
    assert driver.call("pkg.repo_set", REPO, options={"key": KEY})["changes"] == {}

    assert set(driver.call("pkg.repo_remove", "signed")["changes"]) == {"signed", "/etc/apt/keyrings/signed.asc"}
    assert signed.sh(f"ls {file} /etc/apt/keyrings/signed.asc 2>/dev/null || true") == ""
    assert "failed" not in driver.call("pkg.refresh", force=True).values()


def test_a_key_inside_the_file_is_kept(signed: Host, driver: Driver):
    """The provider writes its paragraph again, and apt reads the key there."""
    lines = "".join(f" {line or '.'}\n" for line in KEY.splitlines())
    head = "Types: deb\nURIs: copy:/srv/signed\nSuites: stable\nComponents: main\n"
    signed.write("/etc/apt/sources.list.d/signed.sources", f"{head}Signed-By:\n{lines}")
    (known,) = [repo for name, repo in driver.call("pkg.repos").items() if name == "signed"]
    extra = {name: value for name, value in known["extra"].items() if name != "file"}

    changed = driver.call("pkg.repo_set", {**REPO, "extra": {**extra, "options": {"PDiffs": "no"}}})
    assert set(changed["changes"]) == {"signed"}
    assert outcome(driver) in ("updated", "unchanged")


def test_the_repositories_of_debian_itself_are_known(host: Host, driver: Driver):
    """The provider reads the file of Debian's cloud images, and the entry of the lab."""
    host.write(
        "/etc/apt/sources.list.d/debian.sources",
        "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
    )

    repos = driver.call("pkg.repos")

    assert list(repos) == ["sources.list", "debian"]
    assert repos["sources.list"]["uris"] == ["file:/srv/apt"]
    assert repos["sources.list"]["gpgcheck"] is False
    assert repos["debian"]["extra"]["suites"] == ["bookworm", "bookworm-updates"]
