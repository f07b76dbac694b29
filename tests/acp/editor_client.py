"""`EditorClient`: the SDK's client side as an editor, which keeps what it is told and answers questions."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema, spawn_agent_process

from tests.cli.real_terminal import COMMAND, PATIENCE, Home


class EditorClient:
    """Everything that the agent sends, in order."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.answer = "yes"
        self._changed = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: object) -> None:  # noqa: ANN401
        async with self._changed:
            self.updates.append(update)
            self._changed.notify_all()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: object,
    ) -> schema.RequestPermissionResponse:
        assert session_id
        self.asked.append((tool_call, options))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: bool(holds()))

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.updates if isinstance(each, kind)]

    def text(self, kind: type = schema.AgentMessageChunk) -> str:
        return "".join(getattr(each.content, "text", "") for each in self.of(kind))

    def state_of(self, title: str) -> list[str | None]:
        """The states of the call with this title, in order."""
        ids = {each.tool_call_id for each in self.of(schema.ToolCallStart) if title in each.title}
        calls = self.of(schema.ToolCall) + self.of(schema.ToolCallUpdate)
        return [each.status for each in calls if each.tool_call_id in ids]


@asynccontextmanager
async def editor(
    home: Home,
    client: EditorClient | None = None,
    offers: schema.ClientCapabilities | None = None,
) -> AsyncIterator[tuple[EditorClient, Any, asyncio.subprocess.Process]]:
    """An editor that has started `holdfast acp` and introduced itself."""
    client = client or EditorClient()
    spawned = spawn_agent_process(
        client,  # type: ignore[arg-type]
        sys.executable,
        *COMMAND,
        "acp",
        env=home.environment(),
        cwd=home.folder,
    )
    async with spawned as (agent, process):
        hello = await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=offers)
        assert hello.agent_capabilities is not None
        assert hello.agent_capabilities.load_session
        yield client, agent, process


async def refusal(request: Any) -> RequestError:  # noqa: ANN401 - any request
    """The error that a request is answered by."""
    try:
        await request
    except RequestError as error:
        return error
    raise AssertionError("it was not refused")


def project(home: Home) -> str:
    return str(Path(home.project))
