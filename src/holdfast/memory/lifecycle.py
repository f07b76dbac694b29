"""`SessionLifecycle`: which completed turns no boundary commit has covered yet, and who commits them.

A turn only marks (`mark_turn_completed`); a boundary commits. It is synchronous and thread-safe and needs
no loop. One commit runs per session at a time, on its caller's thread, and no lock is held meanwhile. With
a store the dirty mark is the store's own: `generation` above `committed_generation`, which survives a
crash. Read `segments.py` first.
"""

import functools
import itertools
import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import PoolSaturated
from holdfast.memory.contract import MemoryCommitter
from holdfast.memory.places import Places
from holdfast.memory.segments import Segment
from holdfast.memory.tracked import Commit, Outcome, Tracked
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Session

logger = logging.getLogger(__name__)

# Less than the exit of a whole process may take, so that a wedged provider can't use it all up.
COMMIT_TIMEOUT = 5.0
DRAIN_WORKERS = 8


class SessionLifecycle:
    """Marks, commits, evictions and the drain at shutdown (clauses L1 to L13)."""

    def __init__(
        self,
        store: SessionDB | None = None,
        *,
        clock: Clock | None = None,
        commit_timeout: float = COMMIT_TIMEOUT,
    ) -> None:
        """With a `store`, sessions that it knows are as dirty as it says, also after a crash.

        `commit_timeout` bounds, in seconds, each wait for a commit in flight and the drain as a whole.
        """
        self._store = store
        self._clock = clock or SystemClock()
        self._commit_timeout = checked_timeout(commit_timeout)
        # Guards _sessions, all that is in it, and _places. Never held across the store or an agent.
        self._lock = threading.Lock()
        self._sessions: dict[str, Tracked] = {}
        self._places = Places()
        self._numbers = itertools.count()

    # the handle

    def register_agent(self, sid: str | None, agent: MemoryCommitter) -> None:
        """From now on turns of the session are this agent's. What is dirty keeps its owner."""
        if not sid:
            return
        with self._lock:
            self._tracked(sid).agent = agent
            self._places.add(agent, sid)

    def unregister_agent(self, sid: str | None) -> None:
        """Forget the session's agent. What is dirty stays dirty and keeps its owner."""
        if not sid:
            return
        with self._lock:
            if sid in self._sessions:
                self._sessions[sid].agent = None

    def forget(self, *sids: str) -> None:
        """These sessions are deleted: nothing of them is owed to a boundary any more."""
        with self._lock:
            for sid in sids:
                tracked = self._sessions.pop(sid, None)
                for agent in tracked.agents() if tracked else ():
                    self._places.discard(agent, sid)

    # the dirty mark

    def mark_turn_completed(self, sid: str | None, agent: MemoryCommitter | None = None) -> int:
        """A turn was completed, by `agent` or the registered one; returns the session's generation.

        For a session of the store: after `turns.complete`, whose generation this is.
        """
        if not sid:
            return 0
        row = self._read(sid)
        with self._lock:
            tracked = self._refreshed(sid, row)
            owner = tracked.agent if agent is None else agent
            if owner is not None:
                self._places.add(owner, sid)
            if row is None:
                return tracked.dirty.count(owner)
            if owner is not None:
                tracked.dirty.claim(row.generation, owner)
            return row.generation

    def has_uncommitted_work(self, sid: str | None) -> bool:
        if not sid:
            return False
        row = self._read(sid)
        with self._lock:
            known = row is not None or sid in self._sessions
            return known and len(self._refreshed(sid, row).dirty) > 0

    def recover(self) -> list[str]:
        """Sessions of the store with uncommitted turns: at the start, what a crash has left.

        Each is committed with a fresh agent: `commit_session_memory(sid, agent, wait=True)`. On a store
        that several processes share, take the session's lease first: it may be alive elsewhere.
        """
        return [] if self._store is None else self._store.uncommitted_sessions()

    # the boundary

    def commit_session_memory(
        self,
        sid: str | None,
        agent: MemoryCommitter | None = None,
        wait: bool = False,
        *,
        timeout: float | None = None,
    ) -> bool:
        """Commit the oldest segment, by its owner; True when this call did.

        `agent` commits work that is nobody's. False with nothing dirty, with nobody to commit it, when
        the commit failed (all stays as it was, and the retry needs no agent), and while another commit is
        in flight. With `wait` that one is waited for, `timeout` seconds at most, and then every segment
        left is committed, oldest first: True when there was one and none failed.
        """
        if not sid:
            return False
        if not wait:
            return self._commit_oldest(sid, agent, None).outcome is Outcome.COMMITTED
        deadline = self._deadline(timeout)
        commit = self._commit_oldest(sid, agent, deadline)
        if commit.outcome is not Outcome.COMMITTED:
            return False
        # Only what was dirty when that one began: turns completed since are a later boundary's.
        for _ in range(commit.behind):
            if self._commit_oldest(sid, agent, deadline).outcome not in (Outcome.COMMITTED, Outcome.CLEAN):
                return False
        return True

    def evict_agent(
        self,
        sid: str | None,
        agent: MemoryCommitter,
        *,
        close: Callable[[], object] | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Let a cache drop an agent: commit its work, wait for its commit in flight, drop it, close it.

        False when its work could not be committed in time: then nothing is dropped or closed, and the
        cache keeps the agent for another try. Call it outside the cache's lock: it runs provider code.
        """
        if not sid:
            return False
        deadline = self._deadline(timeout)
        self.has_uncommitted_work(sid)  # hears from the store what this process was never told
        dirty = self._let_go(sid, agent)
        while dirty is not None:
            outcome = self._commit_oldest(dirty, agent, deadline).outcome
            if outcome not in (Outcome.COMMITTED, Outcome.CLEAN):
                return False
            dirty = self._let_go(sid, agent)
            if dirty is not None and self._is_past(deadline):
                return False
        if close is not None:
            close()
        return True

    def drain_all_on_shutdown(self, timeout: float | None = None) -> list[str]:
        """Wait for commits in flight, then commit all that is dirty, within `timeout` seconds in all.

        Returns the sessions that are still dirty, for a last word to the user. A commit that is stuck is
        left behind on its daemon thread.
        """
        deadline = self._deadline(timeout)
        tried: set[str] = set()
        left = self._busy()
        while (todo := [sid for sid in left if sid not in tried]) and not self._is_past(deadline):
            tried |= set(todo) - self._drain(todo, deadline)
            left = self._busy()
        # A commit in flight whose work is recorded already only has to end.
        if owed := self._dirty():
            logger.warning("lifecycle.left_uncommitted", extra={"sessions": owed})
        return owed

    # one commit

    def _commit_oldest(self, sid: str, agent: MemoryCommitter | None, deadline: float | None) -> Commit:
        """One attempt. Whatever is raised on the way, nothing stays in flight."""
        commit = Commit(threading.get_ident())
        try:
            begun = self._begin(sid, agent, commit, deadline)
            commit.outcome = self._run(sid, *begun) if isinstance(begun, tuple) else begun
        except Exception:
            logger.exception("lifecycle.commit_failed", extra={"session": sid})
        finally:
            self._end(sid, commit)
        return commit

    def _begin(
        self, sid: str, agent: MemoryCommitter | None, commit: Commit, deadline: float | None
    ) -> tuple[Segment, MemoryCommitter] | Outcome:
        """Take the oldest segment for this commit, once no other is in flight."""
        while True:
            row = self._read(sid)
            with self._lock:
                tracked = self._refreshed(sid, row)
                other = tracked.in_flight
                if other is None:
                    taken = tracked.dirty.take(tracked.agent if agent is None else agent)
                    if taken is None:
                        return Outcome.UNOWNED if len(tracked.dirty) else Outcome.CLEAN
                    commit.segment, commit.owner = taken
                    self._places.add(commit.owner, sid)
                    commit.behind = len(tracked.dirty) - 1
                    tracked.in_flight = commit
                    return taken
            # A commit that asks for another of its own session would wait for itself.
            if deadline is None or other.thread == commit.thread or not self._wait(other.done, deadline):
                return Outcome.BUSY

    def _run(self, sid: str, segment: Segment, owner: MemoryCommitter) -> Outcome:
        if owner.commit_memory_session() is False:
            logger.warning("lifecycle.commit_refused", extra={"session": sid})
            return Outcome.FAILED
        if segment.stored and self._store is not None:
            self._store.mark_committed(sid, segment.last)
        return Outcome.COMMITTED

    def _end(self, sid: str, commit: Commit) -> None:
        with self._lock:
            tracked = self._sessions.get(sid)
            if tracked is not None and tracked.in_flight is commit and commit.segment is not None:
                tracked.dirty.settle(commit.segment, committed=commit.outcome is Outcome.COMMITTED)
                tracked.in_flight = None
                if commit.owner is not None and not tracked.knows(commit.owner):
                    self._places.discard(commit.owner, sid)
            commit.done.set()

    # eviction and drain

    def _let_go(self, sid: str, agent: MemoryCommitter) -> str | None:
        """Drop the agent's handle if it owes nothing any more; else a session to commit first.

        One step under the lock, so that no mark can fall to an agent that is about to be closed.
        """
        with self._lock:
            if self._tracked(sid).dirty.is_unowned():
                return sid
            its = [(each, self._sessions[each]) for each in self._places.of(agent) if each in self._sessions]
            for each, tracked in sorted(its, key=lambda one: one[1].number):
                if tracked.needs(agent):
                    return each
            for _, tracked in its:
                if tracked.agent is agent:
                    tracked.agent = None
            self._places.forget(agent)
            return None

    def _busy(self) -> list[str]:
        with self._lock:
            return [sid for sid, tracked in self._sessions.items() if tracked.is_busy()]

    def _dirty(self) -> list[str]:
        with self._lock:
            return [sid for sid, tracked in self._sessions.items() if len(tracked.dirty)]

    def _drain(self, sids: Sequence[str], deadline: float) -> set[str]:
        """Commit these sessions side by side, so that one that is stuck holds up no other.

        Returns those that were clean when their turn ended; they may be dirty again.
        """
        clean: set[str] = set()
        pool = DaemonPool("lifecycle-drain", workers=min(len(sids), DRAIN_WORKERS), backlog=len(sids))
        ends = {sid: threading.Event() for sid in sids}
        try:
            for sid, end in ends.items():
                try:
                    future = pool.submit(self._drain_session, sid, deadline, clean)
                except PoolSaturated:
                    # An interpreter that is exiting starts no threads; this one still runs.
                    self._drain_session(sid, deadline, clean)
                    end.set()
                else:
                    future.add_done_callback(functools.partial(drained, sid, end))
            for end in ends.values():
                self._wait(end, deadline)
        finally:
            pool.close(0)
        return clean

    def _drain_session(self, sid: str, deadline: float, clean: set[str]) -> None:
        outcome = Outcome.COMMITTED
        while outcome is Outcome.COMMITTED and not self._is_past(deadline):
            outcome = self._commit_oldest(sid, None, deadline).outcome
        if outcome is Outcome.CLEAN:
            clean.add(sid)

    # what is known

    def _read(self, sid: str) -> Session | None:
        return None if self._store is None else self._store.get_session(sid)

    def _refreshed(self, sid: str, row: Session | None) -> Tracked:
        tracked = self._tracked(sid)
        if row is not None:
            tracked.dirty.learn(row.generation, row.committed_generation)
        return tracked

    def _tracked(self, sid: str) -> Tracked:
        tracked = self._sessions.get(sid)
        if tracked is None:
            tracked = self._sessions[sid] = Tracked(next(self._numbers))
        return tracked

    # time

    def _deadline(self, timeout: float | None) -> float:
        seconds = self._commit_timeout if timeout is None else checked_timeout(timeout)
        return self._clock.monotonic() + seconds

    def _is_past(self, deadline: float) -> bool:
        return self._clock.monotonic() > deadline

    def _wait(self, event: threading.Event, deadline: float) -> bool:
        left = deadline - self._clock.monotonic()
        return self._clock.wait(event, left) if left > 0 else event.is_set()


def drained(sid: str, end: threading.Event, drain: Future[None]) -> None:
    """Let the drain go on. A commit that ended its thread has nobody else to report it."""
    error = None if drain.cancelled() else drain.exception()
    if error is not None:
        logger.error("lifecycle.commit_died", extra={"session": sid}, exc_info=error)
    end.set()


def checked_timeout(seconds: float) -> float:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"a timeout is a number of seconds from 0, not {seconds}")
    return seconds
