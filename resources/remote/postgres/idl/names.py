"""Types that the declarations share."""

from typing import Annotated

from holdfast import idl

Identifier = Annotated[str, idl.limits(shortest=1, longest=63)]
"""A name in PostgreSQL, without quotes; case matters. It has at most 63 bytes."""
Comment = Annotated[str, idl.limits(longest=4000)]
"""The text of COMMENT ON; an empty text removes it."""
