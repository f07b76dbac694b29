"""`Host`: a host of a program's own parts, or with the store, memory, model and tools of the settings."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from holdfast.agent import AgentOptions, Limits, Pools, SessionAgent
from holdfast.agent.contract import PersonFor
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.agent.review import Review, ReviewOptions
from holdfast.agent.scope_policy import AgentScope, PolicyFor
from holdfast.agent.title import TitleMaker
from holdfast.agent.tool_profile import ToolProfiles
from holdfast.core.errors import InvalidInput, ProviderInvalid
from holdfast.core.events import Event
from holdfast.core.ids import new_id
from holdfast.core.settings import HostSettings, Settings
from holdfast.host import AfterCrash, HostOptions, HostParts, SessionHost
from holdfast.host.contract import default_policy
from holdfast.memory import MemoryProvider, SessionLifecycle
from holdfast.models.contract import Model
from holdfast.models.open_model import OpenedModel
from holdfast.models.switchable_model import SwitchableModel
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.tools.approval import AllowRule, ApprovalPolicy
from holdfast.tools.ask_user import ask_user
from holdfast.tools.chat_files import ChatFiles, room_of
from holdfast.tools.contract import Person, Tool
from holdfast.tools.decorator import AnyTool
from holdfast.tools.editor import EditorFor
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from holdfast.tools.processes import Deliver
from holdfast.tools.skills import READ_SKILL
from holdfast.tools.todo import TodoList
from holdfast.tools.toolbox import ToolDependencies, toolbox
from holdfast.wiring.account_policies import AccountPolicies
from holdfast.wiring.chat_policies import ChatPolicies
from holdfast.wiring.folders import data_folder, own_folders
from holdfast.wiring.keyword_check import refuse_unknown
from holdfast.wiring.library_host import GivenParts, library_parts, tool_lines
from holdfast.wiring.memory_completion import answer_with, complete_with
from holdfast.wiring.memory_setup import build_memory
from holdfast.wiring.model_opener import open_model, open_model_or_explain
from holdfast.wiring.model_switch import ModelSwitch
from holdfast.wiring.own_files import own_files, skills_folder
from holdfast.wiring.scope_workspaces import scope_workspace
from holdfast.wiring.settings_loader import load_settings
from holdfast.wiring.store_opener import open_store
from holdfast.wiring.telemetry import close_telemetry, open_telemetry
from holdfast.wiring.workspace import workspace_of, workspace_problem

TODO = "todo"
Emit = Callable[[Event], None]
ModelOpener = Callable[[Settings], Awaitable[OpenedModel]]


class HostKeywords(TypedDict, total=False):
    """How a host behaves, beside what it is made of."""

    source: str
    """Recorded with sessions that begin here; `library` by default."""
    after_crash: AfterCrash
    """`ask` by default; the setting `host.after_crash` wins."""
    attended: bool
    agents: int
    """How many agents stay in memory between their turns; 64 by default."""
    model_required: bool
    """False: without a model the host starts, and a turn says what is missing. True by default."""
    scope_policy: PolicyFor
    """What an agent may do for a scope; it is asked on a thread before each turn.

    By default everything for the owner, what their role allows for people of chat platforms that the settings
    name, and `GUEST` for all others.
    """
    started_in: Path
    """The folder that a person works in; by default the current one. It is the workspace (S1)."""
    editor: EditorFor
    """The editor that shows a conversation; its files and its terminal are used where it offers them."""


class Host(SessionHost):
    """The sessions of this process: `async with Host(model="openai:gpt-5-mini", tools=[rate]) as host`.

    `Host()` and `Host(settings)` take everything from the settings. With parts and no settings, the host is
    made of these parts alone: no settings file is read, and it has no other tools and no other memory. With
    both, a part takes the place of that of the settings, and tools are added to the built-in ones.
    `options` is for all agents. A string is opened and closed by the host; an object stays open.

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
        model: str | Model | None = None,
        tools: Iterable[AnyTool] = (),
        memory: Sequence[str | MemoryProvider] | None = None,
        store: str | SessionDB | None = None,
        options: AgentOptions | None = None,
        **how: Unpack[HostKeywords],
    ) -> None:
        refuse_unknown("Host", how, HostKeywords, Host.__init__)
        given = GivenParts.checked(model, tools, memory, store, options)
        policy = how.get("scope_policy")
        # Finding the model and starting tool servers need the event loop, so they wait for it.
        if settings is None and not given.is_empty:
            chosen = _host_options(Settings().host, how)
            super().__init__(lambda: library_parts(given, chosen, policy or default_policy))
            return
        named = load_settings() if settings is None else settings
        chosen = _host_options(named.host, how)
        opener = open_model if how.get("model_required", True) else open_model_or_explain
        ways = _Ways(chosen, self._deliver, opener, policy, how.get("started_in"), how.get("editor"))
        super().__init__(lambda: _host_parts(named, ways, given))

    async def _deliver(self, session_id: str, text: str) -> None:
        """Send the end of a background process to the session, as a user message."""
        await self.send(session_id, text, key=f"background:{new_id()}")


