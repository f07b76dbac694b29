"""Subagents whose process died: nobody resumes them, so their records are closed.

A subagent works for the turn that called it and ends with it. It holds no lease of its own: the conversation
that it serves does.
"""

import logging

from holdfast.core.errors import Refused
from holdfast.host.contract import HostParts
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.tools.open_questions import OpenQuestions

logger = logging.getLogger(__name__)


async def close_subagent(parts: HostParts, session_id: str) -> None:
    """End a subagent's turn on record; somebody else may have done it meanwhile."""
    try:
        session = await off_loop(parts.pools.store, parts.db.get_session, session_id)
        if session is not None:
            await (await parts.agent_for(session_id, OpenQuestions(), session.scope)).drop()
    except Refused:
        logger.debug("host.subagent_closed", extra={"session": session_id}, exc_info=True)


async def close_subagents_of(parts: HostParts, root_id: str) -> None:
    """Close the subagents of a conversation whose turn was cut off; its lease is held here."""
    for session_id, served in await off_loop(parts.pools.store, open_subagents, parts.db):
        if served == root_id:
            await close_subagent(parts, session_id)


def open_subagents(db: SessionDB) -> list[tuple[str, str]]:
    """The sessions of subagents in which a turn is open, each with the root of the conversation it serves."""
    return [(each, _served(db, each)) for each in db.statuses.delegated_turns()]


def _served(db: SessionDB, session_id: str) -> str:
    root = db.get_session(db.sessions.root(session_id))
    while root is not None and root.relation == "delegate" and root.parent is not None:
        root = db.get_session(db.sessions.root(root.parent))
    return session_id if root is None else root.id
