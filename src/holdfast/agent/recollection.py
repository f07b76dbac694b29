"""`Recollection`: what a turn asks of memory and tells it, without ever waiting longer than agreed."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast.core.contract import Message
from holdfast.core.events import RecalledFrom
from holdfast.memory import MemoryManager
from holdfast.process import DaemonPool, off_loop
from holdfast.process.daemon_pool import work_name
from holdfast.tools.contract import Tool, ToolContext, ToolResult

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLACK = 0.2
"""What a question may take beyond the time that providers have for it."""


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

    async def recall(self, query: str, session_id: str) -> tuple[RecalledFrom, ...]:
        """What each provider remembers about the query, by whoever answers in time; () when none is asked."""
        self._query = query
        if self._memory is None or not self._memory.provider_names or not query:
            return ()
        ask = partial(self._memory.recall_all, query, session_id=session_id, timeout=self._seconds)
        none = tuple(RecalledFrom(name, "missed", "") for name in self._memory.provider_names)
        return await self._in_time(ask, none)

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
        ask = partial(self._memory.on_pre_compress, messages, session_id=session_id, timeout=self._seconds)
        return await self._in_time(ask, "")

    async def moved(self, session_id: str, child_id: str) -> None:
        """The conversation goes on in a child; what was recalled for the parent is dropped."""
        if self._memory is not None and self.providers:
            tell = partial(self._memory.on_session_switch, child_id, parent_session_id=session_id)
            await self._in_time(tell, None)

    async def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        """The providers' own tools; one that is nameless, or whose name is taken, is left out."""
        if self._memory is None or not self._memory.provider_names:
            return []
        none: list[dict[str, Any]] = []
        schemas = await self._in_time(self._memory.get_tool_schemas, none)
        tools: dict[str, Tool] = {}
        for schema in schemas:
            function = schema.get("function", schema)
            name = function.get("name")
            if not name or name in taken or name in tools:
                logger.warning("memory.tool_left_out", extra={"tool": name})
                continue
            tools[name] = _tool(self._memory, function)
        return list(tools.values())

    async def _in_time(self, ask: Callable[[], T], otherwise: T) -> T:
        """A question to providers that neither a wedged one, nor a lack of threads, nor a fault holds up."""
        try:
            async with asyncio.timeout(self._seconds + SLACK):
                return await off_loop(self._pool, ask)
        except TimeoutError:
            logger.warning("memory.no_answer_in_time", extra={"asked": work_name(ask)})
        except Exception:
            logger.exception("memory.failed", extra={"asked": work_name(ask)})
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
