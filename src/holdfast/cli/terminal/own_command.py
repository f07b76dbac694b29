"""`!command`: a person runs a command of their own, and may give its output to the conversation.

It is the person's own: nobody is asked, and it runs outside the sandbox, with the person's rights and
environment, in the workspace. The agent sees its output only when the person adds it to a message.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.cli.terminal.tool_cards import RunningTool
from holdfast.core.errors import InvalidInput
from holdfast.core.events import ToolFinished, ToolOutput

if TYPE_CHECKING:
    from holdfast.cli.terminal.chat import Chat
    from holdfast.core.contract import Message

CALL = "own-command"
GIVEN_CHARACTERS = 20_000
"""Characters of an output that a message takes along."""
OFFER = {"a": "add", "l": "leave"}


class OwnCommand:
    """The command that a person runs, one at a time."""

    def __init__(self, chat: "Chat") -> None:
        self._chat = chat
        self._running: asyncio.Task[None] | None = None
        self._outputs: list[str] = []
        self._explained = False

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    @staticmethod
    def is_meant(text: str) -> bool:
        """Whether a typed line is a command to run."""
        return text.startswith("!") and bool(text[1:].strip())

    def begin(self, text: str) -> None:
        """Run what was typed; its output is shown as it comes."""
        if self.is_running:
            raise InvalidInput("a command of yours still runs; Esc stops it")
        command = text[1:].strip()
        self._chat.view.print_command(text)
        if not self._explained:
            self._explained = True
            self._chat.view.note("  your own command: not asked about, not in the sandbox, without input")
        self._running = asyncio.create_task(self._run(command), name="own command")
        self._chat.start(self._ended(self._running))

    def stop(self) -> None:
        """End the command and all that it started."""
        if self._running is not None:
            self._running.cancel()

    def with_outputs(self, message: "str | Message") -> "str | Message":
        """A message with the outputs that were added to it."""
        if isinstance(message, str):
            return "\n\n".join([message, *self._outputs])
        content: Any = message["content"]
        outputs = [{"type": "text", "text": each} for each in self._outputs]
        return {"role": "user", "content": [*content, *outputs]}

    def outputs_sent(self) -> None:
        """The message with the outputs is stored."""
        self._outputs.clear()
        self._chat.info.attached = 0

    async def _ended(self, running: "asyncio.Task[None]") -> None:
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def _run(self, command: str) -> None:
        from holdfast.tools.environment import UNATTENDED
        from holdfast.tools.output import OUTPUTS, ResultBudget
        from holdfast.tools.sandbox import CommandRequest, NoSandbox
        from holdfast.tools.shell_command import start_command
        from holdfast.wiring import data_folder, environment

        chat, folder = self._chat, self._chat.workspace
        view = chat.view
        view.tools[CALL] = RunningTool("!", {}, command, asyncio.get_running_loop().time())
        variables = {**environment(), **UNATTENDED}
        launch = NoSandbox().launch(CommandRequest(command, folder, folder, variables, CALL))
        ok, outcome, shown = False, "stopped", ""
        with ResultBudget(data_folder() / OUTPUTS).spool(CALL) as spool:
            try:
                running = await start_command(launch, spool, self._show)
                try:
                    ended = await running.wait()
                    ok, outcome = ended.code == 0, ended.summary
                except asyncio.CancelledError:
                    await running.stop()
            finally:
                shown = spool.shown().rstrip("\n")
                view.show(self._finished(f"{shown}\n[{outcome}]", ok=ok))
        if shown.strip():
            chat.start(self._offer(command, outcome, shown))

    def _show(self, text: str) -> None:
        self._chat.view.show(ToolOutput(session_id="", turn_id="", call_id=CALL, text=text))

    @staticmethod
    def _finished(output: str, *, ok: bool) -> ToolFinished:
        return ToolFinished(session_id="", turn_id="", call_id=CALL, name="!", ok=ok, output=output)

    async def _offer(self, command: str, outcome: str, shown: str) -> None:
        chosen = await self._chat.choose("[a]dd its output to your next message, or [l]eave it", OFFER)
        if chosen != "add":
            return
        if len(shown) > GIVEN_CHARACTERS:
            half = GIVEN_CHARACTERS // 2
            left_out = len(shown) - 2 * half
            shown = f"{shown[:half]}\n[… {left_out:,} characters are left out here …]\n{shown[-half:]}"
        fence = "```"
        while fence in shown:
            fence += "`"
        output = f"I ran `{command}` ({outcome}):\n{fence}\n{shown}\n{fence}"
        self._outputs.append(output)
        self._chat.view.add_output(output)
        self._chat.info.attached = len(self._outputs)
        self._chat.view.note("  goes along with your next message")
