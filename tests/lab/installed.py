"""Layers with Holdfast installed as users do it: from a wheel, into a virtual environment of the guest's Python.

The dependencies are one layer, which is reused while their list is unchanged. The wheel of this checkout is a second
layer on top, which is reused while the sources are unchanged: each process of a test run finds it. To create a layer, a
host is booted and pip runs in it, without a network.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import image
from lab import Run

ENVIRONMENT = "/opt/holdfast"
PYTHON = f"{ENVIRONMENT}/bin/python"
COMMAND = "/usr/local/bin/holdfast"
WHEELS = "/srv/wheels"
KEEP = 24 * 3600
"""Seconds for which layers with older wheels are kept, because another test run may use them."""


def layers(run: Run) -> tuple[Path, ...]:
    """Return the layers, the top one first; create them if necessary."""
    needed = image.wheels()
    base = image.cached("needed", (image.root().name, needed.name), lambda path: install_needed(run, needed, path))
    own = image.cached("holdfast", (base.name, image.sources()), lambda path: install_own(run, base, path))
    forget(own)
    return (own, base)


def install_needed(run: Run, wheels: Path, path: Path) -> None:
    """Create the environment, and install the dependencies of Holdfast in it."""
    host = run.host("needed", binds=[f"{wheels}:{WHEELS}"])
    host.sh(
        f"python3 -m venv {ENVIRONMENT}; {ENVIRONMENT}/bin/pip install --quiet --no-index --no-deps {WHEELS}/*.whl",
        timeout=120,
    )
    host.save(path, ENVIRONMENT)
    host.down()


def install_own(run: Run, base: Path, path: Path) -> None:
    """Build Holdfast's wheel and install it."""
    with tempfile.TemporaryDirectory() as directory:
        wheel = image.own_wheel(Path(directory))
        host = run.host("own", binds=[f"{directory}:{WHEELS}"], layers=[base])
        host.sh(
            f"{ENVIRONMENT}/bin/pip install --quiet --no-index --no-deps {WHEELS}/{wheel.name}; "
            f"ln -s {ENVIRONMENT}/bin/holdfast {COMMAND}"
        )
        host.save(path, ENVIRONMENT, COMMAND)
        host.down()


def forget(current: Path) -> None:
    """Remove layers with older wheels from the cache."""
    for path in image.CACHE.glob("holdfast-*"):
        if path != current and path.stat().st_mtime < time.time() - KEEP:
            shutil.rmtree(path, ignore_errors=True)
    current.touch()
