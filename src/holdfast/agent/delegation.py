"""`delegate`: the tool by which an agent gives tasks to subagents, and the offer they are made from.

A subagent is a fresh `SessionAgent` in a session of its own (relation `delegate`), with the tools that it was
given and nothing else: no memory, no history, no person unless that is allowed. Several run at once; the
results come back in the order of the tasks, and one that fails hurts no other. `subagent.py` runs one of them
and ends it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.agent.agent import SessionAgent
from holdfast.agent.contract import AgentOptions, Limits, PersonFor, both_ends, nobody
from holdfast.agent.subagent import RunningTasks, Subagent
from holdfast.agent.tool_profile import ToolProfiles
from holdfast.core.errors import ToolArgumentsInvalid
from holdfast.core.events import (
    ApprovalAsked,
    AskClosed,
    DelegateFinished,
    DelegateStarted,
    Event,
    QuestionAsked,
    ToolStarted,
)
from holdfast.core.ids import new_id
from holdfast.core.messages import fenced, storable
from holdfast.memory import MemoryManager
from holdfast.models.contract import Model
from holdfast.sessions import SessionDB
from holdfast.tools.arguments import Signature
from holdfast.tools.contract import Tool, ToolContext, ToolResult

DELEGATE = "delegate"
DEEPEST = 2
"""A subagent may have subagents; those may not."""
MOST_TASKS = 16
RESULT_CHARACTERS = 40_000
"""Shared by the answers of one call; the whole of each is in its session."""
TITLE_CHARACTERS = 80
SUBAGENT_LIMITS = Limits(max_steps=30)

INSTRUCTIONS = """\
You work as a subagent: another agent gave you one task, and it reads nothing but your last message. Nobody \
can answer questions. Do the task with the tools you have. Then answer with its result, complete and \
understandable by itself: what you found, with exact names, paths and values; what you changed; what you \
could not do, and why."""

DESCRIPTION = """\
Give tasks to subagents, which work at the same time, each in a conversation of its own. Use it for parts \
that can be done apart from each other, or that need much reading for a short answer. A subagent knows \
nothing of this conversation: say in the task and its context all that it needs. You get each one's answer."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What an agent gives its subagents. It is made together with the agent."""

    model: Model
    db: SessionDB
    tools: Sequence[Tool] = ()
    options: AgentOptions = field(default_factory=AgentOptions)
    memory: MemoryManager | None = None
    """Is told what was delegated and what came of it; no subagent's own turn reaches it."""
    limits: Limits = SUBAGENT_LIMITS
    """Of each subagent's turn."""
    seconds: float = 600.0
    """After this long a subagent is stopped, or left behind when it doesn't stop."""
    at_once: int = 4
    """How many of one call run at the same time."""
    may_ask: bool = False
    """Whether subagents may ask the person, by the options' `person_for`."""
    asking: frozenset[str] = frozenset({"ask_user"})
    """Tools that are there to ask the person; left out unless `may_ask`."""
    unattended: PersonFor = nobody
    """Who decides when subagents may not ask: nobody, or a policy with no person behind it."""

    @property
    def tools_by_name(self) -> dict[str, Tool]:
        """The tools that a subagent may be given, by name."""
        shut = {DELEGATE} if self.may_ask else {DELEGATE, *self.asking}
        every = (*self.options.live_tools(), *self.tools)
        return {tool.name: tool for tool in every if tool.name not in shut}


def delegate_tool(offer: Offer, *, depth: int = 0) -> Tool:
    """The tool `delegate` for an agent that is itself so many delegations deep."""
    delegation = _Delegation(offer, depth)
    return Tool(
        name=DELEGATE,
        description=DESCRIPTION,
        parameters=_parameters(delegation.names),
        run=delegation.run,
        timeout=None,
        check=partial(_checked, delegation.names),
    )


