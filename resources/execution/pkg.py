"""Salt's `pkg` functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.execution.table import ExecutionHost, execution
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec

OPTIONS = frozenset({"fromrepo", "skip_verify", "update_holds", "only_upgrade", "install_recommends"})
"""Further parameters of Salt's `pkg.install`; each provider documents which of them it supports."""


def _words(name: object) -> list[str]:
    """Return the names in a text, separated by commas as in Salt, or in a list."""
    given = name if isinstance(name, (list, tuple)) else str(name).split(",") if name is not None else []
    return [str(each).strip() for each in given if str(each).strip()]


def _names(name: object, pkgs: Sequence[Any] | None) -> list[str]:
    """Return the names of `name` or `pkgs`. Raises `Permanent` if there are none."""
    return [each.name for each in _specs(name, pkgs)]


def _pairs(entries: Iterable[Any]) -> Iterable[tuple[str, str | None]]:
    """Yield name and value of each entry, which is a name or a mapping of names to values."""
    for entry in entries:
        pairs = entry.items() if isinstance(entry, Mapping) else [(entry, None)]
        yield from ((str(name), None if value is None else str(value)) for name, value in pairs)


def _specs(
    name: object, pkgs: Sequence[Any] | None, *, version: object = None, sources: Sequence[Any] | None = None,
    reinstall: bool = False,
) -> list[PkgSpec]:  # fmt: skip
    """Return what Salt's parameters name. Raises `Permanent` if they name no package."""
    if sources:
        found = [PkgSpec(name=each, source=path, reinstall=reinstall) for each, path in _pairs(sources)]
    elif pkgs:
        found = [PkgSpec(name=each, version=value, reinstall=reinstall) for each, value in _pairs(pkgs)]
    else:
        wanted = None if version is None else str(version)
        found = [PkgSpec(name=each, version=wanted, reinstall=reinstall) for each in _words(name)]
    if not found:
        raise Permanent("the call names no package: give name, pkgs or sources")
    return found


@execution("pkg.install", PkgInterface, "install")
async def install(
    host: ExecutionHost, name: Any = None, refresh: bool = False, pkgs: Any = None, sources: Any = None,
    version: Any = None, reinstall: bool = False, **options: Any,
) -> ChangeSet:  # fmt: skip
    """Install packages."""
    if unknown := options.keys() - OPTIONS:
        raise Permanent(f"pkg.install has no parameter {', '.join(sorted(unknown))}")
    wanted = _specs(name, pkgs, version=version, sources=sources, reinstall=reinstall)
    return await host.interface(PkgInterface).install(wanted, refresh or None, options=options)


@execution("pkg.remove", PkgInterface, "remove")
async def remove(host: ExecutionHost, name: Any = None, pkgs: Any = None) -> ChangeSet:
    """Remove packages."""
    return await host.interface(PkgInterface).remove(_names(name, pkgs))


@execution("pkg.purge", PkgInterface, "remove")
async def purge(host: ExecutionHost, name: Any = None, pkgs: Any = None) -> ChangeSet:
    """Remove packages and their configuration files."""
    return await host.interface(PkgInterface).remove(_names(name, pkgs), purge=True)


@execution("pkg.upgrade", PkgInterface, "upgrade")
async def upgrade(
    host: ExecutionHost, name: Any = None, pkgs: Any = None, refresh: bool = True, dist_upgrade: bool = False
) -> ChangeSet:
    """Upgrade these packages, or all."""
    names = _names(name, pkgs) if name or pkgs else ()
    options = {"dist_upgrade": True} if dist_upgrade else None
    return await host.interface(PkgInterface).upgrade(names, refresh, options=options)


@execution("pkg.refresh_db", PkgInterface, "refresh")
async def refresh_db(
    host: ExecutionHost, cache_valid_time: float = 0, failhard: bool = False, force: bool = True
) -> dict[str, bool | None]:
    """Fetch the lists of packages: repository -> true (new), null (unchanged) or false (failed)."""
    meanings = {"updated": True, "unchanged": None, "failed": False}
    found = await host.interface(PkgInterface).refresh(force=force and not cache_valid_time)
    if failhard and "failed" in found.values():
        raise Permanent(f"cannot refresh {', '.join(sorted(name for name in found if found[name] == 'failed'))}")
    return {name: meanings[outcome] for name, outcome in found.items()}


