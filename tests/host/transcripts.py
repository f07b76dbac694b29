"""What was said in a session, short enough to compare."""

from typing import Any

from holdfast.sessions import SessionDB


def said(db: SessionDB, session: str) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in db.get_messages(session)]
