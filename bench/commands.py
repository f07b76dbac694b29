"""What the sandbox costs: `true` by the tool `run_command`, bare and in bubblewrap.

Alone: `python -m bench.commands`.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from bench.rounds import FULL, Scale, compare, take_turns
from bench.table import Row, render, row
from holdfast.core.events import Event
from holdfast.core.settings import ToolSettings
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext
from holdfast.tools.output import ResultBudget
from holdfast.tools.sandbox_choice import CommandSandbox
from holdfast.tools.terminal import terminal_tool

COMMANDS = 10


class AlwaysYes:
    """A person who allows everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        return bool(request.subject)

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        return choices[0] if choices else question


class Runner:
    """Runs commands as a turn does."""

    def __init__(self, folder: Path, kind: Literal["off", "bubblewrap"]) -> None:
        self._pool = DaemonPool("bench", workers=2, backlog=8)
        self.sandbox = CommandSandbox(ToolSettings(sandbox=kind), self._off_loop)
        self._workspace = folder / kind
        self._workspace.mkdir()
        self._tool: Tool = terminal_tool(
            {"PATH": "/usr/bin:/bin", "HOME": "/home/nobody"}, ResultBudget(folder / "kept"), self.sandbox
        )

    async def _off_loop(self, fn: object, *arguments: object) -> object:
        return await off_loop(self._pool, fn, *arguments)  # type: ignore[arg-type]

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        for _ in range(COMMANDS):
            result = await self._tool.run(self._context(), self._tool.check({"command": "true"}))
            if not result.ok:
                raise RuntimeError(result.text)

    def _context(self) -> ToolContext:
        shown: list[Event] = []
        return ToolContext("bench", "t", "c", self._workspace, AlwaysYes(), shown.append, self._off_loop)

    def close(self) -> None:
        asyncio.run(self.sandbox.close())
        self._pool.close(5.0)


def command_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """A command bare and in a sandbox; nothing where there is no sandbox."""
    place = folder / "commands"
    place.mkdir()
    bare, held = Runner(place, "off"), Runner(place, "bubblewrap")
    try:
        if asyncio.run(held.sandbox.state()).refusing:
            return
        samples = take_turns(
            {"control": bare.run, "holdfast": held.run}, rounds=scale.rounds, operations=COMMANDS
        )
        bare_ms, held_ms = ([each.wall for each in samples[name]] for name in ("control", "holdfast"))
        wall = compare(bare_ms, held_ms)
        yield row("`true` by run_command: bare, and in the sandbox", "ms", wall)
    finally:
        bare.close()
        held.close()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        print(render(list(command_rows(Path(name), FULL))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
