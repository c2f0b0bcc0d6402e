"""The interface `pkg` with the real package managers: one suite for all providers."""

from __future__ import annotations

import pytest
from driver import Failed
from pkg_sites import PkgSite

pytestmark = pytest.mark.lab

TINY = [{"name": "tiny"}]
NOT_OF_THE_TOOL = ("/root/", "/opt/", "/var/log/journal/", "/etc/resolv.conf")
"""Beginnings of paths that other programs than the tool write."""
MISSING = {"FunctionNotSupported", "FunctionNotImplemented"}


def changes(done: dict) -> dict[str, tuple[str, str]]:
    """Return the changes of a result: name -> old and new."""
    return {name: (change["old"], change["new"]) for name, change in done["changes"].items()}


def lacks(site: PkgSite, function: str, *arguments: object) -> bool:
    """Return whether the tool lacks a function; then a call must say so."""
    if function not in site.lacks:
        return False
    with pytest.raises(Failed) as caught:
        site.driver.call(f"pkg.{function}", *arguments)
    assert caught.value.kind in MISSING
    return True


def written(site: PkgSite) -> dict[str, str]:
    """Return the files that were written since the host was built, without those of other programs."""
    left_out = (*NOT_OF_THE_TOOL, *site.derived)
    return {path: digest for path, digest in site.host.contents().items() if not path.startswith(left_out)}


def test_a_package_is_installed_upgraded_and_removed(shared: PkgSite):
    """Each plan equals the change, which is made once; the tool itself shows the result."""
    call, (_, new) = shared.driver.call, shared.versions
    assert call("pkg.list_installed", ["tiny"]) == {}

    planned = call("pkg.install", TINY, test=True)
    assert (changes(planned), shared.version("tiny")) == ({"tiny": ("", new)}, "")
    assert changes(call("pkg.install", TINY)) == {"tiny": ("", new)}
    assert shared.version("tiny") == new
    assert changes(call("pkg.install", TINY)) == {}
    assert [pkg["version"] for pkg in call("pkg.list_installed", ["tiny", "tiny-needs"])["tiny"]] == [new]
    assert call("pkg.list_installed")["tiny"] == call("pkg.list_installed", ["tiny"])["tiny"]

    assert changes(call("pkg.remove", ["tiny"], test=True)) == {"tiny": (new, "")}
    assert changes(call("pkg.remove", ["tiny"])) == {"tiny": (new, "")}
    assert shared.version("tiny") == ""
    assert changes(call("pkg.remove", ["tiny", "no-such-package"])) == {}


def test_dependencies_are_among_the_changes(shared: PkgSite):
    """Dependencies are reported for an installation, and for a removal of a package that others need."""
    call, (_, new) = shared.driver.call, shared.versions

    planned = changes(call("pkg.install", [{"name": "tiny-needs"}], test=True))
    assert planned == changes(call("pkg.install", [{"name": "tiny-needs"}]))
    assert planned["tiny"] == ("", new)
    assert set(planned) == {"tiny", "tiny-needs"}
    planned = changes(call("pkg.remove", ["tiny"], test=True))
    assert set(planned) == {"tiny", "tiny-needs"}
    assert changes(call("pkg.remove", ["tiny"])) == planned


def test_a_version_can_be_chosen(shared: PkgSite):
    """The older version is installed, upgraded by name, and installed again, if the repository offers it."""
    call, (old, new) = shared.driver.call, shared.versions
    chosen = [{"name": "tiny", "version": old}]
    if not shared.older:
        assert call("pkg.available", ["tiny"]) == {"tiny": [new]}
        with pytest.raises(Failed, match="tiny"):
            call("pkg.install", chosen)
        assert shared.version("tiny") == ""
        return

    assert call("pkg.available", ["tiny", "no-such-package"]) == {"tiny": [new, old], "no-such-package": []}
    assert changes(call("pkg.install", chosen, test=True)) == {"tiny": ("", old)}
    assert changes(call("pkg.install", chosen)) == {"tiny": ("", old)}
    assert changes(call("pkg.install", TINY)) == {"tiny": (old, new)}, "without a version, the candidate"
    assert changes(call("pkg.install", chosen, test=True)) == {"tiny": (new, old)}
    assert changes(call("pkg.install", chosen)) == {"tiny": (new, old)}
    assert shared.version("tiny") == old


