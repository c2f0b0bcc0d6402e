"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable

SIMILAR = 0.6
"""Similarity of a word that may be meant, so that a message suggests it: twice the common letters by all letters."""
SURE = 0.8
"""Similarity of a word that is meant almost certainly."""


def nearest(word: str, words: Iterable[str], similarity: float = SIMILAR) -> str | None:
    """Return the known word that is most similar to a mistyped one; None if none is similar enough."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=similarity)), None)
