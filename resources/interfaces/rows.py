"""The table of interfaces and providers: what a call of one function does on one host, and what is logged.

A row depends on three things. The interface promises the function or not. Its `supported` and `not_applicable` match
the host's grains, do not match, or are not declared (None). The provider has the function, lacks it, has something else
of that name, or has it with another signature. Only functions that really run count as present (`has`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

State = Literal["provided", "deprecated", "not implemented", "not supported", "not applicable", "not found", "physical"]
Have = Literal["function", "nothing", "no function", "other signature", "physical function"]
ABSENT: tuple[Have, ...] = ("nothing", "no function", "physical function")
Level = Literal["", "info", "warning", "error"]
STATES: dict[State, str] = {
    "provided": "runs, and its result is checked",
    "deprecated": "runs unchanged, with a warning: the interface does not have it",
    "not implemented": "raises FunctionNotImplemented: the provider has a gap",
    "not supported": "raises FunctionNotSupported: platforms like this one do not have it",
    "not applicable": "does nothing, and returns the empty result",
    "not found": "raises FunctionNotFound",
    "physical": "raises FunctionNotFound: only callers of the tool itself can use it",
}
"""State of a function -> what a call does."""


class InterfaceRow(NamedTuple):
    """One row of the table."""

    number: int
    state: State
    level: Level = ""
    """Level of the message when the provider is bound; empty: none."""
    note: str = ""

    @property
    def has(self) -> bool:
        """Whether the function really runs."""
        return self.state in ("provided", "deprecated")


ANY = (None, True, False)
RULES: tuple[tuple[tuple[Have, ...], tuple[bool | None, ...], tuple[bool | None, ...], InterfaceRow], ...] = (
    # what the provider has, supported, not_applicable
    (("function", "other signature"), ANY, (True,),
        InterfaceRow(11, "not applicable", "warning", "it is provided where it does not apply")),
    (ABSENT, (None,), (True,), InterfaceRow(9, "not applicable")),
    (ABSENT, (True,), (True,),
        InterfaceRow(13, "not applicable", "error", "it is declared both supported and not applicable here")),
    (ABSENT, (False,), (True,), InterfaceRow(14, "not applicable")),
    (("other signature",), ANY, ANY, InterfaceRow(17, "not implemented", "error")),
    (("no function", "physical function"), ANY, ANY,
        InterfaceRow(18, "not implemented", "info", "the provider's attribute of this name is not a public function")),
    (("function",), (True,), ANY, InterfaceRow(7, "provided")),
    (("function",), (False,), ANY, InterfaceRow(8, "provided", "warning", "supported() leaves out this platform")),
    (("function",), (None,), (None,), InterfaceRow(1, "provided")),
    (("function",), (None,), (False,), InterfaceRow(12, "provided")),
    (("nothing",), (None,), (None,), InterfaceRow(2, "not implemented", "info")),
    (("nothing",), (True,), (None,), InterfaceRow(5, "not implemented", "info")),
    (("nothing",), (False,), (None,), InterfaceRow(6, "not supported")),
    (("nothing",), (None,), (False,), InterfaceRow(10, "not implemented", "info")),
    (("nothing",), (True,), (False,), InterfaceRow(15, "not implemented", "info")),
    (("nothing",), (False,), (False,), InterfaceRow(16, "not supported")),
)  # fmt: skip
"""Rows of functions that the interface promises; the first rule that matches holds."""
OUTSIDE: dict[Have, InterfaceRow] = {
    "function": InterfaceRow(3, "deprecated"),
    "nothing": InterfaceRow(4, "not found"),
    "no function": InterfaceRow(4, "not found"),
    "physical function": InterfaceRow(19, "physical"),
}
"""Rows of names that the interface does not promise."""


def promised(have: Have, supported: bool | None, not_applicable: bool | None) -> InterfaceRow:
    """Return the row of a function that the interface promises."""
    return next(
        row for haves, meant, spared, row in RULES if have in haves and supported in meant and not_applicable in spared
    )


class Described(NamedTuple):
    """What one function of a virtual module does on this host, and why."""

    function: str
    row: InterfaceRow
    why: str = ""
    """Reason or remark, a part of a sentence; may be empty."""
    needed: Mapping[str, tuple[str, ...]] = {}
    """The grains that decided: grain -> values; empty if none did."""
