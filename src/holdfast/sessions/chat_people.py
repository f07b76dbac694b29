"""Chat people: who may talk with the agent on a chat platform, by the platform's stable id.

A stranger gets a pairing code and nothing else. The owner reads it from the stranger and approves it in the
terminal or on the page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.core.errors import InvalidInput
from holdfast.core.messages import storable
from holdfast.sessions.codec import checked_name, checked_seconds
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.operations import operation

Role = Literal["owner", "user", "guest", "blocked"]
ROLES: tuple[Role, ...] = get_args(Role)
PAIRING_SECONDS = 3600.0
MAX_PAIRINGS = 3
"""How many strangers of one account may wait at a time."""


@dataclass(frozen=True, slots=True)
class ChatPerson:
    """A person on an account, and what they may do."""

    account: str
    person: str
    name: str
    role: Role
    added: int


@dataclass(frozen=True, slots=True)
class Pairing:
    """A stranger who asked to be let in, until it expires."""

    code: str
    account: str
    person: str
    name: str
    expires: int


class ChatPeople:
    """The people of each account, and the strangers who wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, account: str, person: str) -> ChatPerson | None:
        def work(tx: Transaction) -> ChatPerson | None:
            row = tx.queries.get_chat_person(account=account, person=person)
            return None if row is None else ChatPerson(*row)

        return self._engine.read(work)

    def list(self, account: str) -> Sequence[ChatPerson]:
        return self._engine.read(
            lambda tx: [ChatPerson(*row) for row in tx.queries.chat_people(account=account)]
        )

    def put(self, account: str, person: str, role: Role, *, name: str = "") -> None:
        """Let a person in, or change what they may do."""
        self._engine.write(put_chat_person(account, person, role, name=name))

    def remove(self, account: str, person: str) -> bool:
        """Make a person a stranger again."""
        return self._engine.write(remove_chat_person(account, person))

    def pair(
        self, account: str, person: str, name: str, code: str, *, lease: HeldLease | None = None
    ) -> Pairing | None:
        """The code for a stranger: the one they have, else this one; None while too many others wait.

        With the account's `lease` strangers who come at the same moment are counted one after another.
        """
        return self._engine.write(request_pairing(account, person, name, code, lease=lease))

    def pairings(self, account: str) -> Sequence[Pairing]:
        """The strangers who wait."""

        def work(tx: Transaction) -> list[Pairing]:
            return [Pairing(*row) for row in tx.queries.chat_pairings(account=account)]

        return self._engine.read(work)

    def approve(self, code: str, role: Role = "user") -> ChatPerson | None:
        """Let in the stranger with this code; None when there is none, or it has expired."""
        return self._engine.write(approve_pairing(code, role))


@operation
def put_chat_person(
    account: str, person: str, role: Role, *, name: str = ""
) -> Callable[[Transaction], None]:
    """Let a person in, or change what they may do."""
    checked_name("an account", account)
    checked_name("a person's id", person)
    _check_role(role)

    def work(tx: Transaction) -> None:
        tx.queries.put_chat_person(account=account, person=person, name=storable(name), role=role)
        _forget_pairing(tx, account, person)

    return work


@operation
def remove_chat_person(account: str, person: str) -> Callable[[Transaction], bool]:
    """Make a person a stranger again."""
    return lambda tx: bool(tx.queries.remove_chat_person(account=account, person=person))


@operation
def request_pairing(
    account: str, person: str, name: str, code: str, *, lease: HeldLease | None = None
) -> Callable[[Transaction], Pairing | None]:
    """Give a stranger a code, unless too many wait."""
    checked_name("a person's id", person)
    ttl = checked_seconds("a pairing", PAIRING_SECONDS)

    def work(tx: Transaction) -> Pairing | None:
        if lease is not None:
            lease.require(tx)  # its row is locked until the end
        tx.queries.expire_chat_pairings()
        known = tx.queries.chat_pairing_of(account=account, person=person)
        if known is None and tx.queries.count_chat_pairings(account=account) < MAX_PAIRINGS:
            tx.queries.put_chat_pairing(
                code=code, account=account, person=person, name=storable(name), ttl_us=ttl
            )
            known = tx.queries.chat_pairing_of(account=account, person=person)
        return None if known is None else Pairing(*known)

    return work


@operation
def approve_pairing(code: str, role: Role = "user") -> Callable[[Transaction], ChatPerson | None]:
    """Let in the stranger who has this code."""
    _check_role(role)

    def work(tx: Transaction) -> ChatPerson | None:
        tx.queries.expire_chat_pairings()
        row = tx.queries.get_chat_pairing(code=code)
        if row is None:
            return None
        pairing = Pairing(*row)
        tx.queries.delete_chat_pairing(code=code)
        tx.queries.put_chat_person(
            account=pairing.account, person=pairing.person, name=pairing.name, role=role
        )
        return ChatPerson(*tx.queries.get_chat_person(account=pairing.account, person=pairing.person))

    return work


def _forget_pairing(tx: Transaction, account: str, person: str) -> None:
    row: Sequence[Any] | None = tx.queries.chat_pairing_of(account=account, person=person)
    if row is not None:
        tx.queries.delete_chat_pairing(code=row[0])


def _check_role(role: object) -> None:
    if role not in ROLES:
        raise InvalidInput(f"a role is one of {', '.join(ROLES)}, not {role!r:.80}")
