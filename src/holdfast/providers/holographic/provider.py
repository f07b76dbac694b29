"""The holographic memory: facts with their entities and their trust, in one file.

With a model, the facts of a conversation are extracted at its boundary; without one, by rules from each turn.
Read `facts.py` for the data types, `search.py` for recall and `claims.py` for contradictions.
"""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn, MemoryItem, TextCompletion
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.holographic.extraction import (
    Utterance,
    facts_by_model,
    facts_by_rules,
    utterances_of,
)
from holdfast.providers.holographic.facts import (
    WHOLE_SESSION,
    Fact,
    FactSource,
    HolographicDescription,
    Statement,
)
from holdfast.providers.holographic.facts_block import facts_block
from holdfast.providers.holographic.statements import category_of, statements_in
from holdfast.providers.holographic.tools import TOOLS, FactStoreArguments

if TYPE_CHECKING:
    from holdfast.providers.holographic.extraction_queue import ExtractionQueue
    from holdfast.providers.holographic.fact_actions import FactActions
    from holdfast.providers.holographic.search import FactSearch
    from holdfast.providers.holographic.store import FactStore

MAX_FOUND = 12
TOKEN_BUDGET = 800


@dataclass(frozen=True)
class _OpenParts:
    store: "FactStore"
    search: "FactSearch"
    actions: "FactActions"
    extraction: "ExtractionQueue"


