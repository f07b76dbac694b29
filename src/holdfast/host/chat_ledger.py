"""`Chats`: what a gateway asks of the store: the ledger of each account of a chat platform.

One process at a time receives and sends for an account, under the account's lease. `ChatLedger` is the hold
of that lease. What a person decides (who may talk, what is sent again) needs no lease.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.core.messages import text_of
from holdfast.host.store_calls import StoreCalls
from holdfast.process import is_provably_gone
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from holdfast.sessions.chat_people import ChatPerson, Pairing
from holdfast.sessions.chat_places import ChatPlace
from holdfast.sessions.chat_posts import ChatPost
from holdfast.sessions.held_lease import HeldLease

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class ServedAccount:
    """How an account stands in the process that serves it, or waits to."""

    state: str
    """waiting, connecting, catching up, connected, unreachable or refused."""
    detail: str
    """Why, where it is not connected."""
    name: str
    """The name that the bot has on the platform; empty until it is signed in."""


@dataclass(frozen=True, slots=True)
class ChatAccountStatus:
    """How an account stands, as the store has it."""

    account: str
    held: bool
    """Whether a process receives and sends for it now."""
    cursors: dict[str, str]
    events: dict[str, int]
    """How many events are in each state."""
    posts: dict[str, int]
    """How many posts are in each state."""
    failed: list[ChatPost]
    people: list[ChatPerson]
    pairings: list[Pairing]
    serving: ServedAccount | None = None
    """How it stands here; None: this process has no gateway for it."""


class Chats:
    """The accounts of chat platforms in a host's store. Every method on the host's loop."""

    def __init__(self, db: SessionDB, call: StoreCalls, holder: str) -> None:
        self._db = db
        self._call = call
        self._holder = holder
        self.events, self.posts, self.people = db.chat_events, db.chat_posts, db.chat_people
        self.schedules = db.schedules
        self._serving: dict[str, Callable[[], ServedAccount]] = {}
        self.platforms: Mapping[str, str] = {}
        """The platform of each account that the settings name."""

    def answer_of(self, turn_id: str) -> str:
        """What a turn answered, as it is on record. Blocking."""
        said = [text_of(each) for each in self._db.turns.messages(turn_id) if each["role"] == "assistant"]
        return said[-1] if said else ""

    def scope_of(self, session_id: str) -> str | None:
        """For whom a conversation is held; None when it has yet to begin. Blocking."""
        session = self._db.get_session(session_id)
        return None if session is None else session.scope

    async def __call__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of `events`, `posts` or `people` off the loop."""
        return await self._call(fn, *args, **kwargs)

    def serve(self, account: str, standing: Callable[[], ServedAccount]) -> None:
        """From now on this process serves the account; `standing` says how it stands."""
        self._serving[account] = standing

    def set_up(self, platforms: Mapping[str, str]) -> None:
        """Say which accounts the settings name, with the platform of each."""
        self.platforms = dict(platforms)

    async def accounts(self) -> list[str]:
        """The accounts of the settings, then others that the store knows: set up since, or taken away."""
        stored = await self._call(self._db.chat_places.accounts)
        return list(dict.fromkeys([*self.platforms, *stored]))

    async def waiting(self) -> int:
        """How much waits for a person: strangers, and what could not be delivered."""
        return await self._call(self._db.chat_places.waiting)

    async def places(self, roots: Iterable[str]) -> dict[str, list[ChatPlace]]:
        """Where these conversations live; one that lives in no chat is left out."""
        return await self._call(self._db.chat_places.of, list(roots))

    async def places_of_rooms(self, rooms: Iterable[int]) -> dict[int, ChatPlace]:
        """What the rooms are, in words."""
        return await self._call(self._db.chat_places.of_rooms, list(rooms))

    async def claim(self, account: str) -> "ChatLedger | None":
        """Take the account's lease and keep it; None while another process holds it."""
        lease = await self._call(self._acquire, account_lease(account))
        return None if lease is None else ChatLedger(self, account, lease)

    def _acquire(self, name: str) -> HeldLease | None:
        current = self._db.leases.current(name)
        if current is not None and is_provably_gone(current.holder):
            self._db.leases.release(current)
        return self._db.keeper.acquire(name, self._holder)

    def require(self, account: str) -> None:
        self._db.keeper.require(account_lease(account), self._holder)

    async def release(self, account: str) -> None:
        await self._call(self._db.keeper.release, account_lease(account), self._holder)

    async def status(self, account: str) -> ChatAccountStatus:
        """How the account stands."""
        standing = self._serving.get(account)
        here = standing() if standing else None

        def read() -> ChatAccountStatus:
            return ChatAccountStatus(
                account,
                self._db.leases.current(account_lease(account)) is not None,
                self.events.cursors(account),
                self.events.counts(account),
                self.posts.counts(account),
                self.posts.failed(account),
                list(self.people.list(account)),
                list(self.people.pairings(account)),
                here,
            )

        return await self._call(read)


class ChatLedger:
    """An account that this process holds: its events, posts and people."""

    def __init__(self, chats: Chats, account: str, lease: HeldLease) -> None:
        self._chats = chats
        self.account = account
        self.lease = lease
        self.events, self.posts, self.people = chats.events, chats.posts, chats.people

    async def __call__(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of `events`, `posts` or `people` off the loop."""
        return await self._chats(fn, *args, **kwargs)

    async def of_account(
        self, fn: Callable[Concatenate[str, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same for a method whose first argument is the account."""
        return await self._chats(fn, self.account, *args, **kwargs)

    async def under_lease(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:  # noqa: ANN401
        """The same for a method that only the holder of the account may call."""
        return await self._chats(partial(fn, *args, **kwargs, lease=self.lease))

    def require(self) -> None:
        """Raise `LeaseLost` once a renewal has found that another process has the account. No I/O."""
        self._chats.require(self.account)

    async def release(self) -> None:
        """Let another process take the account."""
        await self._chats.release(self.account)
