"""One turn, start to finish. Read `contract.py` first, then `turn.py`, the heart."""

from holdfast.agent.agent import Agent
from holdfast.agent.contract import AgentOptions, Limits, Pools, TurnResult
from holdfast.agent.recovery import Unfinished

__all__ = ["Agent", "AgentOptions", "Limits", "Pools", "TurnResult", "Unfinished"]
