"""For whom a chat's conversation is held. What the agent may do for them: `wiring/chat_policies.py`.

The owner alone with the bot is the owner, as in the terminal. Everybody else has a scope of their own, and so
has each group: sessions, memory and files of one are never seen in another. A group is a guest unless its own
id has a role (`holdfast gateway allow ACCOUNT CHAT --role user`); then guests do not talk there.

A person who is linked with an account of this installation (`holdfast users link`) has that account's scope
in direct chats, and so its memory, files and limits.
"""

from holdfast.gateway.contract import Incoming
from holdfast.host import SessionHost
from holdfast.sessions.chat_people import Role
from holdfast.sessions.contract import OWNER
from holdfast.sessions.user_records import CHAT_ISSUER
from holdfast.sessions.users import Users


def scope_of(account: str, event: Incoming, role: Role) -> str:
    """The scope of the conversation that a message belongs to."""
    if not event.is_direct:
        return f"{account}/{event.place.chat}"
    return OWNER if role == "owner" else f"{account}/{event.sender.id}"


async def scope_of_message(host: SessionHost, account: str, event: Incoming, role: Role) -> str:
    """The same, where a person may be linked with an account of this installation."""
    scope = scope_of(account, event, role)
    if scope == OWNER or not event.is_direct:
        return scope
    linked = await host.accounts.users(Users.of_identity, CHAT_ISSUER + account, event.sender.id)
    return scope if linked is None else linked.scope