def test_upgrades_are_listed_and_made(shared: PkgSite):
    """An upgrade is for one package or for all; it does not install a missing package."""
    call, (old, new) = shared.driver.call, shared.versions
    shared.add("tiny", old)

    assert call("pkg.latest", ["tiny", "no-such-package"]) == {"tiny": new, "no-such-package": None}
    assert call("pkg.upgrades") == {"tiny": {"current": old, "candidate": new}}
    assert changes(call("pkg.upgrade", ["tiny-needs"])) == {}
    assert changes(call("pkg.upgrade", ["tiny", "tiny-needs"], test=True)) == {"tiny": (old, new)}
    assert changes(call("pkg.upgrade", ["tiny", "tiny-needs"])) == {"tiny": (old, new)}
    assert changes(call("pkg.upgrade", ["tiny"])) == {}
    shared.drop("tiny")
    shared.add("tiny", old)
    assert changes(call("pkg.upgrade", test=True)) == {"tiny": (old, new)}
    assert changes(call("pkg.upgrade")) == {"tiny": (old, new)}
    assert call("pkg.upgrades") == {}


def test_a_package_file_is_installed(shared: PkgSite):
    """The file may be older than the installed version."""
    call, (old, new) = shared.driver.call, shared.versions
    from_file = [{"name": "tiny", "source": shared.file("tiny", old)}]

    assert changes(call("pkg.install", from_file, test=True)) == {"tiny": ("", old)}
    assert changes(call("pkg.install", from_file)) == {"tiny": ("", old)}
    call("pkg.install", TINY)
    assert changes(call("pkg.install", from_file)) == {"tiny": (new, old)}


def test_purging_removes_configuration(site: PkgSite):
    """Nothing of the package is left, not even a changed configuration file.

    If the tool can do it, this also works after the removal.
    """
    call, (_, new) = site.driver.call, site.versions
    edited = "echo edited >>/etc/tiny.conf"
    left = "ls /etc | grep ^tiny.conf || true"

    call("pkg.install", TINY)
    site.host.sh(edited)
    assert changes(call("pkg.remove", ["tiny"], True, test=True)) == {"tiny": (new, "")}
    assert changes(call("pkg.remove", ["tiny"], True)) == {"tiny": (new, "")}
    assert site.host.sh(left) == ""
    call("pkg.install", TINY)
    call("pkg.remove", ["tiny"])
    residual = [] if lacks(site, "residual", ["tiny"]) else call("pkg.residual", ["tiny"])
    assert changes(call("pkg.remove", ["tiny"], True)) == ({"tiny": ("configuration", "")} if residual else {})
    assert not residual or call("pkg.residual", ["tiny"]) == []


def test_a_held_package_keeps_its_version(site: PkgSite):
    """The package keeps its version until it is released, even in an upgrade of all packages."""
    if lacks(site, "hold", ["tiny"]):
        assert {"unhold", "holds"} <= site.lacks
        return
    call, (old, new) = site.driver.call, site.versions
    site.add("tiny", old)

    assert changes(call("pkg.hold", ["tiny"], test=True)) == {"tiny": ("", "hold")}
    assert call("pkg.holds") == {}
    assert changes(call("pkg.hold", ["tiny"])) == {"tiny": ("", "hold")}
    assert changes(call("pkg.hold", ["tiny"])) == {}
    assert call("pkg.holds") == {"tiny": old}
    assert changes(call("pkg.upgrade")) == {}
    assert site.version("tiny") == old
    assert changes(call("pkg.unhold", ["tiny"], test=True)) == {"tiny": ("hold", "")}
    assert changes(call("pkg.unhold", ["tiny", "tiny-needs"])) == {"tiny": ("hold", "")}
    assert call("pkg.holds") == {}
    assert changes(call("pkg.upgrade")) == {"tiny": (old, new)}


