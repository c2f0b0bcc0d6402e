"""Calls the handler of a request: a bug of a handler ends neither the agent nor the client without a reason."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.agent.control.connection import ClientConnection
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError
from holdfast.agent.running_agent import RunningAgent


async def answer_of(request: ControlRequest, agent: RunningAgent, client: ClientConnection) -> Any:
    """Return the answer of the handler of a request. Raises `ControlError`, and `OSError` if the client has gone.

    Another exception is a bug: the log gets it with its traceback, the client only its name, as its text may be secret.
    """
    try:
        return await request.answer(agent, client)
    except (ControlError, OSError):
        raise
    except Exception as error:
        text = f"the agent has failed to answer {request.verb!r}: {type(error).__name__}"
        asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})
        raise ControlError(f"{text}; this is a bug, and the log of the agent has its traceback", "bug") from error
