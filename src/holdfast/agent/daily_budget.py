"""`DailyBudget`: what the turns of a scope may still use within 24 hours, and whether one may run."""

from holdfast.agent.scope_policy import DAY_SECONDS, AgentScope
from holdfast.agent.turn_limits import NO_TURNS
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB


class DailyBudget:
    """The limits of a scope's policy, over all its conversations."""

    def __init__(self, db: SessionDB, pool: DaemonPool, scope: AgentScope) -> None:
        self._turns = db.turns
        self._pool = pool
        self._scope = scope

    async def refusal(self) -> str:
        """Why the turn that is about to begin may ask no model; empty: it may."""
        policy = self._scope.policy
        if policy.refusal or policy.daily_turns is None:
            return policy.refusal
        begun = await off_loop(self._pool, self._turns.turns_begun, self._scope.name, DAY_SECONDS)
        # The turn that is about to begin is among them: its message waits.
        return NO_TURNS if begun > policy.daily_turns else ""

    async def tokens_left(self, *, is_open: bool) -> int | None:
        """What one turn may use of the tokens; None: no limit. `is_open`: it is on record already."""
        daily = self._scope.policy.daily_tokens
        if daily is None:
            return None
        used = await off_loop(self._pool, self._turns.tokens_used, self._scope.name, DAY_SECONDS)
        # Turns that run at once share what is left; what each uses is known only when it has ended.
        running = await off_loop(self._pool, self._turns.turns_running, self._scope.name)
        return max(0, daily - used) // max(1, running + (not is_open))