@pytest.mark.parametrize("name", ["no-such-package", "tiny-broken"])
def test_a_package_that_cannot_be_installed_is_a_permanent_error(shared: PkgSite, name: str):
    """The error names the package or the missing dependency. Other packages of the transaction are not installed."""
    for test in (True, False):
        with pytest.raises(Failed, match=r"cannot install (tiny, )?.*no-such-package") as caught:
            shared.driver.call("pkg.install", [*TINY, {"name": name}], test=test)
        assert caught.value.kind == "Permanent"
    assert shared.version("tiny") == ""


def test_lists_are_fetched_for_a_package_that_is_new_in_a_repository(site: PkgSite):
    """By default, lists are fetched if the package is not found; with `refresh=False`, never."""
    call = site.driver.call
    site.publish("late")

    assert call("pkg.latest", ["late"]) == {"late": None}
    with pytest.raises(Failed, match="late"):
        call("pkg.install", [{"name": "late"}], False)
    call("pkg.install", [{"name": "late"}])
    assert site.version("late") != ""


def test_one_broken_repository_does_not_prevent_a_refresh(site: PkgSite):
    """The outcome of the broken one is `failed`. If all are broken, the refresh is a temporary error."""
    call = site.driver.call
    assert set(call("pkg.refresh", force=True).values()) <= {"updated", "unchanged"}
    assert call("pkg.refresh") == {}, "the lists are fresh"
    site.break_repositories(all_of_them=False)

    outcomes = call("pkg.refresh", force=True)
    assert [outcome for name, outcome in outcomes.items() if "gone" in name] == ["failed"]
    assert set(outcomes.values()) - {"failed"}
    assert call("pkg.latest", ["tiny"]) == {"tiny": site.versions[1]}
    site.break_repositories(all_of_them=True)
    with pytest.raises(Failed, match=r"cannot refresh the lists of packages: .+") as caught:
        call("pkg.refresh", force=True)
    assert caught.value.kind == "Temporary"


def test_owners_of_files(shared: PkgSite):
    """Only files of installed packages have an owner."""
    paths = ["/usr/bin/tiny", "/etc/tiny.conf"]
    if lacks(shared, "owner", paths):
        return
    call = shared.driver.call
    assert call("pkg.owner", paths) == dict.fromkeys(paths)
    call("pkg.install", TINY)

    assert call("pkg.owner", paths) == dict.fromkeys(paths, "tiny")
    assert call("pkg.owner", ["/no/such/file"]) == {"/no/such/file": None}


def test_files_of_packages(shared: PkgSite):
    """Only installed packages have files."""
    if lacks(shared, "files", ["tiny"]):
        return
    call = shared.driver.call
    call("pkg.install", TINY)

    files = call("pkg.files", ["tiny", "tiny-needs", "no-such-package"])
    assert list(files) == ["tiny"]
    assert {"/usr/bin/tiny", "/etc/tiny.conf"} <= set(files["tiny"])
    assert files["tiny"] == sorted(files["tiny"])


def test_installed_packages_are_described(shared: PkgSite):
    """Some fields are known everywhere; packages that are not installed have no description."""
    if lacks(shared, "info"):
        return
    call = shared.driver.call
    call("pkg.install", TINY)

    described = call("pkg.info", ["tiny", "tiny-needs"])
    assert list(described) == ["tiny"]
    assert (described["tiny"]["name"], described["tiny"]["version"]) == ("tiny", shared.versions[1])
    assert described["tiny"]["summary"] == "tiny"
    assert described["tiny"]["installed_at"] > 1_600_000_000
    assert call("pkg.info")["tiny"] == described["tiny"]


