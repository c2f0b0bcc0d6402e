"""What test cases of kinds and of providers share: the files of a case, before and after, and comparison with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


class CaseFailed(AssertionError):
    """The result of a case is not the declared one; the text shows both."""


def expect(what: str, wanted: object, got: object) -> None:
    """Raise `CaseFailed` unless both are equal."""
    if wanted != got:
        raise CaseFailed(f"{what}: wanted {wanted!r}, got {got!r}")


def parsed(text: str) -> Any:
    """Return the data of a YAML text, which libyaml parses ten times as fast as `yaml.safe_load`."""
    return yaml.load(text, yaml.CSafeLoader)


def placed(value: Any, names: Mapping[str, str]) -> Any:
    """Return the case with `{NAME}` replaced by the text of this name everywhere, in keys and values."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {placed(key, names): placed(item, names) for key, item in value.items()}
    return [placed(item, names) for item in value] if isinstance(value, list) else value


def make(path: Path, thing: Any) -> None:
    """Make a file, directory, link or fifo as a case describes it; None removes it."""
    if thing is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    given = thing if isinstance(thing, Mapping) else {"text": thing}
    if "link" in given:
        path.symlink_to(given["link"])
        return
    if given.get("dir"):
        path.mkdir(exist_ok=True)
    elif given.get("fifo"):
        os.mkfifo(path)
    else:
        path.write_text(given["text"], encoding="utf-8")
    path.chmod(int(str(given.get("mode", "0755" if given.get("dir") else "0644")), 8))


def seen_as(path: Path, wanted: Any) -> Any:
    """Return what is at a path, in the form that the case uses."""
    if not os.path.lexists(path):
        return None
    if not isinstance(wanted, Mapping):
        return path.read_text(encoding="utf-8") if path.is_file() else "(not a file)"
    seen: dict[str, Any] = {"link": str(path.readlink())} if path.is_symlink() else {}
    seen |= {"dir": path.is_dir() and not path.is_symlink(), "mode": f"{stat.S_IMODE(path.lstat().st_mode):04o}"}
    if path.is_file():
        seen["text"] = path.read_text(encoding="utf-8")
    return {word: seen.get(word) for word in wanted}


def snapshot(top: Path) -> dict[str, tuple[int, ...]]:
    """Return the metadata of all files below a directory, in enough detail to see any change."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(top.rglob("*")):
        s = path.lstat()
        found[str(path)] = (s.st_ino, s.st_mode, s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns)
    return found
