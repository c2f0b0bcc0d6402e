"""Values that the shell completes: resources of the running agent, kinds, names of SLS. Errors are never shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from holdfast.agent.control.client import ask
from holdfast.agent.control.schema import ControlRequest
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError

if TYPE_CHECKING:
    from holdfast.agent.settings import Settings

PATIENCE = 2.0
"""Seconds that an agent may take to list its resources."""


class CompletionSource(Protocol):
    """The part of `options.Source` that completion needs."""

    def socket(self) -> Path:
        """The path of the agent's control socket."""
        ...

    def settings(self) -> Settings:
        """The settings."""
        ...

    def kinds(self) -> Path:
        """The directory of the operator's kinds."""
        ...


Completer = Callable[[click.Context, str, Callable[..., CompletionSource]], list[str]]
"""Called with click's context, the incomplete word and the class that makes a source of the options given."""


def _beginning_so(find: Callable[[CompletionSource, str], Iterator[str]]) -> Completer:
    """A completer of words that start with the incomplete one and that a shell can take; none on errors."""

    def complete(ctx: click.Context, incomplete: str, source: Callable[..., CompletionSource]) -> list[str]:
        given: dict[str, Any] = {
            name: ctx.params.get(name) for name in ("config", "states", "state_dir", "environment")
        }
        try:
            words = list(find(source(**given), incomplete))
        except (HoldfastError, OSError):
            return []
        return [word for word in dict.fromkeys(words) if word.startswith(incomplete) and word.isprintable()]

    return complete


@_beginning_so
def resources(source: CompletionSource, incomplete: str) -> Iterator[str]:
    """IDs; identities where several resources share the ID. Once a word has begun, all identities as well."""
    rows = ask(source.socket(), ControlRequest("status"), PATIENCE)["resources"]
    times = Counter(row["id"] for row in rows)
    for row in rows:
        if times[row["id"]] == 1:
            yield row["id"]
        if incomplete or times[row["id"]] > 1:
            yield row["identity"]


@_beginning_so
def kinds(source: CompletionSource, _: str) -> Iterator[str]:
    """Kinds, the operator's included, their families, and `all`."""
    from holdfast.agent.configuration import ConfigurationCompiler
    from holdfast.resources import registry

    with suppress(CompileError):  # built-in kinds are available in any case
        ConfigurationCompiler().load_kinds(source.kinds())
    yield "all"
    yield from sorted({*registry.families(), *registry.names()})


@_beginning_so
def sls(source: CompletionSource, _: str) -> Iterator[str]:
    """Names of SLS, which apply when there is no top file."""
    from holdfast.states.source.files import Tree

    yield from (name for name in Tree(source.settings().states).public() if name != "top")
