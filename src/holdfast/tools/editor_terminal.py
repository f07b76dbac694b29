"""Runs a command in a terminal of the editor that shows the conversation, where the editor offers one.

Only a command without a sandbox goes there: a sandbox is stronger than a window. The command gets the same
environment as everywhere, and everything that it started is ended with it, also what the editor forgets.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from holdfast.core.ids import new_id
from holdfast.process import finish_despite_cancel
from holdfast.tools.contract import ToolContext
from holdfast.tools.editor import EditorOf, EditorTerminal, TerminalEnd, is_sendable
from holdfast.tools.output import Spool
from holdfast.tools.process_tree import UNKNOWN, ProcessTree, marked
from holdfast.tools.sandbox import PROGRAM_FOLDERS, Launch, find_program

LEFT_GRACE = 0.5
CUT = "[… the editor kept only the end of the output]\n"


@dataclass(frozen=True, slots=True)
class EditorCommand:
    """A command in the editor's terminal. Its owner must await `outcome`."""

    terminal: EditorTerminal
    tree: ProcessTree
    spool: Spool

    async def outcome(self, seconds: int) -> tuple[str, bool]:
        """How it ended, in words, and whether well. Its output is in the spool then."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                end = await self.terminal.wait()
        except TimeoutError:
            await finish_despite_cancel(self._finish(kill=True))
            return f"it took more than {seconds} s and was ended, with all it had started", False
        except BaseException:
            await finish_despite_cancel(self._finish(kill=True))
            raise
        took = asyncio.get_running_loop().time() - began
        left = await finish_despite_cancel(self._finish(kill=False))
        also = "; processes that it had left running were ended" if left else ""
        return f"{_summary(end)} after {took:.1f} s{also}", end.code == 0 and not end.signal

    async def _finish(self, *, kill: bool) -> bool:
        """Take the output and end what still runs; whether anything did after its end."""
        if kill:
            await self.terminal.kill()
        left = bool(self.tree.living())
        if left:
            await self.tree.end(LEFT_GRACE)
        text, is_cut = await self.terminal.output()
        self.spool.write(((CUT if is_cut else "") + text).encode("utf-8", "replace"))
        self.spool.close()
        await self.terminal.release()
        return left


class EditorTerminals:
    """Starts commands in the editor's terminal."""

    def __init__(self, editor_of: EditorOf, hidden: Collection[str]) -> None:
        """`hidden` are the variables of the program that commands must not see."""
        self._editor_of = editor_of
        self._hidden = sorted(hidden)

    async def start(self, context: ToolContext, launch: Launch, spool: Spool) -> EditorCommand | None:
        """Start a command there; None when it is to be run without the editor."""
        clear = find_program("env", PROGRAM_FOLDERS)
        if launch.wrapped or launch.files or launch.kill or clear is None:
            return None
        editor = await self._editor_of(context)
        mark = new_id()
        environment = marked(launch.environment, mark)
        # The editor adds its own variables, and has the secrets that this program has.
        unset = [word for name in self._hidden for word in ("-u", name)]
        words = [clear, *unset, *launch.argv]
        if editor is None or not is_sendable(launch.folder, *words, *environment, *environment.values()):
            return None
        terminal = await editor.start(context, words, launch.folder, environment)
        if terminal is None:
            return None
        context.say("")  # from here on the editor shows its terminal
        return EditorCommand(terminal, ProcessTree(UNKNOWN, mark), spool)


def _summary(end: TerminalEnd) -> str:
    if end.signal:
        return f"ended by {end.signal}"
    return "ended" if end.code is None else f"exit code {end.code}"
