"""Models that yield nonsense: a turn ends in any case, its record is closed, and the next turn works."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.errors import HoldfastError, ModelFailure
from holdfast.models.contract import Finished, ModelRequest, ReasoningPiece, TextPiece, ToolCallPiece, Usage
from holdfast.sessions.turn_operations import complete_unless_steered
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import echo, require_valid

Wait = Callable[[Awaitable[Any]], Any]


class Pieces(ScriptedModel):
    """Yields the given pieces once, raising those that are errors; then it plays its script."""

    def __init__(self, pieces: list[Any], script: Any = ()) -> None:  # noqa: ANN401
        super().__init__(script)
        self._pieces = pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        pieces, self._pieces = self._pieces, []
        if not pieces:
            async for piece in super().stream(request):
                yield piece
        for piece in pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


END = Finished("stop")
NONSENSE: dict[str, list[Any]] = {
    "text None": [TextPiece(None), TextPiece("said"), END],  # type: ignore[arg-type]
    "reasoning None": [ReasoningPiece(None), TextPiece("said"), END],  # type: ignore[arg-type]
    "text no text": [TextPiece("said"), TextPiece(7), END],  # type: ignore[arg-type]
    "call all None": [ToolCallPiece(0, None, None, None), END],  # type: ignore[arg-type]
    "call without a name": [ToolCallPiece(0, "a"), END],
    "name that no API takes": [ToolCallPiece(0, "a", "do it, now!\0\ud800" * 40), END],
    "index None": [ToolCallPiece(None, "a", "echo"), ToolCallPiece(1, "b", "echo"), END],  # type: ignore[arg-type]
    "index negative": [ToolCallPiece(-1, "a", "echo"), ToolCallPiece(-2, "a", "echo"), END],
    "id no text": [ToolCallPiece(0, 5, "echo"), END],  # type: ignore[arg-type]
    "id unstorable": [ToolCallPiece(0, "\0", "echo"), ToolCallPiece(1, "\ufffd", "echo"), END],
    "arguments NaN": [ToolCallPiece(0, "a", "echo", '{"a": NaN}'), END],
    "arguments deep": [ToolCallPiece(0, "a", "echo", '{"a":' * 5000 + "1" + "}" * 5000), END],
    "arguments half": [ToolCallPiece(0, "a", "echo", '{"a": "\\ud800"}'), END],
    "pieces after the end": [TextPiece("said"), END, TextPiece(" more"), END],
    "keep is no JSON": [TextPiece("said"), Finished("stop", keep={"a": {1, 2}})],
    "keep is too deep": [TextPiece("said"), Finished("stop", keep={"a": eval("[" * 150 + "]" * 150)})],  # noqa: S307
    "usage without numbers": [TextPiece("said"), Finished("stop", Usage(None, None))],  # type: ignore[arg-type]
    "no piece at all": ["what is this", END],
    "error with NUL": [TextPiece("said"), ModelFailure("bad \0 \ud800")],
    "error without words": [TextPiece("said"), ModelFailure()],
    "cancelled by itself": [TextPiece("said"), asyncio.CancelledError()],
    "half surrogates": [TextPiece("said \ud83d"), TextPiece("\ude00"), END],
}


@pytest.mark.parametrize("pieces", NONSENSE.values(), ids=NONSENSE.keys())
def test_whatever_a_model_yields_the_turn_ends_and_the_next_one_works(pieces: list[Any], wait: Wait) -> None:
    async def scenario() -> None:
        db = SessionDB(":memory:")
        model = Pieces(pieces, ["over", "fine"])
        agent = Agent(model, db, "s", tools=[echo()])
        failure: HoldfastError | TypeError | None = None
        try:
            result = await agent.run("go")
        except (HoldfastError, TypeError) as problem:
            failure = problem
        else:
            assert not result.interrupted, "nobody interrupted"
        assert db.turns.running("s") is None, "the turn is left open"
        if any(isinstance(piece, TextPiece) and piece.text == "said" for piece in pieces):
            assert "said" in str(db.get_messages("s")), f"words are lost: {failure!r}"
        assert (await agent.run("again")).final_response in {"over", "fine"}
        sent = model.requests[-1].messages
        require_valid(sent)
        json.dumps(sent, ensure_ascii=False).encode()
        # Who reads the record anew sees the same conversation.
        other = ScriptedModel()
        await Agent(other, db, "s").run("and again")
        require_valid(other.requests[0].messages)
        assert list(other.requests[0].messages)[: len(sent)] == list(sent)
        await agent.close()
        db.close()

    wait(scenario())


def test_a_count_of_zero_is_no_count(wait: Wait) -> None:
    async def scenario() -> None:
        model = Pieces([TextPiece("long " * 400), Finished("stop", Usage(0, 0))])
        agent = Agent(model)
        await agent.run("question " * 400)
        assert agent.context_tokens > 800
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I4")
def test_a_model_that_cancels_itself_has_failed_and_nobody_interrupted(wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(Pieces([asyncio.CancelledError()], ["fine"]))
        with pytest.raises(ModelFailure, match="cancelled itself"):
            await agent.run("go")
        assert (await agent.run("again")).final_response == "fine"
        await agent.close()

    wait(scenario())


def test_a_steering_message_that_is_taken_back_at_the_last_moment_does_not_fail_the_turn(wait: Wait) -> None:
    async def scenario() -> None:
        db = SessionDB(":memory:")
        waiting = db.inbox.waiting

        def waiting_then_withdrawn(session_id: str, *, limit: int | None = None) -> Any:  # noqa: ANN401
            found = waiting(session_id, limit=limit)
            for each in found:
                db.inbox.withdraw(each.id)
            return found

        def steer(_: ModelRequest) -> Call:
            db.inbox.put("s", {"role": "user", "content": "never mind"}, mode="steer")
            db.inbox.waiting = waiting_then_withdrawn  # type: ignore[method-assign]
            return Call("echo")

        model = ScriptedModel([steer, "done"])
        agent = Agent(model, db, "s", tools=[echo()])
        assert (await agent.run("go")).final_response == "done"
        assert "never mind" not in str(model.requests[1].messages)
        await agent.close()
        db.close()

    wait(scenario())


@pytest.mark.clause("I1")
def test_an_answer_is_said_once_when_the_message_that_would_have_joined_it_is_taken_back(
    wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        db = SessionDB(":memory:")
        run = db.run

        async def run_then_withdraw(pool: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            done = await run(pool, operation, *args, **kwargs)
            if operation is complete_unless_steered and isinstance(done, list):
                for each in done:
                    db.inbox.withdraw(each.id)
            return done

        def steer(_: ModelRequest) -> str:
            db.inbox.put("s", {"role": "user", "content": "never mind"}, mode="steer")
            return "done"

        monkeypatch.setattr(db, "run", run_then_withdraw)
        model = ScriptedModel([steer, "again"])
        agent = Agent(model, db, "s")
        assert (await agent.run("go")).final_response == "done"
        assert len(model.requests) == 1
        assert [each["content"] for each in db.get_messages("s")] == ["go", "done"]
        await agent.close()
        db.close()

    wait(scenario())
