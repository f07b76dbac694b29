"""A host of a program's own parts: `Host(model=…, tools=[…], memory=[…], store=…)`.

Nothing is read from the settings file, and there are no tools but those given. What is named is opened here
and closed with the host; what is given as an object stays open. `settings_host.py` takes the same parts in
the place of those that the settings name.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope, PolicyFor
from holdfast.core.errors import InvalidInput
from holdfast.core.events import Event
from holdfast.core.settings import Settings
from holdfast.host import HostOptions, HostParts
from holdfast.host.contract import default_policy
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.models.contract import Model
from holdfast.models.model_name import checked_model
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.contract import Person, Tool
from holdfast.tools.decorator import AnyTool, as_tools
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from holdfast.wiring.library_memory import Memory, checked_memory, library_memory
from holdfast.wiring.library_models import open_model
from holdfast.wiring.memory_completion import complete_with
from holdfast.wiring.scope_workspaces import program_name, scope_workspace

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class GivenParts:
    """What a program gives its host. What is None or empty, it leaves to the settings or does without."""

    model: str | Model | None = None
    tools: tuple[Tool, ...] = ()
    memory: Memory | None = None
    store: str | SessionDB | None = None
    options: AgentOptions | None = None

    @classmethod
    def checked(
        cls,
        model: str | Model | None,
        tools: Iterable[AnyTool],
        memory: Memory | None,
        store: str | SessionDB | None,
        options: AgentOptions | None,
    ) -> "GivenParts":
        """The parts; raises what is wrong with one, before anything is opened."""
        return cls(
            None if model is None else checked_model(model),
            tuple(as_tools(tools)),
            None if memory is None else checked_memory(memory),
            store,
            options,
        )

    @property
    def is_empty(self) -> bool:
        return self == GivenParts()

    @property
    def pools(self) -> Pools | None:
        return self.options.pools if self.options is not None else None

    async def open_model(self) -> Model | None:
        return await open_model(self.model) if isinstance(self.model, str) else self.model

    async def open_store(self, pools: Pools, otherwise: Callable[[], SessionDB]) -> SessionDB:
        """The given store; without one, what `otherwise` opens."""
        if isinstance(self.store, SessionDB):
            return self.store
        if self.store is None:
            return await off_loop(pools.store, otherwise)
        return await off_loop(pools.store, SessionDB.open, self.store)

    async def open_memory(
        self, settings: Settings, model: Model, db: SessionDB, pools: Pools
    ) -> MemoryManager:
        """Memory with the given providers."""
        complete = complete_with(model, asyncio.get_running_loop(), db.usage.keep)
        return await off_loop(pools.work, library_memory, settings, self.memory or (), db, complete)

    async def close_model(self, model: Model) -> None:
        """Close the model, unless the program has given it."""
        if self.model is None or isinstance(self.model, str):
            await model.close()


async def library_parts(
    given: GivenParts, options: HostOptions, scope_policy: PolicyFor = default_policy
) -> HostParts:
    """The parts of a host that has nothing but what the program gives it."""
    model = await given.open_model()
    if model is None:
        raise InvalidInput(
            'a host needs a model: Host(model="openai:gpt-5-mini", …), or Host() for that of the settings'
        )
    try:
        return await _parts_with(model, given, options, scope_policy)
    except BaseException:
        await given.close_model(model)
        raise


async def _parts_with(
    model: Model, given: GivenParts, options: HostOptions, scope_policy: PolicyFor
) -> HostParts:
    pools = given.pools or Pools()
    db = await given.open_store(pools, partial(SessionDB, ":memory:"))
    memory = await given.open_memory(Settings(), model, db, pools)
    agent_options = replace(given.options or AgentOptions(), source=options.source, pools=pools)

    def make_agent(session_id: str, questions: OpenQuestions, scope: AgentScope) -> SessionAgent:
        policy = ApprovalPolicy(scope.policy.approval or "ask", fenced=not scope.is_owner)

        def person(session: str, turn: str, call: str, emit: Emit) -> Person:
            return PersonBehindPolicy(policy, questions, emit, CallIds(session, turn, call))

        own = replace(agent_options, person_for=person, scope=scope)
        if not scope.is_owner:
            own = replace(own, workspace=scope_workspace(scope.name, program_name(db.location)))
        return SessionAgent(model, db, session_id, memory, given.tools, own)

    return HostParts(
        db=db,
        memory=memory,
        lifecycle=SessionLifecycle(db),
        make_agent=make_agent,
        scope_policy=scope_policy,
        pools=pools,
        options=options,
        model=model.traits,
        tools=tool_lines(given.tools),
        tool_profiles=agent_options.tool_profiles,
        workspace=str(agent_options.workspace),
        closes_store=not isinstance(given.store, SessionDB),
        release=lambda: given.close_model(model),
    )


def tool_lines(tools: Iterable[Tool]) -> tuple[tuple[str, str], ...]:
    """Each tool's name and the first line about it, as surfaces list them."""
    return tuple((each.name, each.description.strip().partition("\n")[0]) for each in tools)
