"""Tool profiles: a small model is told of few tools in few words, and finds the others."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions
from holdfast.agent.prompt import BRIEF_INSTRUCTIONS, INSTRUCTIONS
from holdfast.agent.tool_profile import ToolProfiles, fitting
from holdfast.core.errors import InvalidInput, SettingsInvalid
from holdfast.models.contract import ModelTraits
from holdfast.models.model_size import parameters_in, stated_parameters
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.wiring.settings_loader import load_settings

Wait = Callable[[Awaitable[Any]], Any]
TINY = ModelTraits("tiny-1.5b", 8_192, parameters=1_500_000_000)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen2.5-1.5b-instruct", 1_500_000_000),
        ("llama3.2:3b", 3_000_000_000),
        ("SmolLM2-135M-Instruct", 135_000_000),
        ("Qwen3-30B-A3B", 30_000_000_000),
        ("mixtral-8x7b", 56_000_000_000),
        ("gemma-3n-e4b", 4_000_000_000),
        ("qwen2.5-7b-instruct-1m", 7_000_000_000),
        *((name, None) for name in ("gpt-5-mini", "claude-sonnet-5", "phi-3-mini", "qwen3", "model-1m")),
    ],
)
def test_a_name_tells_the_size_of_its_model(name: str, size: int | None) -> None:
    assert parameters_in(name) == size


def test_a_server_tells_the_size_of_its_models() -> None:
    assert stated_parameters({"meta": {"n_params": 494_032_768}}) == 494_032_768
    assert stated_parameters({"details": {"parameter_size": "7.6B"}}) == 7_600_000_000
    for entry in ({}, {"meta": None, "details": {"parameter_size": 7}}, {"meta": {"n_params": "many"}}):
        assert stated_parameters(entry) is None


@pytest.mark.parametrize(
    ("parameters", "window", "profile"),
    [
        (1_500_000_000, 128_000, "small"),
        (None, 4_096, "small"),
        (8_000_000_000, 128_000, "standard"),
        (70_000_000_000, 32_000, "standard"),
        (70_000_000_000, 128_000, "all"),
        (None, 200_000, "all"),
    ],
)
def test_the_profile_fits_the_size_and_the_window(parameters: int | None, window: int, profile: str) -> None:
    name, reason = fitting(ModelTraits("m", window, parameters=parameters))
    assert name == profile
    assert reason


async def _ran(_: ToolContext, arguments: dict[str, Any]) -> ToolResult:
    return ToolResult(f"ran {sorted(arguments)}")


def _tool(name: str, about: str) -> Tool:
    properties = {
        "path": {"type": "string", "description": "the file", "minLength": 1},
        "mode": {"type": "string", "default": "", "description": "seldom needed"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["path"]}
    return Tool(name, f"{about}. And much more about it.", parameters, _ran)


TOOLS = [
    _tool("read_file", "Read a text file"),
    _tool("run_command", "Run a command"),
    _tool("add_schedule", "Send yourself a message at a time"),
    _tool("fetch_page", "Fetch a web page"),
]


def test_a_small_model_finds_a_tool_and_keeps_it_also_after_a_restart(
    db: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    options = AgentOptions(workspace=tmp_path, tool_profiles=ToolProfiles(""), skills="Skills: many.")
    script: list[Any] = [
        Call("find_tool", {"query": "get a page of the web"}),
        Call("fetch_page", {"path": "x"}),
        "found",
        Call("find_tool", {"query": "knit a jumper"}),
        Call("add_schedule", {"path": "hidden, and can be called"}),
        "again",
    ]
    model = ScriptedModel(script, traits=TINY)
    agent = Agent(model, db, "s", tools=TOOLS, options=options)
    wait(agent.run("first"))
    told = [[each.name for each in request.tools] for request in model.requests]
    at_first, then = ["read_file", "run_command"], ["read_file", "run_command", "fetch_page"]
    assert told == [[*at_first, "find_tool"], [*then, "find_tool"], [*then, "find_tool"]]
    request = model.requests[0]
    assert BRIEF_INSTRUCTIONS in request.system
    assert INSTRUCTIONS not in request.system
    assert "Skills" not in request.system
    assert request.tools[0].description == "Read a text file."
    assert list(request.tools[0].parameters["properties"]) == ["path"]
    assert "add_schedule, fetch_page" in request.tools[2].description

    wait(agent.run("second"))
    results = [each["content"] for each in db.get_messages("s") if each["role"] == "tool"]
    assert "fetch_page: Fetch a web page." in str(results[0])
    assert "No tool fits" in str(results[2])
    assert results[3] == "ran ['path']"

    later = ScriptedModel(["hello"], traits=TINY)
    wait(Agent(later, db, "s", tools=TOOLS, options=options).run("after a restart"))
    assert {"fetch_page", "add_schedule"} <= {each.name for each in later.requests[0].tools}


def test_a_conversation_keeps_the_profile_that_was_chosen_for_it(
    db: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    profiles = ToolProfiles("", {"web": ["fetch_*"]}, always=("run_command",))
    options = AgentOptions(workspace=tmp_path, tool_profiles=profiles)
    large = ModelTraits("large", 200_000)

    def names(traits: ModelTraits, session: str = "s") -> list[str]:
        model = ScriptedModel(["hello"], traits=traits)
        wait(Agent(model, db, session, tools=TOOLS, options=options).run("hi"))
        return [each.name for each in model.requests[0].tools]

    agent = Agent(ScriptedModel(traits=large), db, "s", tools=TOOLS, options=options)
    assert names(large) == [each.name for each in TOOLS]
    assert str(wait(agent.tool_profile())) == "all (the model is large enough)"
    with pytest.raises(InvalidInput, match="there are small, standard, all, web"):
        wait(agent.set_tool_profile("smal"))
    assert str(wait(agent.set_tool_profile("web"))) == "web (chosen for this conversation)"
    assert names(large) == ["run_command", "fetch_page", "find_tool"]
    db.conversations.branch("s", "branch")
    assert names(large, "branch") == ["run_command", "fetch_page", "find_tool"]

    gone = replace(options, tool_profiles=ToolProfiles("standard"))
    model = ScriptedModel(["hello"], traits=large)
    wait(Agent(model, db, "s", tools=TOOLS, options=gone).run("the settings have no profile web any more"))
    shown = [each.name for each in model.requests[0].tools]
    assert shown == ["read_file", "run_command", "fetch_page", "find_tool"]
    wait(agent.set_tool_profile(""))
    assert db.conversations.tool_profile("s") == ""


def test_settings_refuse_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOOLS_PROFILES", '{"mine": ["read_file"]}')
    monkeypatch.setenv("HOLDFAST_TOOLS_PROFILE", "mine")
    assert load_settings().tools.profiles == {"mine": ("read_file",)}
    monkeypatch.setenv("HOLDFAST_TOOLS_PROFILE", "tiny")
    with pytest.raises(SettingsInvalid, match="small, standard, all, mine"):
        load_settings()
