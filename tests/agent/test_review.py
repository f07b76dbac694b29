"""Background review: it shares the conversation, saves what is worth keeping, and can touch nothing else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from holdfast import Agent, MemoryManager, SessionDB
from holdfast.agent import AgentOptions, Limits
from holdfast.agent.contract import Nobody
from holdfast.agent.review import Review, ReviewOptions
from holdfast.core.contract import Message
from holdfast.core.errors import KeyRejected
from holdfast.models.contract import Model
from holdfast.testing import Call, ScriptedModel, Tokens
from holdfast.testing.providers import RecordingProvider
from holdfast.tools.contract import ApprovalRequest, Person, Tool, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, echo
from tests.agent.store_rows import everything
from tests.agent.subagent_fixtures import HangingModel, all_ended, leap, leaping
from tests.sessions.store_fixtures import hold_lease

Wait = Callable[[Awaitable[Any]], Any]

EVERY_TURN = ReviewOptions(every=1)
TALK: list[Message] = [
    {"role": "user", "content": "I like tea."},
    {"role": "assistant", "content": "Noted."},
]


class Notebook(RecordingProvider):
    """A memory whose tools save notes and forget them."""

    def __init__(self) -> None:
        super().__init__("notebook")
        self.notes: list[str] = []

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        text = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [
            {"name": name, "description": "", "parameters": text} for name in ("memory_save", "memory_forget")
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: object) -> str:
        assert tool_name == "memory_save", "a review must not forget"
        self.notes.append(args["text"])
        return "saved"


def saver(saved: list[str]) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        saved.append(str(arguments.get("text")))
        return "saved"

    return a_tool("memory_save", run)


def reviewing(
    model: Model, review: ReviewOptions = EVERY_TURN, tools: Sequence[Tool] | None = None
) -> Review:
    return Review(model, review, AgentOptions(), [saver([])] if tools is None else tools)


async def ended(review: Review) -> None:
    """Wait for the review that runs."""
    await all_ended()
    assert not review.is_running


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def memory(db: SessionDB, notebook: Notebook) -> Iterator[MemoryManager]:
    manager = MemoryManager(db)
    manager.add_provider(notebook)
    yield manager
    manager.shutdown_all()


@pytest.mark.clause("C9")
def test_a_review_leaves_the_conversations_record_untouched_whatever_it_asks_for(
    db: SessionDB, store_url: str, wait: Wait, memory: MemoryManager, notebook: Notebook
) -> None:
    async def end_it(context: ToolContext, arguments: dict[str, Any]) -> str:
        db.sessions.end("s", "by a review")
        return "ended"

    async def scenario() -> None:
        tools = [echo(), a_tool("end_it", end_it)]
        agent = Agent(ScriptedModel(["Noted."]), db, "s", memory, tools)
        talk = (await agent.run("I like tea.")).messages
        assert await asyncio.to_thread(memory.flush_pending)
        wanted = ("memory_save", "memory_forget", "echo", "end_it", "delegate", "missing")
        every_tool = [Call(name, {"text": "likes tea", "why": "said so " * 500}) for name in wanted]
        # So much that the review's own context is compacted before its next step.
        script = [[*every_tool, Tokens(9_000)], "in short", "I saved one note."]
        model = ScriptedModel(script, context_window=10_000)
        review = Review(model, EVERY_TURN, AgentOptions(), tools, memory)
        before = everything(store_url)
        assert review.start(talk)
        await ended(review)
        assert everything(store_url) == before
        assert model.played == 3, "it was compacted, and went on"
        assert "summaries" in model.requests[1].system
        assert model.requests[0].messages[:2] == tuple(talk)
        assert await review.close(1) == []
        assert everything(store_url) == before
        assert (await agent.run("and milk")).session_id == "s"

    wait(scenario())
    assert notebook.notes == ["likes tea"]
    assert memory.flush_pending()
    assert notebook.said() == ["I like tea.", "and milk"], "nothing of the review is owed to memory"
    told = {call for call, _ in notebook.calls}
    assert told <= {"initialize", "prefetch"}, "the review's compaction is no boundary of the conversation"


@pytest.mark.clause("C9")
def test_a_review_touches_nothing_while_the_next_turn_runs_under_its_lease(
    db: SessionDB, store_url: str, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel(["Noted.", hold]), db, "s")
        talk = (await agent.run("I like tea.")).messages
        agent.lease = hold_lease(db, "session:s", "me", ttl_seconds=600)
        turn = asyncio.create_task(agent.run("and milk"))
        await hold.reached.wait()
        before = everything(store_url)
        review = reviewing(ScriptedModel([[Call("memory_save")], "saved"]))
        assert review.start(talk)
        await ended(review)
        assert everything(store_url) == before
        hold.opened.set()
        assert (await turn).final_response == "held"
        await review.close(1)

    wait(scenario())


@pytest.mark.clause("M1")
def test_the_next_turn_does_not_wait_for_a_review(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hangs = HangingModel()
        agent = Agent(ScriptedModel(["one", "two"]), db, "s")
        review = reviewing(hangs)
        assert review.start((await agent.run("first")).messages)
        await hangs.hold.reached.wait()
        assert (await agent.run("second")).final_response == "two"
        assert review.is_running
        assert await review.close(5) == []

    wait(scenario())


def test_a_review_is_off_unless_it_is_asked_for(wait: Wait) -> None:
    async def scenario() -> None:
        never, third = (
            reviewing(ScriptedModel(), ReviewOptions()),
            reviewing(HangingModel(), ReviewOptions(every=3)),
        )
        assert [never.turn_completed() for _ in range(50)] == [False] * 50
        assert [third.turn_completed() for _ in range(3)] == [False, False, True]
        assert third.start(TALK)
        assert [third.turn_completed() for _ in range(5)] == [False] * 5, "one at a time"
        assert not third.start(TALK)
        await third.close(5)
        await never.close(5)

    wait(scenario())


def test_a_review_that_was_put_off_is_due_once_the_last_has_ended(wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        review = reviewing(ScriptedModel([hold]), ReviewOptions(every=2))
        assert review.start(TALK)
        await hold.reached.wait()
        assert [review.turn_completed() for _ in range(3)] == [False] * 3
        hold.opened.set()
        await ended(review)
        assert review.turn_completed()
        await review.close(1)

    wait(scenario())


def test_a_review_sees_a_copy_of_the_conversations_end_and_its_own_few_tools(wait: Wait) -> None:
    async def scenario() -> None:
        talk: list[Message] = [
            {"role": "user", "content": "long ago " * 1000},
            {"role": "assistant", "content": "yes"},
            *TALK,
        ]
        model = ScriptedModel(["nothing"])
        review = reviewing(model, ReviewOptions(every=1, tokens=100), [echo(), saver([])])
        review.start(talk)
        talk[2]["content"] = "changed"
        talk.append({"role": "user", "content": "more"})
        await ended(review)
        (request,) = model.requests
        assert [message["content"] for message in request.messages[:2]] == ["I like tea.", "Noted."]
        assert len(request.messages) == 3
        assert [tool.name for tool in request.tools] == ["memory_save"]
        assert "look back" in request.system
        await review.close(1)

    wait(scenario())


def test_what_needs_approval_is_decided_without_the_person(wait: Wait) -> None:
    class Yes(Nobody):
        async def approve(self, request: ApprovalRequest) -> bool:
            return request.subject == "skills/tea"

    def disturbed(*_: object) -> Person:
        raise AssertionError("a review meets no person")

    async def save(context: ToolContext, arguments: dict[str, Any]) -> str:
        return "saved" if await context.person.approve(ApprovalRequest("skills/tea", "write")) else "refused"

    async def said(review: ReviewOptions) -> object:
        model = ScriptedModel([[Call("save_skill")], "ok"])
        options = AgentOptions(person_for=disturbed)
        looking = Review(model, review, options, [a_tool("save_skill", save)])
        looking.start(TALK)
        await ended(looking)
        await looking.close(1)
        return model.requests[1].messages[-1]["content"]

    assert wait(said(EVERY_TURN)) == "refused"
    assert wait(said(ReviewOptions(every=1, unattended=lambda *_: Yes()))) == "saved"


def test_a_review_without_a_tool_to_save_by_asks_no_model(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel()
        review = reviewing(model, tools=[echo()])
        assert review.start(TALK)
        await ended(review)
        assert model.played == 0
        assert not review.start([]), "nothing was said yet"
        await review.close(1)

    wait(scenario())


def test_a_review_that_fails_is_logged_and_the_next_one_comes(
    wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        saved: list[str] = []
        model = ScriptedModel([KeyRejected("m", "expired"), [Call("memory_save", {"text": "tea"})], "ok"])
        review = reviewing(model, tools=[saver(saved)])
        review.start(TALK)
        await ended(review)
        assert review.turn_completed()
        review.start(TALK)
        await ended(review)
        assert saved == ["tea"]
        await review.close(1)

    with caplog.at_level(logging.WARNING):
        wait(scenario())
    (record,) = [each for each in caplog.records if each.message == "review.not_finished"]
    assert "expired" in record.why  # type: ignore[attr-defined]


def test_a_review_ends_at_its_limits(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([[Call("memory_save")]] * 9)
        review = reviewing(model, ReviewOptions(every=1, limits=Limits(max_steps=2)))
        review.start(TALK)
        await ended(review)
        assert model.played == 2
        await review.close(1)

    wait(scenario())


def test_a_review_past_its_deadline_is_stopped() -> None:
    async def scenario() -> None:
        hangs = HangingModel()
        review = reviewing(hangs, ReviewOptions(every=1, seconds=100))
        review.start(TALK)
        await hangs.hold.reached.wait()
        leap(101)
        await ended(review)
        assert hangs.hold.left.is_set()
        await review.close(1)

    leaping(scenario())


@pytest.mark.clause("X1")
def test_closing_stops_a_review_and_starts_none_any_more(wait: Wait) -> None:
    async def scenario() -> None:
        hangs = HangingModel()
        review = reviewing(hangs)
        review.start(TALK)
        await hangs.hold.reached.wait()
        assert await review.close(5) == []
        assert hangs.hold.left.is_set()
        assert not review.is_running
        assert not review.turn_completed()
        assert not review.start(TALK)
        assert await review.close(5) == []

    wait(scenario())


def test_closing_does_not_wait_for_a_review_that_does_not_stop() -> None:
    async def scenario() -> None:
        stubborn = HangingModel(stubborn=True)
        review = reviewing(stubborn)
        review.start(TALK)
        await stubborn.hold.reached.wait()
        closing = asyncio.create_task(review.close(50))
        await stubborn.hold.left.wait()
        leap(51)
        assert await closing == ["a review of the conversation"]
        stubborn.hold.opened.set()

    leaping(scenario())
