"""`Boundary`: a boundary commit hands memory the turns of a conversation that none has covered yet."""

from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB


class Boundary:
    """One agent's commits. It blocks: `SessionLifecycle` calls it on a thread of its own."""

    def __init__(self, db: SessionDB, memory: MemoryManager | None) -> None:
        self._db = db
        self._memory = memory
        self._handed_over: dict[str, int] = {}  # the generation up to which memory has each session

    def commit(self, session_id: str) -> None:
        """Hand over what was said since the last commit, of every session of the conversation.

        Raises when a provider failed; what was handed over before it is not handed over again.
        """
        if self._memory is None:
            return
        for each in self._db.lineage(session_id):
            session = self._db.get_session(each)
            if session is None or self._handed_over.get(each) == session.generation:
                continue
            # Through the generation that was read: a turn completed meanwhile is the next commit's.
            messages = self._db.uncommitted_messages(each, through=session.generation)
            self._memory.on_session_end(messages, session_id=each)
            self._handed_over[each] = session.generation
