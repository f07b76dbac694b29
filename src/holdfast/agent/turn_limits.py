"""The limits of one turn: whether one is reached, and what the model and the person are told then."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal

from holdfast.agent.contract import Limits
from holdfast.core.contract import Message, ToolCall
from holdfast.core.events import ToolFinished
from holdfast.core.messages import text_of

NO_TOKENS = "the tokens for one day are used up"
NO_TURNS = "the turns for one day are used up"
DISABLED = "this account is disabled"
NO_STORAGE = "the storage limit of this account is reached"
REPEATED = "the same tool calls gave the same results again and again"
TOLD_AFTER, ENDED_AFTER = 2, 4
"""Steps in a row that brought nothing new: after so many the model is told, after so many the turn ends."""
TOLD = (
    "[You have made this tool call with these arguments before, and it gave the same result. Another call "
    "changes nothing. Use the result that you have, do something else, or say what keeps you from going on.]"
)
WAITING_TOOLS = frozenset({"read_process"})
"""Tools that are called again to see whether something has happened meanwhile."""
REPEAT_NOTICE = "the model repeats a tool call that gives the same result; it was told so"


class RepeatGuard:
    """Notices a model that makes the same calls again and gets the same results.

    A step counts when every call in it was made before in this turn, with the same arguments and result. Any
    other step begins the count anew: to run the tests again after an edit is no repetition, and neither is to
    look whether a process has ended.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._repeats = 0
        self._told = self._is_news = False

    def with_note(self, call: ToolCall, result: Message) -> Message:
        """A result as it is stored: once, where the model repeats itself, it says so."""
        text = text_of(result)
        fingerprint = _fingerprint(call, text)
        if self._told or self._repeats + 1 < TOLD_AFTER or fingerprint not in self._seen:
            return result
        self._told = self._is_news = True
        return {**result, "content": f"{text}\n\n{TOLD}"}

    def count(self, calls: Sequence[ToolCall], finished: Sequence[ToolFinished]) -> bool:
        """Count a step that has ended; whether the model was told in it."""
        results = {each.call_id: each.output for each in finished}
        step = {_fingerprint(call, results.get(call["id"], "")) for call in calls}
        waits = any(call["function"]["name"] in WAITING_TOOLS for call in calls)
        self._repeats = self._repeats + 1 if step <= self._seen and not waits else 0
        self._seen |= step
        is_news, self._is_news = self._is_news, False
        return is_news

    @property
    def reached(self) -> str | None:
        """The limit in words, once the model was told and went on; None while the turn may go on."""
        return REPEATED if self._told and self._repeats >= ENDED_AFTER else None


def _fingerprint(call: ToolCall, output: str) -> bytes:
    parts = (call["function"]["name"], call["function"]["arguments"], output)
    # By its hash: a turn may have thousands of results of 50,000 characters.
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


LATER = {
    NO_TOKENS: "Ask me again later.",
    NO_TURNS: "Ask me again later.",
    DISABLED: "Ask who runs this installation.",
    NO_STORAGE: "Delete conversations, or ask who runs this installation for more.",
    REPEATED: "I did not find a way on by myself. Tell me how to go on, or ask in another way.",
}


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
    later = LATER.get(limit, 'Say "go on" and I continue from here.')
    return {
        "role": "assistant",
        "content": f"I stopped here: {limit}.\n\nDone so far in this turn:\n{listed}\n\n{later}",
    }
