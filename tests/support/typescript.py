"""Compiles TypeScript with all checks, and runs it by Node.js. `scripts/environment` installs what this needs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from deadline import DEADLINE

ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".venv-node/node_modules"
MONTH = 30 * 86400.0
"""A month in seconds."""
OPTIONS = {
    "strict": True,
    "target": "ES2022",
    "lib": ["ES2022"],
    "module": "NodeNext",
    "outDir": "built",
    "noEmitOnError": True,
    "skipLibCheck": True,
    "exactOptionalPropertyTypes": True,
    "noFallthroughCasesInSwitch": True,
    "noImplicitOverride": True,
    "noImplicitReturns": True,
    "noPropertyAccessFromIndexSignature": True,
    "noUncheckedIndexedAccess": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "isolatedModules": True,
    "verbatimModuleSyntax": True,
}
"""Every check that a user of generated files may enable, except for the types of libraries."""


def node() -> str:
    """Return the path of Node.js. Skips the test if it or its packages are missing; on CI the test fails."""
    found = shutil.which("node")
    if found is None or not (MODULES / "typescript").exists() or not (MODULES / "@grpc").exists():
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("Node.js or its packages are missing; scripts/test installs them")
    return str(found)


def compiled(folder: Path, *, types: tuple[str, ...] = ("node",)) -> Path:
    """Compile the sources below `src` of a folder; return the folder with the result. Fails with tsc's messages.

    The result of an earlier compilation, by the same compiler with the same options, is copied: tsc takes five seconds,
    and several processes with tests need the same programs.
    """
    options = {**OPTIONS, "rootDir": "src", "types": list(types)}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["src"]}))
    (folder / "package.json").write_text('{"type": "module"}')
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES)
    found = node()
    kept = MODULES.parent / "compiled" / _key(folder)
    kept.parent.mkdir(exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _compile(found, folder)
            shutil.copytree(folder / "built", kept.with_suffix(".new"), dirs_exist_ok=True)
            kept.with_suffix(".new").rename(kept)
            _forget_unused(kept.parent)
        kept.touch()
        shutil.copytree(kept, folder / "built", dirs_exist_ok=True)
    return folder / "built"


def _key(folder: Path) -> str:
    """Return the hash of everything that determines the result of tsc for a folder."""
    sources = [each for each in sorted((folder / "src").rglob("*")) if each.is_file()]
    texts = [(MODULES.parent / "package-lock.json").read_text(), (folder / "tsconfig.json").read_text()]
    texts += [text for each in sources for text in (str(each.relative_to(folder)), each.read_text())]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _forget_unused(kept: Path) -> None:
    """Remove results that were not used for a month."""
    for each in kept.iterdir():
        if each.is_dir() and each.stat().st_mtime < time.time() - MONTH:
            shutil.rmtree(each)
            each.with_suffix(".lock").unlink(missing_ok=True)


def _compile(found: str, folder: Path) -> None:
    """Run tsc."""
    command = [found, str(MODULES / "typescript/bin/tsc"), "--project", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * DEADLINE, check=False)
    assert done.returncode == 0, done.stdout


def written(files: Mapping[str, str], folder: Path) -> None:
    """Write files: path below the folder -> text."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def run(program: Path, *arguments: str, given: str = "") -> str:
    """Run a program; return its output. Fails with the program's errors."""
    command = [node(), str(program), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
