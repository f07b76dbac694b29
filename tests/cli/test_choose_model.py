"""A first start without a model leads to one: what was found, what to do, the embedded model by one word."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.cli.choose_model import what_was_found
from holdfast.models.choice import Keys
from tests.cli.real_terminal import Home


def test_every_place_is_named_with_what_was_found_there() -> None:
    keys = Keys({"anthropic": "sk-ant-1"}, {"openai": "http://10.0.0.2/v1"})
    lines = list(what_was_found(keys, [("ollama", "http://127.0.0.1:9/v1")]))
    assert lines == [
        "✗ OPENAI_API_KEY is not set",
        "✓ ANTHROPIC_API_KEY is set",
        "✗ OPENROUTER_API_KEY is not set",
        "✓ OPENAI_BASE_URL is http://10.0.0.2/v1",
        "✗ ollama does not answer at http://127.0.0.1:9/v1",
    ]


@pytest.fixture
def model_url(home: Home) -> Iterator[str]:
    home.script(["I am here."])
    script = str(home.folder / "script.json")
    command = [sys.executable, "-m", "holdfast.testing.scripted_server", "--script", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.slow
def test_a_person_without_a_model_enters_an_address_and_talks(home: Home, model_url: str) -> None:
    home.settings = {"HOLDFAST_MODEL_PROVIDER": "openai", "HOLDFAST_MODEL_NAME": ""}
    terminal = home.terminal(columns=200, rows=30)
    terminal.see("There is no language model yet", "✗ OPENAI_API_KEY is not set", "embedded", "q >")
    terminal.type("what?")
    terminal.see("type one of: embedded, key, address, again, q")
    terminal.type("address")
    terminal.see("address, such as")
    terminal.type("nonsense")
    terminal.see("must be like http://HOST:PORT/v1", "nothing was changed", "q >")
    terminal.type("address")
    terminal.type(model_url)
    terminal.see("model.base_url is kept in", "Holdfast with scripted.")
    terminal.type("hello?")
    terminal.see("I am here.")
    assert terminal.leave() == 0
    stored = home.folder / "config" / "holdfast" / "settings.toml"
    assert model_url in stored.read_text(encoding="utf-8")


@pytest.mark.slow
def test_one_word_chooses_the_embedded_model_and_another_leaves(home: Home) -> None:
    home.settings = {"HOLDFAST_MODEL_PROVIDER": "gguf", "HOLDFAST_MODEL_NAME": "/nowhere/model.gguf"}
    leaving = home.terminal(columns=200, rows=30)
    leaving.see("There is no language model yet", "q >")
    leaving.type("q")
    assert leaving.end() == 0
    assert not home.database.exists()
    home.settings["PIP_NO_INDEX"] = "1"  # everything is in the test's environment: nothing is fetched
    terminal = home.terminal(columns=200, rows=30)
    terminal.see("There is no language model yet", "q >")
    terminal.type("embedded")
    terminal.see("Holdfast with SmolLM2-135M-Instruct.", "ready")
    assert terminal.leave() == 0
