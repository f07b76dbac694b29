"""Chat posts: the ledger of what is shown in chats. Each answer, notice, question and file is a row.

The answer of a turn that a chat's message opened is put here by the very transaction that ends the turn; so
is a question by the one that asks it. A post is sent as one or more parts, the platform's messages. A part is
on record as `sending` before the platform is called, so that after a crash nobody mistakes it for new. Only
the process that holds the account's lease sends.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import ChatPostNotFound, ChatPostSettled, InvalidInput, NotWaiting
from holdfast.sessions.codec import checked_name, is_storable
from holdfast.sessions.contract import SECOND, Engine, Operation, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.operations import operation

PostKind = Literal["answer", "notice", "ask", "file"]
PartState = Literal["new", "sending", "standing", "sent"]
MAX_ERROR_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class ChatPost:
    """One thing to show in a room, with its frozen route."""

    id: int
    key: str
    room_id: int
    kind: PostKind
    reply_to: str
    session_id: str | None
    turn_id: str | None
    body: dict[str, Any]
    state: str
    attempts: int
    due: int
    error: str
    created: int


@dataclass(frozen=True, slots=True)
class PostPart:
    """One message of the platform. `message_id` is the platform's, empty until it is known."""

    number: int
    body: dict[str, Any]
    state: PartState
    message_id: str
    tried: int | None
    """When it became `sending` for the last time, by the store's clock."""


@dataclass(frozen=True, slots=True)
class NewPost:
    """A post that no turn makes: a notice or a file. The same key again posts nothing."""

    key: str
    room_id: int
    body: Mapping[str, Any]
    kind: PostKind = "notice"
    reply_to: str = ""
    session_id: str | None = None
    turn_id: str | None = None


