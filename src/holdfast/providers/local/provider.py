"""The built-in memory: no server, no key, no network. Each turn and each note in one SQLite file.

Turns are stored on the write lane. Recalls and vectors are the work of a process of its own (`worker.py`), so
that this one needs neither numpy nor a model; while that process is not there, recall is by full text alone,
in this one. Read `recall.py` for how things are found, `store.py` for how they are kept.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import tzinfo
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock, Message
from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput, ProviderUnavailable, StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn, MemoryItem, RecallAnswer, TextVectors
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.local.answer_uses import RecalledLines
from holdfast.providers.local.description import LocalDescription
from holdfast.providers.local.embedding import Embedder, MiniLM, missing_packages
from holdfast.providers.local.facts import FACTS_FILE, FIRST_ID, LocalFacts
from holdfast.providers.local.passages import local_time
from holdfast.providers.local.recall import (
    MAX_QUERY_LENGTH,
    FoundPassage,
    HybridRecall,
    SearchMode,
)
from holdfast.providers.local.recall_block import RecallBlock, alternating, passage_lines, recall_block
from holdfast.providers.local.scope import LocalScope
from holdfast.providers.local.store import PassageStore
from holdfast.providers.local.tools import TOOLS
from holdfast.providers.local.vector_builder import VectorBuilder
from holdfast.providers.local.worker_client import RecallWorker
from holdfast.providers.local.worker_process import WorkerSpec
from holdfast.sessions.contract import OWNER

MAX_FOUND = 20
WITH_NEIGHBOURS = 5
"""A passage that fits brings along up to four that stand beside it."""
NO_EMBEDDINGS = "the local memory has no embedding model here. Run: {}"
VECTOR_SECONDS = 0.1
"""A recall waits so long for the question's vector; after that it goes on by full text alone."""
RECALL_SECONDS = 0.15
"""A turn waits so long for its recall; what is not found by then is left out."""
SEARCH_SECONDS = 5.0
"""A person, or the agent by its tool, waits longer for a search."""
SEARCH_START_SECONDS = 3.0
"""A search waits so long for a worker that starts; then full text answers, in time for its caller."""
START_SECONDS = 10.0
IDLE_SECONDS = 120.0
"""A worker that nobody asked for so long ends."""
TOKEN_BUDGET = 1500
# This many newest turns of a session are taken to be in the conversation that the agent sends anyway.
TURNS_IN_CONTEXT = 20


