"""`Subagent`: one message for a fresh agent, with a deadline that always holds.

The agent runs in a task of its own. Its deadline, and the cancellation of the task that waits for it, take
effect in time: a turn that is interrupted keeps its partial work on record, and one that doesn't stop is left
behind. `delegation.py` and `review.py` are built on it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from holdfast.agent.agent import SessionAgent
from holdfast.core.error_text import error_text, error_words
from holdfast.core.errors import HoldfastError
from holdfast.core.events import (
    Event,
    ModelRetrying,
    StepFinished,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)

logger = logging.getLogger(__name__)

GRACE = 0.4
"""How long a cancelled wait stays for the record to be closed; less than a tool batch's own grace."""
PATIENCE = 5.0
"""How long a subagent past its deadline may take to stop before it is left behind."""

MakeAgent = Callable[[], AbstractAsyncContextManager[SessionAgent]]
"""Makes the agent, and closes it when its turn has ended."""
RunningTasks = set["asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a subagent ended: its answer, or why there is none."""

    ok: bool
    text: str


class Subagent:
    """One turn of an agent that `make_agent` makes. `tasks` holds its task for as long as it runs."""

    def __init__(self, make_agent: MakeAgent, on_event: Callable[[Event], None], tasks: RunningTasks) -> None:
        self._make_agent = make_agent
        self._on_event = on_event
        self._tasks = tasks
        self._agent: SessionAgent | None = None
        self._said: list[str] = []  # finished answers, and last the one that is being said
        self._saying: list[str] = []
        self._used: list[str] = []
        self._ended: Outcome | None = None

    async def run(self, message: str, seconds: float) -> Outcome:
        """Run the turn, for so long at most. Cancelling this interrupts the turn."""
        task = asyncio.create_task(self._run_turn(message), name="subagent")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_failure)
        try:
            await asyncio.wait([task], timeout=seconds)
            if task.done():
                return self._outcome(task)
            self._stop(task, f"it did not finish within {seconds:g} s")
            await asyncio.wait([task], timeout=PATIENCE)
        except asyncio.CancelledError:
            self._stop(task, "the turn that waits for it was interrupted")
            await asyncio.wait([task], timeout=GRACE)
            raise
        return self._late(task, seconds)

    async def _run_turn(self, message: str) -> None:
        async with self._make_agent() as agent:
            self._agent = agent
            await agent.run_turn(self._emit, message)

    def _emit(self, event: Event) -> None:
        self._note(event)
        self._on_event(event)

    def _stop(self, task: "asyncio.Task[None]", why: str) -> None:
        if self._agent is not None and self._agent.running_turn is not None:
            self._agent.interrupt(reason=why)  # the turn keeps what it has, and its reader sees it end
        else:
            task.cancel()

    def _note(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._saying.append(event.text)
            case ModelRetrying():
                self._saying.clear()
            case StepFinished():
                self._said.append("".join(self._saying))
                self._saying.clear()
            case ToolFinished():
                self._used.append(f"{event.name} ({'done' if event.ok else 'failed'})")
            case TurnCompleted():
                self._ended = Outcome(ok=True, text=event.final_response)
            case TurnInterrupted():
                self._ended = self._without_answer(f"The subagent was interrupted: {event.reason}.")
            case TurnFailed():
                self._ended = self._without_answer(f"The subagent failed: {event.error}")

    def _outcome(self, task: "asyncio.Task[None]") -> Outcome:
        if self._ended is not None:
            return self._ended
        problem = None if task.cancelled() else task.exception()
        return self._without_answer(f"The subagent could not do its task: {_said(problem)}")

    def _late(self, task: "asyncio.Task[None]", seconds: float) -> Outcome:
        if self._ended is not None and self._ended.ok:
            return self._ended  # it completed in the moment it was told to stop
        fate = " and was stopped" if task.done() else ", nor stop when told to; it is left behind"
        return self._without_answer(f"The subagent did not finish within {seconds:g} s{fate}.")

    def _without_answer(self, why: str) -> Outcome:
        said = "\n\n".join(text for text in (*self._said, "".join(self._saying)) if text.strip())
        used = f"\nTools it used: {', '.join(self._used)}." if self._used else ""
        so_far = f"What it said so far:\n{said}" if said else "It had said nothing yet."
        return Outcome(ok=False, text=f"{why}{used}\n{so_far}")


def _said(problem: BaseException | None) -> str:
    if problem is None:
        return "it was cancelled"
    return error_words(problem) if isinstance(problem, HoldfastError) else error_text(problem)


def _log_failure(task: "asyncio.Task[None]") -> None:
    problem = None if task.cancelled() else task.exception()
    if problem is not None and not isinstance(problem, HoldfastError):
        logger.error("subagent.failed", exc_info=problem)
