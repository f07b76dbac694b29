"""`ChatPolicies`: what the agent may do for the people and groups of chat platforms, by their role on record.

The store is asked before each turn, so that a turn that goes on after a restart, a scheduled run and a page
without a gateway all know the role that a person has now.
"""

from holdfast.agent.scope_policy import EVERYTHING, GUEST, ScopePolicy
from holdfast.sessions.chat_people import ChatPeople, Role
from holdfast.sessions.contract import OWNER

USER = ScopePolicy(approval="ask")
"""All tools in a workspace of their own; commands in a sandbox, after approval."""
# Only the owner alone with the bot is the owner, and that conversation has the owner's scope.
POLICIES: dict[Role, ScopePolicy] = {"owner": USER, "user": USER, "guest": GUEST, "blocked": GUEST}


class ChatPolicies:
    """The policy of each scope; a scope that no account knows is a guest's. Blocking."""

    def __init__(self, people: ChatPeople) -> None:
        self._people = people

    def __call__(self, scope: str) -> ScopePolicy:
        if scope == OWNER:
            return EVERYTHING
        account, _, person = scope.partition("/")
        known = self._people.get(account, person)
        return GUEST if known is None else POLICIES[known.role]
