"""`Agent`: the agent as a program uses it: a model's name, plain functions as tools, a store's address.

What is named (a model, a store, memory) is opened by `async with` and closed at its end; what is given as an
object is used as it is, and stays open. An agent that has nothing to open works without `async with`.
`run_sync` runs the agent on an event loop of its own, on its own thread.
"""

import asyncio
import atexit
import logging
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Never, Self, TypedDict, Unpack

from holdfast.agent import AgentOptions, Pools, SessionAgent, TurnResult
from holdfast.agent.turn_lease import MEMORY
from holdfast.core.contract import Message
from holdfast.core.errors import AgentClosed, AgentNotStarted, InvalidInput, OtherLoop, SessionNotFound
from holdfast.core.settings import Settings
from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.models.contract import Model
from holdfast.models.model_name import checked_model
from holdfast.process import off_loop
from holdfast.process.loop_thread import LoopThread
from holdfast.sessions import SessionDB
from holdfast.tools.contract import Tool
from holdfast.tools.decorator import AnyTool, as_tools
from holdfast.wiring.keyword_check import refuse_unknown
from holdfast.wiring.library_memory import Memory, checked_memory, library_memory
from holdfast.wiring.library_models import open_model
from holdfast.wiring.memory_completion import complete_with

logger = logging.getLogger(__name__)

COMMIT_SECONDS = 2.5
"""How long memory may take with the end of a session, as in a host."""
CLOSE_SECONDS = 15.0
"""How long closing may take: memory has five seconds of them."""


AWAIT = (
    "agent.run_sync is for code that is not async, with an agent that is not started yet; "
    "where this agent was started, write `await agent.run(…)`"
)


class StoreNames(TypedDict, total=False):
    """Other names for `store` and `session`."""

    session_db: SessionDB | None
    session_id: str | None


