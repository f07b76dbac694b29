"""Event streams: nothing is missed, nothing comes twice, and nobody's end is anybody else's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.events import Event, ReasoningDelta, TextDelta, TurnCompleted
from holdfast.host import Numbered
from holdfast.sessions import SessionDB
from holdfast.testing import Call, Delay
from holdfast.web import streams
from holdfast.web.compat import client_wait
from holdfast.web.sse import merge_text
from tests.agent.agent_fixtures import Hold, until
from tests.web.api.api_server import frames, served

Wait = Callable[[Awaitable[Any]], Any]


def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(db: SessionDB, wait: Wait) -> None:
    words = [[f"{number} ", Delay(0.002)] for number in range(200)]
    script = [[part for word in words for part in word]]

    async def scenario() -> None:
        async with served(db, script) as server:
            session = await server.begin()
            await server.send(session, "count")
            text, last, ended = "", None, False
            while not ended:
                async with server.events(session, after=0 if last is None else None, last=last) as events:
                    for _ in range(5):
                        event = await anext(events)
                        assert last is None or int(event["id"]) > int(last)
                        last = event["id"]
                        text += event["text"] if event["kind"] == "TextDelta" else ""
                        ended = event["kind"] == "TurnCompleted"
                        if ended:
                            break
            assert text == "".join(f"{number} " for number in range(200))

    wait(scenario())


def test_a_reload_in_mid_stream_goes_on_with_the_partial_text(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["the first half ", Delay(0.4), "and the second"]]) as server:
            session = await server.begin()
            await server.send(session, "speak")
            await server.until(session, "TextDelta", after=0)
            shown = await server.until(session, "TurnCompleted")
            assert shown[0]["kind"] == "SessionSnapshot"
            assert shown[0]["text"].startswith("the first half")
            rest = "".join(each["text"] for each in shown[1:] if each["kind"] == "TextDelta")
            assert shown[0]["text"] + rest == "the first half and the second"

    wait(scenario())


def test_a_closed_tab_does_not_stop_the_turn(db: SessionDB, wait: Wait) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [hold]) as server:
            session = await server.begin()
            async with server.events(session) as events:
                await anext(events)
                await server.send(session, "speak")
                await hold.reached.wait()
            await until(lambda: server.web.streams.open == 0)
            hold.opened.set()
            await server.until(session, "TurnCompleted", after=0)
            assert await server.said(session) == ["speak", "held"]

    wait(scenario())


@pytest.mark.parametrize("last", ["", "x", "9" * 30, "-1", "1"])
def test_a_number_that_is_none_of_this_stream_begins_with_a_snapshot(
    db: SessionDB, wait: Wait, last: str
) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            async with server.events(session, last=last) as events:
                assert (await anext(events))["kind"] == "SessionSnapshot"

    wait(scenario())


def test_a_quiet_stream_says_that_it_is_there(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            async with server.http.stream("GET", f"/api/sessions/{session}/events?after=0") as answer:
                lines = answer.aiter_lines()
                while not (await anext(lines)).startswith(": ping"):
                    pass

    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    wait(scenario())


@pytest.mark.clause("X4")
def test_the_end_of_the_server_ends_every_stream_at_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with served(db) as server:
            session = await server.begin()

            async def read() -> None:
                async with server.events(session) as events:
                    async for _ in events:
                        pass

            readers = [asyncio.create_task(read()) for _ in range(20)]
            await until(lambda: server.web.streams.open == 20)
            begun = loop.time()
            server.web.streams.close()
            await asyncio.gather(*readers)
            assert loop.time() - begun < 1

    wait(scenario())


def test_how_conversations_stand_is_told_as_it_changes(db: SessionDB, wait: Wait) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [hold]) as server:
            session = await server.begin()
            async with server.http.stream("GET", "/api/events") as answer:
                changes = frames(answer)
                await server.send(session, "speak")
                states = [(await anext(changes))["state"]]
                while states[-1] != "running":
                    states.append((await anext(changes))["state"])
                listed = (await server.http.get("/api/sessions")).json()["items"]
                assert [each["state"] for each in listed] == ["running"]
                hold.opened.set()
                while states[-1] != "idle":
                    states.append((await anext(changes))["state"])
                await server.http.patch(f"/api/sessions/{session}", json={"title": "named"})
                assert (await anext(changes))["title"] == "named"

    wait(scenario())


def numbered(*events: Event) -> list[Numbered]:
    return [Numbered(number, event, 7) for number, event in enumerate(events, 1)]


def piece(text: str, turn: str = "t") -> TextDelta:
    return TextDelta(session_id="s", turn_id=turn, text=text)


def test_pieces_that_wait_together_are_one_with_the_last_ones_number() -> None:
    thought = ReasoningDelta(session_id="s", turn_id="t", text="hm")
    end = TurnCompleted(session_id="s", turn_id="t", final_response="abc")
    found = merge_text(numbered(piece("a"), piece("b"), thought, piece("c"), piece("d", "u"), end))
    assert [(each.number, getattr(each.event, "text", None)) for each in found] == [
        (2, "ab"),
        (3, "hm"),
        (4, "c"),
        (5, "d"),
        (6, None),
    ]


def test_a_stream_that_has_nothing_to_say_yet_is_answered_before_it_has(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_wait, "HEAD_SECONDS", 0.01)
    hold = Hold()

    async def scenario() -> None:
        async with served(db, [Call("hold"), "done"], tools=[hold.tool()]) as server:
            body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
            async with server.http.stream("POST", "/v1/chat/completions", json=body) as answer:
                # Long before the first text: a client's patience with a head is short.
                assert answer.status_code == 200
                assert answer.headers["x-holdfast-session"]
                hold.opened.set()
                lines = [line async for line in answer.aiter_lines() if line]
            assert lines[-1] == "data: [DONE]"

    wait(scenario())
