"""`Boundary`: a boundary commit hands memory the turns of a conversation that none has covered yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.memory import MemoryManager
from holdfast.process import holder_name, is_alive_here, is_provably_gone
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Session
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.leases import lease_name

PURPOSE = "boundary"


class Boundary:
    """One agent's commits. It blocks: `SessionLifecycle` calls it on a thread of its own.

    A conversation is committed under a lease of its own, which turns don't wait for: processes that reach
    a boundary of it at once commit one after the other, each what the others have left. A process that stands
    still in the middle of a commit keeps it for as long as it is seen to live on this machine. One that lost
    it hands over nothing more.
    """

    def __init__(self, db: SessionDB, memory: MemoryManager | None) -> None:
        self._db = db
        self._memory = memory
        self._handed_over: dict[str, int] = {}  # the generation up to which memory has each session

    def commit(self, session_id: str) -> bool:
        """Hand over what was said since the last commit, of every session of the conversation.

        Raises when a provider failed; what was handed over before it is not handed over again. False while
        another process commits this conversation.
        """
        if self._memory is None or not self._due(session_id):
            return True
        with self._held(session_id) as held:
            if held is None:
                return False
            for session in self._due(session_id):
                # The process may have stood still since it read what is due.
                self._db.leases.keep(held)
                self._hand_over(self._memory, session)
            return True

    def _due(self, session_id: str) -> list[Session]:
        """The sessions of the conversation with turns that no commit has covered."""
        return [
            session
            for session in self._db.sessions.conversation(session_id)
            if session.generation > session.committed_generation
            and self._handed_over.get(session.id) != session.generation
        ]

    def _hand_over(self, memory: MemoryManager, session: Session) -> None:
        # Through the generation that was read: a turn completed meanwhile is the next commit's.
        messages = self._db.sessions.uncommitted_messages(session.id, through=session.generation)
        memory.on_session_end(messages, session_id=session.id, scope=session.scope)
        self._handed_over[session.id] = session.generation
        # Under the lease: the process that has it next finds nothing of this left.
        self._db.sessions.mark_committed(session.id, session.generation)

    @contextmanager
    def _held(self, session_id: str) -> Iterator[HeldLease | None]:
        name = lease_name(PURPOSE, self._db.sessions.root(session_id))
        held = self._acquired(name, holder_name())
        try:
            yield held
        finally:
            if held is not None:
                self._db.keeper.release(name, held.holder)

    def _acquired(self, name: str, holder: str) -> HeldLease | None:
        last = self._db.leases.last(name)
        if last is not None and is_provably_gone(last.holder):
            self._db.leases.release(last)
        elif last is not None and is_alive_here(last.holder):
            return None
        return self._db.keeper.acquire(name, holder)
