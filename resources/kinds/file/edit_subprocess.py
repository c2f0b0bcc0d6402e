"""Slow edits, in a separate process with a deadline, so that they do not block the agent.

python -m holdfast.resources.kinds.file.edit_subprocess
    reads {"kind":, "arguments":, "text":, "given":} and writes {"text":} or {"refused":}
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from holdfast.resources import registry
from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent, Temporary

DEADLINE = 10.0
"""Maximum duration of an edit, in seconds."""


async def edited_in_subprocess(ctx: Context, edit: Resource, text: str, given: tuple[str, ...]) -> str:
    """Return the edited text. Raises `Permanent` if the edit fails or takes too long."""
    job = {"kind": edit.kind, "arguments": edit.model_dump(mode="json"), "text": text, "given": given}
    argv = (sys.executable, "-P", "-m", __name__)
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = await ctx.run(*argv, env=environment, stdin=json.dumps(job), timeout=DEADLINE, limit=sys.maxsize)
    except Temporary:
        hint = "look for repetitions within repetitions in its regular expressions, like (a+)+"
        raise Permanent(f"cannot edit {edit.name}: it would take longer than {DEADLINE:g} s; {hint}") from None
    answer = json.loads(done.stdout)
    if "refused" in answer:
        raise Permanent(answer["refused"])
    return str(answer["text"])


def main() -> None:
    """Make one edit."""
    job = json.load(sys.stdin)
    kind: Any = registry.find(job["kind"])  # a subclass of Edit
    try:
        answer = {"text": kind.model_validate(job["arguments"]).edited(job["text"], tuple(job["given"]))}
    except Permanent as error:
        answer = {"refused": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