class ChatPosts:
    """What is to be sent to chat platforms, what was, and what could not be."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, post: NewPost) -> None:
        self._engine.write(put_chat_post(post))

    def open(self, turn_id: str, session_id: str) -> ChatPost | None:
        """Begin the answer of a running turn as a preview; None when it has none to show, or has begun."""
        return self._engine.write(open_chat_post(turn_id, session_id))

    def get(self, post_id: int) -> ChatPost | None:
        return self._engine.read(lambda tx: _maybe(tx.queries.get_chat_post(id=post_id)))

    def by_key(self, key: str) -> ChatPost | None:
        return self._engine.read(lambda tx: _maybe(tx.queries.chat_post_by_key(key=key)))

    def due(self, account: str) -> list[ChatPost]:
        """The next post of each room whose time has come."""
        return self._engine.read(
            lambda tx: [_post(row) for row in tx.queries.due_chat_posts(account=account)]
        )

    def is_overtaken(self, post: ChatPost) -> bool:
        """Whether something was shown in the room after this post began."""
        return self._engine.read(
            lambda tx: bool(tx.queries.is_chat_post_overtaken(id=post.id, room_id=post.room_id))
        )

    def is_due(self, room_id: int) -> bool:
        """Whether something is still to be sent in a room."""
        return self._engine.read(lambda tx: bool(tx.queries.is_chat_post_due(room_id=room_id)))

    def failed(self, account: str) -> list[ChatPost]:
        """What could not be delivered and waits for a person."""
        return self._engine.read(
            lambda tx: [_post(row) for row in tx.queries.failed_chat_posts(account=account)]
        )

    def counts(self, account: str) -> dict[str, int]:
        """How many posts are in each state."""
        return self._engine.read(
            lambda tx: dict(tuple(row) for row in tx.queries.chat_post_counts(account=account))
        )

    def parts(self, post_id: int) -> list[PostPart]:
        return self._engine.read(lambda tx: [_part(row) for row in tx.queries.chat_parts(post_id=post_id)])

    # sending

    def plan(self, post_id: int, bodies: Sequence[Mapping[str, Any]], *, lease: HeldLease) -> list[PostPart]:
        """Record the messages that the post will consist of; what is there already gets its new text."""
        return self._engine.write(plan_chat_post(post_id, bodies, lease=lease))

    def move_part(
        self,
        post_id: int,
        number: int,
        step: tuple[PartState, PartState],
        message_id: str = "",
        *,
        lease: HeldLease,
    ) -> None:
        """Take one part from a state to the next; raises `NotWaiting` when it is in another."""
        self._engine.write(move_chat_part(post_id, number, step, message_id, lease=lease))

    def defer(self, post_id: int, seconds: float, error: str, *, counted: bool, lease: HeldLease) -> None:
        """Try again later; `counted` when it counts as a failed attempt."""
        self._engine.write(defer_chat_post(post_id, seconds, error, counted=counted, lease=lease))

    def settle(
        self, post_id: int, state: Literal["sent", "failed"], error: str = "", *, lease: HeldLease
    ) -> None:
        """All of it is there, or it is set aside for a person."""
        self._engine.write(settle_chat_post(post_id, state, error, lease=lease))

    # by a person's word

    def retry(self, post_id: int) -> None:
        """Send a post again that was set aside."""
        self._engine.write(Operation("retry_chat_post", lambda tx: _person(tx, "retry_chat_post", post_id)))

    def drop(self, post_id: int) -> None:
        """Never send it."""
        self._engine.write(Operation("drop_chat_post", lambda tx: _person(tx, "drop_chat_post", post_id)))


def post_turn_end(tx: Transaction, turn_id: str, session_id: str, body: Mapping[str, Any]) -> None:
    """Post how a turn ended to the chat that its first message came from, if it came from one."""
    tx.queries.ahead.post_turn_end(turn_id=turn_id, session_id=session_id, body=_json(body))


def post_ask(tx: Transaction, turn_id: str, session_id: str, event: Mapping[str, Any]) -> None:
    """Post a question to the chat of its turn. Asked again after a restart, it keeps its message."""
    call = str(event.get("call_id") or event.get("ask_id") or "")
    tx.queries.post_ask(
        key=f"ask:{turn_id}:{call}", turn_id=turn_id, session_id=session_id, body=_json(event)
    )


@operation
def put_chat_post(post: NewPost) -> Callable[[Transaction], None]:
    """Post a notice or a file."""
    checked_name("a post's key", post.key)
    columns = {
        "key": post.key,
        "room_id": post.room_id,
        "kind": post.kind,
        "reply_to": post.reply_to,
        "session_id": post.session_id,
        "turn_id": post.turn_id,
        "body": _json(post.body),
    }

    def work(tx: Transaction) -> None:
        tx.queries.put_chat_post(**columns)

    return work


@operation
def open_chat_post(turn_id: str, session_id: str) -> Callable[[Transaction], ChatPost | None]:
    """Begin the answer of a running turn as a preview."""
    return lambda tx: _maybe(tx.queries.open_chat_post(turn_id=turn_id, session_id=session_id))


@operation
def plan_chat_post(
    post_id: int, bodies: Sequence[Mapping[str, Any]], *, lease: HeldLease
) -> Callable[[Transaction], list[PostPart]]:
    """Record the messages that a post will consist of."""
    texts = [_json(body) for body in bodies]

    def work(tx: Transaction) -> list[PostPart]:
        lease.require(tx)
        for number, text in enumerate(texts):
            tx.queries.put_chat_part(post_id=post_id, number=number, body=text)
        return [_part(row) for row in tx.queries.chat_parts(post_id=post_id)]

    return work


@operation
def move_chat_part(
    post_id: int, number: int, step: tuple[PartState, PartState], message_id: str = "", *, lease: HeldLease
) -> Callable[[Transaction], None]:
    """Take one part from a state to the next."""
    old, new = step
    if not is_storable(message_id):
        raise InvalidInput("a message's id must be plain text without NUL or half surrogate pairs")

    def work(tx: Transaction) -> None:
        lease.require(tx)
        moved = tx.queries.set_chat_part(
            post_id=post_id, number=number, old=old, new=new, message_id=message_id
        )
        if not moved:
            raise NotWaiting(post_id, f"not {old}")

    return work


@operation
def defer_chat_post(
    post_id: int, seconds: float, error: str, *, counted: bool, lease: HeldLease
) -> Callable[[Transaction], None]:
    """Let a post wait for its next attempt."""
    delay, text = int(max(0.0, seconds) * SECOND), _error(error)

    def work(tx: Transaction) -> None:
        lease.require(tx)
        tx.queries.defer_chat_post(id=post_id, delay_us=delay, counted=int(counted), error=text)

    return work


@operation
def settle_chat_post(
    post_id: int, state: Literal["sent", "failed"], error: str = "", *, lease: HeldLease
) -> Callable[[Transaction], None]:
    """Record that all of a post is there, or that it waits for a person."""
    text = _error(error)

    def work(tx: Transaction) -> None:
        lease.require(tx)
        tx.queries.settle_chat_post(id=post_id, state=state, error=text)

    return work


def _person(tx: Transaction, query: str, post_id: int) -> None:
    if not getattr(tx.queries, query)(id=post_id):
        post = _maybe(tx.queries.get_chat_post(id=post_id))
        raise ChatPostNotFound(post_id) if post is None else ChatPostSettled(post_id, post.state)


def _json(body: Mapping[str, Any]) -> str:
    # Escaped to ASCII: what a model writes may hold characters that no store takes.
    return json.dumps(dict(body))


def _error(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:MAX_ERROR_LENGTH]


def _maybe(row: Sequence[Any] | None) -> ChatPost | None:
    return None if row is None else _post(row)


def _post(row: Sequence[Any]) -> ChatPost:
    post_id, key, room_id, kind, reply_to, session_id, turn_id, body, *rest = row
    return ChatPost(post_id, key, room_id, kind, reply_to, session_id, turn_id, json.loads(body), *rest)


def _part(row: Sequence[Any]) -> PostPart:
    number, body, state, message_id, tried = row
    return PostPart(number, json.loads(body), state, message_id, tried)