def test_changed_and_missing_files_are_found(shared: PkgSite):
    """The result names the package that shipped the file; a configuration file is marked as such."""
    if lacks(shared, "verify"):
        return
    call = shared.driver.call
    call("pkg.install", TINY)
    assert call("pkg.verify", ["tiny"]) == {}

    shared.host.sh("echo edited >>/etc/tiny.conf; rm /usr/bin/tiny")
    found = {deviation["path"]: deviation for deviation in call("pkg.verify", ["tiny", "tiny-needs"])["tiny"]}
    assert found["/usr/bin/tiny"]["what"] == ["missing"]
    assert "digest" in found["/etc/tiny.conf"]["what"]
    assert found["/etc/tiny.conf"]["configuration"]
    assert call("pkg.verify")["tiny"] == call("pkg.verify", ["tiny"])["tiny"]
    assert call("pkg.verify", ["tiny-needs"]) == {}


def test_packages_that_nothing_needs_are_removed(site: PkgSite):
    """A package that was installed for another one is removed after it; with names, only the named ones are."""
    if lacks(site, "autoremove"):
        return
    call, (_, new) = site.driver.call, site.versions
    call("pkg.install", [{"name": "tiny-needs"}])
    assert changes(call("pkg.autoremove")) == {}
    site.drop("tiny-needs")

    assert changes(call("pkg.autoremove", ["tiny-needs"])) == {}
    assert changes(call("pkg.autoremove", test=True)) == {"tiny": (new, "")}
    assert changes(call("pkg.autoremove")) == {"tiny": (new, "")}
    assert site.version("tiny") == ""


def test_packages_are_downloaded(site: PkgSite):
    """The files exist afterwards, and nothing is installed."""
    if lacks(site, "download", ["tiny"]):
        return
    call = site.driver.call

    (path,) = call("pkg.download", ["tiny"]).values()
    assert site.host.run("test", "-s", path).returncode == 0
    assert site.version("tiny") == ""
    assert call("pkg.download", ["tiny"]) == {"tiny": path}
    assert changes(call("pkg.install", [{"name": "tiny", "source": path}])) == {"tiny": ("", site.versions[1])}
    with pytest.raises(Failed, match="no-such-package") as caught:
        call("pkg.download", ["no-such-package"])
    assert caught.value.kind == "Permanent"


def test_repositories_are_added_changed_and_removed(site: PkgSite):
    """The tool itself then offers the packages. The change does not fetch the lists of packages."""
    if lacks(site, "repo_set", {"id": "second", "uris": ["file:/srv/second"]}):
        assert {"repos", "repo_remove"} <= site.lacks
        return
    call = site.driver.call
    before = call("pkg.repos")
    repo = site.second_repository()
    assert any(known["enabled"] for known in before.values())
    assert "second" not in before

    assert call("pkg.repo_set", repo, test=True)["changes"]["second"]["old"] is None
    assert call("pkg.repos") == before
    assert call("pkg.repo_set", repo)["changes"]["second"]["old"] is None
    assert call("pkg.repo_set", repo)["changes"] == {}
    known = call("pkg.repos")["second"]
    assert (known["uris"], known["enabled"], known["gpgcheck"]) == (repo["uris"], True, False)
    assert call("pkg.refresh") != {}, "lists that are older than the repositories are not fresh"
    assert call("pkg.latest", ["elsewhere"])["elsewhere"] is not None

    changed = call("pkg.repo_set", {**repo, "enabled": False})["changes"]["second"]
    assert (changed["old"]["enabled"], changed["new"]["enabled"]) == (True, False)
    assert call("pkg.repos")["second"]["enabled"] is False
    call("pkg.refresh", force=True)
    assert call("pkg.latest", ["elsewhere"]) == {"elsewhere": None}
    removed = call("pkg.repo_remove", "second", test=True)
    assert removed["changes"]["second"]["new"] is None
    assert call("pkg.repo_remove", "second") == removed
    assert call("pkg.repo_remove", "second")["changes"] == {}
    assert call("pkg.repos") == before


