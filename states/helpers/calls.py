"""`salt` in templates: the functions of the table, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined

from holdfast.resources.execution import table as execution
from holdfast.resources.execution.refused import REFUSED
from holdfast.resources.spelling import nearest
from holdfast.states.source.extensions import instead
from holdfast.states.source.files import Tree
from holdfast.states.view.grains import CALLS
from holdfast.states.view.host_view import Helper, HostView


class Calls:
    """`salt` in templates: `salt['grains.get']('os')`, `salt.grains.get('os')`, `'grains.get' in salt`.

    Not a `Mapping`, whose methods `items` and `keys` would hide modules with these names.
    """

    def __init__(self, view: HostView, table: Mapping[str, Helper], prefix: str = "") -> None:
        self.view, self._table, self._prefix = view, table, prefix

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return the function of that name.

        As in Salt, a template can test for a missing function (`is defined`, `default`). Any other use of it raises
        `NoSuchCall`, which is reported at the line of the template.
        """
        full = self._prefix + name
        if full not in self._table:

            def fail(_: str | None) -> NoSuchCall:
                return NoSuchCall(full, self._table, self.view.tree)

            return StrictUndefined(name=full, exc=fail)  # type: ignore[arg-type] # Jinja calls it with a text
        helper, view = self._table[full], self.view
        view.asked.add(CALLS + full.partition(".")[0])

        def call(*args: Any, **kwargs: Any) -> Any:
            return helper(view, *args, **kwargs)

        return call

    def __repr__(self) -> str:
        """Return the same text for each rendering."""
        return f"<calls of {self._prefix.rstrip('.') or 'all modules'}>"

    def __iter__(self) -> Iterator[str]:
        """Return the names of all functions."""
        return iter(self._table)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a function."""
        return isinstance(name, str) and self._prefix + name in self._table

    def __getattr__(self, name: str) -> Any:
        """Return a module (`salt.grains`), a function of a module, or `salt.get`.

        Raises `AttributeError` for impossible names.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "get" and not self._prefix:
            return lambda call, default=None: self[call] if call in self else default  # noqa: SIM401
        full = self._prefix + name
        if any(known.startswith(full + ".") for known in self._table):
            return Calls(self.view, self._table, full + ".")
        return self[name]


REASONS = {
    "saltutil": "templates change nothing, and there are no modules to synchronise",
    "http": "templates do not use the network: put the data into the pillar",
    "mine": REFUSED["mine"],
    "sdb": REFUSED["sdb"],
    "state": "templates only declare states: use include",
    "vault": REFUSED["vault"],
}
"""Module that does not exist here -> the reason, and what to do instead."""
CHANGES = "it changes this host; templates and guards only look: use a state of {module!r}, or module.run with {name}"


class NoSuchCall(KeyError):
    """A template calls a function that does not exist, or that templates may not call."""

    def __init__(self, name: str, table: Mapping[str, Helper], tree: Tree | None = None) -> None:
        super().__init__(name)
        module = name.partition(".")[0]
        near = nearest(name, [known for known in table if known.partition(".")[0] == module] or table)
        modules = ", ".join(sorted({known.partition(".")[0] for known in table}))
        self.hint = (
            instead(tree, "_modules", module)
            or REASONS.get(module)
            or (CHANGES.format(module=module, name=name) if execution.find(name) else "")
            or (
                f"did you mean {near}?"
                if near
                else f"available: calls of {modules}; facts of the host are in its grains"
            )
        )

    def __str__(self) -> str:
        """Return the message; KeyError itself would show only the key."""
        return f"templates cannot call {self.args[0]}"
