"""`PostgresNotifications`: tells the other processes on a database at once that something was stored.

One connection of its own listens and notifies. PostgreSQL lets transactions that notify commit one after
another, each with a write to the disk; so no change of the store notifies by itself. What was committed in
the meantime is told by one statement that waits for no disk. A connection that is lost is made again, and
then counts as a change: something may have been missed. Where nobody can listen (a pooler that gives each
transaction another connection), nothing is told and everybody looks now and again, as without it.
"""

import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import sql

from holdfast.core.clock import SystemClock
from holdfast.sessions.contract import LONGEST_NOTE
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.connections import connect_settings
from holdfast.sessions.postgres.pooler import serving_process
from holdfast.sessions.postgres.schema import Connection

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.005
"""What is committed within this time is told by one statement."""
RECONNECT_SECONDS = (0.5, 10.0)
MOST_NOTES = 1_000
"""Notes that can't be sent for so long are dropped, the oldest first: the store has what they tell."""


class PostgresNotifications:
    """Listens from the first subscription on, in a thread of its own, until it is closed."""

    def __init__(self, address: Address, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._clock = SystemClock()
        self._pid = os.getpid()
        self._lock = threading.Lock()  # guards what follows
        self._subscribers: list[Callable[[str], object]] = []
        self._notes: deque[str] = deque(maxlen=MOST_NOTES)
        self._changed = False
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._bell, self._heard = socket.socketpair()
        self._bell.setblocking(False)
        self._heard.setblocking(False)
        self._channel, self._backend = "", 0
        self.is_listening = False
        """Whether other processes are heard just now."""

    def subscribe(self, hear: Callable[[str], object]) -> Callable[[], None]:
        """Call `hear`, on the thread, with each note of another process, and with "" at each change."""
        with self._lock:
            self._subscribers.append(hear)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="holdfast-notify", daemon=True)
                self._thread.start()
        return lambda: self._unsubscribe(hear)

    def _unsubscribe(self, hear: Callable[[str], object]) -> None:
        with self._lock, suppress(ValueError):
            self._subscribers.remove(hear)

    def changed(self) -> None:
        """Something was committed here: tell it soon."""
        if self._thread is not None and not self._changed:
            self._changed = True
            self._ring()

    def send(self, note: str) -> None:
        """Send a note to the other processes. It may be lost: the store has what it tells."""
        if self._thread is not None and len(note.encode()) <= LONGEST_NOTE:
            self._notes.append(note)
            self._ring()

    def close(self, timeout: float) -> None:
        """Tell what is not told yet, and stop."""
        self._closing.set()
        thread = self._thread
        if os.getpid() != self._pid:
            return
        if thread is None:
            self._bell.close()
            self._heard.close()
            return
        self._ring()
        thread.join(timeout)

    def _ring(self) -> None:
        with suppress(OSError):  # full: it rings already; closed: nobody tells anything any more
            self._bell.send(b"!")

    def _run(self) -> None:
        pause = RECONNECT_SECONDS[0]
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    pause = RECONNECT_SECONDS[0]
                    self.is_listening = True
                    self._hear("")
                    self._serve(connection)
            except psycopg.Error as error:
                logger.info("store.notifications_lost", extra={"cause": str(error).strip()})
            finally:
                self.is_listening = False
            self._clock.wait(self._closing, pause)
            pause = min(2 * pause, RECONNECT_SECONDS[1])
        self._bell.close()
        self._heard.close()

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(
            self._address.conninfo, **connect_settings(self._patience), prepare_threshold=None
        )
        try:
            connection.execute("set synchronous_commit to off")
            connection.add_notify_handler(self._take)
            # A database may have several stores, each in a schema of its own.
            row = connection.execute("select 'holdfast:' || md5(current_schema())").fetchone()
            self._channel = str(row[0]) if row else ""
            self._backend = serving_process(connection)
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
        except BaseException:
            connection.close()
            raise
        return connection

    def _serve(self, connection: Connection) -> None:
        """Tell and hear until the program ends or the connection is lost."""
        # Not `select`, which knows no file above 1,024.
        watcher = select.poll()
        watcher.register(connection.fileno(), select.POLLIN)
        watcher.register(self._heard, select.POLLIN)
        while True:
            is_last = self._closing.is_set()
            self._tell(connection)
            if is_last:
                return
            ready = {file for file, _ in watcher.poll()}
            if self._heard.fileno() in ready:
                self._clock.wait(self._closing, PAUSE_SECONDS)
                with suppress(BlockingIOError):
                    self._heard.recv(65_536)
            if connection.fileno() in ready:
                connection.execute("")  # takes in what has come, and finds that the server has hung up

    def _tell(self, connection: Connection) -> None:
        notes = [self._notes.popleft() for _ in range(len(self._notes))]
        if self._changed:
            self._changed = False
            notes.append("")
        if notes:
            connection.execute(
                "select pg_notify(%s, note) from unnest(%s::text[]) note", (self._channel, notes)
            )

    def _take(self, notify: psycopg.Notify) -> None:
        if notify.pid != self._backend:
            self._hear(notify.payload)

    def _hear(self, note: str) -> None:
        with self._lock:
            subscribers = list(self._subscribers)
        for hear in subscribers:
            hear(note)
