"""What the shell completes, besides verbs and options: resources of the running agent, kinds, names of SLS. It never complains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import click

from holdfast.agent.cli.options import Source
from holdfast.agent.control.client import ask
from holdfast.agent.control.schema import Request
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError

PATIENCE = 2.0
"""Seconds that an agent may take to name its resources."""

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _beginning_so(find: Callable[[Source, str], Iterator[str]]) -> Completer:
    """All found words that begin as the incomplete one does and that a shell can be told; none when they cannot be found."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        given: dict[str, Any] = {
            name: ctx.params.get(name) for name in ("config", "states", "state_dir", "environment")
        }
        try:
            words = list(find(Source(**given), incomplete))
        except (HoldfastError, OSError):
            return []
        return [word for word in dict.fromkeys(words) if word.startswith(incomplete) and word.isprintable()]

    return complete


@_beginning_so
def resources(source: Source, incomplete: str) -> Iterator[str]:
    """IDs; identities where the ID is that of several, and of all once there is a beginning."""
    rows = ask(source.socket(), Request("status"), PATIENCE)["resources"]
    times = Counter(row["id"] for row in rows)
    for row in rows:
        if times[row["id"]] == 1:
            yield row["id"]
        if incomplete or times[row["id"]] > 1:
            yield row["identity"]


@_beginning_so
def kinds(source: Source, _: str) -> Iterator[str]:
    """Kinds, those of the operator included, their families, and `all`."""
    from holdfast.agent.tree import Trees
    from holdfast.resources import registry

    with suppress(CompileError):  # those that are built in are there all the same
        Trees().load_kinds(source.kinds())
    yield "all"
    yield from sorted({*registry.families(), *registry.names()})


@_beginning_so
def sls(source: Source, _: str) -> Iterator[str]:
    """Names that apply when there is no top file."""
    from holdfast.states.source import Tree

    yield from (name for name in Tree(source.settings().states).public() if name != "top")
