"""`AgentMemory`: what a turn asks of memory and tells it. It never waits longer than agreed.

It waits on the loop, with no thread: a provider that hangs holds only threads of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from holdfast.core.contract import Message
from holdfast.core.errors import PoolClosed, PoolSaturated
from holdfast.core.events import RecalledFrom
from holdfast.memory import MemoryManager
from holdfast.memory.contract import Budgets
from holdfast.memory.provider_requests import OfferedTools, PromptBlocks, ProviderRequest, late_message
from holdfast.process import DaemonPool, off_loop
from holdfast.process.daemon_pool import work_name
from holdfast.sessions.contract import OWNER
from holdfast.tools.contract import Tool, ToolContext, ToolResult

logger = logging.getLogger(__name__)

T = TypeVar("T")


class AgentMemory:
    """One agent's access to memory; with no memory every call is free."""

    def __init__(
        self,
        memory: MemoryManager | None,
        pool: DaemonPool,
        *,
        seconds: float,
        ephemeral: bool,
        scope: str,
        tokens: int = 0,
    ) -> None:
        self._memory = memory
        self._scope = scope
        self._pool = pool
        self._seconds = seconds
        self._tokens = tokens
        self.ephemeral = ephemeral
        self._query = ""
        self._notes: list[str] = []
        self._wrong: dict[str, tuple[str, ...]] = {}

    @property
    def providers(self) -> Sequence[str]:
        """The providers that a completed turn is owed to; none for a turn that memory must not know."""
        return () if self.ephemeral else self._asked

    @property
    def _asked(self) -> Sequence[str]:
        """The providers that are asked, also in a turn that memory must not know."""
        if self._memory is None:
            return ()
        is_owner = self._scope == OWNER
        return self._memory.provider_names if is_owner else self._memory.names_for(self._scope)

    def left_out(self) -> "AgentMemory":
        """For one turn that memory must not know, and in which it is not asked."""
        return AgentMemory(None, self._pool, seconds=self._seconds, ephemeral=True, scope=self._scope)

    def take_notes(self) -> list[str]:
        """What a person should know about memory: each problem once, when it begins."""
        notes, self._notes = self._notes, []
        return notes

    def _note(self, kind: str, wrong: Iterable[str]) -> None:
        known = {line for lines in self._wrong.values() for line in lines}
        self._wrong[kind] = tuple(dict.fromkeys(wrong))
        self._notes += [line for line in self._wrong[kind] if line not in known]

    async def recall(self, query: str, session_id: str, window: int) -> tuple[RecalledFrom, ...]:
        """What the providers that answer in time remember about the query; () when none is asked."""
        self._query = query
        if self._memory is None or not (names := self._asked) or not query:
            return ()
        tokens = Budgets.of(window, self._tokens).recall
        ask = partial(self._memory.ask_recall, query, session_id=session_id, tokens=tokens, scope=self._scope)
        missed = tuple(RecalledFrom(name, "missed", "") for name in names)
        found = await self._answered(ask, missed)
        late = [each.provider for each in found if each.outcome == "missed"]
        self._note("recall", [late_message(name, self._seconds) for name in late])
        return found

    def completed(self, session_id: str) -> None:
        """A turn is on record: its deliveries may begin, and the next recall be prepared."""
        if self._memory is None or not self.providers:
            return
        try:
            self._memory.wake()
            if self._query:
                self._memory.queue_prefetch_all(self._query, session_id=session_id, scope=self._scope)
        except Exception:
            # The turn is completed, and its deliveries are found later.
            logger.exception("memory.failed", extra={"asked": "the next recall"})

    async def system_block(self, window: int) -> PromptBlocks:
        """What the providers add to the system text."""
        if self._memory is None or not self._asked:
            return PromptBlocks()
        ask = partial(self._memory.ask_prompt_blocks, tokens=Budgets.of(window).block, scope=self._scope)
        said = await self._answered(ask, PromptBlocks())
        self._note("block", said.notes)
        return replace(said, is_late=said.is_late or self._memory.has_pending_providers)

    async def before_compaction(self, session_id: str, messages: Sequence[Message], window: int) -> str:
        """What the providers want a summary to keep."""
        if self._memory is None or not self.providers:
            return ""
        try:
            # A long conversation takes a moment to copy; no provider has a part in it.
            async with asyncio.timeout(self._seconds):
                copy = await off_loop(self._pool, deepcopy, list(messages))
        except (PoolClosed, PoolSaturated, TimeoutError):
            logger.warning("memory.no_thread", extra={"asked": "on_pre_compress"})
            return ""
        tokens = Budgets.of(window).block
        ask = partial(self._memory.ask_notes, copy, session_id=session_id, tokens=tokens, scope=self._scope)
        return await self._answered(ask, "")

    def moved(self, session_id: str, child_id: str) -> None:
        """The conversation goes on in a child; what was recalled for the parent is dropped."""
        if self._memory is None or not self.providers:
            return
        try:
            self._memory.on_session_switch(child_id, parent_session_id=session_id, scope=self._scope)
        except Exception:
            logger.exception("memory.failed", extra={"asked": "on_session_switch"})

    async def tools(self, window: int, taken: Collection[str] = ()) -> tuple[list[Tool], bool]:
        """The providers' own tools, without those whose names are taken; and whether a provider is late."""
        if self._memory is None or not self._asked:
            return [], False
        ask = partial(self._memory.ask_tool_schemas, tokens=Budgets.of(window).tools, scope=self._scope)
        offered = await self._answered(ask, OfferedTools())
        self._note("tools", offered.notes)
        tools: dict[str, Tool] = {}
        for function in offered.functions:
            name = function["name"]
            if name in taken or name in tools:
                logger.warning("memory.tool_left_out", extra={"tool": name})
                continue
            tools[name] = _tool(self._memory, self._scope, function)
        return list(tools.values()), offered.is_late or self._memory.has_pending_providers

    async def _answered(self, ask: Callable[..., ProviderRequest[T]], otherwise: T) -> T:
        """What came of a question in time; a memory that fails fails no turn."""
        try:
            return await ask(timeout=self._seconds).answered()
        except Exception:
            logger.exception("memory.failed", extra={"asked": work_name(ask)})
            return otherwise


def _tool(memory: MemoryManager, scope: str, schema: dict[str, Any]) -> Tool:
    name = str(schema["name"])

    async def run(_: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        asked = memory.ask_tool(name, arguments, scope=scope)
        try:
            return ToolResult(await asked.answered())
        except asyncio.CancelledError:
            for each in asked.answers:
                each.cancel()  # a call that has not begun never does
            raise

    return Tool(
        name=name,
        description=str(schema.get("description", "")),
        parameters=schema.get("parameters", {"type": "object", "properties": {}}),
        run=run,
    )
