"""`OpenEditor`: what an editor lets tools use in one session, by requests of the protocol.

What the editor did not say that it has is never asked of it. A read that it refuses is made on the disk, and
a command that it can't start runs without it; a write that it refuses is a failed call.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acp import RequestError, schema
from acp.interfaces import Client

from holdfast.acp.tool_updates import call_id
from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools.contract import ToolContext
from holdfast.tools.editor import EditorSilent, EditorTerminal, TerminalEnd

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0
"""How long an editor may take for a file, or to start and to end a terminal."""
OUTPUT_BYTES = 1_000_000
REFUSALS = (RequestError, ConnectionError, TimeoutError)


class OpenEditor:
    """One session of the editor."""

    def __init__(self, client: Client, session_id: str, offers: schema.ClientCapabilities | None) -> None:
        self._client = client
        self._session_id = session_id
        files = offers.fs if offers is not None else None
        self.reads = bool(files and files.read_text_file)
        self.writes = bool(files and files.write_text_file)
        self._has_terminal = bool(offers and offers.terminal)
        self.terminals: dict[str, str] = {}
        """The terminal in which a call runs, by the call's id in the editor."""

    async def read_text(self, path: Path) -> str | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._client.read_text_file(session_id=self._session_id, path=str(path))
        except REFUSALS as refusal:
            logger.info("acp.not_read", extra={"cause": repr(refusal)})
            return None
        return answer.content

    async def write_text(self, path: Path, text: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.write_text_file(session_id=self._session_id, path=str(path), content=text)
        except RequestError as refusal:
            why = storable(str(refusal))[:300]
            raise ToolFailed(f"the editor did not write {path}: {why}. It was left as it is") from refusal
        except ConnectionError as cause:
            raise ToolFailed(f"the editor has gone, so {path} was not written") from cause
        except TimeoutError as cause:
            late = f"the editor took more than {ANSWER_SECONDS:g} s to write {path}"
            raise EditorSilent(f"{late}, and may still do it; read it again") from cause

    async def start(
        self, context: ToolContext, words: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> EditorTerminal | None:
        if not self._has_terminal:
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                made = await self._client.create_terminal(
                    session_id=self._session_id,
                    command=words[0],
                    args=list(words[1:]),
                    cwd=folder,
                    env=[schema.EnvVariable(name=name, value=each) for name, each in environment.items()],
                    output_byte_limit=OUTPUT_BYTES,
                )
        except (RequestError, ConnectionError) as refusal:
            logger.warning("acp.no_terminal", extra={"cause": repr(refusal)})
            return None
        except TimeoutError as cause:
            raise ToolFailed("the editor did not say in time whether it runs the command") from cause
        if not context.caller_turn:  # the calls of a subagent are not shown
            self.terminals[call_id(context.turn_id, context.call_id)] = made.terminal_id
        return OpenTerminal(self._client, self._session_id, made.terminal_id)


class OpenTerminal:
    """A command in one of the editor's terminals."""

    def __init__(self, client: Client, session_id: str, terminal_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._id = terminal_id

    async def wait(self) -> TerminalEnd:
        try:
            end = await self._client.wait_for_terminal_exit(session_id=self._session_id, terminal_id=self._id)
        except (RequestError, ConnectionError) as cause:
            raise ToolFailed(
                "the editor lost the command that it ran; it may have taken effect, and its end is not known"
            ) from cause
        return TerminalEnd(end.exit_code, storable(end.signal or ""))

    async def kill(self) -> None:
        with suppress(*REFUSALS):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.kill_terminal(session_id=self._session_id, terminal_id=self._id)

    async def output(self) -> tuple[str, bool]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._client.terminal_output(session_id=self._session_id, terminal_id=self._id)
        except REFUSALS as refusal:
            logger.info("acp.no_output", extra={"cause": repr(refusal)})
            return "", True
        return answer.output, answer.truncated

    async def release(self) -> None:
        with suppress(*REFUSALS):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.release_terminal(session_id=self._session_id, terminal_id=self._id)
