"""Symbolic file modes of chmod(1) that determine the whole mode."""

from __future__ import annotations

import re

_CLAUSE = r"([ugoa]+)((?:[-+=](?:[ugo]|[rwxst]*))+)"
_ACTION = r"([-+=])([ugo]|[rwxst]*)"
_SHIFT = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}
_SPECIAL = {("u", "s"): 0o4000, ("g", "s"): 0o2000, ("o", "t"): 0o1000}


def symbolic(text: str) -> int:
    """Return the mode that a text like `u=rw,go=r` means. Raises `ValueError` with the mistake.

    The text must determine the mode without the file's present mode, so the first action for each of user, group and
    others must be `=`. `X`, and a clause without user, group or others, are refused, because they depend on the file or
    on a umask. Source: chmod(1p) of POSIX.1-2017.
    """
    known: dict[str, int] = {}
    for clause in text.split(","):
        if not (found := re.fullmatch(_CLAUSE, clause)):
            raise ValueError(
                f"{clause!r} is not part of a symbolic mode: use u, g, o or a, then =, + or -, then letters of rwxst"
            )
        who = "ugo" if "a" in found[1] else found[1]
        for sign, letters in re.findall(_ACTION, found[2]):
            known |= _acted(clause, who, sign, letters, known)
    if missing := [each for each in "ugo" if each not in known]:
        raise ValueError(
            f"{text!r} does not say what {' and '.join(missing)} may: add {','.join(f'{each}=' for each in missing)}"
        )
    return sum(known.values())


def _acted(clause: str, who: str, sign: str, letters: str, known: dict[str, int]) -> dict[str, int]:
    """Return the modes that one action of a clause sets. Raises `ValueError` if they depend on the file."""
    made: dict[str, int] = {}
    for each in who:
        if sign != "=" and each not in known:
            raise ValueError(f"{clause!r} depends on what the file has: set all of it, with {each}=")
        if letters in _SHIFT and letters not in known:
            raise ValueError(f"{clause!r} copies what the file has: write {letters}= before it")
        made[each] = _changed(known.get(each, 0), sign, _bits(each, letters, known))
    return made


def _bits(who: str, letters: str, known: dict[str, int]) -> int:
    """Return the mode bits of letters: permissions, or the name of a class whose bits are copied."""
    if letters in _SHIFT:
        return (known[letters] >> _SHIFT[letters] & 7) << _SHIFT[who]
    plain = sum(_BITS[letter] << _SHIFT[who] for letter in {*letters} & _BITS.keys())
    return plain | sum(_SPECIAL.get((who, letter), 0) for letter in {*letters} - _BITS.keys())


def _changed(mode: int, sign: str, bits: int) -> int:
    return {"=": bits, "+": mode | bits, "-": mode & ~bits}[sign]
