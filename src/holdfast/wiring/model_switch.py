"""`ModelSwitch`: lists the models, and switches to another one for this process."""

import asyncio
from typing import get_args

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.secret import Secret
from holdfast.core.settings import ModelSettings, Provider, Settings
from holdfast.models.contract import ListedModel, Model, ModelTraits
from holdfast.models.missing_model import MissingModel
from holdfast.models.switchable_model import SwitchableModel
from holdfast.wiring.model_opener import describe_models, list_models, open_model
from holdfast.wiring.settings_loader import load_settings


class ModelSwitch:
    """The models that the settings can reach. A switch is not written to the settings file."""

    def __init__(self, settings: Settings, in_use: SwitchableModel) -> None:
        self._settings = settings
        self._in_use = in_use
        self._switching = asyncio.Lock()  # one switch at a time, so that the last request wins
        self._chosen: dict[str, SwitchableModel] = {}  # what conversations chose, by the name that was given
        self._missing: set[str] = set()  # of these, the ones that could not be opened

    async def names(self) -> tuple[str, list[str]]:
        """Where models were looked for, and the names of the chat models there."""
        return await list_models(self._settings)

    async def details(self) -> tuple[str, list[ListedModel]]:
        """The same, with what is known of each model."""
        return await describe_models(self._settings)

    async def reload(self) -> ModelTraits:
        """Use the model that the settings name now. When it can't be opened, the present one stays."""
        async with self._switching:
            wanted = load_settings()
            opened = await open_model(wanted)
            self._settings = wanted
            self._in_use.switch(opened.model)
        await self._in_use.close_unused()
        return opened.model.traits

    async def check(self, name: str) -> ModelTraits:
        """Open a model that a conversation wants; it stays open for the conversations that choose it."""
        known = self._chosen.get(name)
        if known is None or name in self._missing:
            wanted = self._settings.model_copy(update={"model": named(self._settings.model, name)})
            known = self._put(name, (await open_model(wanted)).model)
            self._missing.discard(name)
        return known.traits

    async def prepare(self, name: str) -> None:
        """Open a model that a conversation chose, unless it is open. Where that fails, its turns say why."""
        try:
            await self.check(name)
        except HoldfastError as cause:
            self._put(name, MissingModel(str(cause)))
            self._missing.add(name)

    def _put(self, name: str, model: Model) -> SwitchableModel:
        """Let the agents that have this name use the model from their next turn on."""
        known = self._chosen.get(name)
        if known is None:
            known = self._chosen[name] = SwitchableModel(model)
        else:
            known.switch(model)
        return known

    def opened(self, name: str) -> Model | None:
        """The model that was opened for a conversation."""
        return self._chosen.get(name)

    async def close(self) -> None:
        """Close what conversations chose; the model in use belongs to the host."""
        chosen, self._chosen = self._chosen, {}
        for each in chosen.values():
            await each.close()

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
