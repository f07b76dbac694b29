"""For whom a chat's conversation is held. What the agent may do for them: `wiring/chat_policies.py`.

The owner alone with the bot is the owner, as in the terminal. Everybody else has a scope of their own, and so
has each group: sessions, memory and files of one are never seen in another. A group is a guest unless its own
id has a role (`holdfast gateway allow ACCOUNT CHAT --role user`); then guests do not talk there.
"""

from holdfast.gateway.contract import Incoming
from holdfast.sessions.chat_people import Role
from holdfast.sessions.contract import OWNER


def scope_of(account: str, event: Incoming, role: Role) -> str:
    """The scope of the conversation that a message belongs to."""
    if not event.is_direct:
        return f"{account}/{event.place.chat}"
    return OWNER if role == "owner" else f"{account}/{event.sender.id}"