def _host_options(settings: HostSettings, how: HostKeywords) -> HostOptions:
    agents = how.get("agents", settings.agents)
    if agents < 1:
        raise InvalidInput(f"agents is a number from 1 on, not {agents}")
    return HostOptions(
        source=how.get("source", "library"),
        after_crash=settings.after_crash or how.get("after_crash", "ask"),
        attended=how.get("attended", True),
        agents=agents,
        api_days=settings.api_days,
    )


def _unattended(policy: ApprovalPolicy) -> PersonFor:
    """The policy without a person: every request that needs approval is refused."""
    alone = replace(policy, attended=False)

    def person(session: str, turn: str, call: str, emit: Emit) -> Person:
        return PersonBehindPolicy(alone, OpenQuestions(), emit, CallIds(session, turn, call))

    return person


@dataclass(frozen=True, slots=True)
class _Ways:
    """How a host of the settings behaves."""

    options: HostOptions
    deliver: Deliver
    open_model: ModelOpener
    scope_policy: PolicyFor | None
    started_in: Path | None
    editor: EditorFor | None


def _chat_lookup(db: SessionDB, settings: Settings) -> Callable[[str], bool]:
    """Tells whether a session's conversation goes on in a chat; without accounts none does."""
    return (lambda session_id: room_of(db, session_id) is not None) if settings.gateway.accounts else _never


def _never(_: str) -> bool:
    return False


def _offered(tools: Sequence[Tool], scope: AgentScope, owners: Collection[str]) -> list[Tool]:
    """The tools for a scope; those that reach the owner's things only where its policy names them."""
    named = scope.policy.tools or frozenset()
    return [
        tool
        for tool in tools
        if scope.policy.allows(tool.name)
        and (scope.is_owner or tool.name not in owners or tool.name in named)
    ]


def _titles(settings: Settings, given: GivenParts, model: SwitchableModel) -> TitleMaker | None:
    """Names conversations, unless the model is a script: that has answers for turns alone."""
    is_scripted = given.model is not None or settings.model.provider == "scripted"
    return TitleMaker(model) if settings.host.titles and not is_scripted else None


def _approval(owners: ApprovalPolicy, scope: AgentScope) -> ApprovalPolicy:
    """How approvals are decided for a scope. The owner's allow rules are for the owner alone."""
    mode = scope.policy.approval
    if scope.is_owner:
        return owners if mode is None else replace(owners, mode=mode)
    return ApprovalPolicy(mode or "ask", fenced=True)


