"""A host built by hand for tests: scripted models, quick polls, and readers of its events."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ParamSpec

from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope, PolicyFor
from holdfast.core.events import Event, TurnCompleted, TurnFailed, TurnInterrupted
from holdfast.host import HostOptions, HostParts, SessionHost
from holdfast.host.contract import HostStatus, default_policy
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.models.contract import Model
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.contract import Person, Tool
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from tests.polling import pauses

P = ParamSpec("P")
QUICK = HostOptions(poll_seconds=0.02, shutdown_seconds=3.0)
ENDS = (TurnCompleted, TurnInterrupted, TurnFailed)


def host_parts(  # noqa: PLR0913 - what a host is made of
    db: SessionDB,
    script: Sequence[Any] | Callable[[str], Model] = (),
    *,
    tools: Sequence[Tool] = (),
    memory: MemoryManager | None = None,
    options: HostOptions = QUICK,
    agent_options: AgentOptions | None = None,
    scope_policy: PolicyFor = default_policy,
    pools: Pools | None = None,
) -> HostParts:
    """For a host whose agents share one scripted model, or have one each by session."""
    pools = pools or Pools()
    one = None if callable(script) else ScriptedModel(script)
    kept = memory or MemoryManager(db, drain_seconds=1.0)

    def make_agent(session_id: str, questions: OpenQuestions, scope: AgentScope) -> SessionAgent:
        def person_for(session: str, turn: str, call: str, emit: Callable[[Event], None]) -> Person:
            return PersonBehindPolicy(
                ApprovalPolicy.of("ask", ()), questions, emit, CallIds(session, turn, call)
            )

        chosen = one if one is not None else script(session_id)  # type: ignore[operator]
        wanted = replace(agent_options or AgentOptions(), pools=pools, person_for=person_for, scope=scope)
        return SessionAgent(chosen, db, session_id, kept, tools, wanted)

    return HostParts(
        db=db,
        memory=kept,
        lifecycle=SessionLifecycle(db),
        make_agent=make_agent,
        pools=pools,
        options=options,
        scope_policy=scope_policy,
        clock=(agent_options or AgentOptions()).clock,
    )


def a_host_of(parts: Callable[P, HostParts]) -> Callable[P, SessionHost]:
    return lambda *args, **kwargs: SessionHost(parts(*args, **kwargs))


a_host = a_host_of(host_parts)


async def until_recovered(host: SessionHost) -> HostStatus:
    """How the host stands once it has looked after what was left to it."""
    for pause in pauses():
        if not (status := await host.overview.status()).recovering:
            return status
        await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
    raise AssertionError("pauses have no end")


async def until_turns_end(host: SessionHost, session_id: str, turns: int = 1, after: int = 0) -> list[Event]:
    """The events after a number until so many turns have ended."""
    events: list[Event] = []
    async with aclosing(host.events(session_id, after=after)) as stream:
        async for numbered in stream:
            events.append(numbered.event)
            if sum(isinstance(event, ENDS) for event in events) == turns:
                return events
    raise AssertionError("the stream ended first")
