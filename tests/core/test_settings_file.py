"""The settings file: what it may hold, and how plainly it says what is wrong with it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import SettingsInvalid
from holdfast.core.settings import Settings
from holdfast.core.settings_file import line_of, parse_settings
from holdfast.wiring import load_settings

GOOD = """\
# what is asked
[model]
provider = "openai"
name = "m"
base_url = "http://127.0.0.1:9/v1"
api_key = " sk-secret\\n"
context_window = 9000
price_input = 1
attempts = 2
stall_timeout_s = 7.5

[limits]
max_steps = 9
max_cost = 0.5
"""


def write(folder: Path, content: str | bytes) -> dict[str, str]:
    """A settings file, as the environment names it."""
    path = folder / "settings.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return {"HOLDFAST_SETTINGS": str(path)}


def refused(folder: Path, content: str | bytes, **variables: str) -> str:
    with pytest.raises(SettingsInvalid) as raised:
        load_settings({**write(folder, content), **variables})
    said = str(raised.value)
    assert str(folder / "settings.toml") in said
    return said


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, GOOD))
    assert (settings.model.provider, settings.model.name) == ("openai", "m")
    assert settings.model.api_key.reveal() == "sk-secret"
    assert (settings.model.context_window, settings.model.attempts) == (9000, 2)
    assert (settings.limits.max_steps, settings.limits.max_cost) == (9, 0.5)
    assert settings.store == Settings().store


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    variables = {"HOLDFAST_MODEL_NAME": "other", "HOLDFAST_LIMITS_MAX_STEPS": ""}
    settings = load_settings({**write(tmp_path, GOOD), **variables})
    assert (settings.model.name, settings.limits.max_steps) == ("other", 9)


def test_a_list_may_be_one_and_an_empty_variable_empties_it(tmp_path: Path) -> None:
    variables = write(tmp_path, '[memory]\nproviders = ["local", "other"]\nplugins = "/p"')
    assert load_settings(variables).memory.providers == ("local", "other")
    emptied = load_settings({**variables, "HOLDFAST_MEMORY_PROVIDERS": "", "HOLDFAST_MEMORY_PLUGINS": ""})
    assert (emptied.memory.providers, emptied.memory.plugins) == ((), "")


@pytest.mark.parametrize("content", ["", "\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), "[model]\n"])
def test_an_empty_file_a_mark_at_its_start_and_foreign_line_ends_are_fine(
    tmp_path: Path, content: str
) -> None:
    load_settings(write(tmp_path, content))


def test_the_key_and_the_address_are_never_shown(tmp_path: Path) -> None:
    content = GOOD.replace("http://", "http://me:hunter2@")
    settings = load_settings(write(tmp_path, content))
    assert settings.model.base_url == "http://me:hunter2@127.0.0.1:9/v1"
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model!r}"
    assert "sk-secret" not in shown
    assert "hunter2" not in f"{settings!r}"


@pytest.mark.parametrize(
    ("content", "line", "key", "problem"),
    [
        ("[model]\n\nnmae = 'x'", 3, "model.nmae", "no such setting; is 'name' meant?"),
        ("[modle]\nname = 'x'", 1, "modle", "no such setting; is 'model' meant?"),
        ("zzz = 1", 1, "zzz", "no such setting"),
        ("model = 1", 1, "model", r"must be a section: \[model\]"),
        ("[model]\nname = 5", 2, "model.name", "valid string"),
        ("[model]\nattempts = '5'", 2, "model.attempts", "valid integer"),
        ("[model]\nattempts = 2.5", 2, "model.attempts", "valid integer"),
        ("[model]\nattempts = 0", 2, "model.attempts", "greater than or equal to 1"),
        ("[model]\nstall_timeout_s = true", 2, "model.stall_timeout_s", "valid number"),
        ("[model]\nstall_timeout_s = inf", 2, "model.stall_timeout_s", "less than or equal to"),
        ("[model]\nprice_input = nan", 2, "model.price_input", "finite number"),
        ("[model]\napi_key = 5", 2, "model.api_key", "must be a text"),
        ("[model]\nprovider = 'closedai'", 2, "model.provider", "'openai'"),
        ("[model]\nbase_url = 'localhost:1'", 2, "model.base_url", "http://HOST:PORT/v1"),
        ("[model]\nthinking = 'hard'", 2, "model.thinking", "'adaptive'"),
        ("[model]\ncontext_window = 3", 2, "model.context_window", "512"),
        ("# [model]\nmodel.attempts = []", 2, "model.attempts", "valid integer"),
        ('[ "limits" ]\n"max_steps" = -1', 2, "limits.max_steps", "greater"),
        ("model = { attempts = 'x' }", 1, "model.attempts", "valid integer"),
        ("[[model]]\nname = 'x'", 1, "model", "must be a section"),
        ("[memory]\nproviders = ['a', 5]", 2, "memory.providers.1", "valid string"),
        ("[model.name]\nx = 1", 1, "model.name", "valid string"),
    ],
)
def test_a_wrong_value_is_named_by_its_line_and_key(
    tmp_path: Path, content: str, line: int, key: str, problem: str
) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        load_settings(write(tmp_path, content))
    assert f"settings.toml, line {line}, {key}: " in refused(tmp_path, content)
    assert f", line {line}, {key}: " in refused(tmp_path, content.replace("\n", "\r\n"))


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, "[model]\nattempts = 'x'\nname = 1\n[exit]\nwatchdog = 1")
    assert all(key in said for key in ("model.attempts", "model.name", "exit.watchdog"))


def test_what_is_wrong_in_the_file_is_said_though_a_variable_would_cover_it(tmp_path: Path) -> None:
    assert "line 2" in refused(tmp_path, "[model]\nattempts = 'x'", HOLDFAST_MODEL_ATTEMPTS="3")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[model\n", r"not valid TOML.*line 1"),
        ("[model]\nname = 'a'\nname = 'b'\n", r"not valid TOML.*line 3"),
        ("[model]\nname = unquoted", r"not valid TOML.*line 2"),
        (b"[model]\nname = '\xff'", "not text in UTF-8"),
        (GOOD.encode("utf-16"), "not text in UTF-8"),
        (b"\x00\x01", "not valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, content: str | bytes, problem: str) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        load_settings(write(tmp_path, content))
    refused(tmp_path, content)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"none\.toml: there is no such file; HOLDFAST_SETTINGS"):
        load_settings({"HOLDFAST_SETTINGS": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("path", [".", "/proc/self/mem", "{file}/below"])
def test_what_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    file = tmp_path / "file"
    file.touch()
    named = str(tmp_path) if path == "." else path.format(file=file)
    with pytest.raises(SettingsInvalid, match=r"can't be read: ") as raised:
        load_settings({"HOLDFAST_SETTINGS": named})
    assert named in str(raised.value)


@given(st.text())
def test_any_text_is_read_or_refused_by_name(content: str) -> None:
    try:
        parse_settings("file", content.encode("utf-8", "surrogatepass"))
    except SettingsInvalid as refusal:
        assert str(refusal).startswith("file")  # noqa: PT017 - most texts are refused, a few are fine


@given(st.lists(st.sampled_from(["", "# c", "x = 1", "[other]", "a.b = 2"]), max_size=5))
def test_a_key_is_found_on_its_line(before: list[str]) -> None:
    text = "\n".join([*before, "[model]", "name = 'x'"])
    assert line_of(text, ["model", "name"]) == len(before) + 2
    assert line_of(text, ["model", "nothing"]) is None
