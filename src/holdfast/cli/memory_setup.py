"""`holdfast memory setup NAME`: asks for a provider's configuration, tries it, and stores it."""

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.output import show
from holdfast.core.errors import HoldfastError, InvalidInput, ProviderInvalid
from holdfast.core.settings import Settings
from holdfast.memory.config import (
    ConfigField,
    ProviderConfig,
    declared_fields,
    missing_fields,
    resolve_config,
)
from holdfast.memory.provider_check import ProviderCheck, shut_down_provider
from holdfast.memory.provider_gate import GatedProvider
from holdfast.wiring import (
    config_store,
    environment,
    is_plugin,
    load_settings,
    make_provider_of,
    settings_path,
)
from holdfast.wiring.config_questions import chosen_values, given_values
from holdfast.wiring.settings_writer import change_settings


def setup(
    name: str,
    /,
    *,
    values: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    check: bool = True,
) -> None:
    """Set up a memory provider: asks on a terminal for what it needs, tries it, stores it.

    Parameters
    ----------
    name
        An installed provider, module:Class, or a plugin in the plugins' folder.
    values
        KEY=VALUE, as often as needed. Given values are not asked for; without a terminal nothing is asked.
    check
        Try whether it works, and store nothing when it doesn't.

    """
    settings = load_settings()
    gated = make_provider_of(settings, name)
    try:
        _set_up(settings, name, gated, values, check)
    finally:
        if problem := shut_down_provider(gated):
            show(problem)


def _set_up(
    settings: Settings, name: str, gated: GatedProvider, values: tuple[str, ...], check: bool
) -> None:
    if gated.answer("is_available", gated.provider.is_available) is not True:
        raise ProviderInvalid(name, "it says that it is not available here")
    fields = gated.answer("get_config_schema", partial(declared_fields, gated.provider))
    store = config_store()
    chosen = chosen_values(fields, given_values(fields, values), store.read(gated.name), show)
    config = resolve_config(fields, chosen, environment())
    lacking = missing_fields(fields, config)
    if lacking:
        raise InvalidInput(f"{name} needs {_keys(lacking)}; give them with --set KEY=VALUE")
    if check:
        show(f"{gated.name} works: {said}" if (said := _tried(gated, config)) else "It needs no check.")
    for file, keys in store.write(gated.name, fields, chosen):
        show(f"{', '.join(keys)}: written to {file}")
    _use(settings, name)


def _tried(gated: GatedProvider, config: ProviderConfig) -> str:
    try:
        return ProviderCheck(gated, config).result()
    except HoldfastError as problem:
        said = str(problem).rstrip(".")
        raise InvalidInput(f"{said}. Nothing was stored; --no-check stores it all the same") from problem


def _use(settings: Settings, name: str) -> None:
    """Name the provider in the settings, if it isn't yet."""
    if name in settings.memory.providers or is_plugin(settings, name):
        show(f"{name} is in use; with these values from the next start on")
        return
    change_settings({"memory.providers": ",".join([*settings.memory.providers, name])})
    show(f"memory.providers: {name} added in {settings_path()}")


def _keys(fields: list[ConfigField]) -> str:
    return ", ".join(each.key for each in fields)
