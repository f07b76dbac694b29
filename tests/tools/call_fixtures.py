"""What a tool's call needs, made for tests: a person who says what the test says, and a record of events."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.events import Event, ToolOutput
from holdfast.core.settings import ToolSettings
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.arguments import parse_arguments
from holdfast.tools.contract import ApprovalRequest, Person, Tool, ToolContext, ToolResult
from holdfast.tools.sandbox import SandboxOptions
from holdfast.tools.sandbox_choice import OWN_NOTHING, CommandSandbox
from tests.polling import pauses

T = TypeVar("T")
LONG = 20.0  # a deadline, never reached


@dataclass
class ScriptedPerson:
    """Says yes or no, and remembers what was asked."""

    yes: bool = True
    reply: str | None = None
    asked: list[ApprovalRequest] = field(default_factory=list)
    questions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return self.yes

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        self.questions.append((question, tuple(choices)))
        return self.reply


@dataclass
class Calls:
    """Runs tools as a turn would: arguments as JSON text or by name, on a real daemon pool."""

    workspace: Path
    pool: DaemonPool
    person: ScriptedPerson = field(default_factory=ScriptedPerson)
    events: list[Event] = field(default_factory=list)
    session_id: str = "s1"
    scope: str = ""

    def context(self, person: Person | None = None) -> ToolContext:
        async def run(fn: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - any function's
            return await off_loop(self.pool, fn, *args)

        return ToolContext(
            session_id=self.session_id,
            turn_id="t1",
            call_id="c1",
            workspace=self.workspace,
            person=person or self.person,
            emit=self.events.append,
            off_loop=run,
            scope=self.scope,
        )

    def sandbox(self, kind: str = "off", own: SandboxOptions = OWN_NOTHING, **more: object) -> CommandSandbox:
        """What commands run in; `more` are settings without their prefix."""
        named = {f"sandbox_{name}": value for name, value in more.items()}
        settings = ToolSettings.model_validate({"sandbox": kind, **named})
        return CommandSandbox(settings, self.context().off_loop, own)

    def said(self) -> str:
        """The live output so far."""
        return "".join(each.text for each in self.events if isinstance(each, ToolOutput))

    async def call(self, tool: Tool, /, **arguments: object) -> ToolResult:
        return await tool.run(self.context(), tool.check(arguments))

    async def call_text(self, tool: Tool, text: str) -> ToolResult:
        return await tool.run(self.context(), parse_arguments(tool, text))

    def run(self, tool: Tool, /, **arguments: object) -> ToolResult:
        """Call a tool from plain code."""
        return finish(self.call(tool, **arguments))


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, under a deadline."""

    async def main() -> T:
        async with asyncio.timeout(LONG):
            return await work

    return asyncio.run(main())


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Let the loop run until `holds`, under a deadline."""
    async with asyncio.timeout(LONG):
        for pause in pauses():
            if holds():
                return
            await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