class Agent(SessionAgent):
    """An agent in one session: `async with Agent("openai:gpt-5-mini", tools=[rate]) as agent`.

    One turn at a time, every call but `interrupt` on one event loop.
    """

    def __init__(
        self,
        model: str | Model,
        store: str | SessionDB | None = None,
        session: str | None = None,
        memory: MemoryManager | Sequence[str | MemoryProvider] | None = None,
        tools: Iterable[AnyTool] = (),
        options: AgentOptions | None = None,
        **names: Unpack[StoreNames],
    ) -> None:
        """`store` is an address or an open store; without one nothing outlives the agent. `session` goes on.

        `memory` is a list of names and providers, or a `MemoryManager`.
        """
        refuse_unknown("Agent", names, StoreNames, Agent.__init__)
        self._given_model = checked_model(model)
        self._given_store = names.get("session_db", store)
        self._given_session = _checked_session(names.get("session_id", session))
        self._given_memory = (
            memory if memory is None or isinstance(memory, MemoryManager) else checked_memory(memory)
        )
        self._given_tools: list[Tool] = as_tools(tools)
        self._given_options = options or AgentOptions()
        self._opened = AsyncExitStack()
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()  # guards _thread
        self._is_closed = False
        chosen, db, remembering = self._given_model, self._given_store, self._given_memory
        if isinstance(chosen, str) or isinstance(db, str) or isinstance(remembering, Sequence):
            return  # opened in `async with`
        self._stand_on(chosen, db, remembering, self._given_options)

    def _stand_on(
        self, model: Model, db: SessionDB | None, memory: MemoryManager | None, options: AgentOptions
    ) -> None:
        super().__init__(model, db, self._given_session, memory, self._given_tools, options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            # Called only for what is not there: what an agent has once its parts are opened.
            if "_model" not in vars(self):
                raise AgentNotStarted
            raise AttributeError(f"an agent has no {name!r}")

    @property
    def _is_open(self) -> bool:
        return "_model" in vars(self)

    async def __aenter__(self) -> Self:
        self._require_usable()
        if self._home is not None:
            raise InvalidInput("this agent is started already")
        self._home = asyncio.get_running_loop()
        if not self._is_open:
            try:
                await self._open()
            except BaseException:
                self._home = None
                await self._opened.aclose()
                raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _open(self) -> None:
        model, db, memory = self._given_model, self._given_store, self._given_memory
        if isinstance(model, str):
            model = await open_model(model)
            self._opened.push_async_callback(model.close)
        options = self._given_options
        pools = options.pools or Pools()
        if options.pools is None:
            self._opened.callback(pools.close, 0)
        if not isinstance(db, SessionDB):
            opening = partial(SessionDB, MEMORY) if db is None else partial(SessionDB.open, db)
            db = await off_loop(pools.store, opening, clock=options.clock)
            self._opened.push_async_callback(off_loop, pools.store, db.close)
        if memory is not None and not isinstance(memory, MemoryManager):
            memory = await self._open_memory(memory, model, db, pools)
        self._stand_on(model, db, memory, replace(options, pools=pools))

    async def _open_memory(self, given: Memory, model: Model, db: SessionDB, pools: Pools) -> MemoryManager:
        complete = complete_with(model, asyncio.get_running_loop())
        memory = await off_loop(pools.work, library_memory, Settings(), given, db, complete)

        async def finish() -> None:
            try:
                with suppress(SessionNotFound):  # no turn has begun it
                    async with asyncio.timeout(COMMIT_SECONDS):
                        await off_loop(pools.work, self.commit_memory_session)
            except Exception:
                # What no commit has covered stays marked in the store, for the next one.
                logger.warning("agent.not_committed", exc_info=True, extra={"session": self.session_id})
            for line in await off_loop(pools.work, memory.shutdown_all):
                # In the message itself: a program that has set up no logging sees nothing else (D9).
                logger.warning("agent.owed: %s", line)

        self._opened.push_async_callback(finish)
        return memory

    async def close(self) -> None:
        """Interrupt what runs, deliver what is owed to memory, and close what this agent has opened."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._is_open:
                await super().close()
        finally:
            await self._opened.aclose()

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None, None]:
        self._require_usable()
        if not self._is_open:
            raise AgentNotStarted
        async with super()._exclusive():
            yield

    def _require_usable(self) -> None:
        if self._is_closed:
            raise AgentClosed
        if self._home is not None and self._home is not asyncio.get_running_loop():
            raise OtherLoop

    # without async code

    def run_sync(self, text: str | Message | None = None, *, result_type: object = None) -> TurnResult:
        """Run a turn from code that is not async, such as a script or a notebook, and wait for its result.

        The agent lives on a thread of its own from then on, until `with Agent(…) as agent:` or the program
        ends. It also works where an event loop runs already, and blocks that loop meanwhile.
        """
        self._require_no_loop_of_its_own()
        thread = self._started_thread()
        try:
            return thread.run(lambda: self.run(text, result_type=result_type))
        except KeyboardInterrupt:
            with suppress(AgentNotStarted):
                self.interrupt()
            raise

    def __enter__(self) -> Self:
        self._started_thread()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_thread()

    def _started_thread(self) -> LoopThread:
        if self._is_closed:
            raise AgentClosed
        with self._starting:
            if self._thread is not None:
                return self._thread
            if self._home is not None:
                raise InvalidInput(AWAIT)
            thread = LoopThread("agent")
            try:
                thread.run(self.__aenter__)
            except BaseException:
                thread.close()
                raise
            self._thread = thread
            # For scripts that end without closing their agent.
            atexit.register(self._end_thread)
        return self._thread

    def _require_no_loop_of_its_own(self) -> None:
        with suppress(RuntimeError):  # no loop runs here
            if asyncio.get_running_loop() is self._home:
                raise InvalidInput(AWAIT)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self._end_thread)
        try:
            thread.run(self.close, CLOSE_SECONDS)
        except TimeoutError:
            logger.warning("agent.not_closed_in_time", extra={"seconds": CLOSE_SECONDS})
        finally:
            thread.close()


def _checked_session(name: Any) -> str | None:  # noqa: ANN401 - a program may pass anything
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInput(
            f'a session has a name, such as session="monday", not {name!r:.80}; leave it out for a new one'
        )
    session: str | None = name
    return session
