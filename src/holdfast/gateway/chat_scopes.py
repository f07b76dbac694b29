"""For whom a chat's conversation is held, and what the agent may do for them.

The owner alone with the bot is the owner, as in the terminal. Everybody else has a scope of their own, and so
has each group: sessions, memory and files of one are never seen in another. A group is a guest unless its own
id has a role (`holdfast gateway allow ACCOUNT CHAT --role user`); then guests do not talk there.
"""

from holdfast.agent.scope_policy import EVERYTHING, GUEST, ScopePolicy
from holdfast.gateway.contract import Incoming
from holdfast.sessions.chat_people import Role
from holdfast.sessions.contract import OWNER

USER = ScopePolicy(approval="ask")
"""All tools in a workspace of their own; commands in a sandbox, after approval."""
POLICIES: dict[Role, ScopePolicy] = {"owner": EVERYTHING, "user": USER, "guest": GUEST, "blocked": GUEST}


def scope_of(account: str, event: Incoming, role: Role) -> str:
    """The scope of the conversation that a message belongs to."""
    if not event.is_direct:
        return f"{account}/{event.place.chat}"
    return OWNER if role == "owner" else f"{account}/{event.sender.id}"


class ChatPolicies:
    """What the agent may do for each scope of this process's accounts; the host asks before each turn."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}

    def __call__(self, scope: str) -> ScopePolicy:
        if scope == OWNER:
            return EVERYTHING
        role = self._roles.get(scope, "guest")
        # Only the owner alone is the owner.
        return POLICIES["user" if role == "owner" else role]

    def set_role(self, account: str, person: str, role: Role) -> None:
        """A person, or a group, has this role from now on."""
        self._roles[f"{account}/{person}"] = role
