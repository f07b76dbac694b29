"""`LocalFacts`: the facts of the holographic memory as a second source of the local one.

The local memory keeps every word, and this keeps what the words say in short: who, what, which value. Both
are recalled together, in one block.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Clock, Message
from holdfast.memory.contract import CompletedTurn, MemoryItem
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.local.recall_block import RecalledLine

if TYPE_CHECKING:
    from holdfast.providers.holographic import Fact

FACTS_FILE = "facts.db"
MAX_FACTS = 6
FIRST_ID = 10**12
"""Ids from here on are those of facts; passages have smaller ones."""
FACTS_ORDER = -1


class LocalFacts:
    """The facts beside the passages, in a file of their own."""

    def __init__(self, path: Path, clock: Clock) -> None:
        # numpy is imported only when facts are wanted.
        from holdfast.providers.holographic import HolographicMemory

        self._memory: HolographicMemory = HolographicMemory(path, clock=clock)
        self._memory.is_available()

    def initialize(self, session_id: str, **kwargs: Any) -> None:  # noqa: ANN401 - as a provider's
        self._memory.initialize(session_id, **kwargs)

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self._memory.sync_turns(turns)

    def on_session_end(self, messages: list[Message], session_id: str) -> None:
        self._memory.on_session_end(messages, session_id=session_id)

    def lines(self, query: str, recalled_turns: Collection[str | None]) -> list[RecalledLine]:
        """The facts for the query, best first, without those that a recalled turn states itself."""
        found = self._memory.search(query, MAX_FACTS)
        sources = self._memory.turns_of(found)
        fresh = [fact for fact in found if not set(sources.get(fact.id, ())) & set(recalled_turns)]
        return [
            RecalledLine(
                f"fact {FIRST_ID + fact.id}",
                fact.content,
                fact.updated,
                (FACTS_ORDER, rank),
                fact_id=fact.id,
            )
            for rank, fact in enumerate(fresh)
        ]

    def browse(self, query: str, limit: int) -> list[MemoryItem]:
        return [_item(fact) for fact in self._memory.search(query, limit)]

    def with_ids(self, ids: Sequence[int]) -> list[MemoryItem]:
        return [_item(fact) for fact in self._memory.facts_with([each - FIRST_ID for each in ids])]

    def forget(self, memory_id: int) -> bool:
        return self._memory.forget(memory_id - FIRST_ID)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        ids = tuple(str(int(each) - FIRST_ID) for each in request.memory_ids if int(each) >= FIRST_ID)
        own = ForgetRequest(request.key, request.turns, request.sessions, ids, request.period)
        return self._memory.forget_selected(own)

    def __str__(self) -> str:
        return str(self._memory.describe())

    def shutdown(self) -> None:
        self._memory.shutdown()


def _item(fact: "Fact") -> MemoryItem:
    return MemoryItem(FIRST_ID + fact.id, fact.updated, f"fact, trust {fact.trust:.2f}", fact.content)