class LocalMemory(BatchProvider):
    """Memory on this machine. Thread-safe; several processes may share one file.

    A write is on disk when its call returns; at exit only the thread that makes missing vectors is stopped.
    A forked child can't use it: SQLite forbids to use the connections of the parent.
    """

    name = "local"
    tools = TOOLS

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        embedder: "Embedder | Literal['default'] | None" = "default",
        token_budget: int = TOKEN_BUDGET,
        turns_in_context: int = 0,
        zone: tzinfo | None = None,
    ) -> None:
        """`turns_in_context` newest turns of a session are not recalled for that session itself."""
        self._path = str(path)
        self._clock = clock
        self._zone = zone
        self._budget = token_budget
        self._in_context = turns_in_context
        self._missing = missing_packages()
        self._worker: RecallWorker | None = None
        if embedder == "default":
            embedder = None
            if not self._missing:
                self._worker = self._new_worker(has_facts=False)
        self._embedder: Embedder | None = embedder
        self._lock = threading.Lock()  # guards _store, _builder, _recall, _facts and _closed
        self._store: PassageStore | None = None
        self._builder: VectorBuilder | None = None
        self._recall: HybridRecall | None = None
        self._facts: LocalFacts | None = None
        self._shown = RecalledLines()

    @property
    def clock(self) -> Clock:
        return self._clock

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [
            {
                "key": "facts",
                "description": "Also keep facts (who, what, which value), recalled beside what was said",
                "default": "false",
                "choices": ["true", "false"],
            }
        ]

    def stores_on_host(self, config: ProviderConfig) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the file. When there is something to recall, get ready for it, beside this process."""
        store, recall = self._opened()
        if (kwargs.get("config") or ProviderConfig()).flag("facts"):
            self.use_facts().initialize(session_id, **kwargs)
            if self._worker is not None:
                self._worker = self._new_worker(has_facts=True)
        if self._worker is None:
            recall.warm_up()
        elif store.read(store.queries.has_passages):
            self._worker.start()
        if self._builder is not None:
            self._builder.catch_up()

    def use_facts(self) -> LocalFacts:
        """Also keep and recall facts, which have a file of their own."""
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._facts is None:
                self._facts = LocalFacts(Path(self._path).with_name(FACTS_FILE), self._clock)
            return self._facts

    def _new_worker(self, *, has_facts: bool) -> RecallWorker:
        spec = WorkerSpec(
            self._path, self._budget, self._in_context, self._zone, IDLE_SECONDS, has_facts=has_facts
        )
        return RecallWorker(spec, SystemClock())

    def warm_up(self) -> None:
        """Load the model, so that the first question doesn't wait for it."""
        self._opened()[1].warm_up()

    def build_vectors(self) -> bool:
        """Make the missing vectors of a few passages; False when none is left, or it failed."""
        self._opened()
        return self._builder is not None and self._builder.build_batch()

    def for_scope(self, scope: str) -> "LocalScope":
        """The memory of one scope, in the same file and with the same worker."""
        return LocalScope(self, scope)

    def sync_turns(self, turns: Sequence[CompletedTurn], *, scope: str = OWNER) -> None:
        """Store the turns, each once by its key, then see to their vectors; raises when storing failed."""
        store, _ = self._opened()
        self._build_vectors(store.add_turns(turns, scope))
        if self._facts is not None and scope == OWNER:
            self._facts.sync_turns(turns)
        for turn in turns:
            shown, used = self._shown.take(turn)
            if shown:
                store.count_uses(shown, used)

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        if self._facts is not None:
            self._facts.on_session_end(messages, session_id)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self.begin_prefetch(query, session_id=session_id).result().text

    def begin_prefetch(
        self, query: str, *, session_id: str = "", scope: str = OWNER
    ) -> "Future[RecallAnswer]":
        """Recall in the worker; by full text alone, here, while the worker is not there."""
        recall = self._opened()[1]
        if self._worker is not None and recall.has_passages():
            request = {
                "query": query[:MAX_QUERY_LENGTH],
                "session": session_id,
                "scope": scope,
                "vector_seconds": VECTOR_SECONDS,
            }
            return self._worker.ask(
                request,
                RECALL_SECONDS,
                partial(self._from_worker, query, session_id),
                partial(self._without_worker, query, session_id, scope),
            )
        answer: Future[RecallAnswer] = Future()
        answer.set_result(RecallAnswer(self._recalled(query, session_id, scope)))
        return answer

    def _from_worker(self, query: str, session_id: str, line: dict[str, Any]) -> RecallAnswer:
        self._shown.keep(session_id, query, line["lines"])
        return RecallAnswer(line["text"], line["note"])

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        session_id: str = "",
        mode: SearchMode = "hybrid",
        scope: str | None = OWNER,
    ) -> list[FoundPassage]:
        """The passages and notes of all sessions of a scope, best match first; None: of all scopes."""
        recall = self._opened()[1]
        if self._worker is None or mode == "text" or not recall.has_passages():
            return recall.search(query, limit, session_id=session_id, mode=mode, scope=scope)
        self._worker.await_ready(SEARCH_START_SECONDS)
        request = {
            "query": query[:MAX_QUERY_LENGTH],
            "session": session_id,
            "scope": scope,
            "limit": limit,
            "mode": mode,
        }

        def by_text(_why: str, _has_time: bool) -> list[FoundPassage]:
            return recall.search(query, limit, session_id=session_id, mode="text", scope=scope)

        found: list[FoundPassage] = self._worker.ask(
            request, SEARCH_SECONDS, lambda line: [FoundPassage(**each) for each in line["found"]], by_text
        ).result()
        return found

    def embed_texts(self, texts: Sequence[str], seconds: float) -> TextVectors:
        """The texts as vectors of the model that recalls."""
        if self._worker is None:
            if self._embedder is None:
                raise InvalidInput(NO_EMBEDDINGS.format(install_command("embeddings")))
            return TextVectors(self._embedder.model, self._embedder.embed(texts).tolist())
        self._worker.await_ready(START_SECONDS)

        def refuse(why: str, _has_time: bool) -> TextVectors:
            raise ProviderUnavailable(self.name, problem=why)

        made: TextVectors = self._worker.ask(
            {"texts": list(texts)},
            max(1.0, seconds - START_SECONDS),
            lambda line: TextVectors(MiniLM.model, line["vectors"]),
            refuse,
        ).result()
        return made

    def _without_worker(
        self, query: str, session_id: str, scope: str, why: str, has_time: bool
    ) -> RecallAnswer:
        if not has_time:
            return RecallAnswer("", f"nothing was recalled: {why}")
        return RecallAnswer(self._recalled(query, session_id, scope), f"by full text alone: {why}")

    def _recalled(self, query: str, session_id: str, scope: str) -> str:
        block = self.recall(query, session_id=session_id, scope=scope)
        self._shown.keep(session_id, query, block.passages)
        return block.text

    def recall(self, query: str, *, session_id: str = "", scope: str = OWNER) -> RecallBlock:
        """What is recalled for a query: passages, notes and, when they are on, facts, in one budget."""
        recall = self._opened()[1]
        found = recall.search(
            query, MAX_FOUND, session_id=session_id, in_context=self._in_context, scope=scope
        )
        lines = passage_lines(found, partial(recall.at_positions, scope=scope))
        if self._facts is not None and scope == OWNER:
            facts = self._facts.lines(query, {each.turn_id for each in found})
            lines = alternating(lines, facts)
        return recall_block(query, lines, budget=self._budget, zone=self._zone)

    def save_note(self, text: str, *, scope: str = OWNER) -> int:
        """Store a note; returns its id."""
        store, _ = self._opened()
        note = store.add_note(text, scope)
        self._build_vectors(1)
        return note

    def correct_note(self, note_id: int, text: str, *, scope: str = OWNER) -> bool:
        """Change the text of a note; False when it does not exist."""
        store, _ = self._opened()
        changed = store.change_note(note_id, text, scope)
        if changed:
            self._build_vectors(1)
        return changed

    def forget(self, memory_id: int, *, scope: str | None = None) -> bool:
        """Delete a note, the turn of a passage, or a fact, permanently; with a scope, only one of its own."""
        self._shown.clear()
        if memory_id >= FIRST_ID:
            return scope in (None, OWNER) and self._facts is not None and self._facts.forget(memory_id)
        return bool(self._opened()[0].forget_all([memory_id], [], scope=scope))

    def forget_own(self, memory_id: int) -> bool:
        """Forget one of the owner's memories, by the agent's tool."""
        return self.forget(memory_id, scope=OWNER)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete turns, notes, facts, and all of a period: text, index, vectors and counters."""
        store, _ = self._opened()
        self._shown.clear()
        ids = [int(each) for each in request.memory_ids if int(each) < FIRST_ID]
        forgotten = store.forget_all(ids, request.turn_keys(self.name), request.period)
        if self._facts is None:
            return ForgetReport(forgotten)
        facts = self._facts.forget_selected(request)
        return ForgetReport(forgotten + facts.forgotten, facts.kept)

    def memories_with(self, ids: Sequence[int]) -> list[MemoryItem]:
        """The passages, notes and facts with these ids, as far as they exist."""
        found = self._opened()[0].with_ids([each for each in ids if each < FIRST_ID])
        facts = [each for each in ids if each >= FIRST_ID]
        return [*found, *self._facts.with_ids(facts)] if self._facts is not None and facts else found

    def turns_said_by(self, person: str) -> list[tuple[str, str]]:
        """The turns in which a person spoke, named as in the messages; "user" is who has no name."""
        return self._opened()[0].turns_said_by(person.lower())

    def browse(self, query: str, limit: int = 10) -> list[MemoryItem]:
        """What fits a search in all scopes, as the owner sees it, with how often each was used.

        A turn also recalls what was said beside it; a person who looks for a word wants the word.
        """
        fitting = (each for each in self.search(query, WITH_NEIGHBOURS * limit, scope=None) if each.is_hit)
        found = list(islice(fitting, limit))
        uses = self._opened()[0].uses_of([each.id for each in found])
        items = [
            MemoryItem(
                each.id,
                each.created,
                each.kind,
                each.text,
                each.speaker if each.kind == "turn" else "",
                each.session_id,
                each.turn_id,
                *uses.get(each.id, (0, 0)),
            )
            for each in found
        ]
        return [*items, *self._facts.browse(query, limit)] if self._facts is not None else items

    def dated(self, memory: FoundPassage) -> str:
        return local_time(memory.created, self._zone).isoformat(timespec="minutes")

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory. What fits a message is recalled by itself. Use memory_search"
            " to look for more, memory_save for what later conversations should know, and memory_correct or"
            " memory_forget when a note is wrong or the user asks for it."
        )

    def check(self, config: ProviderConfig) -> str:
        return str(self.describe())

    def describe(self) -> LocalDescription:
        """The state of the memory, for `doctor`."""
        store, _ = self._opened()
        passages, notes = store.counts()
        model = None if self._embedder is None else self._embedder.model
        state = ""
        if self._worker is not None:
            model, state = MiniLM.model, self._worker.state
        waiting = 0 if model is None else store.count_without_vector()
        return LocalDescription(
            self._path,
            passages,
            notes,
            model,
            tuple(self._missing),
            waiting,
            state,
            "" if self._facts is None else str(self._facts),
        )

    def shutdown(self) -> None:
        """Close the file; later calls are refused. May be called again."""
        with self._lock:
            self._closed = True
            store, builder = self._store, self._builder
            facts, self._facts = self._facts, None
            self._store = self._recall = self._builder = None
        if self._worker is not None:
            self._worker.close()
        if builder is not None:
            builder.close()
        if facts is not None:
            facts.shutdown()
        if store is not None:
            store.close()

    def _opened(self) -> tuple[PassageStore, HybridRecall]:
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._store is None or self._recall is None:
                self._store = PassageStore(self._path, clock=self._clock, zone=self._zone)
                index = None
                if self._embedder is not None:
                    from holdfast.providers.local.vectors import VectorIndex

                    self._store.await_vectors(self._embedder.model)
                    index = VectorIndex(self._store, self._embedder.model)
                    self._builder = VectorBuilder(self._store, self._embedder, index)
                self._recall = HybridRecall(self._store, self._embedder, index)
            return self._store, self._recall

    def _build_vectors(self, fresh: int) -> None:
        builder = self._builder
        if builder is not None:
            builder.build(fresh)
        if self._worker is not None and fresh:
            self._worker.wake()


def in_folder(folder: Path, clock: Clock) -> LocalMemory:
    """Create the provider `local` with its usual file."""
    return LocalMemory(folder / "memory.db", clock=clock, turns_in_context=TURNS_IN_CONTEXT)