@execution("pkg.hold", PkgInterface, "hold")
async def hold(host: ExecutionHost, name: Any = None, pkgs: Any = None) -> ChangeSet:
    """Hold packages at their present version."""
    return await host.interface(PkgInterface).hold(_names(name, pkgs))


@execution("pkg.unhold", PkgInterface, "unhold")
async def unhold(host: ExecutionHost, name: Any = None, pkgs: Any = None) -> ChangeSet:
    """Let packages be upgraded again."""
    return await host.interface(PkgInterface).unhold(_names(name, pkgs))


@execution("pkg.autoremove", PkgInterface, "autoremove")
async def autoremove(host: ExecutionHost) -> ChangeSet:
    """Remove packages that no package needs any more."""
    return await host.interface(PkgInterface).autoremove()


@execution("pkg.download", PkgInterface, "download")
async def download(host: ExecutionHost, *packages: str) -> dict[str, str]:
    """Fetch package files without installing them: name -> path."""
    return await host.interface(PkgInterface).download(packages)


# -- functions that only query -------------------------------------------------------------------------------------


async def _installed(host: ExecutionHost, names: Sequence[str] = ()) -> dict[str, str]:
    """Return name -> version; several versions are separated by commas, as in Salt."""
    found = await host.interface(PkgInterface).list_installed(names)
    return {name: ",".join(sorted({pkg.version for pkg in pkgs})) for name, pkgs in found.items()}


def _one_or_all(names: Sequence[str], found: Mapping[str, Any]) -> Any:
    """Return the value of a single name, and a mapping for several, as Salt does."""
    return found[names[0]] if len(names) == 1 else dict(found)


@execution("pkg.list_pkgs", PkgInterface, "list_installed", looks=True)
async def list_pkgs(host: ExecutionHost, versions_as_list: bool = False) -> dict[str, Any]:
    """Return the versions of all installed packages, by name."""
    found = await _installed(host)
    return {name: versions.split(",") for name, versions in found.items()} if versions_as_list else found


@execution("pkg.version", PkgInterface, "list_installed", looks=True)
async def version(host: ExecutionHost, *names: str) -> Any:
    """Return the installed version, empty if there is none; for several names a mapping."""
    found = await _installed(host, names) if names else {}
    return _one_or_all(names, {name: found.get(name, "") for name in names})


@execution("pkg.latest_version", PkgInterface, "latest", "list_installed", "compare", looks=True)
async def latest_version(host: ExecutionHost, *names: str, refresh: bool = False) -> Any:
    """Return the version that an upgrade would install, empty if there is none; for several names a mapping."""
    pkg = host.interface(PkgInterface)
    candidates, installed = await pkg.latest(names, refresh=refresh), await _installed(host, names)
    found = {}
    for name in names:
        candidate, present = candidates.get(name) or "", installed.get(name)
        newer = not present or not candidate or await pkg.compare(present, candidate) < 0
        found[name] = candidate if newer else ""
    return _one_or_all(names, found)


execution("pkg.available_version", PkgInterface, "latest", "list_installed", "compare", looks=True)(latest_version)


@execution("pkg.list_upgrades", PkgInterface, "upgrades", looks=True)
async def list_upgrades(host: ExecutionHost, refresh: bool = False) -> dict[str, str]:
    """Return the newer version of each package that can be upgraded, by name."""
    found = await host.interface(PkgInterface).upgrades(refresh=refresh)
    return {name: upgrade["candidate"] for name, upgrade in found.items()}


@execution("pkg.upgrade_available", PkgInterface, "latest", "list_installed", "compare", looks=True)
async def upgrade_available(host: ExecutionHost, name: str) -> bool:
    """Return whether a newer version can be installed."""
    return bool(await latest_version(host, name))


