"""A record that holds what no model takes (an import, an older release) goes on."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.agent import SessionAgent
from holdfast.models.contract import ModelTraits
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.sessions import SessionDB
from holdfast.testing.scripted_server import ScriptedServer
from tests.core.picture_files import picture

pytestmark = pytest.mark.clause("I8")


def test_a_part_of_an_unknown_kind_on_record_is_told_of_in_words_and_kept_on_record() -> None:
    odd: list[Any] = [
        {"type": "zzz", "zzz": 1},
        {"type": "text", "text": "words", "cache": {}},
        picture("x:y"),
    ]

    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            db.create_session("s", source="import")
            stored: Any = [
                {"role": "user", "content": odd, "name": "a b", "foo": [1]},
                {"role": "assistant", "content": "[cut off here]", "annotations": []},
            ]
            db.sessions.append_messages("s", stored)
            async with ScriptedServer(["fine"]) as server:
                model = OpenAICompatible(Server(server.base_url), ModelTraits("scripted", 100_000))
                agent = SessionAgent(model, db, "s")
                assert (await agent.run("and now?")).final_response == "fine"
                await agent.close()
                await model.close()
            sent = server.asked[0]["messages"]
            parts = sent[1]["content"]
            assert [part["type"] for part in parts] == ["text"] * 3
            assert "zzz" in parts[0]["text"]
            assert parts[1] == {"type": "text", "text": "words"}
            assert "picture" in parts[2]["text"]
            known = {"role", "content", "tool_calls", "tool_call_id", "name"}
            assert all(each.keys() <= known for each in sent)
            assert "a b" not in json.dumps(sent)
            assert db.get_messages("s")[:2] == stored

    asyncio.run(scenario())
