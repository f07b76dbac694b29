"""Opens the language model that the settings, the environment or this machine offer."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ModelMissing, ModelUnreachable
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models import open_model as models
from holdfast.models.choice import Keys, ModelChoice, choose
from holdfast.models.contract import ListedModel, Model
from holdfast.models.local_servers import listed_models, responding_servers, with_abilities
from holdfast.models.missing_model import MissingModel
from holdfast.models.model_list import described_models
from holdfast.models.open_model import LOCAL_SERVERS, OpenedModel
from holdfast.models.server import Server
from holdfast.wiring.folders import data_folder

WHAT_TO_SET = (
    "To have a language model, set OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY or OPENAI_BASE_URL, "
    "or start Ollama or llama.cpp on this machine."
)


async def open_model(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    local_servers: Sequence[tuple[Provider, str]] = LOCAL_SERVERS,
) -> OpenedModel:
    """Open the language model: from the settings, by a key in the environment, or on this machine."""
    if settings.model.provider == "scripted":
        return _open_script(Path(settings.model.name))
    keys = Keys.of(os.environ if environment is None else environment)
    on_this_machine = partial(_open_on_this_machine, settings.model)
    return await models.open_model(settings.model, keys, SystemClock(), on_this_machine, local_servers)


async def open_model_or_explain(settings: Settings) -> OpenedModel:
    """Open the language model; where there is none, one that answers nothing and says what is missing."""
    try:
        return await open_model(settings)
    except (ModelMissing, ModelUnreachable) as cause:
        return OpenedModel(MissingModel(str(cause)), ModelChoice("", "", "there is none"))


async def list_models(settings: Settings) -> tuple[str, list[str]]:
    """Where models were looked for, and the names of the chat models there."""
    where, found = await describe_models(settings, ask_each=False)
    return where, [each.name for each in found]


async def describe_models(settings: Settings, *, ask_each: bool = True) -> tuple[str, list[ListedModel]]:
    """The same, with what is known of each model; with `ask_each`, also what local servers tell of each."""
    if settings.model.provider == "scripted":
        return "a script is played", [ListedModel(settings.model.name)]
    choice = choose(settings.model, Keys.of(os.environ))
    if choice is not None and choice.provider in ("gguf", "embedded"):
        return choice.reason, [ListedModel(choice.name or choice.provider)]
    if choice is None:
        models: list[ListedModel] = []
        for provider, url, listed in await responding_servers(LOCAL_SERVERS):
            told = await with_abilities(provider, listed, Server(url)) if ask_each else listed
            models += described_models(settings.model, ModelChoice(provider, "", "", url), told)
        return "local servers", models
    server = Server(
        choice.base_url, choice.key, settings.model.connect_timeout_s, settings.model.stall_timeout_s
    )
    listed = await listed_models(choice.provider, choice.name, server)
    told = await with_abilities(choice.provider, listed, server) if ask_each else listed
    return choice.reason, described_models(settings.model, choice, told)


def _open_script(path: Path) -> OpenedModel:
    """A model that plays answers from a JSON file, for demonstrations and tests."""
    from holdfast.testing.script_file import read_script
    from holdfast.testing.scripted_model import ScriptedModel

    try:
        script = read_script(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise ModelMissing(f"the script {path} can't be read: {cause.strerror}") from cause
    model = ScriptedModel(script, name="scripted", record=False)
    return OpenedModel(model, ModelChoice("scripted", path.name, "a script is played"))


def _open_on_this_machine(settings: ModelSettings, choice: ModelChoice) -> Model:
    try:
        from holdfast.models.embedded import open_embedded, open_gguf

        if choice.provider == "gguf":
            file = Path(choice.name).expanduser()
            return open_gguf(file, context=settings.context_window, clock=SystemClock())
        return open_embedded(data_folder(), clock=SystemClock())
    except (ImportError, ModelMissing) as cause:
        if settings.provider and isinstance(cause, ModelMissing):
            raise
        raise ModelMissing(f"{choice.reason}, and {cause}. {WHAT_TO_SET}") from cause
