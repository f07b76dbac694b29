"""`Host(settings)`: the host with the store, memory, model and tools that the settings name."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from holdfast import host as hosting
from holdfast.agent import Agent, AgentOptions, Limits, Pools
from holdfast.agent.contract import PersonFor
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.agent.review import Review, ReviewOptions
from holdfast.core.events import Event
from holdfast.core.settings import Settings
from holdfast.host import HostOptions, HostParts
from holdfast.memory import SessionLifecycle
from holdfast.models.in_use import ModelInUse
from holdfast.process import off_loop
from holdfast.tools.approval import AllowRule, ApprovalPolicy
from holdfast.tools.ask_user import ask_user
from holdfast.tools.asking import AskingPerson, CallIds, OpenQuestions
from holdfast.tools.contract import Person
from holdfast.tools.processes import Deliver
from holdfast.tools.todo import TodoList
from holdfast.tools.toolbox import SKILLS, Surroundings, toolbox
from holdfast.wiring.asking import answering
from holdfast.wiring.basics import data_folder, load_settings, open_model, open_store
from holdfast.wiring.memory import build_memory
from holdfast.wiring.models import ModelsOfSettings

TODO = "todo"
Emit = Callable[[Event], None]


class Host(hosting.Host):
    """The sessions of this process, as the settings say: `async with Host(settings) as host`."""

    def __init__(
        self, settings: Settings | None = None, *, source: str = "library", take_over: bool = False
    ) -> None:
        self._settings = load_settings() if settings is None else settings
        self._host_options = HostOptions(source=source, take_over=take_over)

    async def __aenter__(self) -> Self:
        # The model is looked for and tool servers are started: that needs the loop, so it waits till here.
        super().__init__(await _host_parts(self._settings, self._host_options, self._deliver))
        return await super().__aenter__()

    async def _deliver(self, session_id: str, text: str) -> None:
        """The end of a background process enters as a message, like a person's."""
        await self.send(session_id, text)


def _unattended(policy: ApprovalPolicy) -> PersonFor:
    """The policy with nobody to ask: what would be asked is refused."""
    alone = policy if policy.mode == "never-ask" else replace(policy, mode="always-refuse")

    def person(session: str, turn: str, call: str, emit: Emit) -> Person:
        return AskingPerson(alone, OpenQuestions(), emit, CallIds(session, turn, call))

    return person


def skills_folder(settings: Settings) -> Path:
    """Where skills are read and saved."""
    return Path(settings.tools.skills_folder) if settings.tools.skills_folder else data_folder() / SKILLS


async def _host_parts(settings: Settings, options: HostOptions, deliver: Deliver) -> HostParts:
    model = ModelInUse((await open_model(settings)).model)
    pools = Pools()
    db = open_store(settings)
    memory, left_out = build_memory(settings, db, answering(model, asyncio.get_running_loop()))
    workspace = Path(settings.tools.workspace or Path.cwd())
    box = await toolbox(
        settings.tools,
        Surroundings(workspace, data_folder(), os.environ, deliver, partial(off_loop, pools.work), db),
    )
    limits = Limits(settings.limits.max_steps, settings.limits.max_seconds, settings.limits.max_cost)
    agent_options = AgentOptions(
        workspace=workspace,
        source=options.source,
        limits=limits,
        recall_seconds=settings.memory.recall_s,
        skills=box.prompt,
        pools=pools,
    )

    todo = TodoList().tool()
    unattended = _unattended(box.policy)
    # The list belongs to one conversation; the rest of the box serves all.
    shared = [tool for tool in box.tools if tool.name != TODO]

    def make_agent(session_id: str, questions: OpenQuestions) -> Agent:
        def person(session: str, turn: str, call: str, emit: Emit) -> Person:
            return AskingPerson(box.policy, questions, emit, CallIds(session, turn, call))

        own = replace(agent_options, person_for=person)
        offer = Offer(
            model,
            db,
            shared,
            own,
            memory,
            asking=frozenset({ask_user.name}),
            unattended=unattended,
        )
        tools = [*shared, TodoList().tool(like=todo), delegate_tool(offer)]
        return Agent(model, db, session_id, memory, tools, own)

    def make_review() -> Review:
        skills = AllowRule("write", f"{skills_folder(settings)}/*")
        policy = replace(box.policy, allow=(*box.policy.allow, skills))
        every = ReviewOptions(every=settings.memory.review_every, unattended=_unattended(policy))
        return Review(model, every, agent_options, box.tools, memory)

    async def release() -> None:
        await asyncio.gather(box.close(), model.close())

    return HostParts(
        db=db,
        memory=memory,
        lifecycle=SessionLifecycle(db),
        make_agent=make_agent,
        pools=pools,
        options=options,
        ask_seconds=settings.tools.approval_timeout_s,
        make_review=make_review if settings.memory.review_every else None,
        model=model.traits,
        models=ModelsOfSettings(settings, model),
        tools=tuple((each.name, each.description.strip().partition("\n")[0]) for each in box.tools),
        problems=(*map(str, left_out), *box.problems),
        forget_outputs=box.budget.forget,
        release=release,
    )
