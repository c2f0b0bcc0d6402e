# Made by `holdfast idl compile` from names.py, target python. Do not edit it.
"""Types that the declarations share."""

from __future__ import annotations

from holdfast import pack


Identifier = str
"""A name in PostgreSQL, without quotes; case matters. It has at most 63 bytes."""


Comment = str
"""The text of COMMENT ON; an empty text removes it."""
