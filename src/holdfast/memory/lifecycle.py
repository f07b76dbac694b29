"""`SessionLifecycle`: tracks completed turns until a boundary commits them to memory, and by which agent.

A completed turn marks its session dirty (`mark_turn_completed`); a boundary commits it. The class is
synchronous, thread-safe and needs no event loop. One commit runs per session at a time, on its caller's
thread, without a lock. With a store, a session is dirty when its `generation` is above its
`committed_generation`, so the mark survives a crash. Read `segments.py` first.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import PoolSaturated, StoreClosed
from holdfast.memory.contract import MemoryCommitter
from holdfast.memory.segments import Segment, Segments
from holdfast.memory.tracked_session import CommitOutcome, MemoryCommit, TrackedSession
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Session

logger = logging.getLogger(__name__)

# Shorter than the shutdown of a process may take, so a provider that hangs can't use up all of it.
COMMIT_TIMEOUT = 5.0
DRAIN_WORKERS = 8


class SessionLifecycle:
    """Marks, commits, evictions and the drain at shutdown (clauses L1 to L14)."""

    def __init__(
        self,
        store: SessionDB | None = None,
        *,
        clock: Clock | None = None,
        commit_timeout: float = COMMIT_TIMEOUT,
    ) -> None:
        """With a `store`, its generations decide which of its sessions are dirty, also after a crash.

        `commit_timeout` limits, in seconds, each wait for a running commit, and the drain as a whole.
        """
        self._store = store
        self._clock = clock or SystemClock()
        self._commit_timeout = checked_timeout(commit_timeout)
        # Guards _sessions, all that is in it, _by_agent and _highest_count.
        # Never held across the store or an agent.
        self._lock = threading.Lock()
        self._sessions: dict[str, TrackedSession] = {}
        """The sessions with an agent, uncommitted turns or a running commit; others are not tracked."""
        self._by_agent: dict[int, dict[str, None]] = {}
        """The tracked sessions that an agent, by its `id`, was registered for or had turns of."""
        self._highest_count = 0
        """The highest turn number of a dropped session that is not in the store; numbers never decrease."""

    # agents

    def register_agent(self, sid: str | None, agent: MemoryCommitter) -> None:
        """Later turns of the session belong to this agent. Dirty segments keep their owner."""
        if not sid:
            return
        with self._lock:
            self._tracked(sid).agent = agent
            self._join(sid, agent)

    def unregister_agent(self, sid: str | None) -> None:
        """Remove the session's agent. Dirty segments stay dirty and keep their owner."""
        if not sid:
            return
        with self._lock:
            self._tracked(sid).agent = None
            self._drop_if_settled(sid)

    def forget(self, *sids: str | None) -> None:
        """Stop tracking sessions that were deleted."""
        with self._lock:
            for sid in filter(None, sids):
                self._drop(sid)

    # the dirty mark

    def mark_turn_completed(self, sid: str | None, agent: MemoryCommitter | None = None) -> int:
        """Record a turn completed by `agent` or the registered agent; returns the session's generation.

        For a session in the store, call it after `turns.complete`, which sets that generation.
        """
        if not sid:
            return 0
        return self._mark(sid, self._read_if_open(sid), agent)

    def mark_stored_turn(self, session: Session, agent: MemoryCommitter) -> int:
        """Note that the session has a turn to commit at its next boundary; its row was just read."""
        return self._mark(session.id, session, agent)

    def _mark(self, sid: str, row: Session | None, agent: MemoryCommitter | None) -> int:
        with self._lock:
            tracked = self._refreshed(sid, row)
            owner = tracked.agent if agent is None else agent
            if owner is not None:
                self._join(sid, owner)
            if row is None:
                return tracked.dirty.count(owner)
            if owner is not None:
                tracked.dirty.claim(row.generation, owner)
            return row.generation

    def has_uncommitted_work(self, sid: str | None) -> bool:
        if not sid:
            return False
        row = self._read_if_open(sid)
        with self._lock:
            dirty = len(self._refreshed(sid, row).dirty) > 0
            self._drop_if_settled(sid)
            return dirty

    def recover(self) -> list[str]:
        """The sessions of the store with uncommitted turns; at the start, those that a crash has left.

        Commit each with a new agent: `commit_session_memory(sid, agent, wait=True)`. On a store that
        several processes share, take the session's lease first: another process may be using it.
        """
        with suppress(StoreClosed):
            return [] if self._store is None else self._store.sessions.uncommitted()
        return []

    # the boundary

    def commit_session_memory(
        self,
        sid: str | None,
        agent: MemoryCommitter | None = None,
        wait: bool = False,
        *,
        timeout: float | None = None,
    ) -> bool:
        """Commit the oldest segment through its owner; True when this call committed it.

        `agent` commits segments without an owner. Returns False when nothing is dirty, when no agent is
        known, when the commit failed (the state stays as it was, and a retry needs no agent), and while
        another commit is running. With `wait`, it waits for that commit, at most `timeout` seconds, and then
        commits every remaining segment, oldest first: True when there was one and none failed.
        """
        if not sid:
            return False
        if not wait:
            return self._commit_oldest(sid, agent, None).outcome is CommitOutcome.COMMITTED
        deadline = self._deadline(timeout)
        commit = self._commit_oldest(sid, agent, deadline)
        if commit.outcome is not CommitOutcome.COMMITTED:
            return False
        # Only the segments that were dirty when the first commit began; newer turns belong to the next one.
        for _ in range(commit.behind):
            if self._commit_oldest(sid, agent, deadline).outcome not in (
                CommitOutcome.COMMITTED,
                CommitOutcome.CLEAN,
            ):
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
        """Evict an agent from a cache: commit its turns, wait for its running commit, remove it, close it.

        False when its turns could not be committed in time. Then the agent is neither removed nor closed,
        and the cache keeps it for another try. Call it outside the cache's lock: it runs provider code.
        """
        if not sid:
            return False
        deadline = self._deadline(timeout)
        self.has_uncommitted_work(sid)  # reads the marks of other processes from the store
        dirty = self._release_agent(sid, agent)
        while dirty is not None:
            outcome = self._commit_oldest(dirty, agent, deadline).outcome
            if outcome not in (CommitOutcome.COMMITTED, CommitOutcome.CLEAN):
                return False
            dirty = self._release_agent(sid, agent)
            if dirty is not None and self._is_past(deadline):
                return False
        if close is not None:
            close()
        return True

    def drain_all_on_shutdown(self, timeout: float | None = None) -> list[str]:
        """Wait for running commits, then commit all dirty sessions, within `timeout` seconds in total.

        Returns the sessions that are still dirty, for a message to the user. A commit that hangs stays on
        its daemon thread.
        """
        deadline = self._deadline(timeout)
        tried: set[str] = set()
        left = self._busy()
        while (todo := [sid for sid in left if sid not in tried]) and not self._is_past(deadline):
            tried |= set(todo) - self._drain(todo, deadline)
            left = self._busy()
        # A commit whose result is recorded already is not dirty, even while it still runs.
        if owed := self._dirty():
            logger.warning("lifecycle.left_uncommitted", extra={"sessions": owed})
        return owed

    # one commit

    def _commit_oldest(self, sid: str, agent: MemoryCommitter | None, deadline: float | None) -> MemoryCommit:
        """One attempt. After any exception, no commit is marked as running."""
        commit = MemoryCommit(threading.get_ident())
        try:
            begun = self._begin(sid, agent, commit, deadline)
            commit.outcome = self._run(sid, *begun) if isinstance(begun, tuple) else begun
        except Exception:
            logger.exception("lifecycle.commit_failed", extra={"session": sid})
        finally:
            self._end(sid, commit)
        return commit

    def _begin(
        self, sid: str, agent: MemoryCommitter | None, commit: MemoryCommit, deadline: float | None
    ) -> tuple[Segment, MemoryCommitter] | CommitOutcome:
        """Take the oldest segment for this commit when no other commit is running."""
        while True:
            row = self._read(sid)
            with self._lock:
                tracked = self._refreshed(sid, row)
                other = tracked.in_flight
                if other is None:
                    taken = tracked.dirty.take(tracked.agent if agent is None else agent)
                    if taken is None:
                        self._drop_if_settled(sid)
                        return CommitOutcome.UNOWNED if len(tracked.dirty) else CommitOutcome.CLEAN
                    commit.segment, commit.owner = taken
                    self._join(sid, commit.owner)
                    commit.behind = len(tracked.dirty) - 1
                    tracked.in_flight = commit
                    return taken
            # A commit that starts another one of its own session would wait for itself.
            if deadline is None or other.thread == commit.thread or not self._wait(other.done, deadline):
                return CommitOutcome.BUSY

    def _run(self, sid: str, segment: Segment, owner: MemoryCommitter) -> CommitOutcome:
        if owner.commit_memory_session() is False:
            logger.warning("lifecycle.commit_refused", extra={"session": sid})
            return CommitOutcome.FAILED
        if segment.stored and self._store is not None:
            self._store.sessions.mark_committed(sid, segment.last)
        return CommitOutcome.COMMITTED

    def _end(self, sid: str, commit: MemoryCommit) -> None:
        with self._lock:
            tracked = self._sessions.get(sid)
            if tracked is not None and tracked.in_flight is commit and commit.segment is not None:
                tracked.dirty.settle(commit.segment, committed=commit.outcome is CommitOutcome.COMMITTED)
                tracked.in_flight = None
                self._drop_if_settled(sid)
            commit.done.set()

    # eviction and drain

    def _release_agent(self, sid: str, agent: MemoryCommitter) -> str | None:
        """Remove the agent when all its turns are committed; else return a session to commit first.

        Both happen under one lock, so no new turn can be assigned to an agent that is about to be closed.
        """
        with self._lock:
            if self._tracked(sid).dirty.is_unowned():
                return sid
            mine = {each: self._sessions[each] for each in self._by_agent.get(id(agent), ())}
            for each, tracked in mine.items():
                if tracked.needs(agent):
                    return each
            for each, tracked in mine.items():
                if tracked.agent is agent:
                    tracked.agent = None
                    self._drop_if_settled(each)
            self._drop_if_settled(sid)
            return None

    def _busy(self) -> list[str]:
        with self._lock:
            return [sid for sid, tracked in self._sessions.items() if tracked.is_busy()]

    def _dirty(self) -> list[str]:
        with self._lock:
            return [sid for sid, tracked in self._sessions.items() if len(tracked.dirty)]

    def _drain(self, sids: Sequence[str], deadline: float) -> set[str]:
        """Commit these sessions in parallel, so that a commit that hangs delays no other.

        Returns the sessions that were clean afterwards; they may be dirty again by now.
        """
        clean: set[str] = set()
        pool = DaemonPool("lifecycle-drain", workers=min(len(sids), DRAIN_WORKERS), backlog=len(sids))
        ends = {sid: threading.Event() for sid in sids}
        try:
            for sid, end in ends.items():
                try:
                    pool.submit(self._drain_session, sid, deadline, clean, end)
                except PoolSaturated:
                    # An interpreter that is exiting starts no threads, so the current thread does it.
                    self._drain_session(sid, deadline, clean, end)
            for end in ends.values():
                self._wait(end, deadline)
        finally:
            pool.close(0)
        return clean

    def _drain_session(self, sid: str, deadline: float, clean: set[str], end: threading.Event) -> None:
        outcome = CommitOutcome.COMMITTED
        try:
            while outcome is CommitOutcome.COMMITTED and not self._is_past(deadline):
                outcome = self._commit_oldest(sid, None, deadline).outcome
            if outcome is CommitOutcome.CLEAN:
                clean.add(sid)
        except BaseException:
            logger.exception("lifecycle.commit_died", extra={"session": sid})
            raise
        finally:
            end.set()

    # state

    def _read(self, sid: str) -> Session | None:
        return None if self._store is None else self._store.get_session(sid)

    def _read_if_open(self, sid: str) -> Session | None:
        """The session in the store; None when the store is closed."""
        with suppress(StoreClosed):
            return self._read(sid)
        return None

    def _refreshed(self, sid: str, row: Session | None) -> TrackedSession:
        tracked = self._tracked(sid)
        if row is not None:
            tracked.dirty.learn(row.generation, row.committed_generation)
        return tracked

    def _tracked(self, sid: str) -> TrackedSession:
        tracked = self._sessions.get(sid)
        if tracked is None:
            tracked = self._sessions[sid] = TrackedSession(dirty=Segments(self._highest_count))
        return tracked

    def _drop_if_settled(self, sid: str) -> None:
        """Stop tracking a session that has no agent, no uncommitted turn and no running commit.

        Its row in the store is read again when it is needed.
        """
        tracked = self._sessions.get(sid)
        if tracked is not None and tracked.is_settled():
            self._highest_count = max(self._highest_count, tracked.dirty.counted)
            self._drop(sid)

    def _drop(self, sid: str) -> None:
        tracked = self._sessions.pop(sid, None)
        for agent in tracked.agents if tracked is not None else ():
            theirs = self._by_agent[agent]
            del theirs[sid]
            if not theirs:
                del self._by_agent[agent]

    def _join(self, sid: str, agent: MemoryCommitter) -> None:
        """Find the session by the agent from now on, without looking through all sessions."""
        self._sessions[sid].agents.add(id(agent))
        self._by_agent.setdefault(id(agent), {})[sid] = None

    # time

    def _deadline(self, timeout: float | None) -> float:
        seconds = self._commit_timeout if timeout is None else checked_timeout(timeout)
        return self._clock.monotonic() + seconds

    def _is_past(self, deadline: float) -> bool:
        return self._clock.monotonic() > deadline

    def _wait(self, event: threading.Event, deadline: float) -> bool:
        left = deadline - self._clock.monotonic()
        return self._clock.wait(event, left) if left > 0 else event.is_set()


def checked_timeout(seconds: float) -> float:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"a timeout is a number of seconds from 0, not {seconds}")
    return seconds
