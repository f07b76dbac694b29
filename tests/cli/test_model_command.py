"""`holdfast model` against a server that speaks OpenAI's protocol, and `/model` in a chat."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.models.known_prices import PRICES_AS_OF
from tests.cli.real_terminal import Home, run

pytestmark = pytest.mark.slow  # each starts commands of its own

SERVER = [sys.executable, "-m", "holdfast.testing.scripted_server", "--script"]


@pytest.fixture
def served(home: Home) -> Iterator[Home]:
    """A person whose model is behind HTTP."""
    home.script(["ready when you are"])
    script = str(home.folder / "script.json")
    with subprocess.Popen([*SERVER, script], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        home.settings |= {
            "HOLDFAST_MODEL_PROVIDER": "openai",
            "HOLDFAST_MODEL_NAME": "",
            "HOLDFAST_MODEL_BASE_URL": url,
            "HOLDFAST_MODEL_API_KEY": "k",
        }
        yield home
        server.kill()


def written(home: Home) -> Path:
    return home.folder / "config" / "holdfast" / "settings.toml"


def test_models_are_listed_tested_and_chosen(served: Home) -> None:
    listed = run(served, "model", "list")
    assert (listed.returncode, listed.stdout.split()) == (0, ["scripted"])
    tested = run(served, "model", "test")
    assert tested.returncode == 0
    assert "answers in" in tested.stdout
    assert "ready when you are" in tested.stdout
    chosen = run(served, "model", "set", "scripted")
    assert chosen.returncode == 0
    assert "from the next start on" in chosen.stdout
    assert 'name = "scripted"' in written(served).read_text()
    assert run(served, "model").stdout.startswith("scripted: ")


def test_a_server_that_is_not_there_is_named_with_its_exit_code(served: Home) -> None:
    served.settings["HOLDFAST_MODEL_BASE_URL"] = "http://127.0.0.1:9/v1"
    ran = run(served, "model", "list")
    assert ran.returncode != 0
    assert "127.0.0.1:9" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_setting_that_names_no_provider_is_refused_and_nothing_is_written(served: Home) -> None:
    ran = run(served, "model", "set", "x", "--provider", "nobody")
    assert ran.returncode == 2
    assert "provider" in ran.stderr
    assert not written(served).exists()


def test_a_chat_changes_its_model(home: Home) -> None:
    home.script(["From the first."])
    other = home.folder / "other.json"
    other.write_text(json.dumps(["From the other."]))
    terminal = home.terminal("chat", columns=200)  # wide enough for the paths
    terminal.see("ready")
    terminal.type("hi")
    terminal.see("From the first.", "ready")
    terminal.type("/model list")
    terminal.see("script.json")
    terminal.type("/model /nowhere/at/all.json")
    terminal.see("✗ the script /nowhere/at/all.json can't be read")
    terminal.type(f"/model {other}")
    terminal.see("answers from now on, in this program only")
    terminal.type("and now?")
    terminal.see("From the other.", "ready")
    assert terminal.leave() == 0


def test_a_price_from_the_table_of_well_known_models_says_how_old_it_is(home: Home) -> None:
    home.settings |= {
        "HOLDFAST_MODEL_PROVIDER": "openai",
        "HOLDFAST_MODEL_NAME": "gpt-5-mini",
        "HOLDFAST_MODEL_API_KEY": "k",
    }
    said = f"$0.25 in, $2 out for a million tokens (Holdfast's own table, of {PRICES_AS_OF})"
    assert said in run(home, "model").stdout
    terminal = home.terminal("chat", columns=120)
    terminal.see("ready")
    terminal.type("/cost")
    terminal.see("today: ", f"the prices of gpt-5-mini are those of Holdfast's own table, of {PRICES_AS_OF}")
    assert terminal.leave() == 0
    home.settings |= {"HOLDFAST_MODEL_PRICE_INPUT": "1", "HOLDFAST_MODEL_PRICE_OUTPUT": "3"}
    assert "$1 in, $3 out for a million tokens\n" in run(home, "model").stdout
