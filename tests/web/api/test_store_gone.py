"""A store that is gone under a running server: it says so everywhere, and acknowledges nothing."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import Hold, until
from tests.web.api.api_server import TOKEN, served

Wait = Callable[[Awaitable[Any]], Any]


@pytest.mark.clause("D12")
def test_a_server_whose_database_was_moved_away_refuses_by_name_until_it_is_back(
    tmp_path: Path, wait: Wait
) -> None:
    place, away = tmp_path / "store", tmp_path / "away"

    async def scenario() -> None:
        with SessionDB(place / "holdfast.db") as db:
            async with served(db, ["one", "two"]) as server:
                session = await server.begin()
                await server.send(session, "first")
                await server.until(session, "TurnCompleted", after=0)
                place.rename(away)
                for text in ("lost", "lost too"):
                    refused = await server.http.post(f"/api/sessions/{session}/send", json={"text": text})
                    assert (refused.status_code, refused.json()["reason"]) == (503, "StoreGone")
                    assert "stored nothing" in refused.text
                new = await server.http.post("/api/sessions", json={"message": {"text": "hello"}})
                assert (new.status_code, new.json()["reason"]) == (503, "StoreGone")
                ready = await server.http.get("/readyz")
                assert (ready.status_code, ready.json()["reason"]) == (503, "StoreGone")
                away.rename(place)
                assert (await server.http.get("/readyz")).status_code == 200
                await server.send(session, "second")
                await until(lambda: len(db.get_messages(session)) == 4)
                assert [each["content"] for each in db.get_messages(session)] == [
                    *("first", "one", "second", "two")
                ]

    wait(scenario())


@pytest.mark.clause("D12")
def test_a_turn_whose_database_goes_says_so_waits_and_is_whole_when_it_is_back(
    tmp_path: Path, wait: Wait
) -> None:
    place, away = tmp_path / "store", tmp_path / "away"

    async def scenario() -> None:
        hold = Hold()
        with SessionDB(place / "holdfast.db") as db:
            async with served(db, [hold]) as server:
                session = await server.begin()
                await server.send(session, "go")
                await hold.reached.wait()
                place.rename(away)
                hold.opened.set()
                shown = await server.until(session, "Notice", after=0)
                assert "moved away" in shown[-1]["text"]
                away.rename(place)
                await server.until(session, "TurnCompleted", after=0)
                assert "cut off" not in json.dumps(db.get_messages(session))
                assert db.turns.unfinished() == []

    wait(scenario())


@pytest.mark.clause("D12")
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_of_openais_protocol_is_refused_by_name_until_the_database_is_back(
    tmp_path: Path, wait: Wait, api: str, stream: bool
) -> None:
    place, away = tmp_path / "store", tmp_path / "away"

    async def scenario() -> None:
        with SessionDB(place / "holdfast.db") as db:
            async with (
                served(db, ["one", "two"]) as server,
                AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0, timeout=20) as sdk,
            ):
                create: Any = sdk.chat.completions.create if api == "chat" else sdk.responses.create
                said: Any = [{"role": "user", "content": "hi"}]
                given = {"messages": said} if api == "chat" else {"input": said}
                place.rename(away)
                with pytest.raises(openai.InternalServerError, match="stored nothing") as refused:
                    await create(model="x", stream=stream, **given)
                assert (refused.value.status_code, refused.value.code) == (503, "StoreGone")
                away.rename(place)
                answer = await create(model="x", **given)
                text = answer.choices[0].message.content if api == "chat" else answer.output_text
                assert text == "one"

    wait(scenario())