class _Task(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task: str = Field(min_length=1)
    context: str = ""
    tools: list[str] | None = None


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tasks: list[_Task] = Field(min_length=1, max_length=MOST_TASKS)


class _Delegation:
    """The subagents of one agent."""

    def __init__(self, offer: Offer, depth: int) -> None:
        self._offer = offer
        self._depth = depth
        self._tasks: RunningTasks = set()
        self.names = (*offer.tools_by_name, *((DELEGATE,) if depth + 1 < DEEPEST else ()))

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        tasks: list[_Task] = arguments["tasks"]
        slots = asyncio.Semaphore(self._offer.at_once)
        room = RESULT_CHARACTERS // len(tasks)
        ended = await asyncio.gather(
            *(self._one(context, place, task, slots, room) for place, task in enumerate(tasks, 1))
        )
        return ToolResult("\n\n".join(text for text, _ in ended), ok=any(ok for _, ok in ended))

    async def _one(
        self, context: ToolContext, place: int, task: _Task, slots: asyncio.Semaphore, room: int
    ) -> tuple[str, bool]:
        """Run one task; returns its share of the result, and whether it is done."""
        async with slots:
            child_id = new_id()
            here = {
                "session_id": context.session_id,
                "turn_id": context.turn_id,
                "call_id": context.call_id,
                "child_session_id": child_id,
            }
            context.emit(DelegateStarted(**here, task=task.task))
            make_agent = partial(self._child, context, task, child_id)
            subagent = Subagent(make_agent, _relay(context, place), self._tasks)
            outcome = await subagent.run(_message(task), self._offer.seconds)
            context.emit(DelegateFinished(**here, ok=outcome.ok))
            if self._offer.memory is not None:
                self._offer.memory.on_delegation(
                    task.task,
                    outcome.text,
                    session_id=context.session_id,
                    child_session_id=child_id,
                    scope=context.scope,
                )
            answer = fenced("answer", both_ends(outcome.text, room))
            state = "done" if outcome.ok else "not done"
            return f"[{place}] {state}, session {child_id}\n{answer}", outcome.ok

    @asynccontextmanager
    async def _child(
        self, context: ToolContext, task: _Task, child_id: str
    ) -> AsyncGenerator[SessionAgent, None]:
        offer = self._offer
        await context.off_loop(
            partial(
                offer.db.create_session,
                child_id,
                source=DELEGATE,
                title=_title(task.task),
                parent=context.session_id,
                relation="delegate",
            )
        )
        options = replace(
            offer.options,
            source=DELEGATE,
            instructions="\n\n".join(filter(None, (offer.options.instructions, INSTRUCTIONS))),
            limits=offer.limits,
            ephemeral=True,
            caller_turn=context.outer_turn,
            result_type=None,
            # Tools that are named for a task are shown; else it has the profile of its model.
            tool_profiles=ToolProfiles() if task.tools is not None else offer.options.tool_profiles,
            live_tools=tuple,  # they are among the task's tools
            person_for=offer.options.person_for if offer.may_ask else offer.unattended,
        )
        agent = SessionAgent(
            offer.model, offer.db, child_id, tools=self._tools_for(task.tools), options=options
        )
        try:
            yield agent
        finally:
            await agent.close()

    def _tools_for(self, names: Sequence[str] | None) -> list[Tool]:
        """The named tools, or all but `delegate`; a subagent can give its own no more than it has."""
        on_offer = self._offer.tools_by_name
        chosen = [tool for name, tool in on_offer.items() if names is None or name in names]
        if names is not None and DELEGATE in names:
            own = replace(self._offer, tools=chosen, memory=None)
            return [*chosen, delegate_tool(own, depth=self._depth + 1)]
        return chosen


def _relay(context: ToolContext, place: int) -> Callable[[Event], None]:
    """What the caller's stream shows of a subagent: what it asks the person, and which tools it uses."""

    def on_event(event: Event) -> None:
        if isinstance(event, ApprovalAsked | QuestionAsked | AskClosed):
            context.emit(event)
        elif isinstance(event, ToolStarted):
            context.say(f"[{place}] {event.name}\n")

    return on_event


def _message(task: _Task) -> str:
    if not task.context:
        return task.task
    return f"{task.task}\n\nWhat you need to know for it:\n{fenced('context', task.context)}"


def _title(task: str) -> str:
    line = " ".join(storable(task).split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[:TITLE_CHARACTERS]}…"


def _checked(names: Sequence[str], arguments: dict[str, Any]) -> dict[str, Any]:
    """The tasks, all of them usable: nothing begins when one is not."""
    tasks: list[_Task] = Signature(DESCRIPTION, _Arguments, context=None).check(DELEGATE, arguments)["tasks"]
    unknown = sorted({name for task in tasks for name in task.tools or () if name not in names})
    if unknown:
        known = ", ".join(names) or "none"
        raise ToolArgumentsInvalid(
            DELEGATE, f"a subagent can't be given {', '.join(unknown)}; it can be given: {known}"
        )
    return {"tasks": tasks}


@lru_cache(maxsize=32)
def _parameters(names: tuple[str, ...]) -> Mapping[str, Any]:
    # The same object for all agents with these tools, so that it is written as JSON once.
    task = {
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "what to do and what to answer, complete by itself"},
            "context": {"type": "string", "description": "what the subagent needs to know for it"},
            "tools": {
                "type": "array",
                "items": {"type": "string", "enum": list(names)},
                "description": f"the tools it gets; all but {DELEGATE} when left out",
            },
        },
        "required": ["task"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "tasks": {"type": "array", "items": task, "minItems": 1, "maxItems": MOST_TASKS},
        },
        "required": ["tasks"],
        "additionalProperties": False,
    }
