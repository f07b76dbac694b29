"""`Host(settings)`: the host with the store, memory, model and tools that the settings name."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from holdfast.agent import Agent, AgentOptions, Limits, Pools
from holdfast.agent.contract import PersonFor
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.agent.review import Review, ReviewOptions
from holdfast.core.events import Event
from holdfast.core.settings import Settings
from holdfast.host import AfterCrash, HostOptions, HostParts, SessionHost
from holdfast.memory import SessionLifecycle
from holdfast.models.open_model import OpenedModel
from holdfast.models.switchable_model import SwitchableModel
from holdfast.process import off_loop
from holdfast.tools.approval import AllowRule, ApprovalPolicy
from holdfast.tools.ask_user import ask_user
from holdfast.tools.contract import Person
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from holdfast.tools.processes import Deliver
from holdfast.tools.todo import TodoList
from holdfast.tools.toolbox import ToolDependencies, toolbox
from holdfast.wiring.folders import data_folder
from holdfast.wiring.memory_completion import complete_with
from holdfast.wiring.memory_setup import build_memory
from holdfast.wiring.model_opener import open_model, open_model_or_explain
from holdfast.wiring.model_switch import ModelSwitch
from holdfast.wiring.own_files import own_files, own_folders, skills_folder
from holdfast.wiring.settings_loader import load_settings
from holdfast.wiring.store_opener import open_store
from holdfast.wiring.workspace import workspace_of

TODO = "todo"
Emit = Callable[[Event], None]
ModelOpener = Callable[[Settings], Awaitable[OpenedModel]]


class Host(SessionHost):
    """The sessions of this process, as the settings say: `async with Host(settings) as host`.

    `after_crash` is used where the setting `host.after_crash` is empty. With `ask`, the program decides about
    unfinished turns and waiting messages (`unfinished`, `resume`, `drop`, `run_waiting`); a program without a
    person passes `resume`. `attended` says whether a person can be asked; the notes at the start depend on
    it. Without `model_required` the host also starts where there is no model; its turns then fail and say
    what is missing.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        source: str = "library",
        after_crash: AfterCrash = "ask",
        attended: bool = True,
        model_required: bool = True,
    ) -> None:
        settings = load_settings() if settings is None else settings
        rule = settings.host.after_crash or after_crash
        options = HostOptions(source=source, after_crash=rule, attended=attended)
        # Finding the model and starting tool servers need the event loop, so they wait for it.
        opener = open_model if model_required else open_model_or_explain
        super().__init__(lambda: _host_parts(settings, options, opener, self._deliver))

    async def _deliver(self, session_id: str, text: str) -> None:
        """Send the end of a background process to the session, as a user message."""
        await self.send(session_id, text)


def _unattended(policy: ApprovalPolicy) -> PersonFor:
    """The policy without a person: every request that needs approval is refused."""
    alone = replace(policy, attended=False)

    def person(session: str, turn: str, call: str, emit: Emit) -> Person:
        return PersonBehindPolicy(alone, OpenQuestions(), emit, CallIds(session, turn, call))

    return person


async def _host_parts(
    settings: Settings, options: HostOptions, open_model: ModelOpener, deliver: Deliver
) -> HostParts:
    workspace = workspace_of(settings)  # a wrong workspace is reported before anything is opened
    model = SwitchableModel((await open_model(settings)).model)
    pools = Pools()
    db = await off_loop(pools.store, open_store, settings)
    # Providers are third-party code: the event loop, which also handles signals, never waits for one.
    memory, left_out = await off_loop(
        pools.work, build_memory, settings, db, complete_with(model, asyncio.get_running_loop())
    )
    own = await off_loop(pools.work, own_files, settings)
    box = await toolbox(
        settings.tools,
        ToolDependencies(
            workspace.folder,
            data_folder(),
            os.environ,
            deliver,
            partial(off_loop, pools.work),
            db=db,
            own_files=own,
            own_folders=tuple(own_folders()),
            workspace_label=workspace.label,
        ),
    )
    limits = Limits(settings.limits.max_steps, settings.limits.max_seconds, settings.limits.max_cost)
    agent_options = AgentOptions(
        workspace=workspace.folder,
        own_files=own,
        trusted_workspace=workspace.trusted,
        source=options.source,
        limits=limits,
        recall_seconds=settings.memory.recall_s,
        recall_tokens=settings.memory.recall_tokens,
        skills=box.prompt,
        pools=pools,
    )

    todo = TodoList().tool()
    unattended = _unattended(box.policy)
    # Each conversation has its own todo list; all conversations share the other tools.
    shared = [tool for tool in box.tools if tool.name != TODO]

    def make_agent(session_id: str, questions: OpenQuestions) -> Agent:
        def person(session: str, turn: str, call: str, emit: Emit) -> Person:
            return PersonBehindPolicy(box.policy, questions, emit, CallIds(session, turn, call))

        own = replace(agent_options, person_for=person)
        asking = frozenset({ask_user.name})
        offer = Offer(model, db, shared, own, memory, asking=asking, unattended=unattended)
        tools = [*shared, TodoList().tool(like=todo), delegate_tool(offer)]
        return Agent(model, db, session_id, memory, tools, own)

    def make_review() -> Review:
        # Reviews may save skills without asking, and write no other file of Holdfast's own.
        folder = os.path.realpath(skills_folder(settings))
        policy = replace(box.policy, own_files=(AllowRule("write", f"{folder}/*/SKILL.md"),))
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
        models=ModelSwitch(settings, model),
        tools=tuple((each.name, each.description.strip().partition("\n")[0]) for each in box.tools),
        problems=(*workspace.notes(attended=options.attended), *map(str, left_out), *box.problems),
        sandbox=box.sandbox.state,
        workspace=workspace.description,
        approval=settings.tools.approval,
        forget_outputs=box.budget.forget,
        release=release,
    )
