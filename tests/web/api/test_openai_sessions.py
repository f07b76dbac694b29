"""Whose session a request of `/v1` is, and the system text that its client gives it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import openai
import pytest

from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.web.compat.api_turn import ApiRequest, ApiTurn
from holdfast.web.compat.openai_messages import NewWords
from tests.agent.agent_fixtures import until
from tests.web.api.api_server import Served, served
from tests.web.api.test_openai_errors import client, sessions

Wait = Callable[[Awaitable[Any]], Any]
HI: Any = [{"role": "user", "content": "hi"}]
DESK: Any = {"extra_headers": {"X-Holdfast-Session": "desk"}}


class Listening:
    """A model that says "fine" and remembers what it was asked."""

    def __init__(self) -> None:
        self.seen: list[ModelRequest] = []
        self.script = [self._answer] * 9

    def _answer(self, request: ModelRequest) -> str:
        self.seen.append(replace(request, messages=tuple(request.messages)))
        return "fine"

    @property
    def system(self) -> str:
        return self.seen[-1].system

    @property
    def said(self) -> str:
        return str([each.get("content") for each in self.seen[-1].messages])


async def chat(server: Served, system: str = "", *, role: str = "system", **more: Any) -> Any:  # noqa: ANN401
    before: Any = [{"role": role, "content": system}] if system else []
    async with client(server) as sdk:
        return await sdk.chat.completions.create(model="x", messages=[*before, *HI], **more)


async def respond(server: Served, given: str | Sequence[Any], **more: Any) -> Any:  # noqa: ANN401
    async with client(server) as sdk:
        return await sdk.responses.create(model="x", input=given, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_clients_system_prompt_is_the_systems_and_not_the_persons(
    db: SessionDB, wait: Wait, role: str
) -> None:
    model = Listening()

    async def scenario() -> None:
        async with served(db, model.script) as server:
            unnamed: Any = {}
            for named in (unnamed, DESK):
                await chat(server, "Be brief.", role=role, **named)
                own, _, session = model.system.partition("gave these instructions")
                assert "You are Holdfast" in own
                assert "<session_instructions>\nBe brief.\n</session_instructions>" in session
                assert "Be brief." not in model.said
            await respond(server, "hi", instructions="Be long.")
            assert "Be long." in model.system
            await respond(server, [{"role": role, "content": "Be kind."}, *HI])
            assert "Be kind." in model.system
            assert "Be kind." not in model.said

    wait(scenario())


def test_it_holds_for_later_turns_and_after_a_restart_until_another_is_given(
    store_url: str, wait: Wait
) -> None:
    model = Listening()

    async def scenario() -> None:
        async with served(SessionDB.open(store_url), model.script) as server:
            await chat(server, "Be brief.", **DESK)
            await chat(server, **DESK)
            assert "Be brief." in model.system
        async with served(SessionDB.open(store_url), model.script) as server:
            await server.send("desk", "from the page")
            await server.until("desk", "TurnCompleted", after=0)
            assert "Be brief." in model.system
            await chat(server, "Be long.", **DESK)
            assert "Be long." in model.system
            assert "Be brief." not in model.system
            await server.host.commands.compact("desk")
            await chat(server, **DESK)
            assert "Be long." in model.system
            branch = await server.host.records.branch("desk")
            await server.send(branch, "in the branch")
            await server.until(branch, "TurnCompleted", after=0)
            assert "Be long." in model.system

    wait(scenario())


def test_the_id_of_an_end_user_names_no_session(db: SessionDB, wait: Wait) -> None:
    model = Listening()

    async def scenario() -> None:
        async with served(db, model.script) as server:
            await chat(server, user="somebody")
            await respond(server, "hi", user="somebody")
            assert db.get_session("somebody") is None
            assert len(sessions(db)) == 2
            assert len(model.seen[-1].messages) == 1

    wait(scenario())


def test_a_history_that_differs_from_the_stored_one_is_said(db: SessionDB, wait: Wait) -> None:
    model = Listening()
    said: Any = [*HI, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "and?"}]
    edited: Any = [{"role": "user", "content": "edited"}, *said[1:], *said[1:]]

    async def scenario() -> None:
        async with served(db, model.script) as server, client(server) as sdk:

            async def told(messages: Any) -> Any:  # noqa: ANN401
                raw = await sdk.chat.completions.with_raw_response.create(
                    model="x", messages=messages, **DESK
                )
                return raw.headers.get("x-holdfast-history")

            assert await told(said) is None  # a fresh session begins with what the client says
            assert [each["content"] for each in db.get_messages("desk")] == ["hi", "fine", "and?", "fine"]
            assert await told([*said, *said[1:]]) is None
            assert await told(edited) == "differs"
            assert "edited" not in str(db.get_messages("desk"))

    wait(scenario())


def test_a_response_that_is_not_here_is_not_gone_on_from(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, ["one"]) as server:
            with pytest.raises(openai.BadRequestError) as refused:
                await respond(server, "hi", previous_response_id="resp_nowhere_1")
            assert refused.value.code == "previous_response_not_found"
            assert sessions(db) == []

    wait(scenario())


def test_a_client_that_reads_too_slowly_still_gets_the_whole_answer(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        pieces = [f"{number} " for number in range(3_000)]  # more events than a conversation keeps
        async with served(db, [pieces]) as server:
            turn = ApiTurn(server.web, ApiRequest("", NewWords([], {"role": "user", "content": "count"}, "")))
            await turn.prepare()
            async with aclosing(turn.run(server.web.streams)) as deltas:
                text = (await anext(deltas)).text
                await until(lambda: db.turns.running(turn.session_id) is None)
                text += "".join([delta.text async for delta in deltas])
        assert text == turn.text == "".join(pieces)

    wait(scenario())
