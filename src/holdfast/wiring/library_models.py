"""`open_model(name)`: a language model for a program, by its name. Keys come from the environment."""

from typing import Any, TypedDict, Unpack

from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Settings
from holdfast.models.contract import Model
from holdfast.models.model_name import model_settings
from holdfast.wiring import model_opener
from holdfast.wiring.keyword_check import refuse_unknown


class ModelOptions(TypedDict, total=False):
    """What a name does not say. The others are as in the section `model` of the settings."""

    api_key: str
    """Instead of OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY."""
    base_url: str
    """The server's address, instead of the provider's own or OPENAI_BASE_URL."""
    context_window: int
    thinking: str
    attempts: int
    connect_timeout_s: float
    stall_timeout_s: float


async def open_model(name: str, **options: Unpack[ModelOptions]) -> Model:
    """Open a model: `openai:…`, `anthropic:…`, `openrouter:…`, `ollama:…`, `gguf:/path`, `embedded`.

    The caller closes it (`await model.close()`). Raises `ModelNameInvalid` and `ModelMissing`, which say what
    to do, and `ModelUnreachable` when a server is needed now and does not answer.
    """
    refuse_unknown("open_model", options, ModelOptions, open_model)
    given: dict[str, Any] = dict(options)
    if "api_key" in given:
        given["api_key"] = Secret(given["api_key"])
    wanted = ModelSettings.model_validate({**model_settings(name).model_dump(exclude_unset=True), **given})
    return (await model_opener.open_model(Settings(model=wanted))).model
