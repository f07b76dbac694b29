"""The limits of one turn: whether one is reached, and what the person is told then."""

from collections.abc import Sequence
from decimal import Decimal

from holdfast.agent.contract import Limits
from holdfast.core.contract import Message

NO_TOKENS = "the tokens for one day are used up"


def limit_reached(limits: Limits, steps: int, seconds: float, cost: Decimal | None) -> str | None:
    """The limit that a turn has reached, in words; None while it may go on."""
    if steps >= limits.max_steps:
        return f"the limit of {limits.max_steps} steps for one turn was reached"
    if seconds >= limits.max_seconds:
        return f"the limit of {limits.max_seconds:g} s for one turn was reached"
    if limits.max_cost is not None and cost is not None and cost >= limits.max_cost:
        return f"the limit of ${limits.max_cost:g} for one turn was reached"
    return None


def explanation(limit: str, done: Sequence[str]) -> Message:
    """The last message of a turn that a limit ends."""
    listed = "\n".join(f"- {each}" for each in done) or "- nothing that used a tool"
    later = "Ask me again later." if limit == NO_TOKENS else 'Say "go on" and I continue from here.'
    return {
        "role": "assistant",
        "content": f"I stopped here: {limit}.\n\nDone so far in this turn:\n{listed}\n\n{later}",
    }
