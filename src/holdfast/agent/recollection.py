"""`Recollection`: what a turn asks of memory and tells it, without ever waiting longer than agreed."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError
from holdfast.memory import MemoryManager
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import Tool, ToolContext, ToolResult

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Recollection:
    """One agent's access to memory; with no memory every call is free."""

    def __init__(
        self, memory: MemoryManager | None, pool: DaemonPool, *, seconds: float, ephemeral: bool
    ) -> None:
        self._memory = memory
        self._pool = pool
        self._seconds = seconds
        self.ephemeral = ephemeral
        self._query = ""

    @property
    def providers(self) -> Sequence[str]:
        """Whom a completed turn is owed to; nobody when memory must not hear of it."""
        return () if self._memory is None or self.ephemeral else self._memory.provider_names

    async def recall(self, query: str, session_id: str) -> str:
        """What is remembered about the query, by whoever answers in time."""
        self._query = query
        if self._memory is None or not self._memory.provider_names or not query:
            return ""
        try:
            return await off_loop(
                self._pool,
                self._memory.prefetch_all,
                query,
                session_id=session_id,
                timeout=self._seconds,
            )
        except HoldfastError:
            logger.exception("memory.recall_failed", extra={"session": session_id})
            return ""

    def completed(self, session_id: str) -> None:
        """A turn is on record: its deliveries may begin, and the next recall be prepared."""
        if self._memory is not None and self.providers:
            self._memory.wake()
            if self._query:
                self._memory.queue_prefetch_all(self._query, session_id=session_id)

    async def system_block(self) -> str:
        """What the providers add to the system text."""
        if self._memory is None or not self._memory.provider_names:
            return ""
        return await self._in_time(self._memory.system_prompt_block, "")

    async def before_compaction(self, session_id: str, messages: Sequence[Message]) -> str:
        """What the providers want a summary to keep."""
        if self._memory is None or not self.providers:
            return ""
        return await off_loop(
            self._pool,
            self._memory.on_pre_compress,
            messages,
            session_id=session_id,
            timeout=self._seconds,
        )

    async def moved(self, session_id: str, child_id: str) -> None:
        """The conversation goes on in a child; what was recalled for the parent is dropped."""
        if self._memory is not None and self.providers:
            await off_loop(self._pool, self._memory.on_session_switch, child_id, parent_session_id=session_id)

    async def tools(self) -> list[Tool]:
        """The providers' own tools."""
        if self._memory is None or not self._memory.provider_names:
            return []
        none: list[dict[str, Any]] = []
        schemas = await self._in_time(self._memory.get_tool_schemas, none)
        return [_tool(self._memory, schema.get("function", schema)) for schema in schemas]

    async def _in_time(self, ask: Callable[[], T], otherwise: T) -> T:
        """A question to providers that a wedged one can't hold up."""
        try:
            async with asyncio.timeout(self._seconds):
                return await off_loop(self._pool, ask)
        except TimeoutError:
            logger.warning("memory.no_answer_in_time", extra={"asked": ask.__name__})
            return otherwise


def _tool(memory: MemoryManager, schema: dict[str, Any]) -> Tool:
    name = str(schema["name"])

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(await context.off_loop(partial(memory.handle_tool_call, name, arguments)))

    return Tool(
        name=name,
        description=str(schema.get("description", "")),
        parameters=schema.get("parameters", {"type": "object", "properties": {}}),
        run=run,
    )
