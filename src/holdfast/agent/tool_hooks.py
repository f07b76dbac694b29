"""`ToolHooks`: a program's own functions around every tool call.

`before` may answer in the tool's place, for example to refuse a call or to use a cached result. `after` may
replace the result. What a hook raises becomes a failed result, which the model reads.
"""

import logging
from dataclasses import dataclass
from typing import Any

from holdfast.agent.contract import AfterTool, BeforeTool
from holdfast.core.error_text import error_text
from holdfast.tools.contract import Tool, ToolContext, ToolResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolHooks:
    """The functions around a call; both may be missing."""

    before: BeforeTool | None = None
    after: AfterTool | None = None

    async def run(self, tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """The result of one call."""
        if self.before is not None:
            instead = await self.before(tool.name, arguments, context)
            if instead is not None:
                return checked_result("before_tool", instead)
        result = checked_result("a tool", await tool.run(context, arguments))
        if self.after is None:
            return result
        try:
            changed = await self.after(tool.name, result, context)
            return result if changed is None else checked_result("after_tool", changed)
        except Exception as problem:
            # The tool has run: its result must reach the model, or it would call the tool again.
            logger.exception("tool.hook_failed", extra={"tool": tool.name})
            said = f"{tool.name} ran, and after_tool failed: {error_text(problem)}"
            return ToolResult(f"{result.text}\n\n[{said}]", ok=False)


def checked_result(giver: str, result: object) -> ToolResult:
    """The result, if it is one."""
    if isinstance(result, str) and giver != "a tool":
        return ToolResult(result)
    if isinstance(result, ToolResult) and isinstance(result.text, str):
        return result
    raise TypeError(f"{giver} gives a ToolResult with text, not {result!r:.80}")
