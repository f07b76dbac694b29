"""`AccountPolicies`: what the agent may do for each scope, by the account's role and limits on record.

The store is asked before each turn, so that a role, a limit or a disabled account counts from the next turn
on, in every process. Scopes that are no account's are those of chat platforms (`chat_policies.py`).
"""

from collections.abc import Callable
from dataclasses import replace

from holdfast.agent.scope_policy import GUEST, ScopePolicy
from holdfast.agent.turn_limits import DISABLED, NO_STORAGE
from holdfast.sessions.user_records import User, is_user_scope
from holdfast.sessions.users import Users
from holdfast.wiring.chat_policies import USER

REMOVED = "this account was removed"


class AccountPolicies:
    """The policy of each scope. Blocking."""

    def __init__(self, users: Users, others: Callable[[str], ScopePolicy]) -> None:
        """`others` answers for scopes that are no account's."""
        self._users = users
        self._others = others

    def __call__(self, scope: str) -> ScopePolicy:
        if not is_user_scope(scope):
            return self._others(scope)
        user = self._users.of_scope(scope)
        return replace(GUEST, refusal=REMOVED) if user is None else policy_of(user)


def policy_of(user: User) -> ScopePolicy:
    """What the agent may do for an account. An admin manages accounts, and has no other tools than a user."""
    return replace(
        USER if user.role in ("user", "admin") else GUEST,
        daily_turns=user.daily_turns,
        daily_tokens=user.daily_tokens,
        refusal=_refusal(user),
    )


def _refusal(user: User) -> str:
    if user.disabled is not None:
        return DISABLED
    return NO_STORAGE if user.is_full else ""