class HolographicMemory(BatchProvider):
    """A memory of facts on this machine. Thread-safe; several processes may share one file.

    A write is on disk when its call returns. All sessions share the facts of one file: it is the memory of
    one person. `complete` calls a language model; without it, rules find the facts.
    """

    name = "holographic"
    package = "numpy"
    tools = TOOLS

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        complete: TextCompletion | None = None,
        token_budget: int = TOKEN_BUDGET,
        zone: tzinfo | None = None,
    ) -> None:
        self._path = str(path)
        self._clock = clock
        self._complete = complete
        self._budget = token_budget
        self._zone = zone
        self._lock = threading.Lock()  # guards _parts, _complete and _closed
        self._parts: _OpenParts | None = None

    def stores_on_host(self, config: ProviderConfig) -> bool:
        return True

    def initialize(self, session_id: str, *, complete: TextCompletion | None = None, **kwargs: Any) -> None:
        """Open the file, read the vectors and continue the extraction of queued conversations."""
        with self._lock:
            self._complete = complete or self._complete
        opened = self._opened()
        opened.search.warm_up()
        if opened.store.describe().waiting:
            opened.extraction.start()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the facts of the turns, each once; with a model, the boundary does it."""
        store = self._opened().store
        if self._complete is None:
            store.add_extracted(
                (statement, FactSource(turn.session_id, turn.turn_id))
                for turn in turns
                for statement in statements_in(turn.user_content)
            )

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        """Extract facts by rules, or queue the conversation for the model; on disk when this returns."""
        opened = self._opened()
        conversation = utterances_of(messages)
        if self._complete is None:
            source = FactSource(session_id, WHOLE_SESSION) if session_id else None
            opened.store.add_extracted((statement, source) for statement in facts_by_rules(conversation))
        elif conversation:
            opened.extraction.enqueue(conversation, session_id)

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        """Store a note that was saved elsewhere as a fact."""
        if action in ("add", "replace") and content.strip():
            category = "user_pref" if target == "user" else category_of(content)
            self._opened().store.add_extracted([(Statement(content, category), None)])

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        found = self._opened().search.search(query, MAX_FOUND)
        return facts_block(found, budget=self._budget, zone=self._zone)

    def search(self, query: str, limit: int = 10) -> list[Fact]:
        """The facts for the query, best match first."""
        return self._opened().search.search(query, limit)

    def turns_of(self, facts: Sequence[Fact]) -> dict[int, list[str]]:
        """The ids of the turns that stated each fact, where they are known."""
        return self._opened().search.turns_of([fact.id for fact in facts])

    def add(self, content: str, *, category: str = "general", tags: str = "") -> int:
        """Store a fact; returns its id, also when it is known already."""
        return self._opened().store.add(Statement(content, category, tags))[0]

    def add_all(self, statements: Sequence[Statement]) -> int:
        """Store many facts in one transaction; returns how many are new."""
        return self._opened().store.add_extracted((each, None) for each in statements)

    def browse(self, query: str, limit: int = 10) -> list[MemoryItem]:
        """The results of a search, as a person sees them."""
        return [
            MemoryItem(fact.id, fact.updated, f"fact, trust {fact.trust:.2f}", fact.content)
            for fact in self.search(query, limit)
        ]

    def forget(self, memory_id: int) -> bool:
        """Delete a fact permanently; it does not return when its turn is delivered again."""
        return self._opened().store.forget(memory_id)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete facts by id, by the turns and conversations that stated them, and all of a period."""
        from holdfast.providers.holographic.forget_facts import forget_facts

        return forget_facts(self._opened().store, request)

    def memories_with(self, ids: Sequence[int]) -> list[MemoryItem]:
        """The facts with these ids, as far as they exist."""
        return [
            MemoryItem(fact.id, fact.updated, f"fact, trust {fact.trust:.2f}", fact.content)
            for fact in self.facts_with(ids)
        ]

    def facts_with(self, ids: Sequence[int]) -> list[Fact]:
        """The facts with these ids, as far as they exist."""
        return list(self._opened().search.facts(ids).values())

    def turns_said_by(self, person: str) -> list[tuple[str, str]]:
        """None: a fact does not tell who said it."""
        return []

    def check(self, config: ProviderConfig) -> str:
        return str(self.describe())

    def describe(self) -> HolographicDescription:
        return self._opened().store.describe()

    @property
    def actions(self) -> "FactActions":
        """The actions of the tools."""
        return self._opened().actions

    def run_action(self, **arguments: Any) -> dict[str, Any]:
        """One action of `fact_store`, for programs: `run_action(action="probe", entity="Ann")`."""
        return self.actions.run_action(FactStoreArguments.model_validate(arguments))

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory of facts. What fits a message is recalled by itself. Use fact_store"
            " to probe what is known of a person or thing, to add what later conversations should know, and"
            " to update or remove what no longer holds; rate facts you relied on with fact_feedback."
        )

    def shutdown(self) -> None:
        """Close the file; later calls are refused. May be called again."""
        with self._lock:
            self._closed = True
            opened, self._parts = self._parts, None
        if opened is not None:
            atexit.unregister(self.shutdown)
            opened.extraction.close()
            opened.store.close()

    def _opened(self) -> _OpenParts:
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._parts is None:
                self._parts = self._open()
                # After Ctrl-C and sys.exit, too, the thread is stopped and the file is closed.
                atexit.register(self.shutdown)
            return self._parts

    def _open(self) -> _OpenParts:
        # numpy is imported only when the memory is used.
        from holdfast.providers.holographic.extraction_queue import ExtractionQueue
        from holdfast.providers.holographic.fact_actions import FactActions
        from holdfast.providers.holographic.search import FactSearch
        from holdfast.providers.holographic.store import FactStore
        from holdfast.providers.holographic.vectors import FactMatrix

        store = FactStore(self._path, clock=self._clock)
        search = FactSearch(store, FactMatrix(store.queries))
        complete = self._complete

        def extract(conversation: Sequence[Utterance], session_id: str) -> list[Statement]:
            if complete is None:
                return facts_by_rules(conversation)
            return facts_by_model(partial(complete, session_id=session_id or None), conversation)

        return _OpenParts(
            store, search, FactActions(store, search), ExtractionQueue(store, extract, self._clock)
        )


def in_folder(folder: Path, clock: Clock) -> HolographicMemory:
    """Create the provider `holographic` with its usual file."""
    return HolographicMemory(folder / "facts.db", clock=clock)