def test_a_repository_is_fetched_before_it_is_configured(site: PkgSite):
    """The packages are offered at once.

    A repository that cannot be fetched is not configured; others keep their lists.
    """
    if lacks(site, "repo_set", {"id": "second", "uris": ["file:/srv/second"]}):
        return
    call = site.driver.call
    before, offered = call("pkg.repos"), call("pkg.latest", ["tiny"])
    repo = site.second_repository()
    lost = {**repo, "id": "lost", "uris": ["http://127.0.0.1:9/lost"]}

    with pytest.raises(Failed, match=r"cannot set repository lost: cannot fetch its lists of packages: .+") as caught:
        call("pkg.repo_set", lost, True)
    assert caught.value.kind == "Temporary"
    assert (call("pkg.repos"), call("pkg.latest", ["tiny"])) == (before, offered)

    assert call("pkg.repo_set", repo, True)["changes"]["second"]["old"] is None
    assert call("pkg.latest", ["elsewhere"])["elsewhere"] is not None
    assert call("pkg.latest", ["tiny"]) == offered


def test_versions_are_compared_by_the_rules_of_the_tool(shared: PkgSite):
    """The test uses rules that all tools share."""
    old, new = shared.versions
    for a, b, order in ((old, new, -1), (new, old, 1), (old, old, 0), ("1.9-1", "1.10-1", -1), ("1.0-1", "1.0-2", -1)):
        assert shared.driver.call("pkg.compare", a, b) == order, (a, b)


def test_a_watch_sees_changes_by_hand(site: PkgSite):
    """The watch reports the installation and the removal of its packages."""
    watch = site.driver.watch("pkg.installed", "tiny")
    watch.quiet()

    site.add("tiny", site.versions[0])
    watch.wait()
    watch.quiet()
    site.drop("tiny")
    watch.wait()


def test_other_programs_are_awaited(site: PkgSite):
    """Nothing is changed while another program holds the lock; the wait is logged."""
    with site.lock():
        number = site.driver.send(do="call", module="pkg", function="install", positional=[TINY], arguments={})
        site.driver.logged(f"waiting for {site.tool}'s lock, which is held by ")
        assert site.version("tiny") == ""
        assert site.driver.call("pkg.list_installed", ["tiny"]) == {}, "a query does not wait"

    assert changes(site.driver.answer(number)) == {"tiny": ("", site.versions[1])}


def test_two_transactions_report_their_own_changes(site: PkgSite):
    """The second one waits for the first."""
    site.publish("late")
    site.driver.call("pkg.refresh", force=True)
    numbers = [
        site.driver.send(do="call", module="pkg", function="install", positional=[[{"name": name}]], arguments={})
        for name in ("tiny", "late")
    ]

    assert [set(site.driver.answer(number)["changes"]) for number in numbers] == [{"tiny"}, {"late"}]


def test_a_plan_changes_nothing(site: PkgSite):
    """Calls with `test`, and queries, change no file of the host: not a list, a cache or a log."""
    call, (old, _) = site.driver.call, site.versions
    site.add("tiny", old)
    call("pkg.list_installed")
    before = written(site)

    call("pkg.install", [{"name": "tiny-needs"}], test=True)
    call("pkg.install", [{"name": "tiny", "source": site.file("tiny", old)}], True, test=True)
    call("pkg.upgrade", test=True)
    call("pkg.remove", ["tiny"], True, test=True)
    call("pkg.list_installed")
    call("pkg.latest", ["tiny"])
    call("pkg.available", ["tiny"])
    call("pkg.upgrades", refresh=False)
    if "files" not in site.lacks:
        call("pkg.files", ["tiny"])
    for function in ("hold", "unhold", "autoremove"):
        if function not in site.lacks:
            call(f"pkg.{function}", ["tiny"], test=True)
    if "repo_set" not in site.lacks:
        call("pkg.repo_set", {"id": "new", "uris": ["http://127.0.0.1:9/"], "extra": {"suites": ["x"]}}, test=True)
        call("pkg.repo_remove", next(iter(call("pkg.repos"))), test=True)
    for function in ("info", "verify", "groups", "patches", "holds", "repos"):
        if function not in site.lacks:
            call(f"pkg.{function}")
    assert written(site) == before
