"""`ModelSwitch`: lists the models, and switches to another one for this process."""

import asyncio
from typing import get_args

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models.contract import ModelTraits
from holdfast.models.switchable_model import SwitchableModel
from holdfast.wiring.model_opener import list_models, open_model


class ModelSwitch:
    """The models that the settings can reach. A switch is not written to the settings file."""

    def __init__(self, settings: Settings, in_use: SwitchableModel) -> None:
        self._settings = settings
        self._in_use = in_use
        self._switching = asyncio.Lock()  # one switch at a time, so that the last request wins

    async def names(self) -> tuple[str, list[str]]:
        """Where models were looked for, and the names of the chat models there."""
        return await list_models(self._settings)

    async def switch(self, name: str) -> ModelTraits:
        """Open another model, by NAME or PROVIDER:NAME. When that fails, the present model stays."""
        async with self._switching:
            wanted = self._settings.model_copy(update={"model": named(self._settings.model, name)})
            opened = await open_model(wanted)
            self._settings = wanted
            self._in_use.switch(opened.model)
        await self._in_use.close_unused()
        return opened.model.traits

    async def tidy(self) -> None:
        """Close former models that no turn uses any more."""
        await self._in_use.close_unused()


def named(settings: ModelSettings, name: str) -> ModelSettings:
    """The settings with another model. For another provider, address and key are reset."""
    if not name.strip():
        raise InvalidInput("name a model; `holdfast model list` lists them")
    provider, colon, rest = name.strip().partition(":")
    if not colon or provider not in get_args(Provider) or not provider:
        return settings.model_copy(update={"name": name.strip()})
    changed: dict[str, object] = {"name": rest.strip(), "provider": provider}
    if provider != settings.provider:
        changed |= {"base_url": "", "api_key": Secret("")}
    return settings.model_copy(update=changed)
