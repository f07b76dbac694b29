"""When an account may make its next call: one budget for all that it sends, edits and shows in its chats.

A chat makes one call at a time, with a least time between two, longer in a group; the account makes so many
calls in a second.
Sends go before edits, edits before "typing"; among calls of one kind the chats take turns. An edit or a
"typing" that waits is replaced by a newer one of the same message. When the platform asks to slow down, only
that chat waits, or the account if the platform means it. Everything runs on one event loop.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError
from holdfast.gateway.contract import AdapterTraits, NotTaken, SlowDown

TurnKind = Literal["send", "edit", "typing"]
KINDS: tuple[TurnKind, ...] = ("send", "edit", "typing")
"""The first goes first."""
MOST_WAITING = 10_000
SWEEP_AT = 1_000
"""With so many chats those that are idle are forgotten."""
ROUNDING = 1e-6
"""A wait in seconds that is no more than the error of adding times."""
Pause = Callable[[float], Awaitable[None]]


class TurnReplaced(HoldfastError):
    """A newer edit of this message, or a newer "typing", came while this one waited; it need not be made."""


class BudgetFull(NotTaken):
    """So many calls wait already that this one was not queued."""


@dataclass(eq=False, slots=True)
class _Waiter:
    chat: str
    kind: TurnKind
    key: object
    """What a newer one must have in common to replace this one."""
    granted: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class _Chat:
    """What waits in one chat, and when its next call may be made."""

    seconds: float
    """The least time from a message or an edit to the next call."""
    ready_at: float = -math.inf
    is_busy: bool = False
    queues: dict[TurnKind, dict[object, _Waiter]] = field(
        default_factory=lambda: {kind: {} for kind in KINDS}
    )

    def is_idle(self, now: float) -> bool:
        return not self.is_busy and self.ready_at <= now and not any(self.queues.values())


class RateBudget:
    """The budget of one account.

    `clock` says what time it is, `pause` waits. Tests give both, so that no time passes.
    """

    def __init__(
        self,
        traits: AdapterTraits,
        clock: Clock,
        pause: Pause = asyncio.sleep,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._chat_seconds = traits.chat_seconds
        self._group_seconds = max(traits.chat_seconds, traits.group_seconds)
        # Less than one call a second is one call in a longer time.
        self._window = max(1.0, 1.0 / traits.account_per_second)
        self._most_in_window = max(1, int(traits.account_per_second))
        self._ends: deque[float] = deque(maxlen=self._most_in_window)
        """When the last calls ended. The platform counted each at some moment before its end."""
        self._running = 0
        self._clock = clock
        self._pause = pause
        self._most_waiting = most_waiting
        self._chats: dict[str, _Chat] = {}
        self._rings: dict[TurnKind, OrderedDict[str, None]] = {kind: OrderedDict() for kind in KINDS}
        """For each kind the chats in which one waits; the one that had its turn longest ago is the first."""
        self._account_ready_at = -math.inf
        self._waiting = 0
        self._sweep_at = SWEEP_AT
        self._timer: asyncio.Future[None] | None = None
        self._timer_at = math.inf
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return self._waiting

    @asynccontextmanager
    async def turn(
        self, chat: str, kind: TurnKind, about: str = "", *, is_group: bool = False
    ) -> AsyncGenerator[None, None]:
        """Wait until this call may be made; the call is the body. `about` is the message it edits.

        A newer call about the same message replaces an edit that waits, which gets `TurnReplaced`. The edit
        that puts in the answer asks as `send` with `about`: it goes first, and nothing replaces it. A
        `SlowDown` of the body is noted and passed on; to try again, ask for another turn. `BudgetFull`: too
        many wait.
        """
        waiter = self._enqueue(chat, kind, about, is_group=is_group)
        self._grant()
        try:
            await waiter.granted
        except BaseException:
            self._leave(waiter)
            raise
        try:
            yield
        except SlowDown as asked:
            self._slow_down(chat, asked)
            raise
        finally:
            self._release(waiter)

    def withdraw(self, chat: str, about: str = "") -> None:
        """Let no edit of this message and no "typing" wait any more: they get `TurnReplaced`."""
        state = self._chats.get(chat)
        if state is not None:
            for waiting in (state.queues["edit"].get(about), state.queues["typing"].get("")):
                if waiting is not None:
                    self._refuse(waiting, TurnReplaced("it is not wanted any more"))

    async def close(self) -> None:
        """Let nothing wait any more: those that do get `NotTaken`. Idempotent."""
        self._is_closed = True
        self._stop_timer()
        for chat in self._chats.values():
            for queue in chat.queues.values():
                for waiter in list(queue.values()):
                    self._refuse(waiter, NotTaken("the account is being closed"))

    # The queue.

    def _enqueue(self, chat: str, kind: TurnKind, about: str, *, is_group: bool) -> _Waiter:
        if self._is_closed:
            raise NotTaken("the account is closed")
        state = self._chats.get(chat) or self._add_chat(chat, is_group=is_group)
        granted = asyncio.get_running_loop().create_future()
        waiter = _Waiter(chat, kind, about if kind != "send" else granted, granted)
        replaced = _replaced_by(state, kind, about)
        # One that replaces another adds nothing to what waits.
        if self._waiting >= self._most_waiting and replaced is None:
            raise BudgetFull(f"{self._waiting} calls wait already")
        if replaced is not None:
            self._supersede(state, replaced, waiter)
        state.queues[kind][waiter.key] = waiter
        self._rings[kind].setdefault(chat)
        self._waiting += 1
        return waiter

    def _supersede(self, state: _Chat, old: _Waiter, new: _Waiter) -> None:
        if old.kind == new.kind:
            # The newer one takes over the place in the queue.
            state.queues[old.kind][old.key] = new
            self._waiting -= 1
            _fail(old, TurnReplaced("a newer one replaces it"))
        else:
            self._refuse(old, TurnReplaced("a newer one replaces it"))

    def _refuse(self, waiter: _Waiter, error: HoldfastError) -> None:
        self._remove(waiter)
        _fail(waiter, error)

    def _remove(self, waiter: _Waiter) -> bool:
        """Take it out of the queue; False when it is not there (any more)."""
        queue = self._chats[waiter.chat].queues[waiter.kind]
        if queue.get(waiter.key) is not waiter:
            return False
        del queue[waiter.key]
        self._waiting -= 1
        if not queue:
            self._rings[waiter.kind].pop(waiter.chat, None)
        return True

    def _leave(self, waiter: _Waiter) -> None:
        """It waits no longer. It may have been given its turn in the moment in which it was cancelled."""
        was_granted = (
            waiter.granted.done() and not waiter.granted.cancelled() and not waiter.granted.exception()
        )
        if was_granted:
            self._release(waiter)
        elif waiter.chat in self._chats:
            self._remove(waiter)
        if not self._waiting:
            self._stop_timer()

    def _add_chat(self, chat: str, *, is_group: bool) -> _Chat:
        if len(self._chats) >= self._sweep_at:
            now = self._clock.monotonic()
            self._chats = {name: each for name, each in self._chats.items() if not each.is_idle(now)}
            self._sweep_at = max(SWEEP_AT, 2 * len(self._chats))
        self._chats[chat] = _Chat(self._group_seconds if is_group else self._chat_seconds)
        return self._chats[chat]

    # Time.

    def _grant(self) -> None:
        """Give every turn that is due, and come back when the next one is."""
        while self._waiting and not self._is_closed:
            now = self._clock.monotonic()
            due = self._account_due()
            if due > now + ROUNDING:
                self._wake_at(due, now)
                return
            waiter, due = self._next(now)
            if waiter is None:
                self._wake_at(due, now)
                return
            self._remove(waiter)
            if waiter.granted.done():
                continue  # it was cancelled, and its task does not know yet
            chat = self._chats[waiter.chat]
            chat.is_busy = True
            self._running += 1
            waiter.granted.set_result(None)
        self._stop_timer()

    def _account_due(self) -> float:
        """When the account may make its next call; infinity while only the end of a call can tell."""
        free = self._most_in_window - self._running
        if free <= 0:
            return math.inf
        ended = self._ends[-free] + self._window if len(self._ends) >= free else -math.inf
        return max(self._account_ready_at, ended)

    def _next(self, now: float) -> tuple[_Waiter | None, float]:
        """Whose turn it is; if it is nobody's, when it will be somebody's."""
        due = math.inf
        for kind in KINDS:
            for name in self._rings[kind]:
                chat = self._chats[name]
                if chat.is_busy:
                    continue
                if chat.ready_at <= now + ROUNDING:
                    for each in self._rings.values():
                        if name in each:
                            each.move_to_end(name)
                    return next(iter(chat.queues[kind].values())), now
                due = min(due, chat.ready_at)
        return None, due

    def _release(self, waiter: _Waiter) -> None:
        now = self._clock.monotonic()
        state = self._chats[waiter.chat]
        state.is_busy = False
        # "Typing" is no message, so it costs a group less.
        seconds = self._chat_seconds if waiter.kind == "typing" else state.seconds
        state.ready_at = max(state.ready_at, now + seconds)
        self._running -= 1
        self._ends.append(now)
        self._grant()

    def _slow_down(self, chat: str, asked: SlowDown) -> None:
        until = self._clock.monotonic() + asked.seconds
        if asked.whole_account:
            self._account_ready_at = max(self._account_ready_at, until)
        else:
            self._chats[chat].ready_at = max(self._chats[chat].ready_at, until)

    def _wake_at(self, moment: float, now: float) -> None:
        if moment == math.inf or (self._timer is not None and self._timer_at <= moment):
            return
        self._stop_timer()
        self._timer_at = moment
        self._timer = asyncio.ensure_future(self._wake_after(moment - now))

    async def _wake_after(self, seconds: float) -> None:
        await self._pause(seconds)
        self._timer = None
        self._grant()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _replaced_by(chat: _Chat, kind: TurnKind, about: str) -> _Waiter | None:
    if kind == "send":
        return chat.queues["edit"].get(about) if about else None
    return chat.queues[kind].get(about)


def _fail(waiter: _Waiter, error: HoldfastError) -> None:
    if not waiter.granted.done():
        waiter.granted.set_exception(error)
