"""Reads the stores of other agents, and imports their conversations. Read `contract.py` first."""

from holdfast.sessions.foreign.contract import ForeignConversation, ForeignSession, ForeignStore
from holdfast.sessions.foreign.hermes import read_hermes
from holdfast.sessions.foreign.importer import ImportReport, import_conversations
from holdfast.sessions.foreign.langgraph import read_langgraph
from holdfast.sessions.foreign.openai_agents import read_openai_agents

__all__ = [
    "ForeignConversation",
    "ForeignSession",
    "ForeignStore",
    "ImportReport",
    "import_conversations",
    "read_hermes",
    "read_langgraph",
    "read_openai_agents",
]
