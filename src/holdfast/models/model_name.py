"""Reads the name of a model as programs write it: `openai:gpt-5-mini`, `gguf:/path/to/file`, `embedded`."""

import re
from typing import Any, get_args

from holdfast.core.errors import ModelNameInvalid
from holdfast.core.settings import ModelSettings, Provider
from holdfast.models.choice import NAME_SHAPES
from holdfast.models.contract import Model

ALONE = ("embedded",)
"""Providers that have one model."""
PROVIDERS: tuple[Provider, ...] = tuple(
    each for each in get_args(Provider) if each not in ("", "scripted", *ALONE)
)
FORMS = f"{', '.join(f'{each}:NAME' for each in PROVIDERS)} or embedded (for gguf NAME is a path)"
PARTS = ("traits", "stream", "close")


def model_settings(name: str) -> ModelSettings:
    """The settings of the model that a text names; raises `ModelNameInvalid`, which says how to write it."""
    written = name.strip()
    provider, colon, rest = written.partition(":")
    if provider in ALONE and not rest:
        return ModelSettings.model_validate({"provider": provider})
    if not colon:
        raise ModelNameInvalid(f"{written!r} does not say who offers the model: {_better(written)}")
    if provider not in PROVIDERS:
        raise ModelNameInvalid(f"{provider!r} in {written!r} is no provider of models: write {FORMS}")
    if not rest.strip():
        raise ModelNameInvalid(f"{written!r} names no model: write {provider}:NAME")
    return ModelSettings.model_validate({"provider": provider, "name": rest.strip()})


def checked_model(model: Any) -> str | Model:  # noqa: ANN401 - a program may pass anything
    """A name that can be opened, or an object that is a model; raises `ModelNameInvalid` for others."""
    if isinstance(model, str):
        model_settings(model)
        return model
    missing = [part for part in PARTS if not hasattr(model, part)]
    if isinstance(model, type):
        raise ModelNameInvalid(f"{model.__name__} is a class: pass an object of it, {model.__name__}(…)")
    if missing:
        raise ModelNameInvalid(
            f"{model!r:.80} is no model: it has no {' and no '.join(missing)}. A model is a name ({FORMS}), "
            "what open_model gives, or your own object with traits, stream and close"
        )
    checked: Model = model
    return checked


def _better(name: str) -> str:
    if name in PROVIDERS:
        return f"write {name}:NAME"
    likely = next((each for shape, each in NAME_SHAPES if name and re.match(shape, name)), None)
    return f"write {likely}:{name}, for example; it is {FORMS}" if likely else f"write {FORMS}"
