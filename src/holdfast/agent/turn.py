"""The heart: one turn, from a user's message to its end.

The loop asks the model, runs the tools it calls, lets steered messages join, and goes on until the model has
nothing more to do. Every step is stored before the next one begins (`turn_store.py`), and everything that
happens is emitted as an event that any surface can show. `model_calls.py` asks the model and reads its
answer, `turn_ending.py` ends the turn whatever stops it, `turn_limits.py` says how long it may go on.

An interrupt cancels the task that runs this coroutine: it takes effect at any await, keeps what was produced,
and can't touch another turn.
"""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from holdfast.agent.client_request import request_of, results_of
from holdfast.agent.model_calls import ModelCalls
from holdfast.agent.result_form import ResultForm
from holdfast.agent.transcript import for_client, has_pictures
from holdfast.agent.turn_context import TurnContext
from holdfast.agent.turn_ending import TurnEnding
from holdfast.agent.turn_limits import NO_TOKENS, REPEAT_NOTICE, RepeatGuard, explanation, limit_reached
from holdfast.agent.turn_store import TurnStore
from holdfast.agent.turn_timeline import SECOND, TurnTimeline
from holdfast.core.contract import Message, ToolCall
from holdfast.core.events import Emit, Event, MessageJoined, Notice, Recalled, TurnStarted, join_recalled
from holdfast.core.messages import text_of
from holdfast.models.contract import Usage
from holdfast.sessions.contract import InboxMessage

TEXT_ONLY = "{} reads text only: it is told that a picture is there, and can't see it"


