"""The one writer: a daemon thread that merges what is waiting into one transaction and one fsync.

A unit of work that fails is undone alone and raises to its own caller. A caller gets its answer only
after the commit, so an answer means the data is on disk, in the file that others find at its path.
"""

import asyncio
import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.core.errors import StoreBusy, StoreClosed
from holdfast.sessions.contract import Transaction
from holdfast.sessions.sqlite.connection import SqliteFile
from holdfast.sessions.sqlite.dialect import SqliteDialect
from holdfast.sessions.sqlite.errors import UNBINDABLE, UNREADABLE, translate
from holdfast.sessions.sqlite.open_files import OpenFiles
from holdfast.sessions.sqlite.schema import open_database
from holdfast.sessions.sqlite.search_index import FAR_BEHIND, index_batch
from holdfast.sessions.sqlite.work_queue import AwaitedWork, Work, WorkQueue, answer

T = TypeVar("T")

logger = logging.getLogger(__name__)

IDLE_SECONDS = 0.05
NOTICE_SECONDS = 0.5


class GroupWriter:
    """Runs units of work in the order they were submitted, many to a commit."""

    def __init__(self, file: SqliteFile, queries: Callable[[Any], Any]) -> None:
        self._file = file
        self._connection = open_database(file)
        self.files = None if file.in_memory else OpenFiles(self._connection, file.path)
        self._transaction = Transaction(
            self._connection, queries(self._connection), SqliteDialect(), alone=True
        )
        self._queue = WorkQueue()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
        self._thread.start()

    def write(self, run: Callable[[Transaction], T]) -> T:
        """Run in the next group; returns after its commit, or raises what went wrong."""
        work = Work(run)
        # The writer thread doesn't exist in a forked child.
        if os.getpid() != self._pid or not self._queue.put(work):
            raise StoreClosed(self._file.path)
        while not work.done.acquire(timeout=NOTICE_SECONDS):
            # When the interpreter exits, this thread's partner is frozen and never answers.
            if sys.is_finalizing():
                raise StoreClosed(self._file.path)
        if work.error is not None:
            raise work.error
        result: T = work.result
        return result

    def post(self, run: Callable[[Transaction], object]) -> None:
        """Run in the group of whatever is submitted next, before it; a failure is logged."""
        if os.getpid() != self._pid or not self._queue.put(Work(run, posted=True), rouse=False):
            raise StoreClosed(self._file.path)

    def submit(self, run: Callable[[Transaction], T]) -> "asyncio.Future[T]":
        """Like `write`, for an event loop: the outcome comes after the commit."""
        work = AwaitedWork(run)
        if os.getpid() != self._pid or not self._queue.put(work):
            raise StoreClosed(self._file.path)
        return work.outcome

    def close(self, seconds: float | None = None) -> None:
        """Finish what was submitted, then close the connection; `seconds` is how long this waits at most."""
        if os.getpid() == self._pid:
            self._queue.close()
            if seconds is not None:
                self._thread.join(seconds)
                return
            while self._thread.is_alive() and not sys.is_finalizing():
                self._thread.join(NOTICE_SECONDS)

    def _serve(self) -> None:
        indexed = 0
        try:
            while True:
                behind = self._connection.total_changes - indexed
                group = self._queue.take(IDLE_SECONDS if behind else None)
                if group is None:
                    return
                if group:
                    self._finish(group)
                if not group or behind > FAR_BEHIND:
                    batch = Work(index_batch)
                    # Callers come first: while others hold the file, the batch is put off.
                    self._attempt([batch], savepoints=False, patient=False)
                    # One that failed for another reason is left to the next search.
                    if not batch.result and not isinstance(batch.error, StoreBusy):
                        indexed = self._connection.total_changes
        except sqlite3.Error:
            logger.exception("store.writer_died", extra={"store": self._file.path})
        finally:
            self._connection.close()
            self._dismiss()

    def _dismiss(self) -> None:
        """Answer whoever still waits: nothing more is written here."""
        self._queue.close()
        while group := self._queue.take(None):
            for work in group:
                work.error = StoreClosed(self._file.path)
            answer(group)

    def _finish(self, group: list[Work]) -> None:
        """Give every unit of work its outcome, in as few transactions as that takes."""
        try:
            if not self._attempt(group, savepoints=False) and not self._attempt(group, savepoints=True):
                for work in group:
                    self._attempt([work], savepoints=False)
        except BaseException as error:  # noqa: BLE001 - a caller is never left waiting
            for work in group:
                work.error = self._named(error)
        answer(group)

    def _attempt(self, group: list[Work], *, savepoints: bool, patient: bool = True) -> bool:
        """Run a group in one transaction; False when all of it was undone and must run again.

        A savepoint costs a copy of every page it guards. So a group runs without them first, and only
        when one of it fails, again with them: then that one alone is undone. A failure that undoes the
        whole transaction (a full disk, an I/O error) leaves each to be tried alone.
        """
        for work in group:
            work.error = work.result = None
        try:
            self._begin(patient=patient)
        except sqlite3.Error as error:
            for work in group:
                work.error = self._named(error)
            return True
        try:
            for work in group:
                if savepoints:
                    self._run_in_savepoint(work)
                else:
                    work.result = work.run(self._transaction)
            if self.files is not None:
                self.files.require()
            self._connection.execute("commit")
        except BaseException as error:  # noqa: BLE001 - it goes to the caller, whatever it is
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            if len(group) > 1:
                return False
            group[0].error = self._named(error)
        return True

    def _begin(self, *, patient: bool) -> None:
        if patient:
            self._file.patiently(lambda: self._connection.execute("begin immediate"))
        else:
            self._connection.execute("begin immediate")

    def _run_in_savepoint(self, work: Work) -> None:
        self._connection.execute("savepoint one")
        try:
            work.result = work.run(self._transaction)
        except BaseException as error:
            if not self._connection.in_transaction:
                raise
            work.error = self._named(error)
            self._connection.execute("rollback to one")
        self._connection.execute("release one")

    def _named(self, error: BaseException) -> BaseException:
        if not isinstance(error, (sqlite3.Error, *UNBINDABLE, *UNREADABLE)):
            return error
        named = translate(error, self._file.path, self._file.patience)
        named.__cause__ = error
        return named
