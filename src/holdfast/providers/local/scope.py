"""`LocalScope`: the built-in memory as one person or room has it."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from holdfast.memory.contract import CompletedTurn, RecallAnswer
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.local.recall import FoundPassage
from holdfast.providers.local.tools import TOOLS

if TYPE_CHECKING:
    from holdfast.providers.local.provider import LocalMemory


class LocalScope(BatchProvider):
    """The local memory of one scope. It has no state: everything is the memory's, asked for this scope."""

    name = "local"
    tools = TOOLS

    def __init__(self, memory: "LocalMemory", scope: str) -> None:
        self._memory = memory
        self._scope = scope
        self._clock = memory.clock

    @property
    def closed(self) -> bool:
        return self._memory.closed

    def initialize(self, session_id: str, **kwargs: object) -> None:
        """Nothing: the memory is open."""

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self._memory.sync_turns(turns, scope=self._scope)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self.begin_prefetch(query, session_id=session_id).result().text

    def begin_prefetch(self, query: str, *, session_id: str = "") -> "Future[RecallAnswer]":
        return self._memory.begin_prefetch(query, session_id=session_id, scope=self._scope)

    def search(self, query: str, limit: int = 10) -> list[FoundPassage]:
        return self._memory.search(query, limit, scope=self._scope)

    def save_note(self, text: str) -> int:
        return self._memory.save_note(text, scope=self._scope)

    def correct_note(self, note_id: int, text: str) -> bool:
        return self._memory.correct_note(note_id, text, scope=self._scope)

    def forget_own(self, memory_id: int) -> bool:
        return self._memory.forget(memory_id, scope=self._scope)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        return self._memory.forget_selected(request)

    def dated(self, memory: FoundPassage) -> str:
        return self._memory.dated(memory)

    def system_prompt_block(self) -> str:
        return self._memory.system_prompt_block()
