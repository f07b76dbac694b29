"""Settings, store and model, built from the environment. Memory is in `memory.py`, the host in `hosting.py`.

A setting `section.key` is the variable `HOLDFAST_SECTION_KEY`: `HOLDFAST_STORE_URL`,
`HOLDFAST_EXIT_WATCHDOG_S`. The tree itself is in `core/settings.py`, the file in `core/settings_file.py`.
"""

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from platformdirs import user_config_path, user_data_path, user_log_path
from pydantic import ValidationError

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ModelMissing, SettingsInvalid
from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.core.settings_file import Tree, expected, parse_settings
from holdfast.models import opening
from holdfast.models.choice import Choice, Keys, choose
from holdfast.models.contract import Model
from holdfast.models.listing import chatting
from holdfast.models.local_servers import answering, listed_models
from holdfast.models.opening import OpenedModel
from holdfast.models.server import Server
from holdfast.process import ExitWatchdog
from holdfast.sessions import SessionDB

PREFIX = "HOLDFAST_"
# Variables for the project's own tests, not settings of the program.
NOT_SETTINGS = "HOLDFAST_TEST_"
SETTINGS_FILE = "HOLDFAST_SETTINGS"
WHAT_TO_SET = (
    "To have a language model, set OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY or OPENAI_BASE_URL, "
    "or start Ollama or llama.cpp on this machine."
)


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings file and, over it, the environment; raises `SettingsInvalid` with what is wrong where.

    The file is the one that HOLDFAST_SETTINGS names. Without it, the user's own is read if there is one,
    but not when an environment is given: that one stands alone.
    """
    variables = os.environ if environment is None else environment
    tree = _read_file(variables.get(SETTINGS_FILE, ""), user_file=environment is None)
    places = {
        f"{PREFIX}{section}_{key}".upper(): (section, key) for section, part in Settings() for key, _ in part
    }
    given = {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS) and name != SETTINGS_FILE
    }
    unknown = sorted(given.keys() - places.keys())
    if unknown:
        raise SettingsInvalid([(name, "there is no such setting") for name in unknown])
    for name, value in given.items():
        section, key = places[name]
        # An empty text or list can be meant; an empty number can't.
        if value or isinstance(getattr(getattr(Settings(), section), key), (str, tuple, Secret)):
            tree.setdefault(section, {})[key] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as cause:
        # The file was checked by itself, so whatever is wrong now is a variable.
        raise SettingsInvalid(
            [
                (PREFIX + "_".join(str(part) for part in found["loc"]).upper(), expected(found))
                for found in cause.errors(include_input=False)
            ]
        ) from None


def _read_file(named: str, *, user_file: bool) -> Tree:
    path = Path(named) if named else config_folder() / "settings.toml"
    if not named and not user_file:
        return {}
    try:
        return parse_settings(str(path), path.read_bytes())
    except FileNotFoundError:
        if not named:
            return {}
        raise SettingsInvalid([(str(path), f"there is no such file; {SETTINGS_FILE} names it")]) from None
    except OSError as cause:
        raise SettingsInvalid([(str(path), f"can't be read: {cause.strerror}")]) from cause


def settings_path() -> Path:
    """The settings file: the one that HOLDFAST_SETTINGS names, else the user's own."""
    named = os.environ.get(SETTINGS_FILE, "")
    return Path(named) if named else config_folder() / "settings.toml"


def environment() -> Mapping[str, str]:
    """The variables of this process, for what is configured by them."""
    return os.environ


def editor() -> str:
    """The editor that a person likes, as a command line; empty when they named none."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def data_folder() -> Path:
    """Where Holdfast keeps a person's data."""
    return user_data_path("holdfast", appauthor=False)


def forget_outputs(session_ids: Iterable[str]) -> None:
    """Remove what is kept of the tool outputs of deleted sessions."""
    from holdfast.tools.output import OUTPUTS, ResultBudget

    kept = ResultBudget(data_folder() / OUTPUTS)
    for session_id in session_ids:
        kept.forget(session_id)


def config_folder() -> Path:
    """Where a person's settings are."""
    return user_config_path("holdfast", appauthor=False)


def log_folder() -> Path:
    """Where Holdfast writes down what it does."""
    return user_log_path("holdfast", appauthor=False)


def open_store(settings: Settings, *, create: bool = True) -> SessionDB:
    """The session store that the settings name; `create=False` refuses to start a new one."""
    url = settings.store.url or f"sqlite:///{data_folder() / 'holdfast.db'}"
    return SessionDB.open(url, patience=settings.store.patience_s, create=create)


async def open_model(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    local_servers: Sequence[tuple[Provider, str]] = opening.LOCAL_SERVERS,
) -> OpenedModel:
    """The language model: as the settings say, by a key in the environment, or on this machine."""
    if settings.model.provider == "scripted":
        return _open_script(Path(settings.model.name))
    keys = Keys.of(os.environ if environment is None else environment)
    on_this_machine = partial(_open_on_this_machine, settings.model)
    return await opening.open_model(settings.model, keys, SystemClock(), on_this_machine, local_servers)


async def list_models(settings: Settings) -> tuple[str, list[str]]:
    """Where models are looked for, and the names of those that can be talked to there."""
    if settings.model.provider == "scripted":
        return "a script is played", [settings.model.name]
    choice = choose(settings.model, Keys.of(os.environ))
    if choice is not None and choice.provider in ("gguf", "embedded"):
        return choice.reason, [choice.name or choice.provider]
    if choice is None:
        found = await answering(opening.LOCAL_SERVERS)
        names = [name for _, _, listed in found for name in chatting(listed)]
        return "local servers", names
    server = Server(
        choice.base_url, choice.key, settings.model.connect_timeout_s, settings.model.stall_timeout_s
    )
    return choice.reason, chatting(await listed_models(choice.name, server))


def _open_script(path: Path) -> OpenedModel:
    """A model that plays the answers in a JSON file: for demonstrations and tests."""
    from holdfast.testing.script_file import read_script
    from holdfast.testing.scripted_model import ScriptedModel

    try:
        script = read_script(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise ModelMissing(f"the script {path} can't be read: {cause.strerror}") from cause
    model = ScriptedModel(script, name="scripted", record=False)
    return OpenedModel(model, Choice("scripted", path.name, "a script is played"))


def _open_on_this_machine(settings: ModelSettings, choice: Choice) -> Model:
    try:
        embedded = importlib.import_module("holdfast.models.embedded")
        if choice.provider == "gguf":
            file = Path(choice.name).expanduser()
            opened = embedded.open_gguf(file, context=settings.context_window, clock=SystemClock())
        else:
            opened = embedded.open_embedded(data_folder(), clock=SystemClock())
    except (ImportError, ModelMissing) as cause:
        if settings.provider and isinstance(cause, ModelMissing):
            raise
        raise ModelMissing(f"{choice.reason}, and {cause}. {WHAT_TO_SET}") from cause
    return cast(Model, opened)


def exit_watchdog(settings: Settings) -> ExitWatchdog:
    """The watchdog that ends a clean-up which hangs."""
    return ExitWatchdog(settings.exit.watchdog_s, clock=SystemClock())


@contextmanager
def existing_store(settings: Settings) -> Iterator[SessionDB]:
    """The store for one command: it must be there, and closing it can't hang."""
    db = open_store(settings, create=False)
    try:
        yield db
    finally:
        watchdog = exit_watchdog(settings)
        watchdog.arm(lambda: f"closing {db.location}")
        db.close()
        watchdog.disarm()
