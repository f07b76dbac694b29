"""`ModelsOfSettings`: which models there are, and the switch to another one, for this process alone."""

import asyncio
from typing import get_args

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models.contract import ModelTraits
from holdfast.models.in_use import ModelInUse
from holdfast.wiring.basics import list_models, open_model


class ModelsOfSettings:
    """The models that the settings can reach. What is switched here is not written to the settings file."""

    def __init__(self, settings: Settings, in_use: ModelInUse) -> None:
        self._settings = settings
        self._in_use = in_use
        self._switching = asyncio.Lock()  # one at a time: the last one asked for stays

    async def names(self) -> tuple[str, list[str]]:
        """Where models are looked for, and those that can be talked to there."""
        return await list_models(self._settings)

    async def switch(self, name: str) -> ModelTraits:
        """Open another model, by NAME or PROVIDER:NAME; when it can't be opened, the one before stays."""
        async with self._switching:
            wanted = self._settings.model_copy(update={"model": named(self._settings.model, name)})
            opened = await open_model(wanted)
            self._settings = wanted
            self._in_use.switch(opened.model)
        await self._in_use.close_unused()
        return opened.model.traits

    async def tidy(self) -> None:
        """Let go of former models that no turn works with any more."""
        await self._in_use.close_unused()


def named(settings: ModelSettings, name: str) -> ModelSettings:
    """The settings with another model. With another provider, address and key are that one's own."""
    if not name.strip():
        raise InvalidInput("name a model; `holdfast model list` lists them")
    provider, colon, rest = name.strip().partition(":")
    if not colon or provider not in get_args(Provider) or not provider:
        return settings.model_copy(update={"name": name.strip()})
    changed: dict[str, object] = {"name": rest.strip(), "provider": provider}
    if provider != settings.provider:
        changed |= {"base_url": "", "api_key": Secret("")}
    return settings.model_copy(update=changed)