async def _host_parts(settings: Settings, ways: _Ways, given: GivenParts) -> HostParts:
    options = ways.options
    # A wrong workspace is reported before anything is opened.
    workspace = workspace_of(settings, ways.started_in)
    model = SwitchableModel(await given.open_model() or (await ways.open_model(settings)).model)
    pools = given.pools or Pools(settings.host.store_threads, settings.host.tool_threads)
    db = await given.open_store(pools, partial(open_store, settings))
    # Providers are third-party code: the event loop, which also handles signals, never waits for one.
    left_out: list[ProviderInvalid] = []
    if given.memory is not None:
        memory = await given.open_memory(settings, model, db, pools)
    else:
        complete = complete_with(model, asyncio.get_running_loop(), db.usage.keep)
        memory, left_out = await off_loop(pools.work, build_memory, settings, db, complete)
    own = await off_loop(pools.work, own_files, settings)
    box = await toolbox(
        settings.tools,
        ToolDependencies(
            workspace.folder,
            data_folder(),
            os.environ,
            ways.deliver,
            partial(off_loop, pools.work),
            db=db,
            own_files=own,
            own_folders=tuple(own_folders()),
            workspace_label=workspace.label,
            time_zone=settings.host.time_zone,
            complete=answer_with(model, db.usage.keep, pools.store),
            editor=ways.editor,
        ),
    )
    limits = Limits(settings.limits.max_steps, settings.limits.max_seconds, settings.limits.max_cost)
    agent_options = replace(
        given.options or AgentOptions(limits=limits),
        workspace=workspace.folder,
        own_files=own,
        trusted_workspace=workspace.trusted,
        source=options.source,
        recall_seconds=settings.memory.recall_s,
        recall_tokens=settings.memory.recall_tokens,
        skills=box.prompt,
        tool_profiles=ToolProfiles(
            settings.tools.profile, settings.tools.profiles, tuple(tool.name for tool in given.tools)
        ),
        pools=pools,
    )

    todo = TodoList().tool()
    # Each conversation has its own todo list; all conversations share the other tools.
    send_file = ChatFiles(db, data_folder()).tool()
    shared = [*(tool for tool in box.own if tool.name != TODO), *given.tools]

    switch = ModelSwitch(settings, model) if given.model is None else None

    def make_agent(session_id: str, questions: OpenQuestions, scope: AgentScope) -> SessionAgent:
        policy = _approval(box.policy, scope)
        chosen = switch.opened(scope.model) if switch else None
        answering = chosen or model

        def person(session: str, turn: str, call: str, emit: Emit) -> Person:
            return PersonBehindPolicy(policy, questions, emit, CallIds(session, turn, call))

        own = replace(
            agent_options,
            person_for=person,
            scope=scope,
            live_tools=lambda: _offered(box.server_tools, scope, box.shared),
        )
        if scope.workspace and scope.is_owner:
            # A person named it for this conversation.
            own = replace(own, workspace=Path(scope.workspace), trusted_workspace=True)
        if not scope.is_owner:
            own = replace(own, workspace=scope_workspace(scope.name))
        offered = _offered((*shared, send_file) if scope.in_chat else shared, scope, box.shared)
        if READ_SKILL not in {tool.name for tool in offered}:
            own = replace(own, skills="")
        asking, alone = frozenset({ask_user.name}), _unattended(policy)
        offer = Offer(answering, db, offered, own, memory, asking=asking, unattended=alone)
        tools = [*offered, TodoList().tool(like=todo), delegate_tool(offer)]
        return SessionAgent(answering, db, session_id, memory, tools, own)

    def make_review() -> Review:
        # Reviews may save skills without asking, and write no other file of Holdfast's own.
        folder = os.path.realpath(skills_folder(settings))
        policy = replace(box.policy, own_files=(AllowRule("write", f"{folder}/*/SKILL.md"),))
        every = ReviewOptions(
            every=settings.memory.review_every,
            keep_usage=db.usage.keep,
            unattended=_unattended(policy),
        )
        return Review(model, every, agent_options, box.tools, memory)

    telemetry = await off_loop(pools.work, open_telemetry, settings.host, lambda: model.traits)

    async def release() -> None:
        if switch is not None:
            await switch.close()
        closing = close_telemetry(telemetry, pools.work)
        await asyncio.gather(box.close(), given.close_model(model), closing)

    return HostParts(
        db=db,
        memory=memory,
        lifecycle=SessionLifecycle(db),
        make_agent=make_agent,
        scope_policy=ways.scope_policy
        or AccountPolicies(db.users, ChatPolicies(db.chat_people, settings.gateway)),
        is_in_chat=_chat_lookup(db, settings),
        pools=pools,
        options=options,
        ask_seconds=settings.tools.approval_timeout_s,
        make_review=make_review if settings.memory.review_every else None,
        titles=_titles(settings, given, model),
        model=model.traits,
        models=switch,
        workspace_problem=workspace_problem,
        warm_up=model.warm_up,
        tools=tool_lines((*box.tools, *given.tools)),
        tool_profiles=agent_options.tool_profiles,
        problems=(
            *workspace.notes(attended=options.attended),
            *map(str, left_out),
            *box.problems,
            *(telemetry.problems if telemetry else ()),
        ),
        sandbox=box.sandbox.state,
        workspace=workspace.description,
        approval=settings.tools.approval,
        closes_store=not isinstance(given.store, SessionDB),
        forget_outputs=box.forget,
        file_history=box.history,
        observer=None if telemetry is None else telemetry.on_event,
        release=release,
    )
