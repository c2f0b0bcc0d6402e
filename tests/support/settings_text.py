"""agent.yaml as text, for tests of refused settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.agent.settings import Settings, SettingsError, load


def loader(directory: Path) -> Callable[[str], Settings | list[str]]:
    """Return a function that loads a text, and returns the settings or the messages of the error with their lines."""
    directory.chmod(0o755)

    def loaded(text: str) -> Settings | list[str]:
        path = directory / "agent.yaml"
        path.write_text(text)
        path.chmod(0o644)
        try:
            return load(path)
        except SettingsError as error:
            return [f"{each.location.line}: {each.message}" for each in error.problems]

    return loaded
