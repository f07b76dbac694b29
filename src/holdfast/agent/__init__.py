"""One turn, start to finish. Read `contract.py` first, then `turn.py`, the heart."""

from holdfast.agent.agent import SessionAgent
from holdfast.agent.contract import AgentOptions, Limits, Pools, TurnResult
from holdfast.agent.recovery import Unfinished
from holdfast.agent.tool_profile import ToolProfiles

__all__ = ["AgentOptions", "Limits", "Pools", "SessionAgent", "ToolProfiles", "TurnResult", "Unfinished"]
