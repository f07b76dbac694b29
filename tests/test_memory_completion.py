"""Memory asks the model: on the model's loop, from a thread, one whole answer."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import ModelBusy, ModelUnreachable
from holdfast.models.contract import ModelTraits
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.wiring import build_memory, load_settings
from holdfast.wiring.memory_completion import complete_with


def asked(model: ScriptedModel) -> str:
    """What a thread of memory gets for an answer."""

    async def run() -> str:
        complete = complete_with(model, asyncio.get_running_loop())
        assert complete is not None
        pool = DaemonPool("asking", workers=1, backlog=0)
        try:
            return await off_loop(pool, complete, "system", "text")
        finally:
            pool.close(10)

    return asyncio.run(run())


def test_a_thread_gets_the_whole_answer() -> None:
    model = ScriptedModel(["one two three"])
    assert asked(model) == "one two three"
    assert [(each.system, each.messages[0]["content"]) for each in model.requests] == [("system", "text")]


def test_a_failure_of_the_model_reaches_the_thread() -> None:
    with pytest.raises(ModelBusy):
        asked(ScriptedModel([ModelBusy("scripted", "too many requests")]))


def test_a_model_whose_extracts_are_worth_nothing_is_not_asked() -> None:
    model = ScriptedModel(["never"], traits=ModelTraits("small", 2048, summarises=False))
    with closing(asyncio.new_event_loop()) as loop:
        assert complete_with(model, loop) is None


def test_a_program_that_has_ended_its_loop_asks_nobody() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    complete = complete_with(ScriptedModel(["never"]), loop)
    assert complete is not None
    with pytest.raises(ModelUnreachable):
        complete("system", "text")


def test_a_provider_that_extracts_gets_the_model_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def complete(system: str, text: str, *, session_id: str | None = None) -> str:
        return json.dumps({"facts": [{"content": "Ann keeps bees"}]})

    names = "local,holographic"
    with SessionDB(tmp_path / "holdfast.db") as store:
        memory, problems = build_memory(load_settings({"HOLDFAST_MEMORY_PROVIDERS": names}), store, complete)
        assert problems == []
        memory.on_session_end([{"role": "user", "content": "Ann, who keeps bees, called"}], session_id="s")
        assert memory.shutdown_all() == []
    with SessionDB(tmp_path / "holdfast.db") as store:
        memory, _ = build_memory(load_settings({"HOLDFAST_MEMORY_PROVIDERS": "holographic"}), store)
        assert "Ann keeps bees" in memory.prefetch_all("Who keeps bees?", session_id="t", timeout=30)
        memory.shutdown_all()


PLUGIN = """
from pathlib import Path
from holdfast import MemoryProvider

class Noting(MemoryProvider):
    name = "noting"
    def is_available(self): return True
    def get_tool_schemas(self): return []
    def initialize(self, session_id, **kwargs):
        Path(__file__).with_name("given.txt").write_text(" ".join(sorted(kwargs)))
"""


def test_a_plugin_that_takes_any_argument_is_not_given_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plugins = tmp_path / "holdfast" / "memory_providers"
    plugins.mkdir(parents=True)
    (plugins / "noting.py").write_text(PLUGIN)
    with SessionDB(tmp_path / "holdfast.db") as store:
        settings = load_settings({"HOLDFAST_MEMORY_PROVIDERS": ""})
        memory, problems = build_memory(settings, store, lambda system, text, *, session_id=None: "never")
        assert problems == []
        memory.on_session_end([{"role": "user", "content": "hello"}], session_id="s")
        assert memory.shutdown_all() == []
    assert (plugins / "given.txt").read_text() == "config"
