"""The holographic memory: facts, who and what they are about, and how far they are trusted, in one file.

A conversation's facts are extracted by the model at its boundary, or without one by rules as each turn comes.
Read `facts.py` for what a fact is, `search.py` for how facts are found, `claims.py` for contradictions.
"""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.contract import Clock, Message
from holdfast.core.errors import ProviderInvalid, StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import Complete, CompletedTurn, MemoryProvider, Remembered
from holdfast.memory.providers.holographic.block import facts_block
from holdfast.memory.providers.holographic.extraction import facts_by_model, facts_by_rules, spoken
from holdfast.memory.providers.holographic.facts import Fact, Source, Statement
from holdfast.memory.providers.holographic.statements import category_of, statements_in
from holdfast.memory.providers.holographic.tools import TOOLS, FactStoreCall, run_tool
from holdfast.memory.providers.tool_calls import function_schemas

if TYPE_CHECKING:
    from holdfast.memory.providers.holographic.desk import FactDesk
    from holdfast.memory.providers.holographic.search import Search
    from holdfast.memory.providers.holographic.store import FactStore
    from holdfast.memory.providers.holographic.stretches import Stretches

NAME = "holographic"
FOUND_AT_MOST = 12
TOKEN_BUDGET = 800


@dataclass(frozen=True, slots=True)
class Description:
    """How the memory stands, for `status` and `doctor`."""

    path: str
    facts: int
    entities: int
    waiting: int

    def __str__(self) -> str:
        waiting = f"; {self.waiting} conversations wait for extraction" if self.waiting else ""
        return f"{self.path}: {self.facts} facts about {self.entities} entities{waiting}"


@dataclass(frozen=True)
class _Opened:
    store: "FactStore"
    search: "Search"
    desk: "FactDesk"
    stretches: "Stretches"


class HolographicMemory(MemoryProvider):
    """Remembers facts on this machine. Thread-safe; several processes may share one file.

    A write is on disk when its call returns. Facts are shared by all sessions of one file: it is one
    person's memory. `complete` asks a language model; without it facts are found by rules.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        complete: Complete | None = None,
        token_budget: int = TOKEN_BUDGET,
        zone: tzinfo | None = None,
    ) -> None:
        self._path = str(path)
        self._clock = clock
        self._complete = complete
        self._budget = token_budget
        self._zone = zone
        self._lock = threading.Lock()  # guards _parts, _complete and _closed
        self._parts: _Opened | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return NAME

    def is_available(self) -> bool:
        if find_spec("numpy") is None:
            raise ProviderInvalid(NAME, "numpy is not installed; install holdfast[holographic]")
        return True

    def initialize(self, session_id: str, *, complete: Complete | None = None, **kwargs: Any) -> None:
        """Open the file and read the vectors; take up conversations that still wait for extraction."""
        with self._lock:
            self._complete = complete or self._complete
        opened = self._opened()
        opened.search.warm_up()
        if opened.store.counts().waiting:
            opened.stretches.start()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Keep what the turns state, each fact once; with a model that is left to the boundary."""
        store = self._opened().store
        if self._complete is None:
            store.learn(
                (statement, Source(turn.session_id, turn.turn_id))
                for turn in turns
                for statement in statements_in(turn.user_content)
            )

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[Message] | None = None,
    ) -> None:
        if self._closed:
            return
        self.sync_turns(
            [CompletedTurn("", session_id, "", user_content, assistant_content, [], self._clock.now())]
        )

    def on_session_end(self, messages: list[Message]) -> None:
        """Keep the facts of a stretch: by rules at once, by the model behind; on disk when this returns."""
        opened = self._opened()
        conversation = spoken(messages)
        if self._complete is None:
            opened.store.learn((statement, None) for statement in facts_by_rules(conversation))
        elif conversation:
            opened.stretches.hand_over(conversation)

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        """A note that was saved elsewhere is a fact, too."""
        if action in ("add", "replace") and content.strip():
            category = "user_pref" if target == "user" else category_of(content)
            self._opened().store.learn([(Statement(content, category), None)])

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        found = self._opened().search.search(query, FOUND_AT_MOST)
        return facts_block(found, budget=self._budget, zone=self._zone)

    def search(self, query: str, limit: int = 10) -> list[Fact]:
        """The facts that fit best, first."""
        return self._opened().search.search(query, limit)

    def turns_of(self, facts: Sequence[Fact]) -> dict[int, list[str]]:
        """The ids of the turns in which each fact was said, where that is known."""
        return self._opened().search.turns_of([fact.id for fact in facts])

    def add(self, content: str, *, category: str = "general", tags: str = "") -> int:
        """Keep a fact; returns its id, also when it was known."""
        return self._opened().store.add(Statement(content, category, tags))[0]

    def keep(self, statements: Sequence[Statement]) -> int:
        """Keep many facts in one transaction; returns how many are new."""
        return self._opened().store.learn((each, None) for each in statements)

    def remembered(self, query: str, limit: int = 10) -> list[Remembered]:
        """What a search finds, as people are shown it."""
        return [
            Remembered(fact.id, fact.updated, f"fact, trust {fact.trust:.2f}", fact.content)
            for fact in self.search(query, limit)
        ]

    def forget(self, memory_id: int) -> bool:
        """Remove a fact for good; it doesn't come back when its turn is delivered again."""
        return self._opened().store.forget(memory_id)

    def check(self, config: ProviderConfig) -> str:
        return str(self.describe())

    def describe(self) -> Description:
        counts = self._opened().store.counts()
        return Description(self._path, counts.facts, counts.entities, counts.waiting)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return function_schemas(TOOLS)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if tool_name not in TOOLS:
            return super().handle_tool_call(tool_name, args, **kwargs)
        return run_tool(self._opened().desk, tool_name, args)

    def run_action(self, **arguments: Any) -> dict[str, Any]:
        """One action of `fact_store`, for programs: `run_action(action="probe", entity="Ann")`."""
        return self._opened().desk.run_action(FactStoreCall.model_validate(arguments))

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory of facts. What fits a message is recalled by itself. Use fact_store"
            " to probe what is known of a person or thing, to add what later conversations should know, and"
            " to update or remove what no longer holds; rate facts you relied on with fact_feedback."
        )

    def shutdown(self) -> None:
        """Close the file; what comes later is refused. May be called again."""
        with self._lock:
            self._closed = True
            opened, self._parts = self._parts, None
        if opened is not None:
            atexit.unregister(self.shutdown)
            opened.stretches.close()
            opened.store.close()

    def _opened(self) -> _Opened:
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._parts is None:
                self._parts = self._open()
                # Ctrl-C and sys.exit also end the thread that extracts, and close the file.
                atexit.register(self.shutdown)
            return self._parts

    def _open(self) -> _Opened:
        # numpy is imported only where facts are really kept.
        from holdfast.memory.providers.holographic.desk import FactDesk
        from holdfast.memory.providers.holographic.search import Search
        from holdfast.memory.providers.holographic.store import FactStore, load_queries
        from holdfast.memory.providers.holographic.stretches import Stretches
        from holdfast.memory.providers.holographic.vectors import FactMatrix

        store = FactStore(self._path, clock=self._clock)
        search = Search(store, FactMatrix(load_queries()))
        complete = self._complete
        extract = facts_by_rules if complete is None else partial(facts_by_model, complete)
        return _Opened(store, search, FactDesk(store, search), Stretches(store, extract, self._clock))


def in_folder(folder: Path, clock: Clock) -> HolographicMemory:
    """The holographic memory in its usual file: how `holographic` is made by name."""
    return HolographicMemory(folder / "facts.db", clock=clock)
