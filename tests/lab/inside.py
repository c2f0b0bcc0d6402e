"""Runs in a host with Holdfast's Python, and calls real kinds and providers on request.

An input line is a request in JSON; an output line is an answer or an event. `driver.py` is the counterpart outside.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel

from holdfast.agent import facts
from holdfast.agent.health import Health
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.assignment import Assignment
from holdfast.resources.errors import HoldfastError
from holdfast.resources.interfaces.arguments import Signature
from holdfast.resources.interfaces.registry import demand


def tell(**message: Any) -> None:
    """Send one message to the driver."""
    sys.stdout.write(json.dumps(message, default=plain) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    return list(value) if isinstance(value, (set, frozenset, tuple)) else str(value)


def log(_: Any, method: str, event: dict[str, Any]) -> Any:
    """Send log messages to the driver instead of printing them."""
    tell(log=f"{method}: {event.pop('event')} {event}")
    raise structlog.DropEvent


def typed(interface: Any, function: str, positional: list[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function by name, from JSON in the types that the interface declares."""
    promised = interface.functions()[function]
    named = dict(zip(list(inspect.signature(promised).parameters)[1:], positional, strict=False))
    return Signature(function, promised).bind((), {**named, **arguments})


async def answer(host: LocalHost, watches: dict[str, asyncio.Task[None]], request: dict[str, Any]) -> Any:
    """Perform one request."""
    do, arguments = request["do"], request.get("arguments", {})
    if do == "call":
        interface = demand(request["module"])
        function, bound = request["function"], host.interfaces.get(interface)
        given = typed(interface, function, request["positional"], arguments)
        return await getattr(bound, function)(**given)
    kind = registry.find(request["kind"])
    if kind is None:
        raise LookupError(request["kind"])
    resource = kind.declare(request["name"], **arguments)
    ctx = host.context(f"{resource.kind}[{resource.name}]")
    ctx.assignment = Assignment(sends=getattr(resource, "sends", {}))
    if do == "watch":
        watches[request["id"]] = asyncio.create_task(watch(resource, ctx, request["id"]))
        return None
    method = resource.refresh if request.get("refresh") else resource.check_apply
    right = await method(ctx, do == "apply")
    return {"right": right, "changes": ctx.report.changes, "comment": ctx.report.comment, "ended": ctx.report.ended}


async def watch(resource: Any, ctx: Any, number: str) -> None:
    """Report each event. Start a failed watch again, as the engine does."""
    while True:
        try:
            async for _ in resource.watch(ctx):
                tell(event=number)
        except HoldfastError as error:
            tell(log=f"watch failed: {error}")
            await asyncio.sleep(0.05)


async def handle(host: LocalHost, watches: dict[str, asyncio.Task[None]], request: dict[str, Any]) -> None:
    """Answer one request, with an error if it fails."""
    try:
        tell(id=request["id"], result=await answer(host, watches, request))
    except HoldfastError as error:
        tell(id=request["id"], error=str(error), type=type(error).__name__)
    except Exception:  # noqa: BLE001 - the driver reports it
        tell(id=request["id"], error=traceback.format_exc(), type="bug")


async def main() -> None:
    """Answer requests until standard input ends."""
    health = Health()
    known = {**facts.GrainParts(Path("/")).read(), **json.loads(sys.argv[1])}
    health.listen = lambda: tell(health=[condition.code for condition in health.conditions])
    structlog.configure(processors=[log])
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with tempfile.TemporaryDirectory() as directory:
        async with LocalHost(states=Path(directory), var_dir=Path(directory), facts=known, health=health) as host:
            watches: dict[str, asyncio.Task[None]] = {}
            tasks = set()
            while line := await reader.readline():
                tasks.add(task := asyncio.create_task(handle(host, watches, json.loads(line))))
                task.add_done_callback(tasks.discard)
            for task in [*tasks, *watches.values()]:
                task.cancel()
            await asyncio.gather(*tasks, *watches.values(), return_exceptions=True)


asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # destroying all modules would take a quarter of the time of a short test
