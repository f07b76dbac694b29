"""`ChatPolicies`: what the agent may do for the people and groups of chat platforms, by their role on record.

The store is asked before each turn, so that a turn that goes on after a restart, a scheduled run and a page
without a gateway all know the role that a person has now.
"""

from dataclasses import replace

from holdfast.agent.scope_policy import EVERYTHING, GUEST, ScopePolicy
from holdfast.core.settings import GatewaySettings
from holdfast.sessions.chat_people import ChatPeople, Role
from holdfast.sessions.contract import OWNER

USER = ScopePolicy(approval="ask")
"""All tools in a workspace of their own; commands in a sandbox, after approval."""


class ChatPolicies:
    """The policy of each scope; a scope that no account knows is a guest's. Blocking."""

    def __init__(self, people: ChatPeople, settings: GatewaySettings | None = None) -> None:
        chosen = settings or GatewaySettings()
        self._people = people
        # Only the owner alone with the bot is the owner, and that conversation has the owner's scope.
        user = replace(USER, daily_tokens=chosen.user_daily_tokens or None)
        self._guest = replace(GUEST, daily_tokens=chosen.guest_daily_tokens or None)
        self._policies: dict[Role, ScopePolicy] = {
            "owner": user,
            "user": user,
            "guest": self._guest,
            "blocked": self._guest,
        }

    def __call__(self, scope: str) -> ScopePolicy:
        if scope == OWNER:
            return EVERYTHING
        account, _, person = scope.partition("/")
        known = self._people.get(account, person)
        return self._guest if known is None else self._policies[known.role]