class Turn:
    """One turn of one session. `emit` is given every event, in order, and must return at once."""

    def __init__(self, context: TurnContext, store: TurnStore, emit: Emit) -> None:
        self._context = context
        self._store = store
        self._sink = emit
        self._began = context.clock.monotonic()
        self._tools_run: list[str] = []
        self._repeats = RepeatGuard()
        # The timeline has no use for single pieces of text: they go straight to the reader.
        self._model = ModelCalls(context, store, self._emit, emit)
        self.timeline = TurnTimeline(context.clock, context.model.traits.name)
        self.ending = TurnEnding(context, store, self._model, self.timeline, self._emit)
        store.retry.notify = self._notice

    async def run(self, session_id: str, first: Message | int) -> None:
        """Run the turn that begins with a message, or with one that waits in the inbox (its id)."""
        async with self.ending.ensured():
            message = await self._open(session_id, first)
            self._context.follow(request_of(message))  # a client's own tools, and the form it wants
            await self._recall(message)
            await self._loop()

    async def resume(self, first: Message, calls: Sequence[ToolCall] = ()) -> None:
        """Continue a turn that a crash cut off; its finished steps are in the transcript.

        `first` is the message that opened it. `calls`, those of its last step that had not begun, run first.
        """
        self.timeline.resume(self._context.clock.now() - self._store.started / SECOND)
        async with self.ending.ensured():
            self._context.follow(request_of(first))
            if calls:
                await self._run_tools(calls)
            await self._loop()

    @property
    def steps(self) -> int:
        return self._model.steps

    @property
    def form(self) -> ResultForm | None:
        """The form that the answer must have."""
        return self._context.form

    @property
    def is_remembered(self) -> bool:
        """Whether memory is told of it."""
        return self._context.client.memory

    @property
    def usage(self) -> Usage:
        return self._model.usage

    @property
    def cost(self) -> Decimal | None:
        """Dollars spent so far; None when the model's prices aren't known."""
        return self._context.model.traits.prices.cost(self.usage)

    # the steps of the turn

    async def _open(self, session_id: str, first: Message | int) -> Message:
        message = await self._store.open(session_id, first)
        inbox_id = first if isinstance(first, int) else 0
        self._emit(TurnStarted(**self._store.ids, inbox_id=inbox_id, text=text_of(message)))
        traits = self._context.model.traits
        if has_pictures(message) and not traits.sees_pictures:
            self._notice(TEXT_ONLY.format(traits.name))
        return message

    async def _recall(self, message: Message) -> None:
        """Ask memory about the message; the answer goes with it in every request of this turn."""
        if results_of(message):
            return  # the results of tools that a client ran ask nothing of memory
        context = self._context
        asked = context.clock.monotonic()
        window = context.model.traits.context_window
        found = await context.memory.recall(text_of(message), self._store.session_id, window)
        if found:
            seconds = context.clock.monotonic() - asked
            self._emit(Recalled(**self._store.ids, seconds=seconds, providers=found))
            self._model.add_to_last_message(join_recalled(found))
        for note in context.memory.take_notes():
            self._notice(note)

    async def _loop(self) -> None:
        """Ask the model, run its tools, let messages join; until there is nothing more to do."""
        while (limit := self._limit_reached()) is None:
            message = (await self._model.answer_next()).message()
            final = await self._act_on(message)
            if final is None:
                await self._join(await self._store.steers())
            elif await self._complete_or_join(message, final):
                break
        if limit is not None:
            await self.ending.complete(explanation(limit, self._tools_run), unless_steered=False)
        self.ending.emit_completed()

    async def _complete_or_join(self, message: Message, final: Message) -> bool:
        """End the turn with its final message, unless steered messages join it; whether it ended."""
        said = () if message.get("tool_calls") else (final,)
        # A turn that asks its client to run calls ends: what wanted to join it runs as the next turn.
        while joining := await self.ending.complete(final, unless_steered=not final.get("tool_calls")):
            if await self._join(joining, said):
                return False
        return True

    async def _act_on(self, message: Message) -> Message | None:
        """Run the tools that the answer calls. Returns the turn's last message, or None to ask again."""
        form = self._context.form
        if calls := message.get("tool_calls"):
            if theirs := self._context.client_calls(calls):
                return await self._ask_client(message, theirs)
            await self._model.keep_answer(message)
            await self._run_tools(calls)
            return form.answer() if form is not None else None
        if form is None:
            return message
        if (objection := form.objection(message)) is not None:
            await self._model.keep_answer(message)
            await self._store.keep(objection)
            return None
        return form.answer()

    async def _ask_client(self, message: Message, theirs: list[ToolCall]) -> Message:
        """The last message of a turn, which asks its client to run these calls; the agent's own run first."""
        names = self._context.client.names
        own = [call for call in message["tool_calls"] if call["function"]["name"] not in names]
        if not own:
            return for_client({**message, "tool_calls": theirs})
        await self._model.keep_answer({**message, "tool_calls": own})
        await self._run_tools(own)
        return for_client({"role": "assistant", "content": "", "tool_calls": theirs})

    async def _run_tools(self, calls: Sequence[ToolCall]) -> None:
        results = await self._context.tools.batch(calls, self._store, self._emit, self._repeats).run()
        self._tools_run += [f"{each.name}: {'done' if each.ok else 'failed'}" for each in results]
        if self._repeats.count(calls, results):
            self._notice(REPEAT_NOTICE)
        if self.ending.is_suspended:
            raise asyncio.CancelledError  # the results are stored: another process goes on from here

    async def _join(self, steers: Sequence[InboxMessage], said: Sequence[Message] = ()) -> bool:
        """Let the messages that still wait join, right after what was `said`; whether any did."""
        any_joined = False
        for steer in steers:
            with self._model.storing_answer():
                joined = await self._store.join(steer, () if any_joined else said)
            if joined is not None:
                any_joined = True
                self._emit(MessageJoined(**self._store.ids, inbox_id=steer.id, text=text_of(joined)))
        return any_joined

    def _limit_reached(self) -> str | None:
        left, used = self._context.tokens_left, self.usage.input + self.usage.output
        if self._context.refusal or (left is not None and used >= left):
            return self._context.refusal or NO_TOKENS
        seconds = self._context.clock.monotonic() - self._began
        reached = limit_reached(self._context.limits, self.steps, seconds, self.cost)
        return reached or self._repeats.reached

    def _notice(self, text: str) -> None:
        self._emit(Notice(**self._store.ids, text=text))

    def _emit(self, event: Event) -> None:
        self.timeline.note(event)
        self._sink(event)
