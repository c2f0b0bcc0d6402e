"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable

SIMILAR = 0.6
"""Least similarity of a word that a message suggests: twice the number of common letters, divided by all letters."""
SURE = 0.8
"""Similarity from which on the similar word is almost certainly the intended one."""


def nearest(word: str, words: Iterable[str], similarity: float = SIMILAR) -> str | None:
    """Return the known word that is most similar to a mistyped one; None if none is similar enough."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=similarity)), None)