@execution("pkg.version_cmp", PkgInterface, "compare", looks=True)
async def version_cmp(host: ExecutionHost, pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions by the rules of the package manager; return -1, 0 or 1."""
    one, two = (str(each).partition(":")[2] or str(each) if ignore_epoch else str(each) for each in (pkg1, pkg2))
    return await host.interface(PkgInterface).compare(one, two)


@execution("pkg.list_holds", PkgInterface, "holds", looks=True)
async def list_holds(host: ExecutionHost) -> list[str]:
    """Return the names of the held packages."""
    return sorted(await host.interface(PkgInterface).holds())


@execution("pkg.owner", PkgInterface, "owner", looks=True)
async def owner(host: ExecutionHost, *paths: str) -> Any:
    """Return the package that ships a path, empty if none does; for several paths a mapping."""
    found = await host.interface(PkgInterface).owner(paths)
    return _one_or_all(paths, {path: found.get(path) or "" for path in paths})


@execution("pkg.file_list", PkgInterface, "files", looks=True)
async def file_list(host: ExecutionHost, *packages: str) -> dict[str, list[str]]:
    """Return the files of packages, all in one list."""
    found = await host.interface(PkgInterface).files(packages)
    return {"errors": _unknown(packages, found), "files": sorted({path for paths in found.values() for path in paths})}


@execution("pkg.file_dict", PkgInterface, "files", looks=True)
async def file_dict(host: ExecutionHost, *packages: str) -> dict[str, Any]:
    """Return the files of packages, by package."""
    found = await host.interface(PkgInterface).files(packages)
    return {"errors": _unknown(packages, found), "packages": dict(found)}


def _unknown(packages: Sequence[str], found: Mapping[str, Any]) -> list[str]:
    return [f"package {name} is not installed" for name in packages if name not in found]


@execution("pkg.info_installed", PkgInterface, "info", looks=True)
async def info_installed(host: ExecutionHost, *names: str) -> dict[str, dict[str, Any]]:
    """Return the descriptions of installed packages."""
    found = await host.interface(PkgInterface).info(names)
    return {name: {**info.model_dump(exclude={"extra"}), **info.extra} for name, info in found.items()}


@execution("pkg.verify", PkgInterface, "verify", looks=True)
async def verify(host: ExecutionHost, *names: str) -> dict[str, dict[str, list[str]]]:
    """Return the installed files that differ from those of their packages: package -> path -> what differs."""
    found = await host.interface(PkgInterface).verify(names)
    return {name: {file.path: list(file.what) for file in files} for name, files in found.items()}


@execution("pkg.group_list", PkgInterface, "groups", looks=True)
async def group_list(host: ExecutionHost) -> dict[str, list[str]]:
    """Return the packages of each group, by the group's name."""
    return await host.interface(PkgInterface).groups()


@execution("pkg.list_patches", PkgInterface, "patches", looks=True)
async def list_patches(host: ExecutionHost) -> dict[str, dict[str, Any]]:
    """Return the published patches by id: whether it is installed, and its summary."""
    found = await host.interface(PkgInterface).patches()
    return {name: {"installed": patch.installed, "summary": patch.summary or ""} for name, patch in found.items()}


@execution("pkg.list_repos", PkgInterface, "repos", looks=True)
async def list_repos(host: ExecutionHost) -> dict[str, dict[str, Any]]:
    """Return the configured repositories, by id."""
    found = await host.interface(PkgInterface).repos()
    return {name: {**repo.model_dump(exclude={"extra"}), **repo.extra} for name, repo in found.items()}


@execution("pkg.get_repo", PkgInterface, "repos", looks=True)
async def get_repo(host: ExecutionHost, repo: str) -> dict[str, Any]:
    """Return one repository, by its id; empty if there is none."""
    return (await list_repos(host)).get(repo, {})


@execution("pkg.del_repo", PkgInterface, "repo_remove")
async def del_repo(host: ExecutionHost, repo: str) -> ChangeSet:
    """Remove the repository with this id."""
    return await host.interface(PkgInterface).repo_remove(repo)
