"""A recorded exchange is played back word for word, and a request that differs says where."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, AgentOptions, errors
from holdfast.models.contract import Retrying, TextPiece
from holdfast.testing import Call, Reasoning, RecordedModel, RecordingDiffers, ScriptedModel, Tokens
from tests.agent.agent_fixtures import echo

Wait = Callable[[Awaitable[Any]], Any]
SCRIPT = [[Reasoning("let me see"), Call("echo", {"a": 1}), Tokens(9, 2)], "It said echo."]


async def play(model: Any, text: str = "go", folder: str = ".", **options: Any) -> Any:  # noqa: ANN401
    chosen = AgentOptions(workspace=Path(folder), **options)
    async with Agent(model, tools=[echo()], options=chosen) as agent:
        return await agent.run(text)


def test_what_was_recorded_is_played_without_the_model_on_any_machine(wait: Wait, tmp_path: Path) -> None:
    async def scenario() -> None:
        recorder = RecordedModel("a/exchange.json", real=ScriptedModel(SCRIPT))
        first = await play(recorder)
        assert recorder.is_recording
        (tmp_path / "elsewhere").mkdir()
        player = RecordedModel("a/exchange.json", real=ScriptedModel(["never asked"]))
        second = await play(player, folder="elsewhere")
        assert not player.is_recording
        assert player.played == 2
        assert second.messages == first.messages
        assert second.usage == first.usage
        assert player.traits == recorder.traits

    wait(scenario())


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            {"text": "stop"},
            r"request 1 differs .*\n  request\.messages\[0\]\.content: recorded 'go', now 'stop'",
        ),
        ({"system_prompt": "Be rude."}, r"request\.system: recorded .*, now 'Be rude\.'"),
    ],
)
def test_another_request_says_where_it_differs_and_what_to_do(
    change: dict[str, Any], difference: str, wait: Wait
) -> None:
    async def scenario() -> None:
        await play(RecordedModel("exchange.json", real=ScriptedModel(SCRIPT)))
        with pytest.raises(
            RecordingDiffers, match=f"(?s){difference}.*delete exchange.json and record again"
        ):
            await play(RecordedModel("exchange.json"), **change)

    wait(scenario())


def test_one_request_more_than_recorded_is_refused(wait: Wait) -> None:
    async def scenario() -> None:
        await play(RecordedModel("exchange.json", real=ScriptedModel(SCRIPT)))
        async with Agent(RecordedModel("exchange.json"), tools=[echo()]) as agent:
            await agent.run("go")
            with pytest.raises(RecordingDiffers, match="holds 2 requests, and this is one more"):
                await agent.run("and then?")

    wait(scenario())


def test_secrets_are_masked_in_requests_and_answers(wait: Wait, tmp_path: Path) -> None:
    secrets = ["sk-proj-abcdefghijklmnop", "ghp_0123456789abcdefghij", "hunter2"]

    async def scenario() -> None:
        said = f"{secrets[0]} and {secrets[2]}, postgresql://me:hunter3@host/db"
        real = ScriptedModel([f"You said {secrets[1]}"])
        await play(RecordedModel("exchange.json", real, secrets=["hunter2"]), said)
        await play(RecordedModel("exchange.json", secrets=["hunter2"]), said)

    wait(scenario())
    text = (tmp_path / "exchange.json").read_text(encoding="utf-8")
    assert not [each for each in (*secrets, "hunter3") if each in text]
    assert json.loads(text)["exchanges"][0]["request"]["messages"][0]["content"].count("••••••") == 3


def test_what_a_retry_made_void_is_not_recorded(wait: Wait) -> None:
    class Stumbling(ScriptedModel):
        async def stream(self, request: Any) -> Any:  # noqa: ANN401
            yield TextPiece("half an ans")
            yield Retrying(2, 0.0, "the connection broke")
            async for piece in super().stream(request):
                yield piece

    async def scenario() -> None:
        await play(RecordedModel("exchange.json", real=Stumbling(["whole"])))
        assert (await play(RecordedModel("exchange.json"))).final_response == "whole"

    wait(scenario())


def test_no_recording_a_broken_one_and_one_of_another_version_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match=r"there is no recording .*real="):
        RecordedModel("missing.json")
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(errors.InvalidInput, match="no recording of a model"):
        RecordedModel("broken.json")
    (tmp_path / "new.json").write_text('{"version": 2, "traits": {"prices": {}}}')
    with pytest.raises(errors.InvalidInput, match="version 2, not 1"):
        RecordedModel("new.json")
