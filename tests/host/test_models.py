"""Another model takes the place of the one in use: from the next turn on, and never within one."""

import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, ModelMissing
from holdfast.core.settings import ModelSettings, Settings
from holdfast.host import SessionHost
from holdfast.models.contract import ListedModel, Model, ModelTraits
from holdfast.models.switchable_model import SwitchableModel
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.wiring.model_switch import ModelSwitch, named
from tests.agent.agent_fixtures import Hold
from tests.host.host_fixtures import a_host, host_parts, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


class Closing(ScriptedModel):
    closings = 0

    async def close(self) -> None:
        self.closings += 1


class Shelf:
    """Models by their names."""

    def __init__(self, in_use: SwitchableModel, *models: Closing) -> None:
        self._in_use = in_use
        self._models = {model.traits.name: model for model in models}

    async def names(self) -> tuple[str, list[str]]:
        return "a shelf", list(self._models)

    async def switch(self, name: str) -> ModelTraits:
        if name not in self._models:
            raise ModelMissing(f"there is no {name}")
        self._in_use.switch(self._models[name])
        return self._models[name].traits

    async def details(self) -> tuple[str, list[ListedModel]]:
        return "a shelf", [ListedModel(name) for name in self._models]

    async def reload(self) -> ModelTraits:
        return self._in_use.traits

    async def check(self, name: str) -> ModelTraits:
        return self._models[name].traits

    async def prepare(self, name: str) -> None:
        pass

    async def tidy(self) -> None:
        await self._in_use.close_unused()


def with_models(db: SessionDB, in_use: SwitchableModel, *others: Closing, tools: Any = ()) -> SessionHost:  # noqa: ANN401
    def model(_: str) -> Model:
        return in_use

    parts = host_parts(db, model, tools=tools)
    return SessionHost(replace(parts, models=Shelf(in_use, *others), model=in_use.traits))


def test_a_switch_leaves_the_running_turn_alone_and_counts_from_the_next(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        old, new = Closing([Call("hold"), "from the old"], name="old"), Closing(["from the new"], name="new")
        in_use = SwitchableModel(old)
        async with with_models(db, in_use, new, tools=[hold.tool()]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            assert (await host.switch_model("new")).name == "new"
            assert (await host.models()).current == new.traits
            await in_use.close_unused()
            assert not old.closings
            await host.send("s", "second")
            hold.opened.set()
            await until_turns_end(host, "s", 2)
            answers = [m["content"] for m in db.get_messages("s") if m["role"] == "assistant"]
            assert answers[1:] == ["from the old", "from the new"]
            gc.collect()
            await in_use.close_unused()
            assert (old.closings, new.closings) == (1, 0)

    wait(scenario())


def test_what_hangs_on_the_window_follows_the_model(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        old = Closing(["long " * 300] * 2, name="old", context_window=100_000)
        new = Closing(["a summary", "short"], name="new", context_window=600)
        in_use = SwitchableModel(old)
        async with with_models(db, in_use, new) as host:
            await host.send("s", "one")
            await host.send("s", "two")
            await until_turns_end(host, "s", 2)
            assert db.sessions.live_end("s") == "s"
            await host.switch_model("new")
            await host.send("s", "three")
            await until_turns_end(host, "s", 3)
            assert db.sessions.live_end("s") != "s"

    wait(scenario())


def test_a_model_that_can_not_be_had_changes_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        in_use = SwitchableModel(Closing(["still here"], name="old"))
        async with with_models(db, in_use) as host:
            with pytest.raises(ModelMissing):
                await host.switch_model("new")
            assert host.model is not None
            assert host.model.name == "old"
            await host.send("s", "hi")
            await until_turns_end(host, "s")
        async with a_host(db) as plain:
            assert (await plain.models()).names == []
            with pytest.raises(InvalidInput, match="one model"):
                await plain.switch_model("new")

    wait(scenario())


def test_models_of_the_settings_are_opened_by_name(tmp_path: Path, wait: Wait) -> None:
    async def scenario() -> None:
        script = tmp_path / "script.json"
        script.write_text('["hello"]')
        settings = Settings(model=ModelSettings(provider="scripted", name=str(script)))
        in_use = SwitchableModel(Closing(name="first"))
        models = ModelSwitch(settings, in_use)
        assert (await models.switch(f"scripted:{script}")).name == "scripted"
        assert in_use.traits.name == "scripted"
        with pytest.raises(ModelMissing, match="missing"):
            await models.switch(str(tmp_path / "missing.json"))
        assert await models.names() == ("a script is played", [str(script)])
        await in_use.close()

    wait(scenario())


@pytest.mark.parametrize(
    ("given", "provider", "name", "address"),
    [
        ("gpt-5.4", "openai", "gpt-5.4", "http://here/v1"),
        ("llama3:8b", "openai", "llama3:8b", "http://here/v1"),
        ("openai:gpt-5.4", "openai", "gpt-5.4", "http://here/v1"),
        ("ollama:llama3:8b", "ollama", "llama3:8b", ""),
    ],
)
def test_a_name_may_begin_with_who_offers_it(given: str, provider: str, name: str, address: str) -> None:
    before = ModelSettings(provider="openai", name="x", base_url="http://here/v1", api_key="secret")
    after = named(before, given)
    assert (after.provider, after.name, after.base_url) == (provider, name, address)
    assert bool(after.api_key) == bool(address)


def test_no_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="name a model"):
        named(ModelSettings(), " ")
