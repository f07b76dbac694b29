"""`POST /api/sessions` with a message: a conversation and what it begins with are stored in one step."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from holdfast.core.settings import WebSettings
from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from holdfast.web.accept_header import prefers
from holdfast.web.compat.api_turn import ApiRequest, ApiTurn
from holdfast.web.compat.openai_messages import NewWords
from tests.agent.agent_fixtures import Hold, until
from tests.web.api.api_server import Served, frames, served

Wait = Callable[[Awaitable[Any]], Any]


async def begun(server: Served, message: dict[str, Any], **more: str) -> dict[str, Any]:
    answer = await server.http.post("/api/sessions", json={"message": message, **more})
    assert answer.status_code == 201, answer.text
    view: dict[str, Any] = answer.json()
    return view


@pytest.mark.clause("I1")
def test_a_conversation_begins_with_its_first_message(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["hello"]) as server:
            view = await begun(server, {"text": " good \n morning "}, title="greetings")
            session = view["id"]
            async with server.events(session, after=0) as events:
                kinds = [(await anext(events))["event"]]
                while kinds[-1] != "TurnCompleted":
                    kinds.append((await anext(events))["event"])
            assert kinds[:2] == ["MessageAccepted", "TurnStarted"]
            assert await server.said(session) == [" good \n morning ", "hello"]
            listed = (await server.http.get("/api/sessions")).json()["items"][0]
            same = ("id", "root_id", "title", "opening", "source", "pinned", "archived", "parent_id")
            assert {name: listed[name] for name in same} == {name: view[name] for name in same}
            assert abs(listed["started_at"] - view["started_at"]) < 1000
            assert view["opening"] == "good morning"

    wait(scenario())


@pytest.mark.clause("I1")
def test_the_same_key_again_finds_the_conversation_that_was_begun(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["hello"]) as server:
            first = await begun(server, {"text": "good morning", "key": "once"})
            await until(lambda: len(db.get_messages(first["id"])) == 2)
            again = await begun(server, {"text": "good morning", "key": "once"})
            assert again["id"] == first["id"]
            assert len((await server.http.get("/api/sessions")).json()["items"]) == 1
            assert await server.said(first["id"]) == ["good morning", "hello"]

    wait(scenario())


STREAMED = {"Accept": "text/event-stream"}


@pytest.mark.clause("I1")
def test_who_accepts_events_gets_the_conversation_and_all_that_happens_in_it(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with served(db, ["hello", "and again"]) as server:
            body = {"message": {"text": "good morning", "key": "once"}}
            async with server.http.stream("POST", "/api/sessions", json=body, headers=STREAMED) as answer:
                assert answer.status_code == 201
                heard = [each async for each in until_completed(frames(answer))]
            view, *events = heard
            assert (view["event"], view["opening"]) == ("SessionView", "good morning")
            session = view["id"]
            assert [each["event"] for each in events][:2] == ["MessageAccepted", "TurnStarted"]
            assert await server.said(session) == ["good morning", "hello"]
            # A reader that lost this stream goes on from its last number in the other one.
            async with server.events(session, last=events[-1]["id"]) as later:
                await server.send(session, "more")
                assert (await anext(later))["event"] == "MessageAccepted"

    wait(scenario())


@pytest.mark.clause("I1")
def test_the_same_key_again_streams_the_conversation_that_was_begun(store_url: str, wait: Wait) -> None:
    body = {"message": {"text": "good morning", "key": "once"}}

    async def scenario() -> None:
        async with served(SessionDB.open(store_url), ["hello"]) as server:
            first = await begun(server, body["message"])
            await server.until(first["id"], "TurnCompleted", after=0)
        # Another life of the server has nothing to replay.
        async with (
            served(SessionDB.open(store_url)) as server,
            server.http.stream("POST", "/api/sessions", json=body, headers=STREAMED) as answer,
        ):
            events = frames(answer)
            view, snapshot = await anext(events), await anext(events)
            assert (view["id"], snapshot["event"]) == (first["id"], "SessionSnapshot")
            assert await server.said(first["id"]) == ["good morning", "hello"]

    wait(scenario())


def test_a_message_that_no_stream_is_left_for_is_not_stored(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with (
            served(db, ["hello"], settings=WebSettings(streams=1)) as server,
            server.http.stream("GET", "/api/events") as others,
        ):
            assert others.status_code == 200
            await until(lambda: server.web.streams.full)
            body = {"message": {"text": "good morning"}}
            answer = await server.http.post("/api/sessions", json=body, headers=STREAMED)
            assert (answer.status_code, answer.json()["reason"]) == (503, "TooManyStreams")
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


def test_a_crowd_gets_no_more_streams_than_there_are_and_all_of_it_is_heard(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with (
            served(db, ["yes"] * 10, settings=WebSettings(streams=2)) as server,
            AsyncExitStack() as open_ones,
        ):

            async def one(number: int) -> httpx2.Response:
                asked = server.http.stream(
                    "POST", "/api/sessions", json={"message": {"text": f"{number}"}}, headers=STREAMED
                )
                return await open_ones.enter_async_context(asked)

            answers = await asyncio.gather(*map(one, range(10)))
            kinds = [(each.status_code, each.headers["content-type"].partition(";")[0]) for each in answers]
            assert server.web.streams.open == 2
            assert kinds.count((201, "text/event-stream")) == 2
            stored = sum(status == 201 for status, _ in kinds)
            assert len((await server.http.get("/api/sessions")).json()["items"]) == stored
            views = [
                await each.aread() for each in answers if each.headers["content-type"] == "application/json"
            ]
            assert all(b'"opening"' in each for each in views)

    wait(scenario())


@pytest.mark.parametrize(
    ("accepts", "streamed"),
    [
        (["text/event-stream"], True),
        (["Text/Event-Stream"], True),
        (["text/event-stream, */*;q=0.1"], True),
        (["application/json;q=0.5", "text/event-stream"], True),
        (["application/json, text/event-stream"], False),
        (["text/event-stream;q=0"], False),
        (["text/event-stream;q=much"], False),
        (["*/*"], False),
        (["text/*"], False),
        ([], False),
    ],
)
def test_events_are_for_who_would_rather_have_them(accepts: list[str], streamed: bool) -> None:
    assert prefers(accepts, "text/event-stream", to="application/json") is streamed


def test_a_server_that_ends_says_what_it_has_stored(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["hello"]) as server:
            server.web.streams.close()
            answer = await server.http.post(
                "/api/sessions", json={"message": {"text": "good morning"}}, headers=STREAMED
            )
            assert answer.status_code == 201
            assert b"event: SessionView" in answer.content

    wait(scenario())


async def until_completed(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    async for each in events:
        yield each
        if each["event"] == "TurnCompleted":
            return


@pytest.mark.clause("L11")
def test_the_one_left_behind_is_committed(db: SessionDB, wait: Wait) -> None:
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(RecordingProvider("notes"))

    async def scenario() -> None:
        async with served(db, ["hello", "hello again"], memory=memory) as server:
            first = (await begun(server, {"text": "hi"}))["id"]
            await until(lambda: db.sessions.uncommitted() == [first])
            second = (await begun(server, {"text": "hi"}, prev_session_id=first))["id"]
            await until(lambda: first not in db.sessions.uncommitted())
            await until(lambda: len(db.get_messages(second)) == 2)

    wait(scenario())


def test_what_can_t_be_a_message_begins_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            wrong: tuple[Any, ...] = ({}, {"text": ""}, {"text": 1}, {"words": "hi"}, "hi", [])
            for message in wrong:
                answer = await server.http.post("/api/sessions", json={"message": message})
                assert answer.status_code == 422, (message, answer.text)
            gone = await server.http.post(
                "/api/sessions", json={"message": {"text": "hi"}, "prev_session_id": "nowhere"}
            )
            assert gone.status_code == 404
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_client_of_v1_that_leaves_while_its_message_is_stored_takes_it_back(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        answering, storing = Hold(), Hold()
        async with served(db, [answering]) as server:
            begin, stored = server.web.host.begin, asyncio.Event()

            async def slowly(*given: Any) -> Any:  # noqa: ANN401 - as it is
                await storing()
                begun = await begin(*given)
                stored.set()
                return begun

            monkeypatch.setattr(server.web.host, "begin", slowly)
            turn = ApiTurn(server.web, ApiRequest("", NewWords([], {"role": "user", "content": "hi"}, "")))
            await turn.prepare()
            turn.session_id = "s"
            reading = asyncio.ensure_future(anext(turn.run(server.web.streams)))
            await storing.reached.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            storing.opened.set()
            await stored.wait()
            # Its turn produced nothing, so the unnamed session that began with the message goes with it.
            await until(lambda: db.get_session("s") is None)
            assert db.inbox.get(1) is None

    wait(scenario())
