"""Record in each sdist and wheel its commit; a wheel that is built from an sdist has the commit of the sdist."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Commit(BuildHookInterface):  # type: ignore[type-arg] # the configuration of the builder is not used
    """Adds a file with the commit to the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, but not for an editable installation, because the commit of a clone changes."""
        package = Path(self.root, "src/holdfast")
        module = runpy.run_path(str(package / "agent/version.py"))
        if version == "editable" or (package / module["RECORD"]).exists():
            return
        with tempfile.NamedTemporaryFile("w", delete=False) as record:
            record.write(module["commit"](package))
        self._record = Path(record.name)
        within = "holdfast" if self.target_name == "wheel" else "src/holdfast"
        build_data["force_include"][record.name] = f"{within}/{module['RECORD']}"

    # hatchling requires these parameters
    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the temporary file."""
        if hasattr(self, "_record"):
            self._record.unlink()
