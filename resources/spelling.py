"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the known word that is most similar to a mistyped one; None if none is similar."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), None)
