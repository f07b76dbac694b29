"""Who may talk with the agent on an account, and when a message in a group is meant for it.

Nobody may, by default. Only the platform's stable id counts, never a name. A stranger who writes to the bot
alone gets a pairing code and nothing else; in a group strangers are not answered.
"""

import secrets
from dataclasses import dataclass

from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Incoming
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_events import ChatRoom
from holdfast.sessions.chat_people import PAIRING_SECONDS, Role

CODE_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
CODE_LENGTH = 8
GUESTS_ALONE = "Guests can talk with me in a direct chat, not in this group."
NOT_ADDRESSED = "not addressed to the bot"
STRANGER = "a stranger"
MOST_TOLD = 3
"""How often a stranger is told their code: nobody can make the bot talk for ever."""
REMEMBERED_CODES = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event goes no further. `reply` is what its sender is told; empty: nothing."""

    note: str
    reply: str = ""


class AccessControl:
    """Decides about the events of one account."""

    def __init__(self, ledger: ChatLedger, settings: GatewaySettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._told: dict[str, int] = {}
        """How often a code was said, for the last codes."""

    async def admit(self, event: Incoming, room: ChatRoom) -> Role | Refusal:
        """The role in which the sender talks, or why not."""
        if event.sender.is_bot:
            return Refusal("sent by a bot")
        person = await self._ledger.of_account(self._ledger.people.get, event.sender.id)
        if person is None:
            return await self._stranger(event)
        if person.role == "blocked":
            return Refusal("the sender is blocked")
        if event.kind == "message" and not self._is_addressed(event, room):
            return Refusal(NOT_ADDRESSED)
        group_role = await self._group_role(event)
        if group_role == "blocked":
            return Refusal("the group is blocked")
        if person.role == "guest" and group_role != "guest":
            return Refusal("a guest in a group that is no guest", GUESTS_ALONE)
        return person.role

    async def is_heard(self, event: Incoming, room: ChatRoom) -> bool:
        """Whether the sender is somebody who may talk, and means the bot."""
        person = await self._ledger.of_account(self._ledger.people.get, event.sender.id)
        is_known = person is not None and person.role != "blocked" and not event.sender.is_bot
        return is_known and self._is_addressed(event, room)

    async def _group_role(self, event: Incoming) -> Role:
        """What the group may do; a direct chat is no group."""
        if event.is_direct:
            return "guest"
        group = await self._ledger.of_account(self._ledger.people.get, event.place.chat)
        return "guest" if group is None else group.role

    def _is_addressed(self, event: Incoming, room: ChatRoom) -> bool:
        if event.is_direct or event.is_mention or self._settings.groups == "always":
            return True
        # A thread that the bot was called into is a conversation with it.
        return bool(room.thread) and room.session_id is not None

    async def _stranger(self, event: Incoming) -> Refusal:
        if not event.is_direct:
            return Refusal(NOT_ADDRESSED if event.kind == "message" else "pressed by a stranger")
        code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
        pairing = await self._ledger.under_lease(
            self._ledger.people.pair, self._ledger.account, event.sender.id, event.sender.name, code
        )
        if pairing is None:
            return Refusal("a stranger, while too many others wait for their pairing")
        if not self._may_tell(pairing.code):
            return Refusal(STRANGER)
        return Refusal(
            STRANGER,
            f"I only talk with people that my owner has let in. Your code is {pairing.code}, for "
            f"{PAIRING_SECONDS / 60:.0f} minutes. My owner lets you in with: "
            f"holdfast gateway approve {pairing.code}",
        )

    def _may_tell(self, code: str) -> bool:
        times = self._told[code] = self._told.pop(code, 0) + 1
        if len(self._told) > REMEMBERED_CODES:
            del self._told[next(iter(self._told))]
        return times <= MOST_TOLD
