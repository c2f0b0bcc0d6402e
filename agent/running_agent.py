"""The running agent as the handlers of requests see it: all parts that answer requests."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.agent.agent_calls import AgentCalls
from holdfast.agent.agent_status import AgentStatus
from holdfast.agent.control.journal_session import JournalSessions
from holdfast.agent.engine.engine import Engine
from holdfast.agent.insight.insight import Insight
from holdfast.agent.logs import Logs
from holdfast.agent.pausing import PauseCommands
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.records.records import Records
from holdfast.agent.reloads import Reloads
from holdfast.agent.triggers import Triggers


class RunningAgent(NamedTuple):
    """The parts of one agent. The daemon makes them, and passes them to the control socket."""

    calls: AgentCalls
    engine: Engine
    insight: Insight
    logs: Logs
    pausing: PauseCommands
    recorder: Recorder
    records: Records
    reloads: Reloads
    sessions: JournalSessions
    status: AgentStatus
    triggers: Triggers
